"""What was measured of a parser, told: in lines to read, as plain values for machines, as a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.data import branching
from regard.data.treebank import Treebank
from regard.decode.parser import Parser
from regard.evaluate.bracket_significance import compare_f1
from regard.evaluate.parseval import (
    Comparison,
    Total,
    by_label,
    by_length,
    compare,
    f1_interval,
    in_ranges,
    label_table,
    length_table,
)
from regard.evaluate.significance import Comparison as Difference
from regard.tasks.parsing import Judged, judge

BASELINES = {
    "flat": branching.flat,
    "left-branching": branching.left_branching,
    "right-branching": branching.right_branching,
}
LABELS = 12  # shown in a table


def trivial(treebank: Treebank) -> dict[str, Total]:
    """What trees get that are drawn without a look at the words."""
    return {
        name: Total.of(compare(gold, draw(gold.words, gold.tags)) for gold in treebank.gold)
        for name, draw in BASELINES.items()
    }


@dataclass(frozen=True)
class Report:
    """One parser on one treebank, perhaps beside another."""

    system: str
    treebank: Treebank
    judged: Judged
    form: str
    constrained: bool | None  # None: the trees are a file's, and nobody knows how they were found
    other: Report | None = None

    @classmethod
    def of(
        cls,
        parser: Parser,
        treebank: Treebank,
        form: str,
        system: str = "",
        progress: Callable[[int], None] | None = None,
    ) -> Report:
        judged = judge(parser, treebank, progress)
        return cls(system or parser.name, treebank, judged, form, parser.config.constrained)

    @property
    def comparisons(self) -> list[Comparison]:
        return self.judged.comparisons

    @cached_property
    def interval(self) -> float | None:
        return f1_interval(self.comparisons)

    @cached_property
    def difference(self) -> Difference | None:
        return compare_f1(self.comparisons, self.other.comparisons) if self.other else None

    def lines(self, by_label: bool = False, by_length: bool = False) -> list[str]:
        name, total = self.treebank.name, self.judged.total
        width = f" ± {self.interval:.2f}" if self.interval is not None else ""
        search = {True: "; grammar-constrained search", False: "; free search", None: ""}[self.constrained]
        written = [f"{name} F1 = {total.labelled.f1:.2f}{width} (EVALB, COLLINS; gold tags{search})", *self.figures()]
        if self.difference:
            assert self.other is not None
            written += ["", f"{name} against {self.other.system}, p by paired bootstrap and by randomisation:"]
            written += [f"  {self.difference}"]
        if by_label:
            written += ["", f"{name} by label:", self.labels()]
        if by_length:
            written += ["", f"{name} by length:", self.lengths()]
        return written

    def figures(self) -> list[str]:
        """All that EVALB says, what was malformed, and what trees get that nobody thought about."""
        total, own = self.judged.total, Total.of(self.judged.own)
        told = [str(total)]
        told.append(
            f"no crossing {total.figures()['no_crossing']:.2f} %, two or less "
            f"{total.figures()['two_or_less_crossing']:.2f} % of sentences"
        )
        if self.form == "tags":
            told.append(
                f"own tags: accuracy {own.tagging_accuracy:.2f} % of words that are not punctuation; F1 under them "
                f"{own.labelled.f1:.2f}, {own.f1_of_all:.2f} where sentences whose punctuation is another by them "
                f"({own.errors:,}) count as not parsed"
            )
        if self.constrained is not None:
            told.append(str(self.judged.repairs))
        beside = ", ".join(f"{name} {found.labelled.f1:.2f}" for name, found in trivial(self.treebank).items())
        return [*told, f"trivial trees, F1: {beside}"]

    def labels(self) -> str:
        return label_table(dict(list(by_label(self.comparisons).items())[:LABELS]))

    def lengths(self) -> str:
        return length_table(by_length(self.comparisons))

    def record(self) -> dict[str, Any]:
        """Everything, for machines."""
        own, total, repairs = Total.of(self.judged.own), self.judged.total, self.judged.repairs
        figures = total.figures() | {"interval": self.interval, "tagging_accuracy": own.tagging_accuracy}
        if self.form != "tags":
            del figures["tagging_accuracy"]
        found: dict[str, Any] = {
            "system": self.system,
            "form": self.form,
            "constrained": self.constrained,
            **figures,
            "malformed": None if self.constrained is None else asdict(repairs) | {"rate": repairs.rate},
            "own_tags": own.figures() if self.form == "tags" else None,
            "trivial": {name: found.labelled.f1 for name, found in trivial(self.treebank).items()},
            "by_label": {name: {"f1": one.f1, **asdict(one)} for name, one in by_label(self.comparisons).items()},
            "by_length": {name: one.figures() for name, one in by_length(self.comparisons).items()},
        }
        if self.difference and self.other:
            comparison = asdict(self.difference)
            found["baseline"] = {"system": self.other.system, **self.other.judged.total.figures()}
            found["comparison"] = comparison | {
                "better": self.difference.better,
                "believed": self.difference.believed,
            }
        return found

    def draw(self, path: Path, title: str) -> None:
        """F1 by length, and that of the other parser where there is one."""
        from regard.view.scores import LengthScores, Point, length_png  # here: it loads matplotlib

        reports = [self, *([self.other] if self.other else [])]
        members = [in_ranges(one.comparisons) for one in reports]
        points = {
            one.system: [Point(Total.of(part).labelled.f1, f1_interval(part) or 0.0) for part in found.values()]
            for one, found in zip(reports, members, strict=True)
        }
        counts = [len(part) for part in members[0].values()]
        length_png([LengthScores(title, list(members[0]), counts, {"F1": points})], path)
