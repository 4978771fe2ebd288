"""Measured growth as pictures: lines on logarithmic axes, several panels side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

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
    """Draw them; the same name has the same colour everywhere, and one legend is for all."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    columns = min(len(panels), 3)
    n_rows = -(-len(panels) // columns)
    size = (3.7 * columns, 3.0 * n_rows + 0.8)
    figure = Figure(figsize=size, facecolor="white", layout="constrained")
    places = figure.subplots(n_rows, columns, squeeze=False).flatten()
    handles = {}
    for axes, panel in zip(places, panels, strict=False):
        for name, points in panel.lines.items():
            drawn = [point for point in points if point[1] > 0]  # a logarithm has no place for zero
            style = "--" if names.index(name) >= len(COLOURS) else "-"
            marker = "o" if len(drawn) <= 12 else ""
            (handles[name],) = axes.plot(
                [x for x, _ in drawn], [y for _, y in drawn], style, color=colours[name], marker=marker, markersize=3.5,
                linewidth=1.5,
            )  # fmt: skip
        axes.set_yscale("log")
        if panel.log_x:
            axes.set_xscale("log", base=2)
        axes.set_title(panel.title, fontsize=10, loc="left", color=INK)
        axes.set_xlabel(panel.x, color=MUTED, fontsize=9)
        axes.set_ylabel(panel.y, color=MUTED, fontsize=9)
        tidy(axes)
    for axes in places[len(panels) :]:
        axes.set_visible(False)
    figure.suptitle(title, fontsize=11, color=INK)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    save(figure, path, dpi=150)
