"""What is wrong with single pairs, and with their lot: nothing there, copies, lengths that do not fit, repetitions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from regard.data.detection import words
from regard.doctor.alignment import COPYING
from regard.doctor.findings import Finding, at_lines, examples_of, examples_of_pairs, grade, share
from regard.doctor.texts import Bitext

FAR = 8.0  # standard deviations of Gale & Church's length model
CODE = re.compile(r"[\W\d_]*|\S*\d\S*")  # figures and signs, or a single word with a figure in it
LONG_RUN = 5  # equal pairs in a row


def line_counts(bitext: Bitext, unrelated: Sequence[Finding], judged: bool) -> Iterator[Finding]:
    """Files of unequal length, and where the lines were lost: where those begin that were found to be shifted or
    unrelated, or at the end if all the others belong together; a small text cannot be `judged`."""
    left, right = len(bitext.source.lines), len(bitext.target.lines)
    if left == right:
        return
    longer, shorter = ("source", "target") if left > right else ("target", "source")
    parting = [finding.lines[0] for finding in unrelated if finding.code in ("shifted", "misaligned") and finding.lines]
    if parting:
        fix = f"Line {min(parting)} is the first that does not fit: begin there, as the next finding says."
    elif judged:
        fix = (
            f"The first {len(bitext):,} lines belong together: the {shorter} has lost its end. Get it, or cut the "
            f"{longer} to {len(bitext):,} lines."
        )
    else:
        fix = "From so little text it cannot be told where: compare the two line by line, from the end backwards."
    yield Finding(
        "line-counts-differ", "error", at_lines(bitext.files),
        f"The source has {left:,} lines, the target {right:,}: {abs(left - right):,} or more are lost on a side.", fix,
    )  # fmt: skip


def empty_lines(bitext: Bitext) -> Iterator[Finding]:
    for side in bitext.sides:
        numbers = [n for n, line in enumerate(side.lines, start=1) if not line.strip()]
        if numbers:
            yield Finding(
                "empty-lines", grade(len(numbers), len(side.lines)), at_lines(side.file, numbers),
                f"{share(len(numbers), len(side.lines))} are empty.",
                "Leave the pairs out, on both sides." if bitext.split == "train" else "Every line counts in a score.",
            )  # fmt: skip


def wordless(bitext: Bitext) -> Iterator[Finding]:
    """A side of ids or figures where the other has words: a column that was taken for text."""
    codes = [
        [n for n, line in enumerate(side.lines, start=1) if line.strip() and CODE.fullmatch(line.strip())]
        for side in bitext.sides
    ]
    shares = [len(numbers) / max(1, len(side.lines)) for numbers, side in zip(codes, bitext.sides, strict=True)]
    for i, side in enumerate(bitext.sides):
        if len(codes[i]) >= 10 and shares[i] > 0.9 and shares[1 - i] < 0.5:
            yield Finding(
                "no-words", "error", at_lines(side.file),
                f"{share(len(codes[i]), len(side.lines))} have no words, only numbers or ids, where the other side has "
                "text.",
                "Take the column that holds the text: regard data prepare --columns says which.",
                examples_of(side.lines, codes[i]),
            )  # fmt: skip


def copies(bitext: Bitext) -> Iterator[Finding]:
    """Targets that are their source. Names and numbers may well be; sentences may not, unless copying is the task."""
    equal = [n for n, (a, b) in enumerate(bitext.pairs(), start=1) if a == b and a.strip()]
    long = [n for n in equal if len(words(bitext.source.lines[n - 1])) >= 4]
    if not long or len(equal) > COPYING * len(bitext):
        return
    yield Finding(
        "copies", grade(len(long), len(bitext), 0.0002, 0.1), at_lines(bitext.files, long),
        f"{share(len(long), len(bitext))} have the source as their target.",
        "Leave these pairs out: a model learns from them to copy instead of to translate.",
        examples_of(bitext.source.lines, long),
    )  # fmt: skip


def lengths(bitext: Bitext) -> Iterator[Finding]:
    """Lengths that do not fit each other, by the model of Gale & Church (1993): the difference from the expected length
    grows with the root of the length. And lines much longer than all others."""
    if len(bitext) < 20:
        return
    pairs = np.array([(len(a), len(b)) for a, b in bitext.pairs()], dtype=np.float64)
    source, target = pairs[:, 0], pairs[:, 1]
    filled = (source > 0) & (target > 0)
    rate = float(np.median(target[filled] / source[filled])) if filled.any() else 1.0
    off = (target - rate * source) / np.sqrt((rate * source + target) / 2 + 5)
    spread = max(1.4826 * float(np.median(np.abs(off[filled]))) if filled.any() else 1.0, 0.5)
    factor = np.maximum(target / np.maximum(rate * source, 1), rate * source / np.maximum(target, 1))
    bad = filled & (np.abs(off) > FAR * spread) & (factor > 2.5) & (np.abs(target - rate * source) > 20)
    numbers = (np.flatnonzero(bad) + 1).tolist()
    if numbers:
        yield Finding(
            "length-ratio", grade(len(numbers), len(bitext), 0.0003), at_lines(bitext.files, numbers),
            f"{share(len(numbers), len(bitext))} have a target far too long or too short for their source "
            f"(a target has {rate:.2g} characters for each of the source).",
            "Look at them: parts are missing, or the lines do not belong together.",
            examples_of_pairs(bitext.source.lines, bitext.target.lines, numbers),
        )  # fmt: skip
    for side, size in zip(bitext.sides, (source, target), strict=True):
        yield from outliers(bitext, side.file, side.lines, size)


def outliers(bitext: Bitext, file: str, lines: list[str], size: np.ndarray) -> Iterator[Finding]:
    """Lines that stand out by their length alone: beyond a tail that falls as the rest of the file's does."""
    median, high = np.median(size), np.quantile(size, 0.99)
    limit = max(10 * median, 3 * high, 500)
    numbers = (np.flatnonzero(size > limit) + 1).tolist()
    if numbers:
        yield Finding(
            "length-outliers", grade(len(numbers), len(bitext), 0.0001), at_lines(file, numbers),
            f"{share(len(numbers), len(bitext))} have more than {limit:,.0f} characters, where half have at most "
            f"{median:,.0f}.",
            "Split them into sentences, or leave the pairs out: one of them fills a batch.",
            examples_of(lines, numbers),
        )  # fmt: skip


