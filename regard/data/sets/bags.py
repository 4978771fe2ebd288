"""Key chains: multiple instances with known truth.

Everyone has a chain of keys, and the door opens for some chains (Dietterich et al., 1997). A key is a vector: the
prototype of its shape, with noise. Under the rule `any` a chain opens the door if one of its keys has the first shape;
under `both` it needs the first and the second shape, one of which alone is no use. Half of the chains open the door.
Under `both`, two thirds of the others have exactly one of the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.data.sets.stream import Sets, present, sizes_between

PROTOTYPES = 20_191  # the seed of the shapes, which are the same for every run and split


@dataclass(frozen=True)
class KeyChains:
    """Bags of keys; the target is 1 where the door opens, `truth["fits"]` says which keys open it."""

    smallest: int
    largest: int
    rule: str
    n_shapes: int
    d: int
    noise: float
    count: None = None
    fingerprint: str = ""

    @property
    def extent(self) -> str:
        return f"chains of {self.smallest} to {self.largest} keys without end"

    @property
    def needed(self) -> int:
        """The shapes 0 … needed − 1 open the door together."""
        return 1 if self.rule == "any" else 2

    def draw(self, chance: np.random.Generator, numbers: np.ndarray) -> Sets:
        B, N = len(numbers), self.largest
        sizes = sizes_between(chance, self.smallest, self.largest, B)
        shapes = chance.integers(self.needed, self.n_shapes, (B, N))  # none that helps
        opens = chance.random(B) < 0.5
        for shape, has in enumerate(self.owned(chance, opens)):
            # The keys of this shape: one at a place that no other shape has taken, and now and then a second.
            for chosen in (has, has & (chance.random(B) < 0.3)):
                place = shape + (chance.random(B) * (sizes - shape)).astype(np.int64)
                rows = np.flatnonzero(chosen & (shapes[np.arange(B), place] >= self.needed))
                shapes[rows, place[rows]] = shape
        opens = self.opened(shapes, sizes)
        prototypes = np.random.default_rng(PROTOTYPES).standard_normal((self.n_shapes, self.d)).astype(np.float32)
        keys = prototypes[shapes] + np.float32(self.noise) * chance.standard_normal((B, N, self.d), dtype=np.float32)
        here = present(sizes, N)
        order = np.argsort(np.where(here, chance.random((B, N)), 2.0), axis=1)  # places say nothing
        keys, shapes = (
            np.take_along_axis(keys * here[..., None], order[..., None], 1),
            np.take_along_axis(shapes, order, 1),
        )
        fits = (shapes < self.needed) & here & opens[:, None]
        return Sets(keys, sizes, opens.astype(np.int64), {"fits": fits})

    def owned(self, chance: np.random.Generator, opens: np.ndarray) -> list[np.ndarray]:
        """For each shape that is needed, which chains have it."""
        if self.needed == 1:
            return [opens]
        third = chance.integers(0, 3, len(opens))
        return [opens | (third == 1), opens | (third == 2)]

    def opened(self, shapes: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """(B,) bool by the rule itself, from the keys that lie in each chain."""
        here = present(sizes, shapes.shape[1])
        return np.all([((shapes == shape) & here).any(axis=1) for shape in range(self.needed)], axis=0)
