"""Point-cloud classification: *Set Transformer*, §5.4."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from regard.config.set_tasks import CloudsConfig, PointCloudsRecipe
from regard.data.sets import Sets, Source
from regard.data.sets.clouds import CLASSES, ShapeClouds, digits, modelnet40
from regard.models.set_transformer import SetTransformer
from regard.nn.layout import Padded
from regard.tasks.sets import SetBatch, SetTask, to_numpy


class PointCloudsTask(SetTask[PointCloudsRecipe]):
    spatial = True
    meanings: ClassVar[dict[str, str]] = {
        "loss": "cross-entropy of the class",
        "accuracy": "how often the class is right",
    }

    @property
    def classes(self) -> tuple[str, ...]:
        """Of the recipe, not of its files: a trained model answers where those are not."""
        return CLASSES[self.recipe.data.source]

    @property
    def largest(self) -> int:
        return self.recipe.data.n_points

    @property
    def element(self) -> tuple[int, ...]:
        return (3,)

    def build(self) -> SetTransformer:
        return SetTransformer(self.recipe.model, 3, len(self.classes))

    def source(self, split: str) -> Source:
        return cloud_source(self.recipe.data, split)

    def losses(self, output: Tensor, batch: SetBatch) -> Tensor:
        return F.cross_entropy(output[:, 0], batch.target, reduction="none")

    def measure(self, output: Tensor, batch: SetBatch, sets: Sets, closely: bool) -> dict[str, np.ndarray]:
        return {"accuracy": to_numpy(output[:, 0].argmax(dim=1) == batch.target)}

    def answers(self, output: Tensor, layout: Padded) -> list[str]:
        return [self.classes[label] for label in output[:, 0].argmax(dim=1).tolist()]

    def verdict(self, answer: str, sets: Sets) -> str:
        return f"said {answer}, is {self.classes[sets.target[0]]}"


def cloud_source(data: CloudsConfig, split: str) -> Source:
    if data.source == "digits":
        return digits(data.path, split, data.n_points, data.noise)
    if data.source == "modelnet40":
        return modelnet40(data.path, split, data.n_points)
    return ShapeClouds(data.n_points, data.noise)
