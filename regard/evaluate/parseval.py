"""Brackets of parses against those of gold trees, by the rules of EVALB with its parameter file COLLINS.

    precision = matched / brackets of the parse      recall = matched / gold brackets      F1 = 2 P R / (P + R)

with brackets summed over all sentences before dividing (Black et al. 1991; the program of Sekine and Collins, 1997).
The rules, in the program's order:

1. Words tagged , : `` '' . or -NONE- are taken out of both trees, so that no bracket depends on where punctuation
   hangs. Brackets left without words go with them.
2. If nothing of the parse is left, the sentence is skipped; if its words are not those of the gold tree, it is an
   error. Neither kind is counted in any figure. How many there were must be said beside every score.
3. Labels lose their function tags: from the first - or = on.
4. Brackets labelled TOP are not counted. Tags are not brackets.
5. ADVP and PRT are the same label.
6. A bracket matches one of the same words and label, each one only once: of NP over NP both count.
7. A bracket of the parse crosses if it begins or ends in the middle of some gold bracket that it is not inside of or
   around; it counts once, however many it crosses.
8. A sentence matches exactly if all brackets do, in both directions. Its length is that of the gold tree, punctuation
   counted and traces not.

A parse without part-of-speech tags cannot be told where its punctuation is: give it the gold tags first, which is what
is done with EVALB too, and leave tagging accuracy unreported.

Departures from EVALB: F1 without any match is 0 and not NaN; limits on length are not kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from regard.data.trees import PUNCTUATION, TOP, TRACE, Tree
from regard.evaluate.counts import SAMPLES, generator, half_width
from regard.evaluate.lengths import LONGEST, range_of, ranges
from regard.wording import counted

Span = tuple[int, int]


@dataclass(frozen=True)
class Rules:
    """What is left out, and which labels are one: `same` maps a label to the one it is counted as."""

    left_out: frozenset[str]  # tags with their words, and labels of brackets
    same: Mapping[str, str]


COLLINS = Rules(frozenset({TOP, TRACE, *PUNCTUATION}), {"PRT": "ADVP"})


@dataclass(frozen=True)
class Brackets:
    """How many there are, and the figures they give, in percent."""

    gold: int = 0
    parsed: int = 0
    matched: int = 0

    @property
    def precision(self) -> float:
        return percent(self.matched, self.parsed)

    @property
    def recall(self) -> float:
        return percent(self.matched, self.gold)

    @property
    def f1(self) -> float:
        return percent(2 * self.matched, self.gold + self.parsed)

    def __add__(self, other: Brackets) -> Brackets:
        return Brackets(self.gold + other.gold, self.parsed + other.parsed, self.matched + other.matched)


@dataclass(frozen=True)
class Comparison:
    """One parse beside its gold tree. A sentence that is skipped or an error has no counts but `unscored`."""

    length: int
    status: Literal["scored", "skipped", "error"] = "scored"
    labelled: Brackets = Brackets()
    unlabelled: Brackets = Brackets()
    crossing: int = 0
    words: int = 0  # less those left out
    correct_tags: int = 0
    labels: Mapping[str, Brackets] = field(default_factory=dict)
    unscored: int = 0  # gold brackets of a sentence that is skipped or an error

    @property
    def exact(self) -> bool:
        return self.labelled.gold == self.labelled.parsed == self.labelled.matched


def compare(gold: Tree, parsed: Tree, rules: Rules = COLLINS) -> Comparison:
    """One sentence."""
    length = sum(tag != TRACE for tag in gold.tags)
    true, ours = Counted(gold, rules), Counted(parsed, rules)
    if not ours.words:
        return Comparison(length, "skipped", unscored=true.brackets.total())
    if true.words != ours.words:
        return Comparison(length, "error", unscored=true.brackets.total())
    matched = true.brackets & ours.brackets
    true_spans, our_spans = spans_of(true.brackets), spans_of(ours.brackets)
    return Comparison(
        length,
        labelled=Brackets(true.brackets.total(), ours.brackets.total(), matched.total()),
        unlabelled=Brackets(true_spans.total(), our_spans.total(), (true_spans & our_spans).total()),
        crossing=sum(count for span, count in our_spans.items() if crosses(span, true_spans)),
        words=len(true.words),
        correct_tags=sum(a == b for a, b in zip(true.tags, ours.tags, strict=True)),
        labels=counted_by_label(true.brackets, ours.brackets, matched),
    )


class Counted:
    """What of a tree is counted."""

    def __init__(self, tree: Tree, rules: Rules) -> None:
        kept = [i for i, tag in enumerate(tree.tags) if tag not in rules.left_out]
        self.words = [tree.words[i] for i in kept]
        self.tags = [rules.same.get(tree.tags[i], tree.tags[i]) for i in kept]
        before = [0]  # how many words are kept before each
        for tag in tree.tags:
            before.append(before[-1] + (tag not in rules.left_out))
        self.brackets: Counter[tuple[str, int, int]] = Counter()
        for label, start, end in tree.brackets:
            name = evalb_label(label)
            if before[start] < before[end] and name not in rules.left_out:
                self.brackets[rules.same.get(name, name), before[start], before[end]] += 1


def evalb_label(label: str) -> str:
    """As EVALB cuts it: from the first - or = on, also where that is the first letter (see `data.trees.bare`)."""
    return label.partition("-")[0].partition("=")[0]


def spans_of(brackets: Counter[tuple[str, int, int]]) -> Counter[Span]:
    found: Counter[Span] = Counter()
    for (_, start, end), count in brackets.items():
        found[start, end] += count
    return found


def crosses(span: Span, gold: Counter[Span]) -> bool:
    if span in gold:  # brackets of one tree never cross each other
        return False
    start, end = span
    return any(a < start < b < end or start < a < end < b for a, b in gold)


def counted_by_label(*counted: Counter[tuple[str, int, int]]) -> dict[str, Brackets]:
    """`counted`: gold brackets, parsed ones, matched ones."""
    sums: list[Counter[str]] = []
    for brackets in counted:
        sums.append(Counter())
        for (label, _, _), count in brackets.items():
            sums[-1][label] += count
    gold, parsed, matched = sums
    return {label: Brackets(gold[label], parsed[label], matched[label]) for label in sorted(gold | parsed)}


@dataclass(frozen=True)
class Total:
    """The figures of many sentences. Skipped ones and errors are in none but `sentences` and their own."""

    sentences: int
    skipped: int
    errors: int
    labelled: Brackets
    unlabelled: Brackets
    exact: int  # sentences
    crossing: int  # brackets
    no_crossing: int  # sentences
    two_or_less: int  # sentences with at most two crossing brackets
    words: int
    correct_tags: int
    unscored: int  # gold brackets of the sentences skipped and the errors

    @classmethod
    def of(cls, comparisons: Iterable[Comparison]) -> Total:
        everything = list(comparisons)
        scored = [one for one in everything if one.status == "scored"]
        return cls(
            sentences=len(everything),
            skipped=sum(one.status == "skipped" for one in everything),
            errors=sum(one.status == "error" for one in everything),
            labelled=sum((one.labelled for one in scored), Brackets()),
            unlabelled=sum((one.unlabelled for one in scored), Brackets()),
            exact=sum(one.exact for one in scored),
            crossing=sum(one.crossing for one in scored),
            no_crossing=sum(not one.crossing for one in scored),
            two_or_less=sum(one.crossing <= 2 for one in scored),
            words=sum(one.words for one in scored),
            correct_tags=sum(one.correct_tags for one in scored),
            unscored=sum(one.unscored for one in everything),
        )

    @property
    def scored(self) -> int:
        return self.sentences - self.skipped - self.errors

    @property
    def f1_of_all(self) -> float:
        """Labelled F1 where sentences skipped and errors count as not parsed: the one to believe if there are many."""
        return (self.labelled + Brackets(gold=self.unscored)).f1

    @property
    def exact_match(self) -> float:
        """In percent of the sentences scored."""
        return percent(self.exact, self.scored)

    @property
    def average_crossing(self) -> float:
        """Crossing brackets in a sentence."""
        return self.crossing / self.scored if self.scored else 0.0

    @property
    def tagging_accuracy(self) -> float:
        """In percent of the words scored, which punctuation is not among."""
        return percent(self.correct_tags, self.words)

    def figures(self) -> dict[str, float]:
        """By name, for a machine to read."""
        return {
            "sentences": self.sentences, "skipped": self.skipped, "errors": self.errors,
            "f1": self.labelled.f1, "precision": self.labelled.precision, "recall": self.labelled.recall,
            "f1_of_all": self.f1_of_all, "unlabelled_f1": self.unlabelled.f1,
            "unlabelled_precision": self.unlabelled.precision, "unlabelled_recall": self.unlabelled.recall,
            "exact_match": self.exact_match,
            "average_crossing": self.average_crossing, "no_crossing": percent(self.no_crossing, self.scored),
            "two_or_less_crossing": percent(self.two_or_less, self.scored), "tagging_accuracy": self.tagging_accuracy,
        }  # fmt: skip

    def __str__(self) -> str:
        lacking = f"{self.skipped:,} skipped and {counted(self.errors, 'error')}"
        lines = [f"{counted(self.sentences, 'sentence')}, of them {lacking}"]
        for name, one in (("labelled", self.labelled), ("unlabelled", self.unlabelled)):
            lines.append(f"{name:<10} F1 {one.f1:6.2f}   precision {one.precision:6.2f}   recall {one.recall:6.2f}")
        if self.unscored:
            lines.append(f"labelled   F1 {self.f1_of_all:6.2f} where sentences skipped and errors count as not parsed")
        lines.append(f"exact match {self.exact_match:.2f} %, crossing brackets {self.average_crossing:.2f} a sentence")
        return "\n".join(lines)


def f1_interval(comparisons: Sequence[Comparison], samples: int = SAMPLES) -> float | None:
    """Half the width of the 95 % interval of labelled F1, by bootstrap over the sentences scored."""
    scored = [one.labelled for one in comparisons if one.status == "scored"]
    if not scored or not samples:
        return None
    counts = np.array([(2 * one.matched, one.gold + one.parsed) for one in scored], dtype=np.float64)
    random, n = generator(), len(scored)
    totals = np.array([np.bincount(random.choice(n, size=n), minlength=n) @ counts for _ in range(samples)])
    return half_width(100 * totals[:, 0] / np.maximum(totals[:, 1], 1), n)


def by_label(comparisons: Iterable[Comparison]) -> dict[str, Brackets]:
    """Labelled brackets of each label, the most frequent in the gold trees first; PRT is counted with ADVP."""
    totals: dict[str, Brackets] = {}
    for one in comparisons:
        for label, brackets in one.labels.items():
            totals[label] = totals.get(label, Brackets()) + brackets
    return dict(sorted(totals.items(), key=lambda item: (-item[1].gold, item[0])))


def by_length(comparisons: Iterable[Comparison], longest: Sequence[int] = LONGEST) -> dict[str, Total]:
    """The figures of each range of lengths, such as `6–10`; ranges without a sentence are left out."""
    return {name: Total.of(inside) for name, inside in in_ranges(comparisons, longest).items()}


def in_ranges(comparisons: Iterable[Comparison], longest: Sequence[int] = LONGEST) -> dict[str, list[Comparison]]:
    """The sentences of each range of lengths that has any."""
    members: dict[str, list[Comparison]] = {name: [] for name in ranges(longest)}
    for one in comparisons:
        members[range_of(one.length, longest)].append(one)
    return {name: inside for name, inside in members.items() if inside}


def label_table(labels: Mapping[str, Brackets]) -> str:
    """Lines of text."""
    rows = [f"{'label':<12} {'gold':>7} {'parsed':>7} {'F1':>7} {'precision':>10} {'recall':>7}"]
    for name, one in labels.items():
        rows.append(
            f"{name:<12} {one.gold:>7,} {one.parsed:>7,} {one.f1:>7.2f} {one.precision:>10.2f} {one.recall:>7.2f}"
        )
    return "\n".join(rows)


def length_table(lengths: Mapping[str, Total]) -> str:
    """Lines of text."""
    rows = [f"{'words':>7} {'sentences':>10} {'F1':>7} {'precision':>10} {'recall':>7} {'exact match':>12}"]
    for name, one in lengths.items():
        figures = one.labelled
        rows.append(
            f"{name:>7} {one.sentences:>10,} {figures.f1:>7.2f} {figures.precision:>10.2f} {figures.recall:>7.2f} "
            f"{one.exact_match:>12.2f}"
        )
    return "\n".join(rows)


def percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
