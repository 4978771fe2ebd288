"""Set anomaly detection: *Set Transformer*, §5.5: which image does not belong?

Every image gets a score, the loss is the cross-entropy of the outlier's place under a softmax over the set. Scores:
AUROC and AUPR of the softmax over all images of all sets, and how often the highest score is the outlier's.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from regard.config.set_tasks import AnomalyRecipe
from regard.data.sets import Sets
from regard.data.sets.anomalies import Anomalies, flickr8k
from regard.evaluate.ranking import auroc, average_precision
from regard.models.image_sets import OutlierFinder
from regard.nn.layout import Padded
from regard.tasks.sets import Scores, SetBatch, SetTask, to_numpy


class AnomalyTask(SetTask[AnomalyRecipe]):
    meanings: ClassVar[dict[str, str]] = {
        "loss": "cross-entropy of the outlier's place",
        "accuracy": "how often the outlier scores highest",
        "auroc": "how often it scores above another image; by chance 0.5",
        "aupr": "average precision of the scores; by chance 1 / images of a set",
    }

    @property
    def largest(self) -> int:
        return self.recipe.data.size

    @property
    def element(self) -> tuple[int, ...]:
        return (self.recipe.data.side, self.recipe.data.side, 3)

    def build(self) -> OutlierFinder:
        return OutlierFinder(self.recipe.images, self.recipe.model, self.recipe.data.side, 3)

    def source(self, split: str) -> Anomalies:
        data = self.recipe.data
        count = {"train": data.train_sets, "valid": data.valid_sets, "test": data.test_sets}[split]
        return flickr8k(data.path, split, data.size, count or None, data.side)

    def losses(self, output: Tensor, batch: SetBatch) -> Tensor:
        return F.cross_entropy(output, batch.target, reduction="none")

    def measure(self, output: Tensor, batch: SetBatch, sets: Sets, closely: bool) -> dict[str, np.ndarray]:
        found = output.argmax(dim=1) == batch.target
        return {
            "accuracy": to_numpy(found), "scores": to_numpy(output.softmax(dim=1)), "outlier": sets.truth["outlier"],
        }  # fmt: skip

    def summary(self, values: dict[str, np.ndarray]) -> Scores:
        scores, outlier = values.pop("scores").ravel(), values.pop("outlier").ravel()
        return super().summary(values) | {"auroc": auroc(scores, outlier), "aupr": average_precision(scores, outlier)}

    def answers(self, output: Tensor, layout: Padded) -> list[int | None]:
        if not layout.size:
            return [None] * len(output)
        places, sizes = output.argmax(dim=1).tolist(), layout.lengths.tolist()
        return [place if size else None for place, size in zip(places, sizes, strict=True)]

    def verdict(self, answer: int | None, sets: Sets) -> str:
        return f"said image {answer}, is image {sets.target[0]}"

    def element_names(self, sets: Sets, answer: int | None = None) -> list[str]:
        remarks = {answer: " (said)", int(sets.target[0]): " (outlier)"}
        return [f"{i}{remarks.get(i, '')}" for i in range(int(sets.sizes[0]))]
