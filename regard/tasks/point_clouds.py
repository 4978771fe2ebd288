"""Point-cloud classification: *Set Transformer*, §5.4."""

from __future__ import annotations

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from regard.config.set_tasks import CloudsConfig, PointCloudsRecipe
from regard.data.sets import Sets, Source
from regard.data.sets.clouds import ShapeClouds, digits, modelnet40
from regard.data.sets.shapes import SHAPES
from regard.models.set_transformer import SetTransformer
from regard.nn.layout import Padded
from regard.tasks.sets import SetBatch, SetTask, to_numpy

N_CLASSES = {"shapes": len(SHAPES), "digits": 10, "modelnet40": 40}


class PointCloudsTask(SetTask[PointCloudsRecipe]):
    @property
    def largest(self) -> int:
        return self.recipe.data.n_points

    @property
    def element(self) -> tuple[int, ...]:
        return (3,)

    def build(self) -> SetTransformer:
        return SetTransformer(self.recipe.model, 3, N_CLASSES[self.recipe.data.source])

    def source(self, split: str) -> Source:
        return cloud_source(self.recipe.data, split)

    def losses(self, output: Tensor, batch: SetBatch) -> Tensor:
        return F.cross_entropy(output[:, 0], batch.target, reduction="none")

    def measure(self, output: Tensor, batch: SetBatch, sets: Sets, closely: bool) -> dict[str, np.ndarray]:
        return {"accuracy": to_numpy(output[:, 0].argmax(dim=1) == batch.target)}

    def answers(self, output: Tensor, layout: Padded) -> list[str]:
        names = tuple(SHAPES) if self.recipe.data.source == "shapes" else None
        found = output[:, 0].argmax(dim=1).tolist()
        return [names[label] if names else str(label) for label in found]


def cloud_source(data: CloudsConfig, split: str) -> Source:
    if data.source == "digits":
        return digits(data.path, split, data.n_points, data.noise)
    if data.source == "modelnet40":
        return modelnet40(data.path, split, data.n_points)
    return ShapeClouds(data.n_points, data.noise)
