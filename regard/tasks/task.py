"""What the loop asks of a task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batching import BatchOrder


class Batch(Protocol):
    @property
    def n_tokens(self) -> int:
        """The number of terms in the loss, by which its sum is divided."""


B = TypeVar("B", bound=Batch)


@dataclass(frozen=True)
class Validation:
    """What a look at held-out data shows."""

    metrics: dict[str, float]  # "loss" always; lower is better for it, higher for all others
    samples: list[str] = field(default_factory=list)  # the same examples each time, ready to read


class Task(Protocol[B]):
    @property
    def model(self) -> nn.Module: ...

    @property
    def order(self) -> BatchOrder: ...

    @property
    def d_model(self) -> int:
        """The width the learning rate is scaled by."""

    @property
    def fingerprints(self) -> dict[str, str]:
        """What training depends on beside the recipe, by name; a resumed run must find it unchanged."""

    def batch(self, numbers: np.ndarray, device: torch.device) -> B:
        """The examples `numbers` as tensors."""

    def loss(self, batch: B) -> Tensor:
        """The loss summed over the batch's `n_tokens` terms, a scalar that can be differentiated."""

    def validate(self, device: torch.device) -> Validation:
        """Scores on held-out data. Draws no random numbers, so that training goes on as if not asked."""
