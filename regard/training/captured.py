"""The work of a whole batch, forward and backward, recorded once and started with one call.

A small model on a fast GPU waits for Python: hundreds of short kernels a batch, each started by hand. A CUDA graph
starts all of them at once, but only for tensors of the recorded shape at the recorded place. So batches come in a few
shapes (`Batch.shape`), each gets its recording at its first batch, and later batches are copied into its place.

Dropout draws its seeds from torch's generator inside the recording, which a replay advances: every replay drops anew.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic

import torch
from torch import Tensor, nn

from regard.tasks.task import B, each_tensor, tensors


@dataclass(frozen=True)
class Recording(Generic[B]):
    graph: torch.cuda.CUDAGraph
    batch: B  # whose tensors a replay reads
    loss: Tensor
    gradients: tuple[Tensor | None, ...]  # of the parameters, which a replay overwrites
    buffers: list[Tensor]  # of the model at the time, which a replay reads even where the model has others now


class Captured(Generic[B]):
    """Gradients of a model's loss by recordings, one for each shape of batch."""

    def __init__(
        self, loss: Callable[[B], Tensor], model: nn.Module, precision: Callable[[], AbstractContextManager[object]]
    ) -> None:
        self.loss, self.model, self.precision = loss, model, precision
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        device = self.parameters[0].device
        self.scale = torch.zeros((), device=device)
        self.recordings: dict[tuple[int, ...], Recording[B]] = {}
        # Recordings share their memory: they never run at the same time. A replay may overwrite the loss and the
        # gradients of any other, so both are used, or copied, before the next (`gradient`).
        self.pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None
        # One stream for all: memory that was freed on one is not used again on another.
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.lent = False  # whether the parameters' gradients are a recording's own

    def gradient(self, batch: B, n_tokens: int) -> Tensor:
        """Add ∇ loss(batch) / n_tokens to the parameters' gradients; gives the loss / n_tokens.

        The batch may be in the CPU's memory. The loss is a recording's own tensor: use it before the next batch.
        """
        self.scale.fill_(1 / n_tokens)
        assert batch.shape is not None
        if batch.shape not in self.recordings:
            self.recordings[batch.shape] = self.record(batch)
        recording = self.recordings[batch.shape]
        if self.lent:  # this replay may overwrite what the last one lent, where it has not been forgotten since
            for parameter in self.parameters:
                parameter.grad = None if parameter.grad is None else parameter.grad.clone()
            self.lent = False
        for place, tensor in zip(tensors(recording.batch), tensors(batch), strict=True):
            place.copy_(tensor, non_blocking=True)
        recording.graph.replay()
        self.hand_over(recording.gradients)
        return recording.loss

    def hand_over(self, gradients: tuple[Tensor | None, ...]) -> None:
        """Lend the gradients to parameters that have none, or add them."""
        self.lent = all(parameter.grad is None for parameter in self.parameters)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            if self.lent:
                parameter.grad = gradient
            elif gradient is not None:
                parameter.grad = gradient.clone() if parameter.grad is None else parameter.grad.add_(gradient)

    def clear(self) -> None:
        """Give back the memory of all recordings."""
        self.recordings.clear()
        self.pool = torch.cuda.graph_pool_handle() if self.scale.is_cuda else None

    def record(self, batch: B) -> Recording[B]:
        """Do the work once by hand, which compiles kernels and fills caches, and once more for the record."""
        device, stream = self.scale.device, self.stream
        assert stream is not None
        here = each_tensor(batch, lambda tensor: tensor.to(device, copy=True))
        buffers = list(self.model.buffers())
        before = [buffer.clone() for buffer in buffers]  # running means, say, which the batch must move once only
        with torch.random.fork_rng([device]):
            stream.wait_stream(torch.cuda.current_stream(device))
            with torch.cuda.stream(stream):
                self.compute(here)
            torch.cuda.current_stream(device).wait_stream(stream)
        for buffer, old in zip(buffers, before, strict=True):
            buffer.copy_(old)
        graph = torch.cuda.CUDAGraph()
        # The thread that makes batches pins memory meanwhile: only this thread's calls may spoil a recording.
        with torch.cuda.graph(graph, pool=self.pool, stream=stream, capture_error_mode="thread_local"):
            loss, gradients = self.compute(here)
        return Recording(graph, here, loss, gradients, buffers)

    def compute(self, batch: B) -> tuple[Tensor, tuple[Tensor | None, ...]]:
        with self.precision():
            loss = self.loss(batch) * self.scale
        found = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        # As the optimiser wants them: those of a convolution may come in another order of memory.
        return loss.detach(), tuple(gradient if gradient is None else gradient.contiguous() for gradient in found)
