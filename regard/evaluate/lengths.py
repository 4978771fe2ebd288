"""Scores by sentence length: where a system is weak.

The length of a sentence is that of its first reference in words, the text between spaces; in characters where a
language has no spaces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regard.data.scripts import unspaced
from regard.evaluate.bleu import Score, summary
from regard.evaluate.counts import Counts, bootstrap

LONGEST = (5, 10, 15, 20, 30, 40, 60)  # words or characters of the longest sentence in each bucket but the last


@dataclass(frozen=True)
class Bucket:
    """The sentences of one range of lengths."""

    words: str  # the range, in the unit below
    sentences: int
    scores: list[dict[str, Score | None]]  # of each system by metric; None: BLEU, of sentences too short for 4-grams
    unit: str = "words"


def by_length(
    references: Sequence[str], counted: Mapping[str, Sequence[Counts]], samples: int, language: str = "",
    longest: Sequence[int] = LONGEST,
) -> list[Bucket]:  # fmt: skip
    """`counted`: metric → the counts of each system. Buckets without a sentence are left out."""
    members: dict[str, list[int]] = {name: [] for name in ranges(longest)}
    unit = "characters" if unspaced(language) else "words"
    for i, text in enumerate(references):
        length = len(text.split()) if unit == "words" else len("".join(text.split()))
        members[range_of(length, longest)].append(i)
    systems = len(next(iter(counted.values())))
    buckets = []
    for words, numbers in members.items():
        if numbers:
            scores = [
                {name: part_score(name, counts[system].take(numbers), samples) for name, counts in counted.items()}
                for system in range(systems)
            ]
            buckets.append(Bucket(words, len(numbers), scores, unit))
    return buckets


def ranges(longest: Sequence[int]) -> list[str]:
    """`1–5`, `6–10` … `61+`."""
    firsts = [1, *(limit + 1 for limit in longest)]
    return [*(f"{first}–{last}" for first, last in zip(firsts, longest, strict=False)), f"{firsts[-1]}+"]


def range_of(length: int, longest: Sequence[int] = LONGEST) -> str:
    """The name of the range that a length is in."""
    return ranges(longest)[sum(length > limit for limit in longest)]


def part_score(name: str, counts: Counts, samples: int) -> Score | None:
    result = counts.result()
    if name == "BLEU" and not result.totals[-1]:
        return None
    return summary(name, counts, bootstrap([counts], samples)[0])


def table(buckets: Sequence[Bucket], systems: Sequence[str]) -> str:
    """The buckets as lines of text; with two systems, which is which stands above their columns."""
    names = list(buckets[0].scores[0])
    width = len(names) * 17 - 2  # of one system's columns
    rows = [
        f"{buckets[0].unit:>7} {'sentences':>10}" + "".join(f"  {name:>6}{'':9}" for _ in systems for name in names)
    ]
    if len(systems) > 1:
        rows.insert(0, " " * 18 + "".join(f"  {system[-width:]:<{width}}" for system in systems))
    for bucket in buckets:
        cells = [shown(scores[name]) for scores in bucket.scores for name in names]
        rows.append(f"{bucket.words:>7} {bucket.sentences:>10,}" + "".join(f"  {cell:<15}" for cell in cells))
    return "\n".join(row.rstrip() for row in rows)


def shown(score: Score | None) -> str:
    if score is None:
        return f"{'–':>6}"
    return f"{score.value:6.2f}" + ("" if score.interval is None else f" ± {score.interval:5.2f}")
