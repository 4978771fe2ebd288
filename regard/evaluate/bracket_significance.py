"""Whether one parser is better than another: the two tests of `significance`, for labelled F1.

F1 is 2 · matched / (gold + parsed) of brackets summed over sentences, so test sets drawn from the sentences, and tests
in which sentences change sides, need nothing but those two counts of each sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.evaluate.counts import SAMPLES, Floats, generator
from regard.evaluate.parseval import Comparison as Bracketing
from regard.evaluate.significance import TRIALS, Comparison, share_above


def compare_f1(
    ours: Sequence[Bracketing], theirs: Sequence[Bracketing], samples: int = SAMPLES, trials: int = TRIALS
) -> Comparison:
    """A parser and its baseline on the same sentences, of those that are scored for both."""
    both = [pair for pair in zip(ours, theirs, strict=True) if all(one.status == "scored" for one in pair)]
    counts = np.array(
        [[(2 * one.labelled.matched, one.labelled.gold + one.labelled.parsed) for one in pair] for pair in both],
        dtype=np.float64,
    ).reshape(len(both), 2, 2)  # sentences, systems, counts
    value, baseline = f1(counts.sum(axis=0))
    p = 1.0, 1.0
    if not np.array_equal(counts[:, 0], counts[:, 1]):
        p = drawn(counts, value - baseline, samples), swapped(counts, value - baseline, trials)
    return Comparison("F1", value, baseline, value - baseline, *p)


def f1(totals: Floats) -> tuple[float, float]:
    """(systems, counts) → the F1 of both, in percent"""
    ours, theirs = 100 * totals[:, 0] / np.maximum(totals[:, 1], 1)
    return float(ours), float(theirs)


def drawn(counts: Floats, difference: float, samples: int) -> float:
    """p by paired bootstrap."""
    random, n = generator(), len(counts)
    gaps = np.empty(samples)
    for i in range(samples):
        ours, theirs = f1(counts[random.choice(n, size=n)].sum(axis=0))
        gaps[i] = abs(ours - theirs)
    return share_above(gaps - gaps.mean(), difference)


def swapped(counts: Floats, difference: float, trials: int) -> float:
    """p by approximate randomisation."""
    sides = generator().integers(2, size=(trials, len(counts)), dtype=bool)
    totals, change = counts.sum(axis=0), counts[:, 1] - counts[:, 0]  # (systems, counts), (sentences, counts)
    gaps = np.empty(trials)
    for i, chosen in enumerate(sides):
        moved = chosen @ change
        ours, theirs = f1(totals + np.stack([moved, -moved]))
        gaps[i] = abs(ours - theirs)
    return share_above(gaps, difference)
