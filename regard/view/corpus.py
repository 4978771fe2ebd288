"""What is in a corpus, as people look at it: a table in the terminal, a picture, one page that opens offline.

All three show the same plain values, as `regard data report` writes them to report.json.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from regard.view.labels import visible
from regard.view.pictures import _GRID, _INK, _MUTED, _TRAIN, _VALID, _font, _label, _save, _tidy

COLOURS = {"source": _VALID, "target": "#c2571a"}
STYLES = ("-", "--", ":", "-.")  # of the first splits; curves of more would hide each other
SHOWN = 6  # scripts and kinds of characters named in a line

Report = Mapping[str, Any]
Row = tuple[str, list[str]]


# --- the table -------------------------------------------------------------------------------------------


def corpus_text(report: Report) -> str:
    """The table in plain text, a column for each split."""
    names, sections = list(report["splits"]), corpus_rows(report)
    width = max(len(label) for rows in sections.values() for label, _ in rows) + 2
    columns = [
        max(len(name), *(len(values[i]) for rows in sections.values() for _, values in rows)) + 2
        for i, name in enumerate(names)
    ]
    lines = [f"{visible(report['name'])}: {' → '.join(report['languages'])}", ""]
    lines.append(" " * width + "".join(f"{name:>{column}}" for name, column in zip(names, columns, strict=True)))
    for section, rows in sections.items():
        lines += ["", section]
        for label, values in rows:
            cells = "".join(f"{value:>{column}}" for value, column in zip(values, columns, strict=True))
            lines.append(f"  {label:<{width - 2}}{cells}")
    return "\n".join([*lines, "", *corpus_remarks(report)]) + "\n"


def corpus_rows(report: Report) -> dict[str, list[Row]]:
    """The table's sections and their rows, values as text, one for each split."""
    splits: list[Report] = list(report["splits"].values())
    sides = list(zip(("source", "target"), report["languages"], strict=True))

    def row(label: str, *keys: str, form: str = ",") -> Row:
        return label, [format(_at(split, *keys), form) for split in splits]

    def spread(label: str, *keys: str, form: str = ".0f") -> Row:
        shown = ("5", "50", "95", "99", "100")
        return label, [" ".join(format(_at(split, *keys).get(p, 0), form) for p in shown) for split in splits]

    sections = {
        "sizes": [
            row("pairs", "pairs"), row("pairs with an empty side", "pairs_with_an_empty_side"),
            *(row(f"words, {language}", side, "words") for side, language in sides),
            *(row(f"characters, {language}", side, "characters") for side, language in sides),
        ],
        "words a sentence": [
            *(row(f"mean, {language}", side, "length", "mean", form=".1f") for side, language in sides),
            *(spread(f"5, 50, 95, 99, 100 %, {language}", side, "length", "percentiles") for side, language in sides),
            spread("ratio, 5, 50, 95, 99, 100 %", "ratio", "percentiles", form=".2f"),
            row("pairs beyond twice as long", "ratio", "beyond_twice"),
        ],
        "vocabulary": [
            *(row(f"distinct words, {language}", side, "vocabulary", "distinct") for side, language in sides),
            *(row(f"of them seen once, {language}", side, "vocabulary", "once") for side, language in sides),
        ],
        "repetitions": [
            row("duplicate pairs", "repetitions", "duplicate_pairs"),
            row("sources with several targets", "repetitions", "sources_with_several_targets"),
            row("targets with several sources", "repetitions", "targets_with_several_sources"),
            row("copies (target = source)", "copies"),
        ],
    }  # fmt: skip
    if all("subwords" in split["source"] for split in splits):
        sections["subwords"] = [
            *(row(f"a word, {language}", side, "subwords", "per_word", form=".2f") for side, language in sides),
            *(row(f"unknown, {language}", side, "subwords", "unknown", form=".3%") for side, language in sides),
            *(row(f"vocabulary used, {language}", side, "subwords", "vocabulary_used") for side, language in sides),
            *(
                spread(f"5, 50, 95, 99, 100 %, {language}", side, "subwords", "length", "percentiles")
                for side, language in sides
            ),
        ]
    return sections | _against(report, sides)


