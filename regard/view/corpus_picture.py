"""What is in a corpus, as a picture of six panels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from regard.view.corpus_table import SHOWN, Report
from regard.view.drawing import FIRST, GRID, INK, MUTED, SECOND, TRAIN, VALID, font, save, short_label, tidy

COLOURS = {"source": FIRST, "target": SECOND}
STYLES = ("-", "--", ":", "-.")  # of the first splits; curves of more would hide each other


def corpus_png(report: Report, path: Path) -> None:
    """Lengths, both lengths against each other, their ratio, coverage, subwords or scripts, repetitions and leaks."""
    figure = Figure(figsize=(15.0, 8.6), facecolor="white", layout="constrained")
    figure.suptitle(
        f"{short_label(report['name'], 80)} · {' → '.join(report['languages'])}", x=0.01, ha="left", color=INK,
        fontweight="bold", fontfamily=font(), parse_math=False,
    )  # fmt: skip
    panels = figure.subplots(2, 3)
    subwords = "subwords" in next(iter(report["splits"].values()))["source"]
    _draw_lengths(panels[0, 0], report, "length")
    _draw_joint(panels[0, 1], report)
    _draw_ratio(panels[0, 2], report)
    _draw_coverage(panels[1, 0], report)
    if subwords:
        _draw_lengths(panels[1, 1], report, "subwords")
    else:
        _draw_scripts(panels[1, 1], report)
    _draw_shares(panels[1, 2], report)
    save(figure, path, dpi=110)


def _titled(axes: Axes, title: str, across: str, up: str = "") -> None:
    axes.set_title(title, loc="left", color=INK, fontsize=11)
    axes.set_xlabel(across, color=MUTED)
    axes.set_ylabel(up, color=MUTED)
    tidy(axes)


def _draw_lengths(axes: Axes, report: Report, what: str) -> None:
    curves = []
    for (name, split), style in zip(report["splits"].items(), STYLES, strict=False):
        for side, language in zip(("source", "target"), report["languages"], strict=True):
            length = split[side]["length"] if what == "length" else split[side]["subwords"]["length"]
            curves.append((f"{name} {language}", side, style, length))
    furthest = max(1.25 * length["percentiles"]["99"] for *_, length in curves) + 1
    width = -(-int(furthest) // 50)  # coarser where sentences are long, or small splits are all spikes
    edges = np.arange(0, furthest + width, width)
    for label, side, style, length in curves:
        lengths, counts = (np.array(column) for column in zip(*length["histogram"], strict=True))
        binned, _ = np.histogram(lengths, edges, weights=counts)
        main = style == STYLES[0]
        axes.plot(
            edges[:-1] + (width - 1) / 2, binned / counts.sum() / width, style, color=COLOURS[side], label=label,
            linewidth=1.8 if main else 1.0, alpha=1.0 if main else 0.6,
        )  # fmt: skip
    axes.set_xlim(0, furthest)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.legend(frameon=False, labelcolor=INK, fontsize=8)
    unit = "words" if what == "length" else "subwords"
    _titled(axes, f"{unit.capitalize()} a sentence", unit, "of the sentences")
    axes.set_ylim(bottom=0)


def _draw_joint(axes: Axes, report: Report) -> None:
    name, split = next(iter(report["splits"].items()))
    counts = np.array(split["joint"]["counts"])
    edge = len(counts) * split["joint"]["cell"]
    shown = np.ma.masked_equal(counts, 0)
    axes.imshow(
        shown, origin="lower", extent=(0, edge, 0, edge), cmap="Blues", norm=LogNorm(0.5, max(counts.max(), 1)),
        aspect="auto", interpolation="nearest",
    )  # fmt: skip
    axes.plot([0, edge], [0, edge], color=MUTED, linewidth=0.7, linestyle=":")
    source, target = report["languages"]
    _titled(axes, f"Both lengths, {name}: darker is more pairs", f"words, {source}", f"words, {target}")
    occupied = (np.flatnonzero(counts.any(axis=0) | counts.any(axis=1)).max(initial=0) + 1) * split["joint"]["cell"]
    axes.set_xlim(0, occupied)
    axes.set_ylim(0, occupied)
    axes.grid(visible=False)


def _draw_ratio(axes: Axes, report: Report) -> None:
    name, split = next(iter(report["splits"].items()))
    edges, counts = np.array(split["ratio"]["log2_edges"]), np.array(split["ratio"]["log2_counts"])
    axes.bar(edges[:-1], np.maximum(counts, 0), width=np.diff(edges), align="edge", color=TRAIN)
    axes.set_yscale("symlog", linthresh=1)
    median = split["ratio"]["percentiles"].get("50", 1.0)
    axes.axvline(np.log2(median), color=VALID, linewidth=1.4, label=f"median {median:.2f}")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{2**x:g}"))
    axes.legend(frameon=False, labelcolor=INK, fontsize=8, loc="upper left")
    source, target = report["languages"]
    _titled(axes, f"Length ratio, {name}", f"words of {target} for a word of {source}", "pairs")


def _draw_coverage(axes: Axes, report: Report) -> None:
    first = next(iter(report["splits"]))
    curves = {first: {side: report["splits"][first][side]["vocabulary"] for side in COLOURS}} | report["coverage"]
    for (name, sides), style in zip(curves.items(), STYLES, strict=False):
        for side, language in zip(("source", "target"), report["languages"], strict=True):
            if sides[side]["curve"]:
                sizes, shares = zip(*sides[side]["curve"], strict=True)
                axes.plot(sizes, shares, style, color=COLOURS[side], linewidth=1.5, label=f"{name} {language}")
    axes.set_xscale("log")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.legend(frameon=False, labelcolor=INK, fontsize=8, loc="lower right")
    _titled(axes, "Running words covered", f"the most frequent words of {first}", "covered")
    axes.set_ylim(0, 1.03)


def _draw_scripts(axes: Axes, report: Report) -> None:
    name, split = next(iter(report["splits"].items()))
    kinds = list(dict.fromkeys([*split["source"]["scripts"], *split["target"]["scripts"]]))[: 2 * SHOWN]
    for i, (side, language) in enumerate(zip(("source", "target"), report["languages"], strict=True)):
        total = max(sum(split[side]["scripts"].values()), 1)
        shares = [split[side]["scripts"].get(kind, 0) / total for kind in kinds]
        axes.barh(np.arange(len(kinds)) + 0.4 * i, shares, 0.38, color=COLOURS[side], label=language)
    axes.set_yticks(np.arange(len(kinds)) + 0.2, kinds)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xticks([1e-8, 1e-6, 1e-4, 1e-2, 1], ["", "0.0001 %", "0.01 %", "1 %", "100 %"])
    axes.set_xticks([], minor=True)
    axes.legend(frameon=False, labelcolor=INK, fontsize=8, loc="lower right")
    _titled(axes, f"Characters by script and kind, {name}", "of the characters")
    axes.grid(axis="y", visible=False)


def _draw_shares(axes: Axes, report: Report) -> None:
    """What is wrong with how much of the text; each bar says its number."""
    first, split = next(iter(report["splits"].items()))
    repeated = split["repetitions"]
    found = {
        "empty sides": split["pairs_with_an_empty_side"], "duplicate pairs": repeated["duplicate_pairs"],
        "sources, several targets": repeated["sources_with_several_targets"],
        "targets, several sources": repeated["targets_with_several_sources"], "copies": split["copies"],
    }  # fmt: skip
    bars = [(f"{first}: {what}", count, split["pairs"], TRAIN) for what, count in found.items()]
    for leak in report["leakage"]:
        if leak["in"] == first:
            for what in ("sources", "targets"):
                bars.append((f"{leak['of']}: {what} in {first}", leak[what], leak["out_of"], VALID))
    shares = [count / total for _, count, total, _ in bars]
    axes.barh(range(len(bars)), shares, color=[colour for *_, colour in bars])
    axes.set_yticks(range(len(bars)), [short_label(label, 38) for label, *_ in bars])
    axes.invert_yaxis()
    furthest = max(*shares, 0.001)
    axes.set_xlim(0, furthest * 1.5)
    for i, (share, (_, count, *_)) in enumerate(zip(shares, bars, strict=True)):
        axes.text(share + furthest * 0.02, i, f"{count:,}  ({share:.2%})", va="center", fontsize=8, color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    _titled(axes, "Repetitions and leakage", "of the pairs of the split")
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=GRID)
