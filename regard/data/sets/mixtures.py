"""Mixtures of Gaussians for amortised clustering: *Set Transformer*, §5.3 and supplement D.3.

    n ~ U{smallest..largest}   π ~ Dir(1, …, 1)   μ_k ~ U(−spread, spread)^d   z_i ~ π   x_i ~ N(μ_{z_i}, σ² I)

Departures from the paper: none. Its n ~ U(100, 500) is read as in the released code, 500 is not reached; the supplement
prints the prior of π as Dir([1, 1]), which for K = 4 components is a slip.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.data.sets.stream import Sets, present, sizes_between


@dataclass(frozen=True)
class Mixtures:
    """Points in the plane; `truth` has what drew them."""

    smallest: int
    largest: int
    n_components: int
    spread: float
    sigma: float
    d: int = 2
    count: None = None
    fingerprint: str = ""

    @property
    def extent(self) -> str:
        return f"mixtures of {self.n_components} Gaussians, {self.smallest} to {self.largest} points, without end"

    def draw(self, chance: np.random.Generator, numbers: np.ndarray) -> Sets:
        B, N, K = len(numbers), self.largest, self.n_components
        sizes = sizes_between(chance, self.smallest, self.largest, B)
        weights = chance.standard_exponential((B, K))
        weights /= weights.sum(axis=1, keepdims=True)  # Dir(1): exponentials, normalised
        means = chance.uniform(-self.spread, self.spread, (B, K, self.d)).astype(np.float32)
        thresholds = weights.cumsum(axis=1)[:, None, :-1]  # (B, 1, K − 1)
        labels = (chance.random((B, N, 1)) > thresholds).sum(axis=2)  # (B, N)
        points = np.take_along_axis(means, labels[..., None], axis=1)
        points += np.float32(self.sigma) * chance.standard_normal((B, N, self.d), dtype=np.float32)
        points *= present(sizes, N)[..., None]
        truth = {"weights": weights.astype(np.float32), "means": means}
        truth["sigmas"] = np.full((B, K, self.d), self.sigma, dtype=np.float32)
        return Sets(points, sizes, labels, truth)