def _against(report: Report, sides: Sequence[tuple[str, str]]) -> dict[str, list[Row]]:
    """What each split shares with those before it."""
    names = list(report["splits"])
    sections: dict[str, list[Row]] = {}
    if report["coverage"]:
        covered = [report["coverage"].get(name) for name in names]
        sections[f"words that {names[0]} has too"] = [
            (f"{label}, {language}", [f"{one[side][key]:.2%}" if one else "" for one in covered])
            for key, label in (("running", "running words"), ("distinct", "distinct words"))
            for side, language in sides
        ]
    for earlier in names[:-1]:
        found = {one["of"]: one for one in report["leakage"] if one["in"] == earlier}
        sections[f"leakage: also in {earlier}"] = [
            (what, [f"{found[name][what]:,}" if name in found else "" for name in names])
            for what in ("pairs", "sources", "targets")
        ]
    return sections


def corpus_remarks(report: Report) -> list[str]:
    """Lines below the table: what percentiles are, scripts, and the words a model will not have met."""
    lines = [
        "5, 50, 95, 99, 100 % are percentiles: so much of the text is no longer than this; 50 % is the middle, "
        "100 % the longest."
    ]
    for name, split in report["splits"].items():
        for side, language in zip(("source", "target"), report["languages"], strict=True):
            counts: Mapping[str, int] = split[side]["scripts"]
            total = max(sum(counts.values()), 1)
            shares = [
                f"{kind} {count / total:.1%}" if count / total >= 0.0005 else f"{kind} {count:,}"
                for kind, count in list(counts.items())[:SHOWN]
            ]
            lines.append(f"characters, {name} {language}: {', '.join(shares)}")
    for name, covered in report["coverage"].items():
        for side, language in zip(("source", "target"), report["languages"], strict=True):
            words = [visible(word) for word in covered[side]["most_frequent_unseen"]]
            if words:
                lines.append(f"unseen in training, {name} {language}: {', '.join(words)}")
    return lines


def _at(values: Any, *keys: str) -> Any:
    for key in keys:
        values = values[key]
    return values


# --- the picture -----------------------------------------------------------------------------------------


