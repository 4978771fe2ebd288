"""What is in a corpus, as a table: rows of plain values as `regard data report` writes them to report.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.view.labels import visible

SHOWN = 6  # scripts and kinds of characters named in a line

Report = Mapping[str, Any]
Row = tuple[str, list[str]]


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
