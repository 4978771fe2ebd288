"""Learning from arrays in memory: a list of sets with a target each, or none. What the estimators train.

A batch is some sets end to end, without padding. What is predicted, and how far off it is, is the `Objective`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batching import EvenOrder, cut_packed
from regard.models.set_transformer import SetTransformer
from regard.nn.layout import Packed
from regard.nn.mixture import log_likelihood, mixture_of
from regard.tasks.task import Validation, evaluating, move
from regard.wording import counted

BUDGET = 2**18  # elements of a batch that is only looked at
SIGMA_FLOOR = 1e-3  # of the spread of all elements


@dataclass(frozen=True)
class ArrayBatch:
    numbers: np.ndarray
    x: Tensor  # (total, d_in)
    layout: Packed
    target: Tensor  # (B, …); (B, 0) where there is none
    n_tokens: int
    shape: ClassVar[None] = None


class Objective(Protocol):
    """What the output of a network means."""

    @property
    def unit(self) -> str:
        """What a term of the loss is of: sets, elements."""

    def terms(self, lengths: np.ndarray) -> int:
        """How many terms the loss of sets of these sizes has."""

    def loss(self, outputs: Tensor, batch: ArrayBatch) -> Tensor:
        """outputs: (B, n_outputs, d_out) → the sum of the terms."""


@dataclass(frozen=True)
class Regression:
    """Squared or absolute error of each number, one row of them a set."""

    absolute: bool = False
    unit: ClassVar[str] = "sets"

    def terms(self, lengths: np.ndarray) -> int:
        return len(lengths)

    def loss(self, outputs: Tensor, batch: ArrayBatch) -> Tensor:
        error = outputs[:, 0] - batch.target  # (B, d_out)
        return (error.abs() if self.absolute else error.square()).mean(dim=1).sum()


@dataclass(frozen=True)
class Classification:
    """Cross-entropy of the one class a set belongs to."""

    unit: ClassVar[str] = "sets"

    def terms(self, lengths: np.ndarray) -> int:
        return len(lengths)

    def loss(self, outputs: Tensor, batch: ArrayBatch) -> Tensor:
        return F.cross_entropy(outputs[:, 0].float(), batch.target, reduction="sum")


@dataclass(frozen=True)
class Clustering:
    """Negative log-likelihood of the elements under the set's mixture of Gaussians (*Set Transformer*, §5.3)."""

    unit: ClassVar[str] = "elements"

    def terms(self, lengths: np.ndarray) -> int:
        return max(1, int(lengths.sum()))

    def loss(self, outputs: Tensor, batch: ArrayBatch) -> Tensor:
        return -log_likelihood(batch.x, batch.layout, mixture_of(outputs, SIGMA_FLOOR)).sum()


@dataclass
class ArrayTask:
    """Sets to learn from and others to validate on."""

    model: SetTransformer
    objective: Objective
    sets: Sequence[np.ndarray]  # (n, d_in) each, float32
    target: Tensor  # (number of sets, …)
    trained: np.ndarray  # which of them are learned from
    held_out: np.ndarray  # which are validated on
    batch_size: int
    seed: int
    fingerprints: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lengths = np.array([len(one) for one in self.sets], dtype=np.int64)
        self.order = EvenOrder(self.lengths[self.trained], self.batch_size, self.seed)

    @property
    def d_model(self) -> int:
        return self.model.config.d_model

    @property
    def unit(self) -> str:
        return self.objective.unit

    @property
    def extent(self) -> str:
        return counted(len(self.trained), "set")

    def n_tokens(self, numbers: np.ndarray) -> int:
        return self.objective.terms(self.lengths[self.places(numbers)])

    def places(self, numbers: np.ndarray) -> np.ndarray:
        return self.trained[numbers % len(self.trained)]

    def batch(self, numbers: np.ndarray, device: torch.device) -> ArrayBatch:
        return self.gathered(numbers, self.places(numbers))

    def gathered(self, numbers: np.ndarray, places: np.ndarray) -> ArrayBatch:
        x, layout = joined([self.sets[place] for place in places])
        n_tokens = self.objective.terms(self.lengths[places])
        return ArrayBatch(numbers, x, layout, self.target[torch.from_numpy(places)], n_tokens)

    def loss(self, batch: ArrayBatch) -> Tensor:
        return self.objective.loss(self.model(batch.x, batch.layout), batch)

    @torch.inference_mode()
    def validate(self, device: torch.device) -> Validation:
        total, terms = 0.0, 0
        with evaluating(self.model):
            for group in within_budget(self.lengths[self.held_out]):
                batch = move(self.gathered(group, self.held_out[group]), device)
                total, terms = total + float(self.loss(batch)), terms + batch.n_tokens
        return Validation({"loss": total / terms})


def joined(sets: Sequence[np.ndarray]) -> tuple[Tensor, Packed]:
    """Sets end to end."""
    return torch.from_numpy(np.concatenate(sets)), Packed.of([len(one) for one in sets])


def within_budget(lengths: np.ndarray) -> list[np.ndarray]:
    """The numbers of sets of these sizes, in order, in groups that fit into memory together."""
    weights = np.maximum(lengths, 64)  # so that a million empty sets are no single group
    return cut_packed(np.arange(len(lengths)), weights[:, None], BUDGET)
