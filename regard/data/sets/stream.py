"""Sets by number: which examples a batch has, and how they are drawn.

Examples are numbered 0, 1, 2 … without end. They are drawn in blocks, each from a generator of its own that is seeded
with the run's seed, the split and the block's number: one call of numpy draws a whole block, and a resumed run, another
rank or a part of a batch that does not fit into memory finds the same sets again. A batch of training is a block.

Held-out sets follow from the split alone, so that runs with other seeds are compared on the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np

from regard.data.batching import Place
from regard.errors import RegardError

SPLITS = {"train": 0, "valid": 1, "test": 2}
HELD_OUT_BLOCK = 50  # sets of a block of a held-out split, whatever the batches of training are


@dataclass(frozen=True)
class Sets:
    """Some sets, their elements padded to a rectangle."""

    elements: np.ndarray  # (B, N, …); rows beyond a set's size are zeros
    sizes: np.ndarray  # (B,)
    target: np.ndarray  # (B,) or (B, …): what is asked
    truth: dict[str, np.ndarray] = field(default_factory=dict)  # (B, …): what else is known of each, for scores

    def __len__(self) -> int:
        return len(self.sizes)

    def take(self, rows: np.ndarray) -> Sets:
        truth = {key: values[rows] for key, values in self.truth.items()}
        return Sets(self.elements[rows], self.sizes[rows], self.target[rows], truth)

    def trimmed(self) -> Sets:
        """Without columns that are padding in every row."""
        size = int(self.sizes.max(initial=0))
        return Sets(self.elements[:, :size], self.sizes, self.target, self.truth)

    @classmethod
    def joined(cls, parts: list[Sets]) -> Sets:
        """One after the other, in a rectangle that holds the widest."""
        width = max(part.elements.shape[1] for part in parts)
        truth = {
            key: np.concatenate([widened(part.truth[key], part.elements.shape[1], width) for part in parts])
            for key in parts[0].truth
        }
        return cls(
            np.concatenate([widened(part.elements, part.elements.shape[1], width) for part in parts]),
            np.concatenate([part.sizes for part in parts]),
            np.concatenate([widened(part.target, part.elements.shape[1], width) for part in parts]),
            truth,
        )


def widened(values: np.ndarray, size: int, width: int) -> np.ndarray:
    """What there is for each of `size` elements, (B, size, …), then zeros to (B, width, …); all else as it is."""
    if size == width or values.ndim < 2 or values.shape[1] != size:
        return values
    return np.pad(values, [(0, 0), (0, width - size)] + [(0, 0)] * (values.ndim - 2))


class Source(Protocol):
    """Where sets come from."""

    @property
    def extent(self) -> str:
        """How many there are, in words."""

    @property
    def fingerprint(self) -> str:
        """Identifies what was read from files; empty where everything is generated."""

    @property
    def count(self) -> int | None:
        """How many different ones there are; None where they are generated without end."""

    def draw(self, chance: np.random.Generator, numbers: np.ndarray) -> Sets:
        """The sets `numbers`, below `count` where there is one, with all that is random in them drawn from `chance`."""


@dataclass(frozen=True)
class Stream:
    """The sets of a split, by number."""

    source: Source
    key: tuple[int, ...]
    block: int
    shuffle: bool  # sets of a fixed number in another order each time all have been seen

    def take(self, numbers: np.ndarray) -> Sets:
        blocks = numbers // self.block
        parts = [
            self.of_block(int(number)).take(numbers[blocks == number] % self.block) for number in np.unique(blocks)
        ]
        if len(parts) == 1:
            return parts[0]
        back = np.argsort(
            np.argsort(blocks, kind="stable"), kind="stable"
        )  # from the order of blocks to that asked for
        return Sets.joined(parts).take(back)

    def of_block(self, number: int) -> Sets:
        numbers, count = np.arange(number * self.block, (number + 1) * self.block), self.source.count
        if count is not None:
            numbers = shuffled(count, self.key, numbers) if self.shuffle else numbers % count
        return self.source.draw(np.random.default_rng([*self.key, number]), numbers)


def stream(source: Source, split: str, seed: int, batch_sets: int) -> Stream:
    """The training sets of a run with this seed, or the held-out sets of all runs."""
    if split == "train":
        return Stream(source, (SPLITS[split], seed), batch_sets, shuffle=True)
    return Stream(source, (SPLITS[split],), HELD_OUT_BLOCK, shuffle=False)


def shuffled(count: int, key: tuple[int, ...], numbers: np.ndarray) -> np.ndarray:
    """Which of `count` examples the `numbers` are, when every pass over them has an order of its own."""
    chosen = np.empty(len(numbers), dtype=np.int64)
    for epoch in np.unique(numbers // count):
        here = numbers // count == epoch
        order = permutation((*key, int(epoch)), count)
        chosen[here] = order[numbers[here] % count]
    return chosen


@lru_cache(maxsize=4)
def permutation(key: tuple[int, ...], count: int) -> np.ndarray:
    return np.random.default_rng(key).permutation(count)


class SetOrder:
    """Batches of `batch_sets` examples in the order of their numbers; a place is a number of batches."""

    def __init__(self, batch_sets: int, seed: int, positions_per_set: int) -> None:
        self.batch_sets, self.seed, self.positions_per_set = batch_sets, seed, positions_per_set

    def take(self, place: Place, n: int) -> tuple[list[np.ndarray], Place]:
        indices = range(place.index, place.index + n)
        return [self.numbers(index) for index in indices], Place(0, place.index + n)

    def numbers(self, index: int) -> np.ndarray:
        return np.arange(index * self.batch_sets, (index + 1) * self.batch_sets)

    def largest(self, epoch: int) -> np.ndarray:
        return self.numbers(0)

    def positions(self, numbers: np.ndarray) -> int:
        return len(numbers) * self.positions_per_set


def sizes_between(chance: np.random.Generator, low: int, high: int, count: int, together: bool = False) -> np.ndarray:
    """`count` sizes, each drawn uniformly from {low, …, high}, or one for all of them."""
    if together:
        return np.full(count, chance.integers(low, high + 1))
    return chance.integers(low, high + 1, count)


def present(sizes: np.ndarray, width: int) -> np.ndarray:
    """(B, width) bool, True where a set has an element."""
    return np.arange(width) < sizes[:, None]


def need_file(path: str, what: str, folder: bool = False) -> None:
    """A clear word where data that is not generated is not at hand, or a folder is given for a file."""
    if not path:
        raise RegardError(f"This task reads {what}: say where it is with --set data.path=PATH.")
    if not Path(path).exists():
        raise RegardError(f"data.path = {path} does not exist: it should be {what}.")
    if Path(path).is_dir() != folder:
        form = "a file" if folder else "a folder"
        raise RegardError(f"data.path = {path} is {form}: it should be {what}.")
