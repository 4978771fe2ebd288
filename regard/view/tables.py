"""A paper's table as a picture: its figure and ours for every row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from regard.view.drawing import FIRST, INK, PALE, save


def table_png(
    path: Path, title: str, rows: Sequence[str], ours: Sequence[tuple[float, float]], paper: Sequence[float]
) -> None:
    """Two panels with the same rows, since the scales differ: what matters is whether the rows stand in the same order.

    ours: mean and spread over seeds of each row
    """
    figure = Figure(figsize=(9.0, 0.3 * len(rows) + 1.4), facecolor="white")
    left, right = figure.subplots(1, 2, sharey=True)
    places = list(range(len(rows)))[::-1]
    left.plot(paper, places, "o", color=PALE)
    means, spreads = [mean for mean, _ in ours], [spread for _, spread in ours]
    right.errorbar(means, places, xerr=spreads, fmt="o", color=FIRST, capsize=3)
    for axes, values, name in ((left, paper, "paper"), (right, means, "here")):
        axes.axvline(values[0], color=INK, linewidth=0.6, linestyle=":")
        axes.set_title(name, fontsize=10, color=INK)
        axes.grid(axis="x", linewidth=0.4)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
    left.set_yticks(places, list(rows), fontsize=8)
    figure.suptitle(title, fontsize=11, color=INK)
    figure.tight_layout()
    save(figure, path, dpi=150)
