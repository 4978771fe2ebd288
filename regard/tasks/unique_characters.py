"""Counting unique characters: *Set Transformer*, §5.2: a Poisson rate for each set.

loss = λ − c log λ + log c!      the answer is the mode of Poisson(λ), ⌊λ⌋
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from regard.config.set_tasks import UniqueCharactersRecipe
from regard.data.sets import Sets
from regard.data.sets.characters import Characters, omniglot
from regard.models.image_sets import ImageSetTransformer
from regard.nn.layout import Padded
from regard.tasks.sets import SetBatch, SetTask, to_numpy
from regard.wording import counted

SIDE = 28  # pixels
LOWEST = 1e-6  # rate, so that its logarithm is finite


class UniqueCharactersTask(SetTask[UniqueCharactersRecipe]):
    meanings: ClassVar[dict[str, str]] = {
        "loss": "negative log-likelihood of the count",
        "accuracy": "how often the count is right",
        "mae": "mean absolute error of the rate λ",
    }

    @property
    def largest(self) -> int:
        return self.recipe.data.largest

    @property
    def element(self) -> tuple[int, ...]:
        return (SIDE, SIDE)

    def build(self) -> ImageSetTransformer:
        return ImageSetTransformer(self.recipe.images, self.recipe.model, SIDE, 1, 1)

    def source(self, split: str) -> Characters:
        data = self.recipe.data
        return omniglot(data.path, split, data.smallest, data.largest)

    def losses(self, output: Tensor, batch: SetBatch) -> Tensor:
        rate, count = rate_of(output), batch.target.float()
        return rate - count * rate.log() + (count + 1).lgamma()

    def measure(self, output: Tensor, batch: SetBatch, sets: Sets, closely: bool) -> dict[str, np.ndarray]:
        rate = rate_of(output)
        off = (rate - batch.target).abs()
        return {"accuracy": to_numpy(rate.floor() == batch.target), "mae": to_numpy(off)}

    def answers(self, output: Tensor, layout: Padded) -> list[int]:
        return [int(rate) for rate in rate_of(output).tolist()]

    def verdict(self, answer: int, sets: Sets) -> str:
        return f"found {counted(answer, 'different character')}, there {are(int(sets.target[0]))}"

    def element_names(self, sets: Sets, answer: int | None = None) -> list[str]:
        _, which = np.unique(sets.truth["character"][0, : sets.sizes[0]], return_inverse=True)
        return [f"{i}, character {chr(ord('a') + one)}" for i, one in enumerate(which)]


def are(count: int) -> str:
    return f"{'is' if count == 1 else 'are'} {count}"


def rate_of(output: Tensor) -> Tensor:
    """λ of each set: (B, 1, 1) → (B,)."""
    return F.softplus(output[:, 0, 0].float()) + LOWEST
