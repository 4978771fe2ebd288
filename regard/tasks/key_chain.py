"""Multiple instances: does a chain of keys open the door, and which keys does the model look at?

Beside the accuracy, the attention of the pooling to each key is scored against the truth, in the chains that open the
door: the chance that a key that fits gets more than one that does not (`instance_auroc`), and how often the key that
gets most fits (`instance_top`).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from regard.config.set_tasks import KeyChainRecipe
from regard.data.sets import Sets
from regard.data.sets.bags import KeyChains
from regard.evaluate.ranking import auroc
from regard.models.set_transformer import SetTransformer
from regard.nn.attention import capture
from regard.nn.layout import Padded
from regard.tasks.sets import Scores, SetBatch, SetTask, to_numpy

LOOKS = ("instance_auroc", "instance_top")


class KeyChainTask(SetTask[KeyChainRecipe]):
    meanings: ClassVar[dict[str, str]] = {
        "loss": "cross-entropy of whether the door opens",
        "accuracy": "how often it is told whether the door opens",
        "instance_auroc": "how often a key that fits is looked at more than another; by chance 0.5",
        "instance_top": "how often the key that is looked at most fits",
    }

    @property
    def largest(self) -> int:
        return self.recipe.data.largest

    @property
    def element(self) -> tuple[int, ...]:
        return (self.recipe.data.d,)

    def build(self) -> SetTransformer:
        return SetTransformer(self.recipe.model, self.recipe.data.d, 1)

    def source(self, split: str) -> KeyChains:
        data = self.recipe.data
        return KeyChains(data.smallest, data.largest, data.rule, data.n_shapes, data.d, data.noise)

    def losses(self, output: Tensor, batch: SetBatch) -> Tensor:
        return F.binary_cross_entropy_with_logits(output[:, 0, 0], batch.target.float(), reduction="none")

    def measure(self, output: Tensor, batch: SetBatch, sets: Sets, closely: bool) -> dict[str, np.ndarray]:
        values = {"accuracy": to_numpy((output[:, 0, 0] > 0) == (batch.target > 0))}
        if closely and self.recipe.model.pooling in ("pma", "dotprod"):
            with capture(self.model) as maps:
                self.model(batch.x, batch.layout)
            values |= looked_at(to_numpy(pooling_weights(maps)), sets)
        return values

    def summary(self, values: dict[str, np.ndarray]) -> Scores:
        """The attention's scores are means over the chains where they are defined."""
        looks = {key: float(np.nanmean(found)) for key, found in values.items() if key in LOOKS}
        return {**super().summary({key: found for key, found in values.items() if key not in looks}), **looks}

    def answers(self, output: Tensor, layout: Padded) -> list[float]:
        return output[:, 0, 0].sigmoid().tolist()

    def verdict(self, answer: float, sets: Sets) -> str:
        return f"opens with probability {answer:.2f}, {'opens' if sets.target[0] else 'does not open'}"

    def element_names(self, sets: Sets, answer: float | None = None) -> list[str]:
        return [f"{i} (fits)" if fits else str(i) for i, fits in enumerate(sets.truth["fits"][0, : sets.sizes[0]])]


def pooling_weights(maps: dict[str, Tensor]) -> Tensor:
    """What the seeds collect from each element, the mean of all heads and seeds: (B, N)."""
    (weights,) = (found for path, found in maps.items() if "pool" in path.split("."))
    return weights.mean(dim=(1, 2))  # (B, H, P, N) → (B, N)


def looked_at(weights: np.ndarray, sets: Sets) -> dict[str, np.ndarray]:
    """How well weights (B, N) tell the keys that fit. Both are NaN where no key fits, the area also where all do."""
    areas, tops = [], []
    for row, fits, size in zip(weights, sets.truth["fits"], sets.sizes, strict=True):
        areas.append(auroc(row[:size], fits[:size]))
        tops.append(float(fits[row[:size].argmax()]) if fits.any() else float("nan"))
    return dict(zip(LOOKS, (np.array(areas), np.array(tops)), strict=True))
