"""Measured growth as pictures: lines on logarithmic axes, several panels side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from regard.view.drawing import FIRST, INK, MUTED, PALE, SECOND, save, tidy

COLOURS = (FIRST, SECOND, "#0b7a75", PALE, "#8e44ad", "#b8860b", "#d6336c")


@dataclass(frozen=True)
class Panel:
    """`lines[name]` has the points of one line."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    log_x: bool = True


def curves_png(path: Path, title: str, panels: Sequence[Panel]) -> None:
    """Draw them. Where panels have lines in common, the same name has the same colour everywhere and one legend is for
    all; where they have none, each has its own. Legends stand below, where they hide nothing."""
    names = [name for panel in panels for name in panel.lines]
    shared = len(set(names)) < len(names) or len(panels) == 1
    order = list(dict.fromkeys(names))
    columns = min(len(panels), 3)
    n_rows = -(-len(panels) // columns)
    below = 0 if shared else 0.3 + 0.2 * max(len(panel.lines) for panel in panels)
    size = (3.7 * columns, (3.0 + below) * n_rows + (0.8 if shared else 0.3))
    figure = Figure(figsize=size, facecolor="white", layout="constrained")
    places = figure.subplots(n_rows, columns, squeeze=False).flatten()
    handles: dict[str, Line2D] = {}
    for axes, panel in zip(places, panels, strict=False):
        own = draw(axes, panel, order if shared else list(panel.lines))
        handles |= own
        if not shared:
            axes.legend(
                own.values(), own.keys(), loc="upper center", bbox_to_anchor=(0.5, -0.22), frameon=False, fontsize=9
            )
    for axes in places[len(panels) :]:
        axes.set_visible(False)
    figure.suptitle(title, fontsize=11, color=INK)
    if shared:
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    save(figure, path, dpi=150)


def draw(axes: Axes, panel: Panel, order: Sequence[str]) -> dict[str, Line2D]:
    """order: names, by which lines get their colours, and dashes where there are more than colours"""
    lines = {}
    for name, points in panel.lines.items():
        drawn = [point for point in points if point[1] > 0]  # a logarithm has no place for zero
        turn, colour = divmod(order.index(name), len(COLOURS))
        (lines[name],) = axes.plot(
            [x for x, _ in drawn], [y for _, y in drawn], "--" if turn else "-", color=COLOURS[colour],
            marker="o" if len(drawn) <= 12 else "", markersize=3.5, linewidth=1.5,
        )  # fmt: skip
    axes.set_yscale("log")
    if panel.log_x:
        axes.set_xscale("log", base=2)
    axes.set_title(panel.title, fontsize=10, loc="left", color=INK)
    axes.set_xlabel(panel.x, color=MUTED, fontsize=9)
    axes.set_ylabel(panel.y, color=MUTED, fontsize=9)
    tidy(axes)
    return lines
