"""PNG pictures: the heads of an attention map as a grid, and the curves of a training log."""

from __future__ import annotations

import difflib
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.view.drawing import BLEU, GRID, INK, MUTED, TRAIN, VALID, font, save, short_label, tidy
from regard.view.labels import CROSS, KINDS, as_read, group_of, layer_of, visible
from regard.view.maps import AttentionMap, AttentionView
from regard.view.terminal import cell_width

_TOKEN_INCHES = 0.17  # one row or column of a heat map: room for a label of _LABEL_POINTS
_LABEL_POINTS = 8.0
_LEAST_WIDTH = 6.0
_DPI, _LEAST_DPI = 150.0, 100.0  # of a small picture, of a large one
_MOST_PIXELS = 16e6  # the largest: beyond it cells become smaller, and not every one has a label
_GAPS_FROM = 0.08  # inches of a cell: where they are smaller, lines between them would hide them
_LETTER = {"normal": 0.64, "bold": 0.72}  # width of one for its size; on the safe side
_WIDE = 14.0  # inches from which the caption grows with the picture, to be read where all of it is on a screen


def attention_png(view: AttentionView, path: Path, name: str | None = None) -> None:
    """Draw every head, one grid row per layer: of all cross-attention maps, or of the map called `name`.

    A model without cross-attention is drawn whole. The picture grows with the sentences up to a largest size; of longer
    ones it says that the page shows more.
    """
    maps = _chosen(view, name)
    sizes = _Sizes.of(view, maps)
    width, height = sizes.width, sizes.height
    figure = Figure(figsize=(width, height), facecolor="white")
    below_top = 0.1
    for line, points, color, weight in sizes.caption:
        below_top += _line_inches(points)
        place = 0.2 / width, 1 - below_top / height
        # parse_math: a token such as "$5" is a price, not a formula.
        figure.text(
            *place, line, fontsize=points, color=color, fontweight=weight, parse_math=False, fontfamily=font()
        )  # fmt: skip
    tops = list(accumulate((sizes.panel_height(one) for one in maps), initial=sizes.header))
    for one, top in zip(maps, tops, strict=False):
        bottom = height - top - sizes.panel_height(one) + sizes.below(one) + 0.12
        for head in range(one.weights.shape[0]):
            axes = figure.add_axes(
                (
                    (sizes.side + head * sizes.panel_width) / width,
                    bottom / height,
                    (sizes.panel_width - 0.18) / width,
                    sizes.rows(one) / height,
                )
            )
            _draw_head(axes, one, head, sizes)
    save(figure, path, dpi=min(_DPI, (_MOST_PIXELS / (width * height)) ** 0.5))


def named_every(view: AttentionView) -> int:
    """Of how many tokens one has a label in the picture: 1 unless it would become too large."""
    return _Sizes.of(view, _chosen(view, None)).every


_Line = tuple[str, float, str, str]  # text, points, colour, weight


@dataclass(frozen=True)
class _Sizes:
    """Of a picture of heads, in inches."""

    cell: float  # of a token's row and column
    side: float  # the labels to the left of a panel
    panel_width: float
    above: float  # a panel: its title, and the line of a path
    width: float
    height: float
    caption: list[_Line]

    @classmethod
    def of(cls, view: AttentionView, maps: list[AttentionMap]) -> _Sizes:
        """As large as all labels need, or with cells so small that the picture is not larger than the largest."""
        cell = _TOKEN_INCHES
        while True:
            sizes = cls.with_cells(view, maps, cell)
            if sizes.width * sizes.height * _LEAST_DPI**2 <= _MOST_PIXELS or cell < _TOKEN_INCHES / 64:
                return sizes
            cell *= 0.9

    @classmethod
    def with_cells(cls, view: AttentionView, maps: list[AttentionMap], cell: float) -> _Sizes:
        n_heads, k_tokens = max(one.weights.shape[0] for one in maps), max(len(one.columns) for one in maps)
        if min(n_heads, k_tokens, *(len(one.rows) for one in maps)) == 0:
            raise ValueError("there is nothing to draw: the attention maps have no heads or no tokens")
        side = max(_label_inches(one.rows) for one in maps)
        panel_width = max(k_tokens * cell, 1.2) + 0.18
        width = max(n_heads * panel_width + side + 0.5, _LEAST_WIDTH)
        above = 0.3 + (_line_inches(_title_points(width)) if any(_path(one) for one in maps) else 0.0)
        caption = _caption(view, maps, width, _every(cell))
        flat = cls(cell, side, panel_width, above, width, _header(caption), caption)
        return replace(flat, height=flat.header + sum(map(flat.panel_height, maps)))

    def rows(self, one: AttentionMap) -> float:
        """The height of a map's rows: a single one is no taller than its label needs."""
        return max(len(one.rows) * self.cell, 1.5 * _TOKEN_INCHES)

    def below(self, one: AttentionMap) -> float:
        """The labels below a map."""
        return _label_inches(one.columns)

    def panel_height(self, one: AttentionMap) -> float:
        return self.above + self.rows(one) + self.below(one) + 0.12

    @property
    def every(self) -> int:
        """Of how many tokens one has room for its label."""
        return _every(self.cell)

    @property
    def header(self) -> float:
        return _header(self.caption)


