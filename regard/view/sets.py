"""Pictures of sets: clusterings with their ellipses, and what is looked at, drawn on the points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse

from regard.view.drawing import GRID, INK, MUTED, SECOND, save, short_label

COMPONENTS = (
    "#1f4fa3",
    "#b3560b",
    "#1c7a3a",
    "#a8201a",
    "#6a3d9a",
    "#7a4a2b",
    "#b0308c",
    "#4d5560",
    "#77760d",
    "#0b7f8f",
)
COLUMNS = 5
MOST_PANELS = 16  # seeds or inducing points shown of one attention
MOST_ELEMENTS = 4
LEAST = 1e-3  # of a difference between multiples of the even weight that is drawn
FRAMED = " The orange frame is around the element that looks."
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
    """Sets side by side: points, centres and ellipses of what was found in a colour for each component, ellipses of
    what is true dashed. Each path is one of a PNG or an SVG."""
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    size = (max(2.6 * columns, 8.4), 2.6 * rows + 0.75)
    figure = Figure(figsize=size, facecolor="white")
    room = {"left": 0.1 / size[0], "right": 1 - 0.1 / size[0], "bottom": 0.4 / size[1], "top": 1 - 0.4 / size[1]}
    grid = figure.add_gridspec(rows, columns, **room, wspace=0.05, hspace=0.05)
    for number, panel in enumerate(panels):
        axes = figure.add_subplot(grid[number // columns, number % columns])
        colours = [COMPONENTS[k % len(COMPONENTS)] for k in range(len(panel.found[0]))]
        (x, y), (centre_x, centre_y) = panel.points.T, panel.found[1].T
        axes.scatter(x, y, c=[pale(colours[k]) for k in panel.labels], s=4, linewidths=0)
        ellipses(axes, panel.truth, [INK] * len(panel.truth[0]), "--", 0.6)
        ellipses(axes, panel.found, colours, "-", 1.5)
        axes.scatter(centre_x, centre_y, marker="x", c=colours, s=30, linewidths=1.6, zorder=3)
        bare(axes)
    figure.text(0.5, 1 - 0.25 / size[1], short_label(title, 100), fontsize=10, color=INK, ha="center")
    handles = [
        Line2D([], [], color=pale(COMPONENTS[0]), marker="o", linestyle="", markersize=4),
        Line2D([], [], color=COMPONENTS[0], linewidth=1.5, marker="x", markersize=5),
        Line2D([], [], color=INK, linewidth=0.6, linestyle="--"),
    ]
    words = [
        "a point, in the colour of the component it was given to",
        "the component that was found: centre, two standard deviations",
        "those that drew the points",
    ]
    figure.legend(
        handles, words, loc="lower center", ncols=3, frameon=False, fontsize=7,
        labelcolor=MUTED, columnspacing=1.2, handlelength=1.8,
    )  # fmt: skip
    save(figure, *paths, dpi=130)


def ellipses(
    axes: Axes, mixture: tuple[np.ndarray, np.ndarray, np.ndarray], colours: Sequence[str], style: str, width: float
) -> None:
    """Of two standard deviations; a component that has little of the set is faint."""
    for weight, mean, sigma, colour in zip(*mixture, colours, strict=True):
        axes.add_patch(
            Ellipse(
                (mean[0], mean[1]), 4 * sigma[0], 4 * sigma[1], fill=False, color=colour, linestyle=style,
                linewidth=width, alpha=float(min(1.0, 0.4 + 2 * weight)),
            )
        )  # fmt: skip


def pale(colour: str) -> tuple[float, float, float]:
    """Half way to white, for points that lines of the same colour are drawn over."""
    red, green, blue = to_rgb(colour)
    return 0.5 + red / 2, 0.5 + green / 2, 0.5 + blue / 2


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

    @property
    def shown(self) -> list[int]:
        """Which rows are drawn: all, or some evenly chosen ones; of elements, which look much alike, a few."""
        most, count = MOST_ELEMENTS if self.who == "element" else MOST_PANELS, len(self.weights)
        return sorted({round(i) for i in np.linspace(0, count - 1, min(most, count))})

    @property
    def heading(self) -> str:
        some, count = len(self.shown), len(self.weights)
        who = {"seed": "seeds", "inducing": "inducing points", "element": "elements"}[self.who]
        return f"{self.name}, {some} of {count} {who} shown" if some < count else self.name


class Ratios:
    """Weights of one row as multiples of what all would have were they alike, and where each lies between the smallest
    and the largest of them: weights that are nearly alike differ too, unless by no more than rounding."""

    def __init__(self, weights: np.ndarray) -> None:
        self.values = weights * len(weights)
        self.low, self.high = float(self.values.min()), float(self.values.max())
        span = self.high - self.low
        self.differ = span >= LEAST
        self.strength = (self.values - self.low) / span if self.differ else np.full(len(weights), 0.5)
        self.digits = max(0, 1 - math.floor(math.log10(max(span, LEAST))))

    def word(self, value: float) -> str:
        return f"×{value:.{self.digits}f}"

    @property
    def range(self) -> str:
        return f"{self.word(self.low)} to {self.word(self.high)}"


def alike(n: int) -> str:
    """What a weight is told as."""
    return f"Weights are means of all heads; ×1 is {1 / n:.3g}, what each of {n} elements has where all are alike."


def looks_png(points: np.ndarray, looks: Sequence[Looks], path: Path, title: str) -> None:
    """What seeds, inducing points and some of the elements look at, as the colour of the points.

    points: (N, 2) or (N, 3), of which three are seen at an angle
    """
    places = flat(points)
    columns = min(8, max(4, *(len(look.shown) for look in looks)))
    heights = [math.ceil(len(look.shown) / columns) for look in looks]
    size = (1.9 * columns + 0.4, 2.15 * sum(heights) + 1.3)
    figure = Figure(figsize=size, facecolor="white")
    room = {"left": 0.2 / size[0], "right": 1 - 0.2 / size[0], "bottom": 0.65 / size[1], "top": 1 - 0.85 / size[1]}
    grid = figure.add_gridspec(sum(heights), columns, **room, wspace=0.08, hspace=0.28)
    for look, top in zip(looks, np.cumsum([0, *heights]).tolist(), strict=False):
        for number, row in enumerate(look.shown):
            axes = figure.add_subplot(grid[top + number // columns, number % columns])
            ratios = Ratios(look.weights[row])
            draw_points(axes, places, ratios, row if look.who == "element" else None)
            bare(axes)
            words = f"{look.who} {row}: {ratios.range}"
            axes.set_title(
                f"{look.heading}\n{words}" if number == 0 else words, fontsize=7, color=MUTED, loc="left", pad=2
            )
    figure.text(0.5, 1 - 0.3 / size[1], short_label(title, 110), fontsize=10, color=INK, ha="center")
    legends(figure, {look.who for look in looks}, len(points), size)
    save(figure, path, dpi=110)


def draw_points(axes: Axes, places: np.ndarray, ratios: Ratios, looker: int | None) -> None:
    """Points by the weight they get, the strongest above the others; and the one that looks, if one of them does."""
    order, largest = np.argsort(ratios.strength), min(16.0, max(5.0, 4000 / len(places)))
    (x, y), strength = places[order].T, ratios.strength[order]
    axes.scatter(x, y, c=strength, cmap=BLUES, vmin=0, vmax=1, s=largest * (0.4 + 0.6 * strength), linewidths=0)
    if looker is not None:
        axes.scatter(places[looker, 0], places[looker, 1], s=30, color=SECOND, edgecolors="white", linewidths=0.8)


def legends(figure: Figure, who: set[str], n: int, size: tuple[float, float]) -> None:
    """Below the panels: what colours mean, and what a weight is to be compared with."""
    width, height = size
    figure.text(0.2 / width, 0.14 / height, alike(n), fontsize=7, color=MUTED)
    axes = figure.add_axes((1.75 / width, 0.36 / height, 1.2 / width, 0.1 / height))
    axes.imshow(np.linspace(0, 1, 64)[None], cmap=BLUES, vmin=0, vmax=1, aspect="auto")
    axes.set_axis_off()
    figure.text(0.2 / width, 0.37 / height, "each panel's smallest weight", fontsize=7, color=MUTED)
    figure.text(3.03 / width, 0.37 / height, "its largest, as above it", fontsize=7, color=MUTED)
    if "element" in who:
        handles = [Line2D([], [], color=SECOND, marker="o", linestyle="", markersize=5)]
        figure.legend(
            handles, ["the element that looks"], loc="center left", bbox_to_anchor=(4.4 / width, 0.41 / height),
            frameon=False, fontsize=7, labelcolor=MUTED, borderpad=0, handletextpad=0.2,
        )  # fmt: skip


CELL, GAP, SIDE = 0.8, 0.08, 0.9  # inches: of an image, between two, of the names to the left
TOP, BELOW = 0.45, 0.6  # of the title and of the legend
NAMES, HEADING, NUMBER = 0.36, 0.26, 0.2  # of what stands over the set, over an attention, and over each of its rows


def image_looks_png(images: np.ndarray, names: Sequence[str], looks: Sequence[Looks], path: Path, title: str) -> None:
    """The same for sets of images: the set with the names of its images, and then a row for each seed, inducing point
    or element, in which the images that it looks at are seen and the others fade. Images with a remark in brackets are
    framed.  images: (N, side, side) or (N, side, side, 3), bytes"""
    count = sum(len(look.shown) for look in looks)
    width = max(SIDE + len(images) * (CELL + GAP) + 0.1, 7.4)
    height = TOP + NAMES + CELL + len(looks) * HEADING + count * (NUMBER + CELL) + BELOW
    figure = Figure(figsize=(width, height), facecolor="white")
    figure.text(0.15 / width, 1 - 0.32 / height, short_label(title, 110), fontsize=10, color=INK)

    def image(place: int, top: float, word: str, alpha: float = 1.0, frame: str = GRID, bold: bool = False) -> None:
        """One image, its upper edge `top` inches below the figure's, with a word above it."""
        box = (SIDE + place * (CELL + GAP)) / width, 1 - (top + CELL) / height, CELL / width, CELL / height
        axes = figure.add_axes(box)
        axes.imshow(images[place], cmap="gray_r", vmin=0, vmax=255, alpha=alpha)
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_color(frame)
            spine.set_linewidth(0.8 if frame == GRID else 2.0)
        axes.set_title(word, fontsize=6.5, color=INK if bold else MUTED, fontweight="bold" if bold else None, pad=2.5)

    def words(text: str, down: float, size: float = 6.5) -> None:
        figure.text(0.15 / width, 1 - down / height, text, fontsize=size, color=MUTED, va="center")

    top = TOP + NAMES
    words("the set", top + CELL / 2)
    for place, name in enumerate(names):
        remarked = name.endswith(")")
        image(place, top, name.replace(", ", "\n"), frame=INK if remarked else GRID, bold=remarked)
    top += CELL
    for look in looks:
        words(look.heading, top + 0.75 * HEADING, 7.0)
        top += HEADING
        for row in look.shown:
            top += NUMBER
            words(f"{look.who} {row}", top + CELL / 2)
            ratios, looker = Ratios(look.weights[row]), row if look.who == "element" else None
            for place, (value, strength) in enumerate(zip(ratios.values, ratios.strength, strict=True)):
                frame, largest = SECOND if place == looker else GRID, ratios.differ and value == ratios.high
                image(place, top, ratios.word(value), 0.15 + 0.85 * float(strength), frame, largest)
            top += CELL
    words(f"{alike(len(images))} Bold is a row's largest.", top + 0.25)
    words("Faint is each row's smallest weight, clear its largest, half where all are alike." + FRAMED * any(
        look.who == "element" for look in looks
    ), top + 0.42)  # fmt: skip
    save(figure, path, dpi=110)


def flat(points: np.ndarray) -> np.ndarray:
    """(N, 2), seen from a little above where the points have three coordinates."""
    if points.shape[1] == 2:
        return points
    turn, lift = math.radians(30), math.radians(25)
    x = points[:, 0] * math.cos(turn) - points[:, 1] * math.sin(turn)
    depth = points[:, 0] * math.sin(turn) + points[:, 1] * math.cos(turn)
    return np.stack([x, points[:, 2] * math.cos(lift) + depth * math.sin(lift)], axis=1)
