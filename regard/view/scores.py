"""Scores by sentence length as a picture: one row per test set, a panel per metric, a line per system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.view.drawing import FIRST, FOURTH, INK, MUTED, SECOND, THIRD, font, save, short_label, tidy

COLOURS = (FIRST, SECOND, THIRD, FOURTH)  # the system, the baseline, others


@dataclass(frozen=True)
class Point:
    """The score of one system in one range of lengths."""

    value: float
    interval: float  # half the width of its 95 % interval, or the spread of several runs


@dataclass(frozen=True)
class LengthScores:
    """One test set: `points[metric][system]` has a point, or None, for each range of `words`."""

    title: str
    words: Sequence[str]
    sentences: Sequence[int]
    points: Mapping[str, Mapping[str, Sequence[Point | None]]]
    unit: str = "words"  # what lengths are counted in


def length_png(sets: Sequence[LengthScores], path: Path) -> None:
    """Draw them; bars are the intervals, and below each range of lengths stands how many sentences it has."""
    n_metrics = max(len(one.points) for one in sets)
    figure = Figure(figsize=(5.2 * n_metrics, 3.6 * len(sets)), facecolor="white", layout="constrained")
    panels = figure.subplots(len(sets), n_metrics, squeeze=False)
    for row, one in zip(panels, sets, strict=True):
        for axes, (metric, systems) in zip(row, one.points.items(), strict=True):
            title = short_label(f"{one.title} · {metric}", 60)
            axes.set_title(title, loc="left", color=INK, fontweight="bold", parse_math=False, fontfamily=font())
            _draw_panel(axes, one, systems)
    save(figure, path, dpi=150)


def _draw_panel(axes: Axes, one: LengthScores, systems: Mapping[str, Sequence[Point | None]]) -> None:
    for i, (system, points) in enumerate(systems.items()):
        aside = 0.08 * (2 * i - len(systems) + 1)  # so that the intervals of systems do not hide one another
        drawn = [(x + aside, point) for x, point in enumerate(points) if point]
        axes.errorbar(
            [x for x, _ in drawn], [point.value for _, point in drawn], [point.interval for _, point in drawn],
            color=COLOURS[i % len(COLOURS)], marker="o", markersize=4, linewidth=1.6, elinewidth=1.0, capsize=2.5,
            label=short_label(system, 40),
        )  # fmt: skip
    ticks = [f"{words}\n({count:,})" for words, count in zip(one.words, one.sentences, strict=True)]
    axes.set_xticks(range(len(ticks)), ticks)
    axes.set_xlim(-0.5, len(ticks) - 0.5)
    axes.set_xlabel(f"{one.unit} of the reference (sentences)", color=MUTED)
    tidy(axes)
    if len(systems) > 1:
        legend = axes.legend(frameon=False, labelcolor=INK, prop={"family": font(), "size": 9})
        for text in legend.get_texts():
            text.set_parse_math(False)