def duplicates(bitext: Bitext) -> Iterator[Finding]:
    """Pairs that occur again. Some are in every real text; the many are a fault of its making."""
    seen: Counter[tuple[str, str]] = Counter()
    again = []
    for number, pair in enumerate(bitext.pairs(), start=1):
        seen[pair] += 1
        if seen[pair] > 1 and any(pair):
            again.append(number)
    if not again:
        return
    (most, times), *_ = seen.most_common(1)
    grave = times > max(20, 0.01 * len(bitext))
    severity = grade(len(again), len(bitext), 0.02, 0.3)
    yield Finding(
        "duplicates", "warning" if grave and severity == "note" else severity, at_lines(bitext.files, again),
        f"{share(len(again), len(bitext))} repeat an earlier pair; the commonest occurs {times:,} times.",
        "Keep one of each: the others weigh the training and, in a test set, the score.",
        examples_of_pairs([most[0]], [most[1]], [1]),
    )  # fmt: skip


def one_to_many(bitext: Bitext) -> Iterator[Finding]:
    """The same target, or the same source, for many different lines: a default text of some program."""
    for side, other in (bitext.sides, bitext.sides[::-1]):
        often = [line for line, n in Counter(side.lines).most_common(5) if n > max(10, 0.002 * len(bitext))]
        for line in (line for line in often if len(words(line)) >= 2):
            numbers = [n for n, text in enumerate(side.lines, start=1) if text == line]
            others = {other.lines[n - 1] for n in numbers if n <= len(other.lines)}
            if len(others) < 0.5 * len(numbers):
                continue
            yield Finding(
                "same-line", grade(len(numbers), len(bitext)), at_lines(side.file, numbers),
                f"One line stands beside {len(others):,} different ones.",
                "Look whether a program has put it there; leave the pairs out.", examples_of(side.lines, numbers[:1]),
            )  # fmt: skip


def too_small(bitext: Bitext) -> Iterator[Finding]:
    if not len(bitext):
        yield Finding("no-text", "error", at_lines(bitext.files), "There is no pair of lines.", "Take the right files.")
    elif bitext.split == "train" and len(bitext) < 500:
        yield Finding(
            "little-text", "note", at_lines(bitext.files), f"There are only {len(bitext):,} pairs.",
            "Some checks need more text to be sure of anything.",
        )  # fmt: skip
    elif bitext.split != "train" and len(bitext) < 100:
        yield Finding(
            "little-text", "note", at_lines(bitext.files), f"There are only {len(bitext):,} pairs to score on.",
            "A score on so few says little: take some hundreds.",
        )  # fmt: skip


CHECKS = (empty_lines, wordless, copies, lengths, duplicates, one_to_many, too_small)