def _every(cell: float) -> int:
    return math.ceil(_TOKEN_INCHES / cell - 1e-9)


def _larger(width: float, most: float) -> float:
    """How much larger words are written in a picture of this width."""
    return min(max(1.0, width / _WIDE), most)


def _header(caption: Sequence[_Line]) -> float:
    return 0.25 + sum(_line_inches(points) for _, points, _, _ in caption)


def _line_inches(points: float) -> float:
    return 1.6 * points / 72


def _caption(view: AttentionView, maps: Sequence[AttentionMap], width: float, every: int) -> list[_Line]:
    """What stands above the panels, in lines that the picture has room for."""
    kinds = dict.fromkeys(group_of(one.name) for one in maps if not _path(one))
    darkest = "1" if every == 1 else "as each panel says"
    legend = f"Rows are queries (what looks), columns are keys (what is looked at). White is 0, darkest is {darkest}."
    if any(label.startswith("·") for one in maps for label in [*as_read(one.rows), *as_read(one.columns)]):
        legend += " ·letters go on with a word."
    parts = [
        (" · ".join([view.title, *([", ".join(kinds)] if kinds else [])]), 12.0, INK, "bold", 2),
        *((text, 9.0, INK, "normal", 2) for text in _sentences(view, (width - 0.4) * 72 / (9.0 * _LETTER["normal"]))),
        (legend, 8.0, MUTED, "normal", 3),
    ]
    if every > 1:
        remark = f"Too long for a picture to name every token: one in {every} is named. The HTML page shows them all."
        parts.append((remark, 8.0, MUTED, "normal", 3))
    larger = _larger(width, 3.0)
    return [
        (line, larger * points, color, weight)
        for text, points, color, weight, most in parts
        for line in _wrapped(text, (width - 0.4) * 72 / (larger * points * _LETTER[weight]), most)
    ]


def _sentences(view: AttentionView, cells: float) -> list[str]:
    """Source and target: together, or each for itself where they are long."""
    both = f"{view.source}  →  {view.target}"
    return [both] if cell_width(both) <= 2 * cells else [view.source, f"→  {view.target}"]


def _wrapped(text: str, cells: float, most: int) -> list[str]:
    """Lines of about so many cells; what is more than `most` of them ends in an ellipsis."""
    shown = visible(text)
    letters = max(8, int(cells * len(shown) / max(1, cell_width(shown))))
    return textwrap.wrap(shown, letters, max_lines=most, placeholder=" …", break_on_hyphens=False)


def loss_curve_png(records: Sequence[Mapping[str, float | str]], path: Path, title: str) -> None:
    """Draw training and validation loss by step, and BLEU or F1 in a panel below where the log has it.

    `records` are the lines of log.jsonl. A resumed run may have logged a step twice; the later line counts.
    """
    train = _series(records, "train", "loss")
    valid = _series(records, "valid", "loss")
    bleu, f1 = (_series(records, "valid", key) for key in ("bleu", "f1"))
    score, name = (bleu, "BLEU") if bleu else (f1, "F1")

    figure = Figure(figsize=(8.0, 6.2 if score else 4.4), facecolor="white", layout="constrained")
    panels = figure.subplots(2 if score else 1, 1, sharex=True, squeeze=False, height_ratios=[3, 2] if score else [1])
    upper: Axes = panels[0, 0]
    lower: Axes = panels[-1, 0]
    upper.set_title(
        short_label(title, 90), loc="left", color=INK, fontweight="bold", parse_math=False, fontfamily=font()
    )

    alone = "o" if len(train) == 1 else ""  # one point makes no line
    for losses, label, colour, width, marker in (
        (train, "training", TRAIN, 1.3, alone),
        (valid, "validation", VALID, 1.8, "o"),
    ):
        if losses:
            steps, values = list(losses), list(losses.values())
            upper.plot(steps, values, color=colour, linewidth=width, label=label, marker=marker, markersize=3.5)
    if valid:
        _mark(upper, valid, "lowest", min, VALID)
    if train or valid:
        upper.legend(frameon=False, labelcolor=INK)
    else:
        upper.text(0.5, 0.5, "no loss logged yet", ha="center", color=MUTED, transform=upper.transAxes)
    upper.set_ylabel("loss", color=INK)

    if score:
        lower.plot(list(score), list(score.values()), color=BLEU, linewidth=1.8, marker="o", markersize=4)
        _mark(lower, score, "highest", max, BLEU)
        lower.set_ylabel(f"validation {name}", color=INK)
    lower.set_xlabel("step", color=INK)
    for axes in {upper, lower}:
        tidy(axes)
    save(figure, path, dpi=150)


