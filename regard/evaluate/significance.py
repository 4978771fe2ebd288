"""Whether one system is better than another, or only luckier with the sentences of the test set.

Two tests, each with the p-value of the sacrebleu command. Paired bootstrap resampling (Koehn 2004) draws test sets from
the sentences with replacement; p is how often the gap between the systems exceeds its mean by more than the gap d that
was measured. Approximate randomisation (Riezler and Maxwell 2005) swaps the systems' outputs sentence by sentence at
random; p is how often a gap larger than d comes out.

    bootstrap:      p = (1 + |{i : |d_i| − mean |d| > |d|}|) / (1 + samples)
    randomisation:  p = (1 + |{i : |d_i| > |d|}|) / (1 + trials)

The bootstrap's p is one-sided for all but the smallest gaps: of pairs of systems that do not differ, far more than one
in twenty have p < 0.05. A difference is therefore believed where both tests find it.

Departures: where both systems count the same in every sentence p is 1; the command says 1 / (1 + samples).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.evaluate.counts import Counts, Floats, generator

BELIEVED = 0.05  # p below which a difference is taken for real
TRIALS = 10_000  # of randomisation, as many as the sacrebleu command does
LOWER_IS_BETTER = ("TER",)


@dataclass(frozen=True)
class Comparison:
    """One metric of two systems on the same sentences."""

    name: str
    value: float
    baseline: float
    difference: float  # value − baseline
    p_value: float  # by paired bootstrap
    p_randomised: float  # by approximate randomisation

    @property
    def believed(self) -> bool:
        return max(self.p_value, self.p_randomised) < BELIEVED

    @property
    def better(self) -> bool:
        return self.difference < 0 if self.name in LOWER_IS_BETTER else self.difference > 0

    def __str__(self) -> str:
        if not self.difference:
            return f"{self.name} = {self.value:.2f} for both: there is no difference."
        verdict = "the difference can be believed" if self.believed else "this may be chance and cannot be believed"
        return (
            f"{self.name} = {self.value:.2f} against {self.baseline:.2f}: {'better' if self.better else 'worse'} by "
            f"{abs(self.difference):.2f}, p {shown(self.p_value)} and {shown(self.p_randomised).removeprefix('= ')}: "
            f"{verdict}."
        )


def shown(p: float) -> str:
    """`= 0.012`; a p-value is at least 1 / (1 + samples) and never nothing, so the smallest ones are bounds."""
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


def compare(name: str, systems: Sequence[Counts], drawn: Floats, trials: int = TRIALS) -> Comparison:
    """A system and its baseline; `drawn` (2, samples): the scores of both on the same bootstrap samples."""
    value, baseline = (float(counts.result().score) for counts in systems)
    difference, p = value - baseline, (1.0, 1.0)
    if not np.array_equal(systems[0].sentences, systems[1].sentences):
        gaps = np.abs(drawn[0] - drawn[1])
        p = share_above(gaps - gaps.mean(), difference), share_above(swapped_gaps(systems, trials), difference)
    return Comparison(name, value, baseline, difference, *p)


def swapped_gaps(systems: Sequence[Counts], trials: int) -> Floats:
    """The gap between the systems in each of `trials`, in which half of the sentences have changed sides."""
    ours, theirs = systems
    total, change = ours.sentences.sum(axis=0), theirs.sentences - ours.sentences
    both = total + theirs.sentences.sum(axis=0)
    swapped = generator().integers(2, size=(trials, len(ours)), dtype=bool)
    gaps = np.empty(trials)
    for i, chosen in enumerate(swapped):
        mine = total + chosen @ change
        gaps[i] = ours.of_total(mine).score - ours.of_total(both - mine).score
    return np.abs(gaps)


def share_above(gaps: Floats, difference: float) -> float:
    return (int(np.sum(gaps > abs(difference))) + 1) / (len(gaps) + 1)
