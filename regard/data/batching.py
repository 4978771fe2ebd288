"""Batches bounded by tokens, in an order that depends on the seed alone (paper §5.1).

Each epoch is one permutation, sorted by length with ties left in random order, cut into batches, and the
batches shuffled. All of it follows from (seed, epoch), so the place of a run in its data is two numbers and
finding it again costs one epoch's plan, however many batches have gone before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Place:
    """Where a run stands in its data: the next batch is number `index` of epoch `epoch`."""

    epoch: int = 0
    index: int = 0


class BatchOrder:
    """Numbers of the sentences in each batch, epoch after epoch, without end."""

    def __init__(self, lengths: np.ndarray, batch_tokens: int, seed: int) -> None:
        """lengths: (n,), of the longer side of each pair."""
        self.lengths, self.batch_tokens, self.seed = lengths, batch_tokens, seed
        self._epoch, self._plan = -1, list[np.ndarray]()

    def plan(self, epoch: int) -> list[np.ndarray]:
        """All batches of one epoch, in order."""
        if epoch != self._epoch:
            chance = np.random.default_rng([self.seed, epoch])
            order = chance.permutation(len(self.lengths))
            order = order[np.argsort(self.lengths[order], kind="stable")]
            batches = cut(order, self.lengths[order], self.batch_tokens)
            self._plan = [batches[i] for i in chance.permutation(len(batches))]
            self._epoch = epoch
        return self._plan

    def take(self, place: Place, n: int) -> tuple[list[np.ndarray], Place]:
        """The next `n` batches from `place` on, and the place after them."""
        batches: list[np.ndarray] = []
        for _ in range(n):
            batches.append(self.plan(place.epoch)[place.index])
            last = place.index + 1 == len(self.plan(place.epoch))
            place = Place(place.epoch + 1, 0) if last else Place(place.epoch, place.index + 1)
        return batches, place


def cut(order: np.ndarray, lengths: np.ndarray, batch_tokens: int) -> list[np.ndarray]:
    """Cut sentences sorted by length into runs of at most `batch_tokens`, padding included.

    A sentence longer than the budget gets a batch of its own.
    """
    batches, start = [], 0
    while start < len(order):
        # Sorted lengths make count × longest grow with the end, so the last end that fits can be bisected.
        low, high = start + 1, min(len(order), start + max(1, batch_tokens // max(1, lengths[start])))
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if (middle - start) * lengths[middle - 1] <= batch_tokens else (low, middle - 1)
        batches.append(order[start:low])
        start = low
    return batches


def in_order_of_length(lengths: Sequence[int], batch_sentences: int) -> Iterator[list[int]]:
    """Groups of sentence numbers for decoding, longest first so that a lack of memory shows at once."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    for start in range(0, len(order), batch_sentences):
        yield order[start : start + batch_sentences]
