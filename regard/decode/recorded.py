"""A search whose every step is one call of the GPU.

A step of a decoder is hundreds of short kernels, and a GPU waits for Python to start each. A CUDA graph starts all of
them at once, but only for tensors of the recorded shape at the recorded place. So the slots of a search, their keys and
values and its state stay where they are from one search to the next; a recording is made for each 32 positions that
hypotheses grow by, at the first step that needs it. Where there are few slots, the encoder is recorded too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.decode import blockwise
from regard.decode.blockwise import BlockState
from regard.decode.search import Part
from regard.decode.state import SearchOptions, State
from regard.decode.step import Constraint, advance
from regard.models.blockwise import TransformerBlockStep
from regard.models.stepping import NOTHING, ModelStep
from regard.nn.layout import Padded, multiple, power_of_two, send
from regard.nn.masks import length_mask

STRIDE = 32  # positions by which recordings differ
FEW = 64  # slots whose sources enter by a recording
FEW_ROOM = 128  # tokens of a source and of an output that they have room for, at least
BENCHES = 6  # for how many kinds of searches slots are kept …
SHARE = 0.25  # … and for how much of a GPU's memory
S = TypeVar("S", bound=State)


class Recorded(Generic[S]):
    """Slots with the recorded steps of a search: a `regard.decode.search.Bench`.

    advance(state, longest): a step of the search, which gives `state` other tensors
    room: the positions there is place for
    growth: by how many a hypothesis can grow in a step
    ahead: how many beyond it are looked at
    constraints: what is asked of the outputs, which a step moves on too
    """

    late = 1

    def __init__(
        self, state: S, advance: Callable[[S, int], None], room: int, growth: int = 1, ahead: int = 0,
        constraints: Sequence[Constraint] = (),
    ) -> None:  # fmt: skip
        self.state, self.compute_step, self.room, self.growth, self.ahead = state, advance, room, growth, ahead
        self.constraints = constraints
        self.device = state.done.device
        self.recordings: dict[int, torch.cuda.CUDAGraph] = {}
        self.on_gpu = self.device.type == "cuda"
        self.pool = torch.cuda.graph_pool_handle() if self.on_gpu else None
        # What is done is copied out behind each step and looked at behind the next: no step waits for the host.
        self.flags = [torch.zeros(len(state.done), dtype=torch.bool, pin_memory=self.on_gpu) for _ in range(2)]
        self.copied = [torch.cuda.Event() for _ in range(2)] if self.on_gpu else []
        self.turn = 0

    def begin(self) -> S:
        self.state.done.fill_(True)
        self.state.limit.fill_(1)
        self.turn = 0
        return self.state

    def advance(self, steps: int) -> None:
        reach = min(rounded(steps * self.growth + self.ahead), self.room)
        if reach in self.recordings:
            self.recordings[reach].replay()
            return
        self.compute(reach)  # by hand, which loads kernels and makes workspaces
        if self.on_gpu:
            self.recordings[reach] = recorded(partial(self.compute, reach), self.device, self.pool)

    def done(self) -> np.ndarray:
        new, old = self.turn % 2, (self.turn + 1) % 2
        self.flags[new].copy_(self.state.done, non_blocking=True)
        if self.on_gpu:
            self.copied[new].record()
        self.turn += 1
        if self.turn == 1:
            return np.zeros(len(self.flags[old]), dtype=bool)
        if self.on_gpu:
            self.copied[old].synchronize()
        return self.flags[old].numpy()

    def keep(self, slots: Tensor) -> None:
        """They stay."""

    def compute(self, reach: int) -> None:
        """What is recorded: a step whose results go where its operands were."""
        after, before = replace(self.state), [dict(tensors_of(constraint)) for constraint in self.constraints]
        self.compute_step(after, reach)
        for field in fields(self.state):
            getattr(self.state, field.name).copy_(getattr(after, field.name))
        for constraint, places in zip(self.constraints, before, strict=True):
            for name, new in tensors_of(constraint):
                setattr(constraint, name, places[name].copy_(new))


class Entrance:
    """Sources that enter all slots at once, recorded: of few of them the encoder's kernels take longer to start than to
    do. A `regard.decode.search.Part`, in place of the step it is the entrance to.

    source_room: the longest source there is place for, up to which all are padded
    """

    def __init__(self, step: ModelStep, slots: int, source_room: int) -> None:
        self.step, self.slots = step, torch.arange(slots, device=step.device)
        self.src = torch.zeros(slots, source_room, dtype=torch.long, device=step.device)
        self.lengths = torch.ones_like(self.slots)
        self.recording: torch.cuda.CUDAGraph | None = None

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        if len(sentences) < len(self.slots):
            self.step.enter(slots, sentences)
            return
        src, lengths = padded([self.step.sources[sentence] for sentence in sentences], self.src.shape[1])
        self.src.copy_(send(torch.from_numpy(src), self.src.device))
        self.lengths.copy_(send(torch.from_numpy(lengths), self.src.device))
        if self.recording is not None:
            self.recording.replay()
            return
        self.take_in()
        if self.src.is_cuda:
            self.recording = recorded(self.take_in, self.src.device)

    def take_in(self) -> None:
        size = self.src.shape[1]
        mask, positions = length_mask(self.lengths, size), torch.arange(size, device=self.src.device)[None]
        self.step.take_in(self.slots, self.src, Padded(mask, positions, size))

    def keep(self, slots: Tensor) -> None:
        self.step.keep(slots)


def padded(sources: Sequence[Sequence[int]], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Sources as one rectangle (b, size), and their lengths. By numpy: to torch these are many small operations."""
    lengths = np.array([len(source) for source in sources])
    src = np.zeros((len(sources), size), dtype=np.int64)
    src[np.arange(src.shape[1]) < lengths[:, None]] = np.fromiter(chain.from_iterable(sources), np.int64)
    return src, lengths


