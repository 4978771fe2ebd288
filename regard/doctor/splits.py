"""Faults between the splits: held-out text that was trained on, and texts that were prepared in different ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from regard.data.detection import words
from regard.data.near import near
from regard.doctor.characters import style
from regard.doctor.findings import Finding, at_lines, examples_of, grade
from regard.doctor.texts import Bitext

FEWEST_WORDS, FEWEST_LETTERS = 3, 8  # of a sentence that can leak; shorter ones meet by chance
ALIKE = 0.005  # share of targets that two different sources may have in common
LONG = 12  # words beyond which two texts share a sentence by no chance
OPPOSITES = (("cased", "lower-cased"), ("tokenised", "raw"))


@dataclass
class HeldOut:
    """The sentences of a held-out text by their near forms, and where a training text has them."""

    bitext: Bitext
    wanted: tuple[dict[str, list[int]], dict[str, list[int]]]  # of source and target: near form → lines
    found: tuple[dict[int, int], dict[int, int]]  # line → training line
    whole: set[int]  # lines that training text has with the same translation

    @classmethod
    def of(cls, bitext: Bitext) -> HeldOut:
        wanted: tuple[dict[str, list[int]], dict[str, list[int]]] = ({}, {})
        for side, forms in zip(bitext.sides, wanted, strict=True):
            for number, line in enumerate(side.lines, start=1):
                near_form = near(line)
                if len(near_form) >= FEWEST_LETTERS and len(words(line)) >= FEWEST_WORDS:
                    forms.setdefault(near_form, []).append(number)
        return cls(bitext, wanted, ({}, {}), set())

    def meet(self, number: int, source: str, target: str) -> None:
        """A training pair, by its near forms."""
        sources, targets = self.wanted[0].get(source, ()), self.wanted[1].get(target, ())
        for lines, found in zip((sources, targets), self.found, strict=True):
            for line in lines:
                found.setdefault(line, number)
        self.whole.update(set(sources) & set(targets))

    def findings(self, train: Bitext) -> Iterator[Finding]:
        """Sentences whose source is known; and those of which only the target is."""
        by_source, by_target = self.found
        by_target = {line: number for line, number in by_target.items() if line not in by_source}
        for i, found in enumerate((by_source, by_target)):
            if found:
                yield self.finding(i, found, train)

    def finding(self, i: int, found: dict[int, int], train: Bitext) -> Finding:
        numbers, side, split = sorted(found), self.bitext.sides[i], self.bitext.split
        total, many = len(side.lines), len(found) > 1
        tested = split == "test" and train.split == "train"
        severity = grade(len(numbers), total, ALIKE if i == 1 else 0.0 if tested else 0.001, 0.02)
        known = self.whole if i == 0 else set(numbers)
        if severity == "note" and any(len(words(side.lines[n - 1])) > LONG for n in known):
            severity = "warning"
        theirs = ", ".join(f"{found[n]:,}" for n in numbers[:3]) + (" …" if len(numbers) > 3 else "")
        what = "sentences" if i == 0 else "targets"
        same = f"{len(self.whole):,} with the same translation" if i == 0 else "for another source"
        return Finding(
            "leakage", severity, at_lines(side.file, numbers),
            f"{len(numbers):,} of {total:,} {split} {what} {'are' if many else 'is'} in {train.split} too "
            f"({train.sides[i].file}, line{'s' if many else ''} {theirs}), {same}.",
            f"Take {'them' if many else 'it'} out of {train.split}: a score on what was trained on says nothing.",
            examples_of(side.lines, numbers),
        )  # fmt: skip


def leaks(train: Bitext, others: Sequence[Bitext]) -> Iterator[Finding]:
    """Held-out sentences that training text has too; case, punctuation, spacing and numbers aside."""
    held_out = [HeldOut.of(bitext) for bitext in others]
    for number, (source, target) in enumerate(train.pairs(), start=1):
        forms = near(source), near(target)
        for one in held_out:
            one.meet(number, *forms)
    for one in held_out:
        yield from one.findings(train)


def prepared_alike(train: Bitext, other: Bitext) -> Iterator[Finding]:
    """Text that was lower-cased or tokenised for training, but not for use; or the reverse."""
    for ours, theirs in zip(train.sides, other.sides, strict=True):
        before, now = style(ours.lines), style(theirs.lines)
        for pair in OPPOSITES:
            for a, b in (pair, pair[::-1]):
                if a in before and b in now:
                    yield Finding(
                        "preprocessing-mismatch", "error", at_lines(theirs.file),
                        f"The {other.split} text is {b}, but the {train.split} text ({ours.file}) is {a}.",
                        f"Prepare both alike: make the {other.split} text {a}, or train on {b} text.",
                        (*examples_of(theirs.lines, [1]), *examples_of(ours.lines, [1])),
                    )  # fmt: skip


def between(splits: Mapping[str, Bitext]) -> Iterator[Finding]:
    """All that is wrong between the splits there are."""
    for i, train in enumerate(splits.values()):
        yield from leaks(train, list(splits.values())[i + 1 :])
    if "train" in splits:
        for name, other in splits.items():
            if name != "train":
                yield from prepared_alike(splits["train"], other)
