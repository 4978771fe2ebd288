"""A search whose every step is one call of the GPU.

A step of a decoder is hundreds of short kernels, and a GPU waits for Python to start each. A CUDA graph starts all of
them at once, but only for tensors of the recorded shape at the recorded place. So the slots of a search, their keys and
values and its state stay where they are from one search to the next; a recording is made for each 32 positions that
hypotheses grow by, at the first step that needs it.
"""

from __future__ import annotations

from dataclasses import fields, replace

import torch

from regard.decode.search import SearchOptions, State, advance
from regard.models.stepping import ModelStep

STRIDE = 32  # positions by which recordings differ


class Recorded:
    """Slots for sentences of bounded length with the recorded steps of a search: a `regard.decode.search.Bench`."""

    late = 1

    def __init__(self, step: ModelStep, slots: int, source_room: int, room: int, options: SearchOptions) -> None:
        """source_room, room: the longest source and the longest output there is place for."""
        self.step, self.options, self.slots, self.source_room = step, options, slots, source_room
        self.device = step.device
        self.room = -(-room // STRIDE) * STRIDE
        step.reserve(slots, source_room, self.room)
        self.state = State.empty(slots, self.room, options, self.device)
        self.recordings: dict[int, torch.cuda.CUDAGraph] = {}
        self.on_gpu = self.device.type == "cuda"
        self.pool = torch.cuda.graph_pool_handle() if self.on_gpu else None
        # What is done is copied out behind each step and looked at behind the next: no step waits for the host.
        self.flags = [torch.zeros(slots, dtype=torch.bool, pin_memory=self.on_gpu) for _ in range(2)]
        self.copied = [torch.cuda.Event() for _ in range(2)] if self.on_gpu else []
        self.turn = 0

    def begin(self) -> State:
        self.state.done.fill_(True)
        self.state.limit.fill_(1)
        self.turn = 0
        return self.state

    def advance(self, longest: int) -> None:
        reach = min(-(-longest // STRIDE) * STRIDE, self.room)
        if reach in self.recordings:
            self.recordings[reach].replay()
            return
        self.compute(reach)  # by hand, which loads kernels and makes workspaces
        if self.on_gpu:
            self.recordings[reach] = self.record(reach)

    def done(self) -> list[bool]:
        new, old = self.turn % 2, (self.turn + 1) % 2
        self.flags[new].copy_(self.state.done, non_blocking=True)
        if self.on_gpu:
            self.copied[new].record()
        self.turn += 1
        if self.turn == 1:
            return [False] * len(self.flags[old])
        if self.on_gpu:
            self.copied[old].synchronize()
        return self.flags[old].tolist()

    def compute(self, reach: int) -> None:
        """What is recorded: a step whose results go where its operands were."""
        after = replace(self.state)
        advance(self.step, after, self.options, reach)
        for field in fields(State):
            getattr(self.state, field.name).copy_(getattr(after, field.name))

    def record(self, reach: int) -> torch.cuda.CUDAGraph:
        """The next step, noted down and not yet done."""
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(self.device)
        with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
            self.compute(reach)
        return graph
