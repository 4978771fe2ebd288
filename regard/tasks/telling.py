"""What was judged, told: in lines to read, as plain values for machines, as points of a picture."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.evaluate.lengths import Bucket, table
from regard.evaluate.texts import Judgement
from regard.tasks.test_sets import ScoredSet


def lines(one: ScoredSet, told: Judgement, systems: list[str], by_length: bool) -> list[str]:
    written = [f"{one.name} {score}" for score in told.scores]
    if told.comparisons:
        if list(one.texts) == list(one.baseline or ()):
            written += ["", f"{one.name}: {systems[1]} says the same, word for word; there is nothing to compare."]
        else:
            written += ["", f"{one.name} against {systems[1]}, p by paired bootstrap and by randomisation:"]
            written += [f"  {comparison}" for comparison in told.comparisons]
    if by_length:
        written += ["", f"{one.name} by length of the reference:", table(told.buckets, systems)]
    return written


def record(one: ScoredSet, told: Judgement, systems: list[str]) -> dict[str, Any]:
    """Everything, for machines."""
    found: dict[str, Any] = {
        "system": systems[0],
        "sentences": len(one.references[0]),
        "references": len(one.references),
        "scores": [asdict(score) for score in told.scores],
    }
    if told.comparisons:
        found["baseline"] = {"system": systems[1], "scores": [asdict(score) for score in told.baseline]}
        found["comparisons"] = [
            {**asdict(comparison), "better": comparison.better, "believed": comparison.believed}
            for comparison in told.comparisons
        ]
    if told.buckets:
        found["by_length"] = [
            {
                bucket.unit: bucket.words,
                "sentences": bucket.sentences,
                "systems": {
                    system: {name: score and asdict(score) for name, score in scores.items()}
                    for system, scores in zip(systems, bucket.scores, strict=True)
                },
            }
            for bucket in told.buckets
        ]
    return found


def draw(sets: list[ScoredSet], judged: list[Judgement], systems: list[str], path: Path) -> None:
    from regard.view.scores import LengthScores, Point, length_png  # here: it loads matplotlib

    def points(buckets: list[Bucket], metric: str, system: int) -> list[Point | None]:
        scores = [bucket.scores[system][metric] for bucket in buckets]
        return [Point(score.value, score.interval or 0.0) if score else None for score in scores]

    pictures = []
    for one, told in zip(sets, judged, strict=True):
        lines = {
            metric: {system: points(told.buckets, metric, i) for i, system in enumerate(systems)}
            for metric in told.buckets[0].scores[0]
        }
        words, counts = [b.words for b in told.buckets], [b.sentences for b in told.buckets]
        pictures.append(LengthScores(one.name, words, counts, lines, told.buckets[0].unit))
    length_png(pictures, path)
