"""A paper's table as a picture: its figure and ours for every row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from regard.view.drawing import FIRST, INK, PALE, save


def table_png(
    path: Path,
    title: str,
    rows: Sequence[str],
    ours: Sequence[tuple[float, float]],
    paper: Sequence[tuple[float, float] | None],
) -> None:
    """Two panels with the same rows, since the scales differ: what matters is whether the rows stand in the same order.
    One panel where the paper has none of them. A dotted line marks the first row in each, for the others to be compared
    with; a legend says so.

    ours, paper: mean and spread over seeds of each row
    """
    known = [(place, value) for place, value in enumerate(reversed(paper)) if value is not None]
    figure = Figure(figsize=(9.0, 0.3 * len(rows) + 1.7), facecolor="white", layout="constrained")
    panels = figure.subplots(1, 2 if known else 1, sharey=True, squeeze=False)[0]
    places = list(range(len(rows)))[::-1]
    means, spreads = [mean for mean, _ in ours], [spread for _, spread in ours]
    errorbar = panels[-1].errorbar(means, places, xerr=spreads, fmt="o", color=FIRST, capsize=3)
    headed, dotted = [(panels[-1], means[0], "here")], rows[0]
    if known:
        panels[0].errorbar(
            [value for _, (value, _) in known], [place for place, _ in known],
            xerr=[spread for _, (_, spread) in known], fmt="o", color=PALE, capsize=3,
        )  # fmt: skip
        place, (value, _) = known[-1]
        headed.append((panels[0], value, "paper"))
        dotted = rows[0] if paper[0] is not None else f"{rows[0]} (paper: {rows[len(rows) - 1 - place]})"
    for axes, first, name in headed:
        axes.axvline(first, color=INK, linewidth=0.6, linestyle=":")
        axes.set_title(name, fontsize=10, color=INK)
        axes.grid(axis="x", linewidth=0.4)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
    panels[0].set_yticks(places, list(rows), fontsize=8)
    panels[0].set_ylim(-0.6, len(rows) - 0.4)  # the lowest row does not lie on the axis
    figure.suptitle(title, fontsize=11, color=INK)
    handles = [Line2D([], [], color=INK, linewidth=0.8, linestyle=":")]
    spread = any(spreads) or any(spread for _, (_, spread) in known)
    handles += [errorbar] if spread else []
    words = [f"where {dotted} stands", "mean and spread over seeds"]
    figure.legend(handles, words[: len(handles)], loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    save(figure, path, dpi=150)


def line_png(
    path: Path, title: str, axis: str, points: Mapping[float, tuple[float, float]], levels: Mapping[str, float]
) -> None:
    """A figure against a number, mean and spread at each, and what others reach as dotted levels."""
    figure = Figure(figsize=(6.0, 4.0), facecolor="white", layout="constrained")
    axes = figure.subplots()
    where = sorted(points)
    axes.errorbar(where, [points[x][0] for x in where], [points[x][1] for x in where], fmt="o-", color=FIRST, capsize=3)
    axes.set_xscale("log", base=2)
    axes.set_xticks(where, [f"{x:g}" for x in where])
    for name, level in levels.items():
        axes.axhline(level, color=PALE, linestyle=":", linewidth=1.2)
        axes.annotate(name, (where[0], level), xytext=(0, 3), textcoords="offset points", fontsize=8, color=INK)
    axes.set_xlabel(axis, color=INK)
    axes.set_title(title, fontsize=10, color=INK)
    save(figure, path, dpi=150)
