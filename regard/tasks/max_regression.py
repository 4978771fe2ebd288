"""Max regression: *Set Transformer*, §5.1: the largest number of a set, by mean absolute error."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from torch import Tensor

from regard.config.set_tasks import MaxRegressionRecipe
from regard.data.sets import Sets
from regard.data.sets.maximum import Numbers
from regard.models.set_transformer import SetTransformer
from regard.nn.layout import Padded
from regard.tasks.sets import SetBatch, SetTask, to_numpy


class MaxRegressionTask(SetTask[MaxRegressionRecipe]):
    meanings: ClassVar[dict[str, str]] = {"loss": "mean absolute error", "mae": "mean absolute error"}

    @property
    def largest(self) -> int:
        return self.recipe.data.largest

    @property
    def element(self) -> tuple[int, ...]:
        return (1,)

    def build(self) -> SetTransformer:
        return SetTransformer(self.recipe.model, 1, 1)

    def source(self, split: str) -> Numbers:
        data = self.recipe.data
        return Numbers(data.smallest, data.largest, data.highest, data.shared_size and split == "train")

    def losses(self, output: Tensor, batch: SetBatch) -> Tensor:
        return (output[:, 0, 0] - batch.target).abs()

    def measure(self, output: Tensor, batch: SetBatch, sets: Sets, closely: bool) -> dict[str, np.ndarray]:
        return {"mae": to_numpy(self.losses(output, batch))}

    def answers(self, output: Tensor, layout: Padded) -> list[float]:
        return output[:, 0, 0].tolist()

    def verdict(self, answer: float, sets: Sets) -> str:
        return f"said {answer:.1f}, is {sets.target[0]:.1f}"

    def element_names(self, sets: Sets, answer: float | None = None) -> list[str]:
        return [f"{value:.1f}" for value in sets.elements[0, : sets.sizes[0], 0]]
