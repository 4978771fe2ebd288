"""Max regression: *Set Transformer*, §5.1 and supplement: the largest of a few numbers.

The paper does not say whether n is drawn for each set or for each batch. One for a batch (`shared_size`), as where
there are no masks, gives its errors of sum and mean; one for each set far smaller ones (docs/log.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.data.sets.stream import Sets, present, sizes_between


@dataclass(frozen=True)
class Numbers:
    """n ~ U{smallest..largest}, x ~ U[0, highest]; the target is max(x)."""

    smallest: int
    largest: int
    highest: float
    shared_size: bool = False  # of all sets of a block
    count: None = None
    fingerprint: str = ""

    @property
    def extent(self) -> str:
        return f"sets of {self.smallest} to {self.largest} numbers without end"

    def draw(self, chance: np.random.Generator, numbers: np.ndarray) -> Sets:
        sizes = sizes_between(chance, self.smallest, self.largest, len(numbers), self.shared_size)
        x = chance.random((len(numbers), self.largest), dtype=np.float32) * np.float32(self.highest)
        x *= present(sizes, self.largest)  # none is negative, so padding is never the maximum
        return Sets(x[..., None], sizes, x.max(axis=1))
