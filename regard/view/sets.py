"""Pictures of sets: clusterings with their ellipses, and what is looked at, drawn on the points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse

from regard.view.drawing import FIRST, GRID, INK, MUTED, SECOND, save, short_label

COLUMNS = 5
MOST_PANELS = 16  # seeds, inducing points or elements shown of one attention
MOST_LINES = 12  # from an element to those it looks at
# From what is not looked at, which must still be seen on white, to what is looked at most.
BLUES = LinearSegmentedColormap.from_list("blues", ["#d7e3f1", "#6aaed6", "#2070b4", "#08306b"])


@dataclass(frozen=True, eq=False)
class Clustering:
    """A set of points and two mixtures of it: (K,), (K, 2) and (K, 2) each."""

    points: np.ndarray  # (N, 2)
    labels: np.ndarray  # (N,), which component the first mixture gives each
    found: tuple[np.ndarray, np.ndarray, np.ndarray]  # weights, means, standard deviations
    truth: tuple[np.ndarray, np.ndarray, np.ndarray]


def clusterings_picture(panels: Sequence[Clustering], paths: Sequence[Path], title: str) -> None:
    """Sets side by side: points by their cluster, centres and ellipses of two standard deviations of what was found
    (solid) and of what is true (dotted). Each path is one of a PNG or an SVG."""
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(2.6 * columns, 2.6 * rows + 0.5), facecolor="white")
    for number, panel in enumerate(panels):
        axes = figure.add_subplot(rows, columns, number + 1)
        x, y = panel.points.T
        axes.scatter(x, y, c=panel.labels, cmap="tab10", vmin=0, vmax=9, s=3, linewidths=0, alpha=0.7)
        ellipses(axes, panel.truth, MUTED, ":")
        ellipses(axes, panel.found, INK, "-")
        x, y = panel.found[1].T
        axes.scatter(x, y, marker="x", color=INK, s=25, linewidths=1.2)
        bare(axes)
    figure.suptitle(short_label(title, 100), fontsize=10, color=INK)
    figure.tight_layout()
    save(figure, *paths, dpi=130)


def ellipses(axes: Axes, mixture: tuple[np.ndarray, np.ndarray, np.ndarray], color: str, style: str) -> None:
    for weight, mean, sigma in zip(*mixture, strict=True):
        shown = float(min(1.0, 0.25 + 2 * weight))
        axes.add_patch(
            Ellipse(
                (mean[0], mean[1]),
                4 * sigma[0],
                4 * sigma[1],
                fill=False,
                color=color,
                linestyle=style,
                linewidth=1.0,
                alpha=shown,
            )
        )


def bare(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal", adjustable="datalim")
    for spine in axes.spines.values():
        spine.set_color(GRID)


@dataclass(frozen=True, eq=False)
class Looks:
    """One attention of a set model: who looks (rows of the weights) at which elements of the set."""

    name: str
    who: str  # "seed", "inducing" (one of the inducing points) or "element"
    weights: np.ndarray  # (Q, N), the mean of all heads


def looks_png(points: np.ndarray, looks: Sequence[Looks], path: Path, title: str) -> None:
    """What seeds and inducing points collect, as the colour and size of the points; from some elements, lines to those
    they look at.  points: (N, 2) or (N, 3), of which three are seen at an angle."""
    places = flat(points)
    shown = [(look, chosen(look)) for look in looks]
    columns = min(8, max(3, *(len(rows) for _, rows in shown)))
    heights = [math.ceil(len(rows) / columns) for _, rows in shown]
    size = (1.9 * columns + 0.4, 2.1 * sum(heights) + 1.5)
    figure = Figure(figsize=size, facecolor="white")
    room = {"left": 0.2 / size[0], "right": 1 - 0.2 / size[0], "bottom": 0.85 / size[1], "top": 1 - 0.9 / size[1]}
    grid = figure.add_gridspec(sum(heights), columns, **room, wspace=0.08, hspace=0.28)
    for (look, rows), top in zip(shown, np.cumsum([0, *heights]).tolist(), strict=False):
        for number, row in enumerate(rows):
            axes = figure.add_subplot(grid[top + number // columns, number % columns])
            drawn = draw_element if look.who == "element" else draw_collected
            drawn(axes, places, look.weights[row], row)
            bare(axes)
            words = f"{look.who} {row}, largest {look.weights[row].max():.2g}"
            axes.set_title(
                f"{look.name}\n{words}" if number == 0 else words, fontsize=7, color=MUTED, loc="left", pad=2
            )
    figure.text(0.5, 1 - 0.3 / size[1], short_label(title, 100), fontsize=10, color=INK, ha="center")
    legends(figure, {look.who for look in looks}, len(points), size)
    save(figure, path, dpi=110)


def legends(figure: Figure, who: set[str], n: int, size: tuple[float, float]) -> None:
    """Below the panels: what colours and lines mean, and what a weight is to be compared with."""
    width, height = size
    even = f"were all {n} elements looked at alike, each would have {1 / max(n, 1):.2g}"
    figure.text(0.2 / width, 0.12 / height, f"Weights are means of all heads; {even}.", fontsize=7, color=MUTED)
    if who - {"element"}:
        axes = figure.add_axes((0.2 / width, 0.55 / height, 1.6 / width, 0.1 / height))
        axes.imshow(np.linspace(0, 1, 64)[None], cmap=BLUES, vmin=0, vmax=1, aspect="auto")
        axes.set_axis_off()
        figure.text(0.2 / width, 0.38 / height, "weight 0", fontsize=7, color=MUTED)
        figure.text(1.8 / width, 0.38 / height, "the panel's largest", fontsize=7, color=MUTED, ha="right")
    if "element" in who:
        handles = [
            Line2D([], [], color=SECOND, marker="o", linestyle="", markersize=5),
            Line2D([], [], color=FIRST, linewidth=1.6),
        ]
        words = ["the element that looks", f"the {MOST_LINES} it looks at most, the thicker the more"]
        place = (2.3 / width if who - {"element"} else 0.1 / width, 0.3 / height)
        figure.legend(
            handles, words, loc="lower left", bbox_to_anchor=place, frameon=False, fontsize=7, labelcolor=MUTED
        )


def image_looks_png(images: np.ndarray, looks: Sequence[Looks], path: Path, title: str) -> None:
    """The same for sets of images: a line for each seed, inducing point or element, in which the images that it looks
    at are seen and the others fade.  images: (N, side, side) or (N, side, side, 3), bytes"""
    lines = [(look, row) for look in looks for row in chosen(look)]
    figure = Figure(figsize=(0.8 * len(images) + 2.2, 0.85 * len(lines) + 0.6), facecolor="white")
    grid = figure.add_gridspec(len(lines), len(images), left=0.16, right=0.99, bottom=0.01, wspace=0.08, hspace=0.3)
    for line, (look, row) in enumerate(lines):
        strength = look.weights[row] / max(float(look.weights[row].max()), 1e-12)
        for place, image in enumerate(images):
            axes = figure.add_subplot(grid[line, place])
            axes.imshow(image, cmap="gray_r", alpha=0.12 + 0.88 * float(strength[place]))
            bare(axes)
            axes.set_title(f"{look.weights[row, place]:.2f}", fontsize=6, color=MUTED, pad=1)
            if look.who == "element" and place == row:
                axes.patch.set_facecolor("none")
                for spine in axes.spines.values():
                    spine.set_color(SECOND)
            if place == 0:
                axes.set_ylabel(f"{look.name}\n{look.who} {row}", fontsize=6, color=MUTED, rotation=0, ha="right")
    figure.suptitle(short_label(title, 100), fontsize=9, color=INK)
    save(figure, path, dpi=110)


def chosen(look: Looks) -> list[int]:
    """Which rows are drawn: all, or some evenly chosen ones; of elements only a few, for lines hide each other."""
    most = 4 if look.who == "element" else MOST_PANELS
    count = len(look.weights)
    return sorted({round(i) for i in np.linspace(0, count - 1, min(most, count))})


def draw_collected(axes: Axes, places: np.ndarray, weights: np.ndarray, row: int) -> None:
    strength = weights / max(float(weights.max()), 1e-12)
    order = np.argsort(strength)  # the strongest above the others
    (x, y), strength = places[order].T, strength[order]
    axes.scatter(x, y, c=strength, cmap=BLUES, vmin=0, vmax=1, s=3 + 15 * strength, linewidths=0)


def draw_element(axes: Axes, places: np.ndarray, weights: np.ndarray, row: int) -> None:
    x, y = places.T
    axes.scatter(x, y, color=GRID, s=4, linewidths=0)
    strongest = np.argsort(-weights)[:MOST_LINES]
    for other in strongest:
        part = float(weights[other] / max(float(weights[strongest[0]]), 1e-12))
        axes.plot(*places[[row, other]].T, color=FIRST, linewidth=1.2 * part, alpha=0.8 * part)
    axes.scatter(x[row], y[row], color=SECOND, s=18, zorder=3)


def flat(points: np.ndarray) -> np.ndarray:
    """(N, 2), seen from a little above where the points have three coordinates."""
    if points.shape[1] == 2:
        return points
    turn, lift = math.radians(30), math.radians(25)
    x = points[:, 0] * math.cos(turn) - points[:, 1] * math.sin(turn)
    depth = points[:, 0] * math.sin(turn) + points[:, 1] * math.cos(turn)
    return np.stack([x, points[:, 2] * math.cos(lift) + depth * math.sin(lift)], axis=1)
