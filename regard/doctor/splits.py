"""Faults between the splits: held-out text that was trained on, and texts that were prepared in different ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from regard.doctor.characters import style
from regard.doctor.findings import Finding, at_lines, examples_of, examples_of_pairs, grade
from regard.doctor.languages import Profile, identify, sampled, words
from regard.doctor.texts import Bitext

FEWEST_WORDS = 3  # of a sentence that can leak
LONG = 12  # words beyond which two texts share a sentence by no chance
OPPOSITES = (("cased", "lower-cased"), ("tokenised", "raw"))
IGNORED = str.maketrans("", "", " \t\u00a0_-–—.,;:!?'\"`´‘’‚“”„«»‹›()[]{}<>/&…")


def core(line: str) -> str:
    """What is left of a sentence when case, spaces and punctuation do not count."""
    return line.lower().translate(IGNORED)


def leaks(held_out: Bitext, train: Bitext) -> Iterator[Finding]:
    """Held-out sentences that training text has too, case and punctuation aside."""
    wanted: dict[str, list[int]] = {}
    for number, line in enumerate(held_out.source.lines, start=1):
        if len(words(line)) >= FEWEST_WORDS:
            wanted.setdefault(core(line), []).append(number)
    found: dict[int, int] = {}  # held-out line → training line
    whole = set()
    for number, (source, target) in enumerate(train.pairs(), start=1):
        for same in wanted.get(core(source), ()):
            found.setdefault(same, number)
            if same <= len(held_out) and core(target) == core(held_out.target.lines[same - 1]):
                whole.add(same)
    numbers = sorted(found)
    if not numbers:
        return
    total = len(held_out.source.lines)
    chance = 0.0 if held_out.split == "test" and train.split == "train" else 0.001
    severity = grade(len(numbers), total, chance, 0.02)
    if severity == "note" and any(len(words(held_out.source.lines[n - 1])) > LONG for n in whole):
        severity = "warning"
    theirs = ", ".join(f"{found[n]:,}" for n in numbers[:3]) + (" …" if len(numbers) > 3 else "")
    many = len(numbers) > 1
    yield Finding(
        "leakage", severity, at_lines(held_out.source.file, numbers),
        f"{len(numbers):,} of {total:,} {held_out.split} sentences {'are' if many else 'is'} in {train.split} too "
        f"({train.source.file}, line{'s' if many else ''} {theirs}), {len(whole):,} with the same translation.",
        f"Take {'them' if many else 'it'} out of {train.split}: a score on what was trained on says nothing.",
        examples_of(held_out.source.lines, numbers),
    )  # fmt: skip


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


def backwards(bitext: Bitext, profile: Profile) -> bool:
    """Whether a text's source is in the language of the profile's target, and its target in that of the source."""
    if not profile.telling or not len(bitext):
        return False
    left, right = ([profile.side(line) for line in sampled(side.lines, 1_000)] for side in bitext.sides)
    return sum(a < 0 for a in left) > 0.6 * len(left) and sum(b > 0 for b in right) > 0.6 * len(right)


def same_direction(train: Bitext, other: Bitext, profile: Profile) -> Iterator[Finding]:
    """Splits whose source is the other split's target."""
    if backwards(other, profile):
        kinds = [identify(side.lines) or "?" for side in other.sides]
        yield Finding(
            "languages-swapped", "error", at_lines(other.files),
            f"The {other.split} text goes from {kinds[0]} to {kinds[1]}, the {train.split} text the other way.",
            f"Exchange the two files of {other.split}.",
            examples_of_pairs(other.source.lines, other.target.lines, [1]),
        )  # fmt: skip


def between(splits: Mapping[str, Bitext], profile: Profile | None) -> Iterator[Finding]:
    """All that is wrong between the splits there are."""
    for a, b in combinations(splits, 2):
        yield from leaks(splits[b], splits[a])
    if "train" in splits:
        for name, other in splits.items():
            if name != "train":
                yield from prepared_alike(splits["train"], other)
                if profile:
                    yield from same_direction(splits["train"], other, profile)