def corpus_png(report: Report, path: Path) -> None:
    """Lengths, both lengths against each other, their ratio, coverage, subwords or scripts, repetitions and leaks."""
    figure = Figure(figsize=(15.0, 8.6), facecolor="white", layout="constrained")
    figure.suptitle(
        f"{_label(report['name'], 80)} · {' → '.join(report['languages'])}", x=0.01, ha="left", color=_INK,
        fontweight="bold", fontfamily=_font(), parse_math=False,
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
    _save(figure, path, dpi=110)


def _titled(axes: Axes, title: str, across: str, up: str = "") -> None:
    axes.set_title(title, loc="left", color=_INK, fontsize=11)
    axes.set_xlabel(across, color=_MUTED)
    axes.set_ylabel(up, color=_MUTED)
    _tidy(axes)


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
    axes.legend(frameon=False, labelcolor=_INK, fontsize=8)
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
    axes.plot([0, edge], [0, edge], color=_MUTED, linewidth=0.7, linestyle=":")
    source, target = report["languages"]
    _titled(axes, f"Both lengths, {name}: darker is more pairs", f"words, {source}", f"words, {target}")
    occupied = (np.flatnonzero(counts.any(axis=0) | counts.any(axis=1)).max(initial=0) + 1) * split["joint"]["cell"]
    axes.set_xlim(0, occupied)
    axes.set_ylim(0, occupied)
    axes.grid(visible=False)


def _draw_ratio(axes: Axes, report: Report) -> None:
    name, split = next(iter(report["splits"].items()))
    edges, counts = np.array(split["ratio"]["log2_edges"]), np.array(split["ratio"]["log2_counts"])
    axes.bar(edges[:-1], np.maximum(counts, 0), width=np.diff(edges), align="edge", color=_TRAIN)
    axes.set_yscale("symlog", linthresh=1)
    median = split["ratio"]["percentiles"].get("50", 1.0)
    axes.axvline(np.log2(median), color=_VALID, linewidth=1.4, label=f"median {median:.2f}")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{2**x:g}"))
    axes.legend(frameon=False, labelcolor=_INK, fontsize=8, loc="upper left")
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
    axes.legend(frameon=False, labelcolor=_INK, fontsize=8, loc="lower right")
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
    axes.legend(frameon=False, labelcolor=_INK, fontsize=8, loc="lower right")
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
    bars = [(f"{first}: {what}", count, split["pairs"], _TRAIN) for what, count in found.items()]
    for leak in report["leakage"]:
        if leak["in"] == first:
            for what in ("sources", "targets"):
                bars.append((f"{leak['of']}: {what} in {first}", leak[what], leak["out_of"], _VALID))
    shares = [count / total for _, count, total, _ in bars]
    axes.barh(range(len(bars)), shares, color=[colour for *_, colour in bars])
    axes.set_yticks(range(len(bars)), [_label(label, 38) for label, *_ in bars])
    axes.invert_yaxis()
    furthest = max(*shares, 0.001)
    axes.set_xlim(0, furthest * 1.5)
    for i, (share, (_, count, *_)) in enumerate(zip(shares, bars, strict=True)):
        axes.text(share + furthest * 0.02, i, f"{count:,}  ({share:.2%})", va="center", fontsize=8, color=_INK)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    _titled(axes, "Repetitions and leakage", "of the pairs of the split")
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=_GRID)


# --- the page --------------------------------------------------------------------------------------------

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2333; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
img { width: 100%; } table { border-collapse: collapse; } th { text-align: left; padding-top: 1rem; }
td { padding: .1rem 1.2rem .1rem 0; border-bottom: 1px solid #e3e6ee; } td + td { text-align: right; }
td + td, thead td { font-variant-numeric: tabular-nums; } footer { color: #5b6478; margin-top: 2rem; }
"""


def corpus_page(report: Report, picture: bytes) -> str:
    """The whole report as one file: the picture is inside, nothing is asked of the network, no text is markup."""
    names = list(report["splits"])
    heads = "".join(f"<td>{_escape(name)}</td>" for name in names)
    body = []
    for section, rows in corpus_rows(report).items():
        body.append(f'<tr><th colspan="{len(names) + 1}">{_escape(section)}</th></tr>')
        for label, values in rows:
            cells = "".join(f"<td>{_escape(value)}</td>" for value in values)
            body.append(f"<tr><td>{_escape(label)}</td>{cells}</tr>")
    title = _escape(f"{report['name']}: {' → '.join(report['languages'])}")
    allowed = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'sha256-{allowed}'">
<style>{STYLE}</style></head><body>
<h1>{title}</h1>
<img alt="Lengths, ratios, coverage, repetitions and leakage; the table has the same figures."
 src="data:image/png;base64,{base64.b64encode(picture).decode()}">
<table><thead><tr><td></td>{heads}</tr></thead><tbody>
{chr(10).join(body)}
</tbody></table>
<ul>{"".join(f"<li>{_escape(line)}</li>" for line in corpus_remarks(report))}</ul>
<footer>Words are what white space separates; in vocabularies without the punctuation at their ends and without case.
Repetitions are word for word, leakage is by near form: whatever the case, punctuation,
spacing and numbers. All figures: report.json.</footer>
</body></html>
"""
    return page.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _escape(text: str) -> str:
    return html.escape(visible(text))
