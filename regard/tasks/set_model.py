"""A trained model of sets, ready for use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.config import SetRecipe
from regard.data.sets import Sets
from regard.data.sets.checking import as_sets
from regard.errors import RegardError
from regard.nn.attention import capture
from regard.tasks.sets import Scores, SetBatch, SetTask
from regard.tasks.task import move


class SetModel:
    """Predicts for sets of any size, scores itself on held-out ones, and shows what it looks at.

    `capture` works on it as on its network:  with regard.capture(model) as maps: model.predict([points])
    """

    def __init__(self, task: SetTask[Any], device: torch.device, name: str = "") -> None:
        self.task, self.device, self.name = task, device, name or task.recipe.name
        self.model: nn.Module = task.model.to(device).eval()

    @property
    def recipe(self) -> SetRecipe:
        return self.task.recipe

    def predict(self, sets: Sequence[Any]) -> list[Any]:
        """What the model makes of each set, an array with an element a row, pixels from 0 to 255: the largest number,
        how many unique characters, a `Mixture`, the place of the outlier, a class, or the probability that the door
        opens."""
        batch = self.batch(as_sets(sets, self.task.element))
        return self.task.answers(self.output(batch), batch.layout)

    def test_sets(self, numbers: Sequence[int]) -> Sets:
        """Held-out sets by number, of those that the model is scored on."""
        count = self.n_test_sets
        for number in numbers:
            if not 0 <= number < count:
                raise RegardError(f"There is no test set {number}: they are numbered from 0 to {count - 1}.")
        return self.task.stream("test").take(np.array(numbers)).trimmed()

    @property
    def n_test_sets(self) -> int:
        return self.n_sets("test")

    def n_sets(self, split: str) -> int:
        """Of those that the model is scored on: as many as the recipe says, or as there are."""
        wanted, count = getattr(self.recipe.data, f"{split}_sets"), self.task.stream(split).source.count
        return int(wanted if count is None else min(count, wanted))

    def score(self, split: str = "test", progress: Callable[[int], None] = lambda done: None) -> Scores:
        """`progress` is told how many sets are done."""
        return self.task.evaluate(split, self.n_sets(split), self.device, progress=progress)

    def score_lines(self, split: str, scores: Scores) -> list[str]:
        """Scores for a person: what each is called, its value, and what it means."""
        width = max(len(key) for key in scores)
        lines = [
            f"{split} {key:{width}}  {value:7.4f}  {self.task.meanings.get(key, '')}" for key, value in scores.items()
        ]
        return [line.rstrip() for line in lines]

    def attend(self, sets: Sets) -> tuple[list[Any], dict[str, Tensor]]:
        """What the model makes of some sets, and every attention by module path, (B, H, Q, K)."""
        batch = self.batch(sets)
        with capture(self.model) as maps:
            output = self.output(batch)
        return self.task.answers(output, batch.layout), maps

    def batch(self, sets: Sets) -> SetBatch:
        return move(SetBatch.of(sets, np.arange(len(sets))), self.device)

    @torch.no_grad()
    def output(self, batch: SetBatch) -> Tensor:
        self.model.eval()
        return self.model(batch.x, batch.layout)

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]:
        return self.model.named_modules()
