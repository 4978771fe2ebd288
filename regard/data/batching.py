"""Batches bounded by tokens, in an order that depends on the seed alone (paper §5.1).

Each epoch is one permutation, sorted by length with ties left in random order, cut into batches, and the
batches shuffled. All of it follows from (seed, epoch), so the place of a run in its data is two numbers and
finding it again costs one epoch's plan, however many batches have gone before.

Examples are numbered through the epochs: sentence i of n is number i + e·n in epoch e. What is drawn anew for each look
at a sentence can follow from that number, whatever batch or rank it falls to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True)
class Place:
    """Where a run stands in its data: the next batch is number `index` of epoch `epoch`."""

    epoch: int = 0
    index: int = 0


class Order(Protocol):
    """What the loop asks of the order of a task's examples."""

    seed: int

    def take(self, place: Place, n: int) -> tuple[list[np.ndarray], Place]:
        """The next `n` batches from `place` on, and the place after them."""

    def largest(self, epoch: int) -> np.ndarray:
        """The batch of an epoch that takes most memory."""

    def positions(self, numbers: np.ndarray) -> int:
        """The positions of these examples in one batch, padding included where there is any."""


class BatchOrder:
    """Numbers of the examples in each batch, epoch after epoch, without end."""

    def __init__(
        self, lengths: np.ndarray, batch_tokens: int, seed: int, *, padded: bool = True, only: np.ndarray | None = None
    ) -> None:
        """lengths: (n, sides), of every side of each sentence. What fills a batch is its largest side, with its padding
        or without. `only` these sentences are used, where it is given."""
        self.sides, self.longest = lengths, lengths.max(axis=1)
        self.used = np.arange(len(lengths)) if only is None else only
        self.batch_tokens, self.seed, self.padded = batch_tokens, seed, padded
        self._epoch, self._plan = -1, list[np.ndarray]()

    def plan(self, epoch: int) -> list[np.ndarray]:
        """All batches of one epoch, in order."""
        if epoch != self._epoch:
            chance = np.random.default_rng([self.seed, epoch])
            order = self.used[chance.permutation(len(self.used))]
            order = order[np.argsort(self.longest[order], kind="stable")]
            if self.padded:
                batches = cut(order, self.longest[order], self.batch_tokens)
            else:
                batches = cut_packed(order, self.sides[order], self.batch_tokens)
            first = epoch * len(self.longest)
            self._plan = [batches[i] + first for i in chance.permutation(len(batches))]
            self._epoch = epoch
        return self._plan

    def positions(self, numbers: np.ndarray) -> int:
        """The positions of these examples in one batch, padding included where there is any."""
        sentences = numbers % len(self.longest)
        if self.padded:
            return len(numbers) * int(self.longest[sentences].max(initial=0))
        return int(self.sides[sentences].sum(axis=0).max(initial=0))

    def largest(self, epoch: int) -> np.ndarray:
        """The batch of an epoch that takes most memory: the most positions, and of those the longest sentences."""
        return max(self.plan(epoch), key=lambda batch: (self.positions(batch), -len(batch)))

    def take(self, place: Place, n: int) -> tuple[list[np.ndarray], Place]:
        """The next `n` batches from `place` on, and the place after them."""
        batches: list[np.ndarray] = []
        for _ in range(n):
            batches.append(self.plan(place.epoch)[place.index])
            last = place.index + 1 == len(self.plan(place.epoch))
            place = Place(place.epoch + 1, 0) if last else Place(place.epoch, place.index + 1)
        return batches, place


class EvenOrder(BatchOrder):
    """Batches of `batch_size` examples each, whatever their lengths; the last of an epoch may have fewer."""

    def __init__(self, lengths: np.ndarray, batch_size: int, seed: int) -> None:
        """lengths: (n,)"""
        super().__init__(lengths[:, None], batch_size, seed, padded=False)
        self.batch_size = batch_size

    def plan(self, epoch: int) -> list[np.ndarray]:
        if epoch != self._epoch:
            order = np.random.default_rng([self.seed, epoch]).permutation(self.used) + epoch * len(self.longest)
            self._plan = [order[first : first + self.batch_size] for first in range(0, len(order), self.batch_size)]
            self._epoch = epoch
        return self._plan


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


def cut_packed(order: np.ndarray, lengths: np.ndarray, batch_tokens: int) -> list[np.ndarray]:
    """Cut sentences into runs none of whose sides has more than `batch_tokens`. lengths: (n, sides)

    A sentence longer than the budget gets a batch of its own.
    """
    totals = [np.concatenate([[0], np.cumsum(side)]) for side in lengths.T]
    batches, start = [], 0
    while start < len(order):
        ends = [np.searchsorted(side, side[start] + batch_tokens, side="right") - 1 for side in totals]
        end = max(start + 1, int(min(ends)))
        batches.append(order[start:end])
        start = end
    return batches


def in_order_of_length(lengths: Sequence[int], batch_sentences: int) -> Iterator[list[int]]:
    """Groups of sentence numbers for decoding, longest first so that a lack of memory shows at once."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    for start in range(0, len(order), batch_sentences):
        yield order[start : start + batch_sentences]
