"""PNG pictures: the heads of an attention map as a grid, and the curves of a training log."""

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.view.drawing import BLEU, GRID, INK, MUTED, TRAIN, VALID, font, save, short_label, tidy
from regard.view.labels import CROSS, group_of, layer_of
from regard.view.maps import AttentionMap, AttentionView

_TOKEN_INCHES = 0.17  # one row or column of a heat map: room for a label of _LABEL_POINTS
_LABEL_POINTS = 8.0
_MOST_PIXELS = 40e6  # a long sentence through many heads is drawn coarser rather than without bound


def attention_png(view: AttentionView, path: Path, name: str | None = None) -> None:
    """Draw every head, one grid row per layer: of all cross-attention maps, or of the map called `name`.

    A model without cross-attention is drawn whole.
    """
    maps = _chosen(view, name)
    n_heads = max(one.weights.shape[0] for one in maps)
    q_tokens = max(len(one.rows) for one in maps)
    k_tokens = max(len(one.columns) for one in maps)
    if min(n_heads, q_tokens, k_tokens) == 0:
        raise ValueError("there is nothing to draw: the attention maps have no heads or no tokens")

    side, below = _label_inches(maps)
    panel_width = max(k_tokens * _TOKEN_INCHES, 1.2) + 0.18
    panel_height = max(q_tokens * _TOKEN_INCHES, 0.8) + below + 0.42
    header = 0.85
    width = max(n_heads * panel_width + side + 0.5, 6.0)
    height = len(maps) * panel_height + header

    kinds = ", ".join(dict.fromkeys(group_of(one.name) for one in maps))
    figure = Figure(figsize=(width, height), facecolor="white")
    _write(figure, 0.2 / width, 1 - 0.3 / height, f"{view.title} · {kinds}", 12.0, INK, weight="bold")
    _write(figure, 0.2 / width, 1 - 0.52 / height, f"{view.source}  →  {view.target}", 9.0, INK)
    legend = "Rows are queries (what looks), columns are keys (what is looked at). White is 0, darkest is 1."
    _write(figure, 0.2 / width, 1 - 0.72 / height, legend, 8.0, MUTED)

    for i, one in enumerate(maps):
        top = height - header - i * panel_height
        for head in range(one.weights.shape[0]):
            axes = figure.add_axes(
                (
                    (side + head * panel_width) / width,
                    (top - panel_height + below + 0.12) / height,
                    (panel_width - 0.18) / width,
                    (panel_height - below - 0.42) / height,
                )
            )
            _draw_head(axes, one, head)
    save(figure, path, dpi=min(150.0, (_MOST_PIXELS / (width * height)) ** 0.5))


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

    if train:
        upper.plot(list(train), list(train.values()), color=TRAIN, linewidth=1.3, label="training")
    if valid:
        upper.plot(
            list(valid),
            list(valid.values()),
            color=VALID,
            linewidth=1.8,
            label="validation",
            marker="o",
            markersize=3.5,
        )
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


def _draw_head(axes: Axes, one: AttentionMap, head: int) -> None:
    Q, K = len(one.rows), len(one.columns)
    axes.imshow(one.weights[head], cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
    axes.set_xticks(
        range(K), [short_label(token) for token in one.columns], rotation=90, parse_math=False, fontfamily=font()
    )
    # The heads of one row share their queries, so the first alone names them.
    shown = one.rows if head == 0 else []
    axes.set_yticks(range(len(shown)), [short_label(token) for token in shown], parse_math=False, fontfamily=font())
    # Gaps between cells as plain lines: a minor tick for each takes matplotlib many times longer.
    axes.autoscale(False)
    axes.hlines([q + 0.5 for q in range(Q - 1)], -0.5, K - 0.5, color="white", linewidth=0.6)
    axes.vlines([k + 0.5 for k in range(K - 1)], -0.5, Q - 0.5, color="white", linewidth=0.6)
    axes.tick_params(length=0, pad=2, labelsize=_LABEL_POINTS, labelcolor=INK)
    for spine in axes.spines.values():
        spine.set_color(GRID)
    title = f"head {head}"
    if head == 0:
        title = f"{layer_of(one.name) or short_label(one.name, 24)} · {title}"
    axes.set_title(title, fontsize=8.5, loc="left", pad=3, color=MUTED, parse_math=False)


def _label_inches(maps: list[AttentionMap]) -> tuple[float, float]:
    """The room the longest query label takes to the left, and the longest key label below."""

    def inches(tokens: list[str]) -> float:
        return max((len(short_label(token)) for token in tokens), default=0) * _LABEL_POINTS * 0.68 / 72 + 0.22

    return max(inches(one.rows) for one in maps), max(inches(one.columns) for one in maps)


def _write(figure: Figure, x: float, y: float, text: str, size: float, color: str, weight: str = "normal") -> None:
    # About as many characters as the width holds; a sentence that runs off the picture helps nobody.
    length = int((figure.get_figwidth() - 0.4) * 72 / (size * 0.56))
    # parse_math: a token such as "$5" is a price, not a formula.
    written = short_label(text, length)
    figure.text(x, y, written, fontsize=size, color=color, fontweight=weight, parse_math=False, fontfamily=font())


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
