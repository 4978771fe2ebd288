"""What the loop asks of a task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batching import Order


class Batch(Protocol):
    """A dataclass of tensors, perhaps with dataclasses of tensors in it."""

    @property
    def numbers(self) -> np.ndarray:
        """Which examples these are, so that a batch can be made again in parts."""

    @property
    def n_tokens(self) -> int:
        """The number of terms in the loss, by which its sum is divided."""

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Equal for batches whose tensors and layouts have equal shapes; None where nearly every batch has its own."""


B = TypeVar("B", bound=Batch)


@dataclass(frozen=True)
class Validation:
    """What a look at held-out data shows."""

    metrics: dict[str, float]  # "loss" always; lower is better for it, higher for all others
    samples: list[str] = field(default_factory=list)  # the same examples each time, ready to read


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """No dropout inside, and after it what there was before, whatever happens."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


class Task(Protocol[B]):
    @property
    def model(self) -> nn.Module: ...

    @property
    def order(self) -> Order: ...

    @property
    def d_model(self) -> int:
        """The width the learning rate is scaled by."""

    @property
    def extent(self) -> str:
        """How much there is to learn from, in words: 29,000 pairs, 8,000 subwords."""

    @property
    def unit(self) -> str:
        """What `n_tokens` counts, in words: tokens, sets."""

    @property
    def fingerprints(self) -> dict[str, str]:
        """What training depends on beside the recipe, by name; a resumed run must find it unchanged."""

    def n_tokens(self, numbers: np.ndarray) -> int:
        """The terms in the loss of these examples, without making a batch of them."""

    def batch(self, numbers: np.ndarray, device: torch.device) -> B:
        """The examples `numbers` as tensors in the CPU's memory, from where `move` brings them to `device`."""

    def loss(self, batch: B) -> Tensor:
        """The loss summed over the batch's `n_tokens` terms, a scalar that can be differentiated."""

    def validate(self, device: torch.device) -> Validation:
        """Scores on held-out data. Draws no random numbers, so that training goes on as if not asked."""


def move(batch: B, device: torch.device) -> B:
    """The batch on a device. From pinned memory nobody waits for the copy."""
    return batch if device.type == "cpu" else each_tensor(batch, lambda tensor: tensor.to(device, non_blocking=True))


def pin(batch: B, device: torch.device) -> B:
    """The batch in memory that a GPU can read by itself, where `device` is one."""
    return each_tensor(batch, Tensor.pin_memory) if device.type == "cuda" else batch


def each_tensor(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A copy of a dataclass with `change` done to every tensor in it."""
    if isinstance(value, Tensor):
        return change(value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{item.name: each_tensor(getattr(value, item.name), change) for item in fields(value)})
    return value


def tensors(value: Any) -> list[Tensor]:
    """Every tensor in a dataclass, in the order of its fields."""
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    each_tensor(value, note)
    return found
