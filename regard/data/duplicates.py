"""Has this been seen before? An index of 64-bit hashes: 8 bytes each in sorted arrays, and twice that while two merge.

Arrays that have grown alike are merged, as in a log-structured tree, so there are never many and each hash moves a few
times only. Two different pairs share a hash with a chance of 2⁻⁶⁴: among a hundred million, a false duplicate is
expected once in four thousand corpora.
"""

from __future__ import annotations

import numpy as np

from regard.data.filters import among


class Seen:
    """A set of hashes that only grows."""

    def __init__(self) -> None:
        self.runs: list[np.ndarray] = []  # sorted, each more than twice as long as the next
        self.peak_bytes = 0

    def __len__(self) -> int:
        return sum(len(run) for run in self.runs)

    def add(self, keys: np.ndarray) -> np.ndarray:
        """Put the keys in; which of them are new, the first of equal ones counting as such."""
        values, firsts = np.unique(keys, return_index=True)
        fresh = ~np.any([among(values, run) for run in self.runs], axis=0) if self.runs else np.ones(len(values), bool)
        new = np.zeros(len(keys), dtype=bool)
        new[firsts[fresh]] = True
        if fresh.any():
            self.insert(values[fresh])
        return new

    def insert(self, run: np.ndarray) -> None:
        while self.runs and len(self.runs[-1]) <= 2 * len(run):
            run = np.concatenate([self.runs[-1], run])
            self.peak_bytes = max(self.peak_bytes, 8 * (len(self) + len(run)))
            self.runs.pop()
            run.sort()
        self.runs.append(run)
        self.peak_bytes = max(self.peak_bytes, 8 * len(self))


class Duplicates:
    """Judges pairs by what came before them: the same pair, a near pair, or a source that has enough targets."""

    def __init__(self, mode: str, targets_per_source: int) -> None:
        self.exact = Seen() if mode != "off" else None
        self.near = Seen() if mode == "near" else None
        self.levels = [Seen() for _ in range(targets_per_source)]  # level k: sources seen more than k times

    def reasons(self, exact: np.ndarray, pairs: np.ndarray, sources: np.ndarray) -> dict[str, np.ndarray]:
        """The pairs to drop, as a mask for each reason."""
        found: dict[str, np.ndarray] = {}
        left = np.ones(len(exact), dtype=bool)
        for reason, seen, keys in (("exact duplicate", self.exact, exact), ("near duplicate", self.near, pairs)):
            if seen is not None:
                found[reason] = newly_dropped(left, seen, keys)
                left &= ~found[reason]
        if self.levels:
            waiting = left.copy()
            for level in self.levels:
                waiting = newly_dropped(waiting, level, sources)
            found["targets"] = waiting
        return found

    @property
    def indexes(self) -> list[Seen]:
        return [seen for seen in (self.exact, self.near, *self.levels) if seen is not None]

    @property
    def bytes(self) -> int:
        return sum(8 * len(seen) for seen in self.indexes)

    @property
    def peak_bytes(self) -> int:
        return sum(seen.peak_bytes for seen in self.indexes)


def newly_dropped(asked: np.ndarray, seen: Seen, keys: np.ndarray) -> np.ndarray:
    """Those of the pairs asked about whose key was there already."""
    dropped = asked.copy()
    dropped[asked] = ~seen.add(keys[asked])
    return dropped