def _chosen(view: AttentionView, name: str | None) -> list[AttentionMap]:
    if not view.maps:
        raise ValueError("there is nothing to draw: the view holds no attention maps")
    if name is None:
        return [one for one in view.maps if group_of(one.name) == CROSS] or view.maps
    named = [one for one in view.maps if one.name == name]
    if not named:
        names = [one.name for one in view.maps]
        nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.0)[0]
        raise ValueError(f"there is no attention map called {name!r}; the nearest is {nearest!r}")
    return named


def _draw_head(axes: Axes, one: AttentionMap, head: int, sizes: _Sizes) -> None:
    Q, K, every = len(one.rows), len(one.columns), sizes.every
    # Over very many tokens every weight is small: what is strongest in a panel is then its darkest.
    darkest = 1.0 if every == 1 else float(one.weights[head].max()) or 1.0
    axes.imshow(one.weights[head], cmap="Blues", vmin=0.0, vmax=darkest, aspect="auto", interpolation="nearest")
    columns = [short_label(token) for token in as_read(one.columns)[::every]]
    axes.set_xticks(range(0, K, every), columns, rotation=90, parse_math=False, fontfamily=font())
    # The heads of one row share their queries, so the first alone names them.
    rows = [short_label(token) for token in as_read(one.rows)[::every]] if head == 0 else []
    axes.set_yticks(range(0, Q, every) if rows else [], rows, parse_math=False, fontfamily=font())
    if sizes.cell >= _GAPS_FROM:
        # Gaps between cells as plain lines: a minor tick for each takes matplotlib many times longer.
        axes.autoscale(False)
        axes.hlines([q + 0.5 for q in range(Q - 1)], -0.5, K - 0.5, color="white", linewidth=0.6)
        axes.vlines([k + 0.5 for k in range(K - 1)], -0.5, Q - 0.5, color="white", linewidth=0.6)
    axes.tick_params(length=0, pad=2, labelsize=_LABEL_POINTS, labelcolor=INK)
    for spine in axes.spines.values():
        spine.set_color(GRID)
    title = f"head {head}"
    path = _path(one)
    if head == 0 and not path:
        title = f"{layer_of(one.name) or short_label(one.name, 24)} · {title}"
    if every > 1:
        title = f"{title} · darkest {darkest:.2g}"
    if head == 0 and path:  # in a line of its own, over the other heads
        points = _title_points(sizes.width)
        title = (
            f"{short_label(path, int((sizes.width - sizes.side - 0.2) * 72 / (points * _LETTER['normal'])))}\n{title}"
        )
    axes.set_title(title, fontsize=_title_points(sizes.width), loc="left", pad=3, color=MUTED, parse_math=False)


def _path(one: AttentionMap) -> str:
    """The module path of an attention that has no name of its own, as those of sets; it is too long for a panel."""
    return one.name if "." in one.name and group_of(one.name) not in KINDS else ""


def _title_points(width: float) -> float:
    return 8.5 * _larger(width, 1.8)


def _label_inches(tokens: list[str]) -> float:
    """The room that the longest of some labels takes, to the left or below."""
    return max((len(short_label(token)) for token in as_read(tokens)), default=0) * _LABEL_POINTS * 0.68 / 72 + 0.22


def _series(records: Sequence[Mapping[str, float | str]], kind: str, key: str) -> dict[int, float]:
    """Step → value, in order of step."""
    found = {int(record["step"]): float(record[key]) for record in records if record["kind"] == kind and key in record}
    return dict(sorted(found.items()))


def _mark(
    axes: Axes, series: dict[int, float], word: str, best: Callable[[Iterable[float]], float], color: str
) -> None:
    """Name the best value: the number everyone reads the curve for."""
    # A run that diverged has logged NaN, which no comparison finds.
    finite = {step: value for step, value in series.items() if math.isfinite(value)}
    if not finite:
        return
    value = best(finite.values())
    step = next(step for step in finite if finite[step] == value)
    axes.annotate(
        f"{word}: {value:.4g} at step {step:,}",
        (step, value),
        xytext=(0, 9),
        textcoords="offset points",
        ha="right" if step > sum(axes.get_xlim()) / 2 else "left",
        fontsize=8.5,
        color=color,
    )
