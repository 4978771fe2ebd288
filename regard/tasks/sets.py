"""Tasks on sets: what they have in common. Each is a source of sets, a model, a loss for each set, and scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.config import SetRecipe
from regard.data.sets import SetOrder, Sets, Source, Stream, stream
from regard.data.sets.stream import HELD_OUT_BLOCK
from regard.nn.layout import Padded
from regard.tasks.task import Validation, evaluating, move, pin

R = TypeVar("R", bound=SetRecipe)
Scores = dict[str, float]


@dataclass(frozen=True)
class SetBatch:
    x: Tensor  # (B, N, …)
    layout: Padded
    target: Tensor  # (B,) or (B, N)
    n_tokens: int  # sets, the terms of the loss
    numbers: np.ndarray
    shape: tuple[int, ...]

    @classmethod
    def of(cls, sets: Sets, numbers: np.ndarray) -> SetBatch:
        """Some sets as tensors, in the rectangle that they come in."""
        layout = Padded.of(sets.sizes, sets.elements.shape[1])
        x, target = torch.from_numpy(sets.elements), torch.from_numpy(sets.target)
        return cls(x, layout, target, len(sets), numbers, (*sets.elements.shape, int(layout.full)))


class SetTask(ABC, Generic[R]):
    """One recipe's sets and model. Files are read when their sets are asked for."""

    unit: ClassVar[str] = "sets"
    spatial: ClassVar[bool] = False  # whether elements are points of a space that can be drawn
    meanings: ClassVar[dict[str, str]] = {}  # of its scores, in a few words

    def __init__(self, recipe: R) -> None:
        self.recipe = recipe
        torch.manual_seed(recipe.seed)
        self.model = self.build()
        self.order = SetOrder(recipe.train.batch_sets, recipe.seed, self.largest)
        self.d_model = recipe.model.d_model
        self.streams: dict[str, Stream] = {}

    # --- what a task says of itself

    @property
    @abstractmethod
    def largest(self) -> int:
        """The most elements a set of it has."""

    @property
    @abstractmethod
    def element(self) -> tuple[int, ...]:
        """The shape of an element; more than one axis is an image's."""

    @abstractmethod
    def build(self) -> nn.Module:
        """The model: (x, layout) → output."""

    @abstractmethod
    def source(self, split: str) -> Source: ...

    @abstractmethod
    def losses(self, output: Tensor, batch: SetBatch) -> Tensor:
        """The loss of each set, (B,)."""

    @abstractmethod
    def measure(self, output: Tensor, batch: SetBatch, sets: Sets, closely: bool) -> dict[str, np.ndarray]:
        """What is scored, (B,) or (B, …) each. `closely`: for a report, with what takes longer."""

    @abstractmethod
    def answers(self, output: Tensor, layout: Padded) -> list[Any]:
        """What a user is told of each set."""

    @abstractmethod
    def verdict(self, answer: Any, sets: Sets) -> str:
        """What was answered of a single set and what is right, in words."""

    def element_names(self, sets: Sets, answer: Any = None) -> list[str]:
        """A short name for every element of a single set, with a remark in brackets where it is the one that was asked
        for or, wrongly, the answer: by default its number."""
        return [str(i) for i in range(int(sets.sizes[0]))]

    def summary(self, values: dict[str, np.ndarray]) -> Scores:
        """Scores of all held-out sets together: by default the means of what was measured."""
        return {key: float(np.mean(found)) for key, found in values.items()}

    # --- what the loop asks

    def stream(self, split: str) -> Stream:
        if split not in self.streams:
            self.streams[split] = stream(self.source(split), split, self.recipe.seed, self.recipe.train.batch_sets)
        return self.streams[split]

    @property
    def extent(self) -> str:
        return self.stream("train").source.extent

    @property
    def fingerprints(self) -> dict[str, str]:
        return {"training sets": self.stream("train").source.fingerprint}

    def n_tokens(self, numbers: np.ndarray) -> int:
        return len(numbers)

    def batch(self, numbers: np.ndarray, device: torch.device) -> SetBatch:
        sets = self.stream("train").take(numbers)
        # On a GPU in the rectangle of the largest set, so that the work recorded for it serves every batch.
        return pin(SetBatch.of(sets if device.type == "cuda" else sets.trimmed(), numbers), device)

    def loss(self, batch: SetBatch) -> Tensor:
        return self.losses(self.model(batch.x, batch.layout), batch).sum()

    def validate(self, device: torch.device) -> Validation:
        scores = self.evaluate("valid", self.recipe.data.valid_sets, device, closely=False)
        return Validation(scores)

    @torch.no_grad()
    def evaluate(
        self,
        split: str,
        count: int,
        device: torch.device,
        closely: bool = True,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Scores:
        """Scores of the first `count` sets of a split, or of all where there are fewer. `progress` is told how many are
        done."""
        found: dict[str, list[np.ndarray]] = {}
        with evaluating(self.model):
            for sets, batch in self.held_out(split, count, device):
                output = self.model(batch.x, batch.layout)
                values = {"loss": to_numpy(self.losses(output, batch)), **self.measure(output, batch, sets, closely)}
                for key, value in values.items():
                    found.setdefault(key, []).append(value)
                progress(sum(map(len, found["loss"])))
        return self.summary({key: np.concatenate(values) for key, values in found.items()})

    def held_out(self, split: str, count: int, device: torch.device) -> Iterator[tuple[Sets, SetBatch]]:
        """The first sets of a split, a block at a time."""
        stream = self.stream(split)
        count = min(count, stream.source.count or count)
        for first in range(0, count, HELD_OUT_BLOCK):
            numbers = np.arange(first, min(first + HELD_OUT_BLOCK, count))
            sets = stream.take(numbers).trimmed()
            yield sets, move(SetBatch.of(sets, numbers), device)


def to_numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().cpu().numpy()
