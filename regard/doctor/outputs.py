"""Translations that are bad in a way that can be seen without knowing the right one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from regard.data.detection import words
from regard.doctor.findings import Finding, at_lines, examples_of_pairs, grade
from regard.doctor.languages import SURE, Profile

LOOP = re.compile(r"(?:^|\s)(\S+(?:\s+\S+){0,7}?)(?:\s+\1){3,}(?=\W|$)")  # the same words four times in a row
TIGHT_LOOP = re.compile(r"([^\W\d_]{2,8}?)\1{5,}|(\S)\2{15,}")
UNKNOWN = re.compile("⁇|<unk>", re.IGNORECASE)


def loops(sources: Sequence[str], outputs: Sequence[str], references: Sequence[str]) -> list[int]:
    """Outputs that go round in circles where the reference does not."""
    return [
        n
        for n, (output, reference) in enumerate(zip(outputs, references, strict=True), start=1)
        if (LOOP.search(output) or TIGHT_LOOP.search(output)) and not LOOP.search(reference)
    ]


def empty(sources: Sequence[str], outputs: Sequence[str], references: Sequence[str]) -> list[int]:
    triples = zip(sources, outputs, references, strict=True)
    return [n for n, (s, o, r) in enumerate(triples, start=1) if s.strip() and r.strip() and not o.strip()]


def copied(sources: Sequence[str], outputs: Sequence[str], references: Sequence[str]) -> list[int]:
    """Outputs that repeat their source where the reference does not."""
    triples = zip(sources, outputs, references, strict=True)
    return [n for n, (s, o, r) in enumerate(triples, start=1) if len(words(s)) >= 3 and s == o != r]


def unknown(sources: Sequence[str], outputs: Sequence[str], references: Sequence[str]) -> list[int]:
    triples = zip(outputs, references, strict=True)
    return [n for n, (o, r) in enumerate(triples, start=1) if UNKNOWN.search(o) and not UNKNOWN.search(r)]


KINDS = (
    (loops, "output-repeats", "repeat themselves", "Train longer; check that the training text has no such lines."),
    (empty, "output-empty", "are empty", "Check decode.length_penalty and the training text for empty targets."),
    (copied, "output-copies", "repeat their source", "Look for copies and untranslated lines in the training text."),
    (unknown, "output-unknown", "hold unknown tokens", "Train with tokenizer.byte_fallback = true."),
)  # fmt: skip


def examine(
    sources: Sequence[str], outputs: Sequence[str], references: Sequence[str], profile: Profile | None, file: str
) -> Iterator[Finding]:
    """What is wrong with outputs, line by line of `file`."""
    total = len(outputs)
    if not total:
        return
    for check, code, what, fix in KINDS:
        numbers = check(sources, outputs, references)
        if numbers:
            yield Finding(
                code, grade(len(numbers), total, 0.02, 0.2), at_lines(file, numbers),
                f"{len(numbers)} of {total} translations {what}.", fix, examples_of_pairs(sources, outputs, numbers),
            )  # fmt: skip
    if profile and profile.telling:
        wrong = [n for n, (o, r) in enumerate(zip(outputs, references, strict=True), start=1)
                 if profile.side(o) > SURE > profile.side(r)]  # fmt: skip
        if wrong:
            yield Finding(
                "output-language", grade(len(wrong), total, 0.02, 0.2), at_lines(file, wrong),
                f"{len(wrong)} of {total} translations are in the language of the source.",
                "Look for swapped, copied and untranslated lines in the training text.",
                examples_of_pairs(sources, outputs, wrong),
            )  # fmt: skip
    yield from sizes(sources, outputs, references, file)
    yield from always_the_same(sources, outputs, file)


def sizes(sources: Sequence[str], outputs: Sequence[str], references: Sequence[str], file: str) -> Iterator[Finding]:
    ours, theirs = sum(map(len, outputs)), max(1, sum(map(len, references)))
    if not 0.7 < ours / theirs < 1.4:
        short = ours < theirs
        yield Finding(
            "output-length", "error" if not 0.4 < ours / theirs < 2.5 else "warning", at_lines(file),
            f"The translations have {ours / theirs:.2f} times the characters of the references: they are too "
            f"{'short' if short else 'long'}.",
            "Raise decode.length_penalty or train longer." if short else "Lower decode.length_penalty or train longer.",
            examples_of_pairs(outputs, references, [1]),
        )  # fmt: skip


def always_the_same(sources: Sequence[str], outputs: Sequence[str], file: str) -> Iterator[Finding]:
    """One translation for many sources."""
    different = {(s, o) for s, o in zip(sources, outputs, strict=True)}
    (text, times), *_ = Counter(o for _, o in different).most_common(1)
    if text.strip() and times >= 3 and times > 0.05 * len(different):
        numbers = [n for n, output in enumerate(outputs, start=1) if output == text]
        yield Finding(
            "output-ignores-source", "error" if times > 0.3 * len(different) else "warning", at_lines(file, numbers),
            f"{times} different sentences of {len(different)} have the same translation.",
            "The model does not look at its source: train longer, and check that source and target belong together.",
            examples_of_pairs(sources, outputs, numbers),
        )  # fmt: skip
