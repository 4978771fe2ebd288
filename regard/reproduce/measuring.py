"""What a layer costs: time, operations and memory, forward and backward.

Time is the median of several repeats after a first one that does not count. On a GPU events measure it. On a CPU it is
the processor time of a single thread, which other work on the machine hardly lengthens. Operations are those that
torch's `FlopCounterMode` counts, the multiplications and additions of matrix products; softmax, tanh and the like are
not among them. They are counted on tensors without storage, which takes no time. Memory is the most that lives at once
beside the input, the weights and their gradients: on a GPU by its allocator, on a CPU by the storages of all tensors
that operations make (what a kernel takes for itself and gives back is not seen).
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from torch.utils.flop_counter import FlopCounterMode

LEAST_SECONDS = 0.05  # that repeats go on for, where they are short


@dataclass(frozen=True)
class Cost:
    """Of one layer over n positions of width d."""

    n: int
    d: int
    forward: float  # seconds
    backward: float
    memory: int  # bytes

    @property
    def time(self) -> float:
        return self.forward + self.backward


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def operations(function: Callable[[Tensor], Tensor], x: Tensor) -> tuple[int, int]:
    """Forward and backward. x: on the meta device, as are the weights of `function`"""
    with FlopCounterMode(display=False) as counter:
        y = function(x)
        forward = counter.get_total_flops()
        y.backward(torch.empty_like(y))
    return forward, counter.get_total_flops() - forward


def seconds(layer: nn.Module, x: Tensor, repeats: int) -> tuple[float, float]:
    """Forward and backward."""
    stopwatch = by_events if x.is_cuda else by_processor_time
    gradient = torch.randn_like(x)

    def once() -> tuple[float, float]:
        layer.zero_grad()
        x.grad = None
        made: list[Tensor] = []
        forward = stopwatch(lambda: made.append(layer(x)))
        return forward, stopwatch(lambda: made[0].backward(gradient))

    once()
    times = [once()]
    while len(times) < repeats or sum(map(sum, times)) < LEAST_SECONDS:
        times.append(once())
    return median(forward for forward, _ in times), median(backward for _, backward in times)


def by_processor_time(action: Callable[[], Any]) -> float:
    began = time.process_time()
    action()
    return time.process_time() - began


def by_events(action: Callable[[], Any]) -> float:
    began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    began.record()
    action()
    ended.record()
    ended.synchronize()
    return float(began.elapsed_time(ended)) / 1000


def peak_memory(layer: nn.Module, x: Tensor) -> int:
    """Bytes, of one pass forward and backward."""
    gradient = torch.randn_like(x)
    x.grad = torch.zeros_like(x)
    for weight in layer.parameters():
        weight.grad = torch.zeros_like(weight)
    if x.is_cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        layer(x).backward(gradient)
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with Living() as living:
        layer(x).backward(gradient)
    return living.peak


class Living(TorchDispatchMode):
    """Bytes of the storages that operations have made and nobody has let go."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self.known: weakref.WeakSet[Any] = weakref.WeakSet()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = {tensor.untyped_storage() for tensor in tree_iter((args, kwargs)) if isinstance(tensor, Tensor)}
        made = func(*args, **(kwargs or {}))
        for tensor in tree_iter(made):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                if storage not in before and storage not in self.known:
                    self.known.add(storage)
                    self.now += storage.nbytes()
                    weakref.finalize(storage, self.let_go, storage.nbytes())
        self.peak = max(self.peak, self.now)
        return made

    def let_go(self, n_bytes: int) -> None:
        self.now -= n_bytes
