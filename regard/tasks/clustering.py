"""Amortised clustering: *Set Transformer*, §5.3: the parameters of a mixture from one look at its points.

Scores, per point and set: LL0 of what the network gives, LL1 after one step of expectation maximisation from there, the
oracle's (the parameters that drew the points) on the same sets, and the adjusted Rand index of all three. LL1 may be
above the oracle's: the true parameters are not the likeliest for finitely many points. Not in the paper: the same of
what is likeliest among the network's answers from many sides (`_views`, `regard.tasks.views`).

Departures from the paper: σ stays above a small part of what it was drawn with; the recipes clip gradients.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.config.set_tasks import ClusteringRecipe
from regard.data.sets import Sets
from regard.data.sets.mixtures import Mixtures
from regard.evaluate.clustering import adjusted_rand_index
from regard.models.set_transformer import SetTransformer
from regard.nn.em import assign, em_step, mean_log_likelihood
from regard.nn.layout import Padded
from regard.nn.mixture import Mixture, mixture_of
from regard.tasks.sets import SetBatch, SetTask, to_numpy
from regard.tasks.views import likeliest_of_views

D = 2  # the points lie in a plane
FLOOR = 3e-3  # of the true σ: a σ that rounds to nothing would leave a loss that is no number


PASSES = {
    "0": "the network's answer",
    "1": "after one step of expectation maximisation",
    "_views": "the likeliest from many sides",
    "_oracle": "what drew the points",
}


class ClusteringTask(SetTask[ClusteringRecipe]):
    meanings: ClassVar[dict[str, str]] = {
        "loss": "negative log-likelihood of a point",
        **{f"ll{name}": f"log-likelihood of a point: {words}" for name, words in PASSES.items()},
        **{f"gap{name}": f"the same less the oracle's: {PASSES[name]}" for name in ("0", "1", "_views")},
        **{f"ari{name}": f"adjusted Rand index, 1 is best: {words}" for name, words in PASSES.items()},
    }
    spatial = True

    @property
    def largest(self) -> int:
        return self.recipe.data.largest

    @property
    def element(self) -> tuple[int, ...]:
        return (D,)

    def build(self) -> SetTransformer:
        return SetTransformer(self.recipe.model, D, 1 + 2 * D)

    def source(self, split: str) -> Mixtures:
        data = self.recipe.data
        return Mixtures(data.smallest, data.largest, data.n_components, data.spread, data.sigma, D)

    def mixture(self, output: Tensor) -> Mixture:
        return mixture_of(output, FLOOR * self.recipe.data.sigma)

    def losses(self, output: Tensor, batch: SetBatch) -> Tensor:
        return -mean_log_likelihood(batch.x, batch.layout, self.mixture(output))

    def measure(self, output: Tensor, batch: SetBatch, sets: Sets, closely: bool) -> dict[str, np.ndarray]:
        x, layout, found = batch.x, batch.layout, self.mixture(output)
        mixtures = {"0": found, "1": em_step(x, layout, found)}
        if closely and self.recipe.data.views:
            mixtures["_views"] = likeliest_of_views(self.seen, x, layout, self.recipe.data.views)
        truth = {"_oracle": oracle(sets, x.device)}
        values = {
            f"ll{name}": to_numpy(mean_log_likelihood(x, layout, mixture))
            for name, mixture in (mixtures | truth).items()
        }
        values |= {f"gap{name}": values[f"ll{name}"] - values["ll_oracle"] for name in mixtures}
        if closely:
            for name, mixture in (mixtures | truth).items():
                values[f"ari{name}"] = rand_indices(assign(x, layout, mixture).cpu().numpy(), sets)
        return values

    def seen(self, x: Tensor, layout: Padded) -> Mixture:
        return self.mixture(self.model(x, layout))

    def answers(self, output: Tensor, layout: Padded) -> list[Mixture]:
        found = self.mixture(output)
        return [Mixture(*(part[row : row + 1].cpu() for part in found)) for row in range(len(output))]

    def verdict(self, answer: Mixture, sets: Sets) -> str:
        x, layout = torch.from_numpy(sets.elements), Padded.of(sets.sizes, sets.elements.shape[1])
        found, true = (float(mean_log_likelihood(x, layout, one)) for one in (answer, oracle(sets, x.device)))
        return f"log-likelihood of a point {found:.3f}, of what drew the points {true:.3f}"


def oracle(sets: Sets, device: torch.device) -> Mixture:
    """The mixtures that the points were drawn from."""
    weights, means, sigmas = (torch.from_numpy(sets.truth[key]).to(device) for key in ("weights", "means", "sigmas"))
    return Mixture(weights.log(), means, sigmas)


def rand_indices(labels: np.ndarray, sets: Sets) -> np.ndarray:
    """(B,), of the labels of each set's own elements."""
    return np.array(
        [
            adjusted_rand_index(ours[:size], theirs[:size])
            for ours, theirs, size in zip(labels, sets.target, sets.sizes, strict=True)
        ]
    )