def recorded(work: Callable[[], None], device: torch.device, pool: Any = None) -> torch.cuda.CUDAGraph:
    """Work that has been done once, noted down and not done again."""
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize(device)
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        work()
    return graph


def tensors_of(constraint: Constraint) -> list[tuple[str, Tensor]]:
    """What it keeps for the slots."""
    return [(name, value) for name, value in vars(constraint).items() if isinstance(value, Tensor)]


def rounded(positions: int) -> int:
    return -(-positions // STRIDE) * STRIDE


class BenchRoom(NamedTuple):
    """What there is place for: so many slots, tokens of a source, tokens of an output. It comes in few sizes, so that a
    search finds slots of another that fit it."""

    slots: int
    source: int
    output: int

    @classmethod
    def of(cls, sentences: int, longest: int, most: int, batch: int) -> BenchRoom:
        """longest: a source   most: tokens of an output   batch: slots, at most"""
        slots = min(batch, power_of_two(sentences))
        least = FEW_ROOM if slots <= FEW else 0  # few slots take little memory: one recording serves more lengths
        return cls(slots, max(least, 32, power_of_two(longest)), max(least, multiple(most, 64)))


@dataclass(frozen=True)
class KeptBench:
    """A model's step with the slots it is at work in.

    source_room, room: the longest source and the longest output there is place for
    """

    step: ModelStep
    recorded: Recorded[Any]
    constraints: list[Constraint]
    entrance: Part
    memory: int  # bytes that the slots take of a GPU's

    @classmethod
    def of_search(
        cls,
        step: ModelStep,
        slots: int,
        source_room: int,
        room: int,
        options: SearchOptions,
        constraints: Sequence[Constraint] = (),
    ) -> KeptBench:
        before, room = taken(step.device), rounded(room)
        step.reserve(slots, source_room, room)
        state = State.empty(slots, room, options, step.device)
        asked = list(constraints)
        for constraint in asked:  # the first call says how many slots there are
            constraint.enter(torch.arange(slots, device=step.device), [0] * slots)

        def call(after: State, longest: int) -> None:
            advance(step, after, options, longest, asked)

        recording = Recorded(state, call, room, constraints=asked)
        entrance = entrance_to(step, slots, source_room)
        return cls(step, recording, asked, entrance, taken(step.device) - before)

    @property
    def parts(self) -> list[Part]:
        return [self.entrance, *self.constraints]

    def expect(self, sentences: range) -> None:
        """These will enter next. A recorded entrance takes them as they come."""
        if self.entrance is self.step:
            self.step.expect(sentences)

    def renew(self, sources: Sequence[Sequence[int]], constraints: Sequence[Constraint]) -> None:
        """Be ready for other sentences, of which the same is asked."""
        self.step.sources, self.step.expected = sources, NOTHING
        for kept, new in zip(self.constraints, constraints, strict=True):
            kept.renew(new)

    @classmethod
    def of_blocks(
        cls, step: TransformerBlockStep, slots: int, source_room: int, room: int, options: SearchOptions
    ) -> KeptBench:
        before = taken(step.device)
        state = BlockState.of(slots, room, step.k, options, step.device)
        room = rounded(room + step.k)
        step.reserve(slots, source_room, room)

        def call(after: BlockState, longest: int) -> None:
            blockwise.advance(step, after, options, longest)

        recording = Recorded(state, call, room, growth=step.k, ahead=step.k)
        return cls(step, recording, [], entrance_to(step, slots, source_room), taken(step.device) - before)


class Benches:
    """The slots of earlier searches, ready for others like them: so many kinds, in so much of a GPU's memory."""

    def __init__(self) -> None:
        self.kept: dict[tuple[object, ...], KeptBench] = {}  # the first has not been used for longest

    def get(self, kind: tuple[object, ...], make: Callable[[], KeptBench]) -> KeptBench:
        bench = self.kept.pop(kind, None) or make()
        self.kept[kind] = bench
        while len(self.kept) > BENCHES or (len(self.kept) > 1 and self.crowded(bench.step.device)):
            self.kept.pop(next(iter(self.kept)))
        return bench

    def crowded(self, device: torch.device) -> bool:
        if device.type != "cuda":
            return False
        kept = sum(bench.memory for bench in self.kept.values())
        return kept > SHARE * torch.cuda.get_device_properties(device).total_memory


def entrance_to(step: ModelStep, slots: int, source_room: int) -> Part:
    return Entrance(step, slots, source_room) if slots <= FEW else step


def taken(device: torch.device) -> int:
    """Bytes of a GPU's memory that tensors have."""
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0
