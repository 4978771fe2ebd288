"""Do the lines of two files belong together? Judged by a lexicon learned from the corpus itself.

A path through the lines is sought that follows the best offset between the sides (none, or the target some lines late
or early, or no relation at all) and pays for every change of it, so that a shift is named with its first and last line
and a single free translation is not taken for one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from regard.doctor.findings import Finding, at_lines, examples_of_pairs, grade
from regard.doctor.lexicon import Judge
from regard.doctor.texts import Bitext

OFFSETS = (0, 1, -1, 2, -2)  # target line − source line
FURTHEST = 60  # lines to look for the partners of a stretch in
FEWEST = 150  # pairs below which a lexicon cannot be learned
FEWEST_TO_COMPARE = 50  # pairs from which it shows what is usual
COPYING = 0.9  # share of equal pairs from which copying is the task
LARGE = 2_000  # pairs from which on a text has enough words of its own
LEARNED = 30_000  # pairs to learn from
SCORED, SCORED_LINKS = 40_000, 6_000_000  # lines, and their word pairs, to judge; of more, every so many-th line
CHANGE = 30.0  # what a change of offset costs, in nats
CAP = 12.0  # the most one line can say, in nats
SHORTEST = 3  # lines of a stretch
NEAR = 5  # lines by which the path may miss the end of a stretch
UNSURE = 0.3  # nats per word by which true pairs must beat strangers for a lexicon to be of use
ODDS = 7.0  # nats by which a pair must look more like strangers than like a translation


@dataclass(frozen=True)
class Stretch:
    first: int  # line of the source, from 0
    last: int
    offset: int | None  # None: no relation


def learn(bitext: Bitext) -> Judge | None:
    """A judge of the corpus, unless it is too small or its lines do not tell which words belong together."""
    lines, chance = comparable(bitext), np.random.default_rng(0)
    if len(lines) < FEWEST:
        return None
    sample = chance.permutation(lines)[:LEARNED]
    judge = Judge(bitext.source.lines, bitext.target.lines, sample, sample)
    return judge if useful(judge, lines, chance) else None


def comparable(bitext: Bitext) -> np.ndarray:
    """The lines, from 0, that are no copies: those are another fault, and teach that words translate themselves.
    Where nearly all are, copying is the task."""
    if not len(bitext):
        return np.arange(0)
    copied = np.fromiter((a == b for a, b in bitext.pairs()), dtype=bool, count=len(bitext))
    return np.arange(len(bitext)) if copied.mean() > COPYING else np.flatnonzero(~copied)


def judge_of(bitext: Bitext, teacher: Judge | None) -> Judge | None:
    """A small text is better judged by what a large one has taught."""
    if teacher and len(bitext) < LARGE:
        return teacher.on(bitext.source.lines, bitext.target.lines)
    return learn(bitext)


def alignment(bitext: Bitext, judge: Judge | None) -> Iterator[Finding]:
    """Shifts, unrelated stretches and unrelated pairs."""
    chance = np.random.default_rng(0)
    source, target = bitext.source.lines, bitext.target.lines
    if not len(bitext):
        return
    lines = comparable(bitext)
    if judge is None:
        yield from unaligned(bitext, lines, chance)
        return
    stretches = off_diagonal(judge, lines)
    for stretch in stretches:
        yield shifted(bitext, stretch)
    some = lines[:: stride(judge, lines)]
    if stretches:
        some, sample = outside(stretches, some), outside(stretches, chance.permutation(lines)[:LEARNED])
        if judge.learned_here and len(sample) >= FEWEST:  # what the stretches have taught is wrong
            judge = Judge(source, target, sample, sample)
    yield from strangers(bitext, judge, some, chance)


def off_diagonal(judge: Judge, lines: np.ndarray) -> list[Stretch]:
    """The stretches where lines of the same number do not belong together."""
    step = stride(judge, lines)
    stretches = follow(judge, lines[::step])
    if step > 1:
        stretches = [refine(judge, stretch, step, lines) for stretch in stretches]
    found = [replace(one, offset=partners(judge, one)) if one.offset is None else one for one in stretches]
    return sharpened(judge, found, int(lines[-1]) + 1) if found else []


def stride(judge: Judge, lines: np.ndarray) -> int:
    """Every how many-th line can be judged in good time."""
    few = lines[:: max(1, len(lines) // 1_000)]
    links = float(np.mean(judge.source.take(few).lengths * judge.target.take(few).lengths)) if len(few) else 1.0
    return math.ceil(len(lines) / min(SCORED, SCORED_LINKS / max(links, 1.0))) or 1


def outside(stretches: list[Stretch], lines: np.ndarray) -> np.ndarray:
    for stretch in stretches:
        lines = lines[(lines < stretch.first) | (lines > stretch.last)]
    return lines


def useful(judge: Judge, lines: np.ndarray, chance: np.random.Generator, offset: int = 0) -> bool:
    """Whether pairs the lexicon has not seen look more like translations than lines put together by chance."""
    lines = lines[:: max(1, len(lines) // 4_000)]
    sizes = np.maximum(judge.sizes(lines), 1)
    gain = judge.score(lines, lines + offset) - judge.score(lines, chance.permutation(lines))
    return float(np.mean(gain / sizes)) > UNSURE


def unaligned(bitext: Bitext, lines: np.ndarray, chance: np.random.Generator) -> Iterator[Finding]:
    """No relation line by line: perhaps most of the file is shifted, or all of it."""
    n = len(bitext)
    if len(lines) < FEWEST:
        return
    source, target = bitext.source.lines, bitext.target.lines
    parts = [(part, 0) for part in np.array_split(lines, 4) if len(part) >= FEWEST]
    for offset in [o for o in OFFSETS if o] + [o * sign for o in range(3, 6) for sign in (1, -1)]:
        parts.append((lines[(lines >= abs(offset)) & (lines < n - abs(offset))], offset))
    for part, offset in parts:
        left = chance.permutation(part)[: LEARNED // 3]
        judge = Judge(source, target, left, left + offset)
        if useful(judge, part, chance, offset):
            stretches = off_diagonal(judge, lines)
            for stretch in stretches or ([Stretch(0, n - 1, offset)] if offset else []):
                yield shifted(bitext, stretch)
            return
    if n >= 1_000:  # in less text a lexicon may fail for want of repeated words
        yield Finding(
            "misaligned", "error", at_lines(bitext.files),
            "The lines of the two files have nothing to do with each other, as far as their words tell.",
            "Check that both files were made from the same text in the same order (sorting or shuffling one side does "
            "this).",
            examples_of_pairs(source, target, [1, 2]),
        )  # fmt: skip


def follow(judge: Judge, lines: np.ndarray) -> list[Stretch]:
    """The stretches of `lines` off the diagonal, by the cheapest path (Viterbi)."""
    if not len(lines):
        return []
    none = np.zeros(len(lines))  # no relation, which gains nothing
    each = np.stack([*(gains(judge, lines, offset) for offset in OFFSETS), none], axis=1).clip(-CAP, CAP)
    best, back = each[0].copy(), np.zeros(each.shape, dtype=np.int8)
    best[1:] -= CHANGE
    stay = np.arange(each.shape[1])
    for i in range(1, len(lines)):
        leader = int(best.argmax())
        moved = best[leader] - CHANGE > best
        back[i] = np.where(moved, leader, stay)
        best = np.where(moved, best[leader] - CHANGE, best) + each[i]
    state, path = int(best.argmax()), np.zeros(len(lines), dtype=np.int8)
    for i in range(len(lines) - 1, -1, -1):
        path[i] = state
        state = back[i, state]
    return list(runs(path, lines))


def gains(judge: Judge, lines: np.ndarray, offset: int) -> np.ndarray:
    """What each source line says for its partner's standing so many lines further on."""
    inside = (lines + offset >= 0) & (lines + offset < len(judge.target.lines))
    found = np.full(len(lines), -CAP)
    found[inside] = judge.score(lines[inside], lines[inside] + offset)
    return found


def runs(path: np.ndarray, lines: np.ndarray) -> Iterator[Stretch]:
    edges = np.flatnonzero(np.diff(path)) + 1
    for part in np.split(np.arange(len(path)), edges):
        if path[part[0]] and len(part) >= SHORTEST:
            offset = OFFSETS[path[part[0]]] if path[part[0]] < len(OFFSETS) else None
            yield Stretch(int(lines[part[0]]), int(lines[part[-1]]), offset)


def refine(judge: Judge, stretch: Stretch, step: int, lines: np.ndarray) -> Stretch:
    """The exact ends of a stretch that was found in every `step`-th line: its surroundings, followed line by line."""
    margin, n = 3 * step, int(lines[-1]) + 1

    def ends(first: int, last: int) -> list[Stretch]:
        found = follow(judge, lines[(lines >= first) & (lines < last)])
        return [one for one in found if one.offset == stretch.offset]

    before = ends(stretch.first - margin, stretch.first + margin)
    after = ends(stretch.last - margin, stretch.last + margin)
    first = before[0].first if before and stretch.first else stretch.first
    last = after[-1].last if after and stretch.last < n - step else n - 1 if stretch.last >= n - step else stretch.last
    return Stretch(first, last, stretch.offset)


def sharpened(judge: Judge, stretches: list[Stretch], n: int) -> list[Stretch]:
    """The stretches with their exact ends. The path cannot tell them: where the target has lost a line, the source's
    stands alone and goes with the lines before it or after it, as chance will."""
    parts = list(covering(stretches, n))
    for i in range(1, len(parts)):
        first = boundary(judge, parts[i - 1], parts[i])
        parts[i - 1], parts[i] = replace(parts[i - 1], last=first - 1), replace(parts[i], first=first)
    return [part for part in parts if part.offset != 0 and part.first <= part.last]


def covering(stretches: list[Stretch], n: int) -> Iterator[Stretch]:
    """All of `n` lines: the stretches, and what lies between them."""
    first = 0
    for stretch in stretches:
        if first < stretch.first:
            yield Stretch(first, stretch.first - 1, 0)
        yield stretch
        first = stretch.last + 1
    if first < n:
        yield Stretch(first, n - 1, 0)


def boundary(judge: Judge, left: Stretch, right: Stretch) -> int:
    """The first line of the right stretch: where the pairs before and after it score best together. The lines that
    have lost their partners there count for neither, and go with the stretch that is off the diagonal."""
    if left.offset is None or right.offset is None:
        return right.first
    lost = max(0, left.offset - right.offset)
    reach = NEAR + lost
    lines = np.arange(max(left.first, right.first - reach), min(right.last + 1, right.first + reach))
    if lost > FURTHEST or len(lines) <= lost:
        return right.first
    before, after = (
        np.concatenate([[0.0], np.cumsum(gains(judge, lines, offset))]) for offset in (left.offset, right.offset)
    )
    totals = before[: len(before) - lost] + after[-1] - after[lost:]
    last = int(np.flatnonzero(totals > totals.max() - 1e-6)[-1])  # of a doubled line, the second is too many
    return int(lines[0]) + last + (lost if right.offset == 0 else 0)


def shifted(bitext: Bitext, stretch: Stretch) -> Finding:
    first, last = stretch.first + 1, stretch.last + 1
    offset = stretch.offset
    to_end = last >= len(bitext) - max(2, abs(offset or 0))
    where = at_lines(bitext.files, range(first, last + 1))
    examples = examples_of_pairs(bitext.source.lines, bitext.target.lines, [first])
    whole = first == 1 and to_end
    span = "All lines" if whole else f"From line {first} " + ("on" if to_end else f"to {last}")
    if offset is None:
        rest = (
            "get both aligned anew" if whole else "cut both files there" if to_end else "take these lines out of both"
        )
        return Finding(
            "misaligned", "error", where, f"{span}, source and target have nothing to do with each other.",
            f"Look at line {first}, where they part; {rest}.", examples,
        )  # fmt: skip
    count = f"{abs(offset)} line{'s' if abs(offset) > 1 else ''}"
    more, less = ("target", "source") if offset > 0 else ("source", "target")
    return Finding(
        "shifted", "error", where, f"{span}, the target is {count} {'late' if offset > 0 else 'early'}.",
        f"Look at line {first}: the {more} has {count} too many there, or the {less} has lost {count}. Mend it, "
        "and ask the doctor again.", examples,
    )  # fmt: skip


def partners(judge: Judge, stretch: Stretch) -> int | None:
    """The offset at which the partners of an unrelated stretch stand, if they are near, or as far as the files differ
    in length."""
    lines = np.arange(stretch.first, stretch.last + 1)
    lines = lines[:: math.ceil(len(lines) / 200)]
    n_target = len(judge.target.lines)
    difference = n_target - len(judge.source.lines)
    best, found = 0.0, None
    for offset in sorted({*range(-FURTHEST, FURTHEST + 1), difference}):
        inside = lines[(lines + offset >= 0) & (lines + offset < n_target)]
        if len(inside) >= max(SHORTEST, len(lines) // 2):
            gain = float(judge.score(inside, inside + offset).clip(-CAP, CAP).mean())
            if gain > max(best, 2.0):
                best, found = gain, offset
    return found


def strangers(bitext: Bitext, judge: Judge, lines: np.ndarray, chance: np.random.Generator) -> Iterator[Finding]:
    """Single pairs that look like two lines put together by chance. What translations and strangers look like is
    learned from the corpus: scores of so many words, normal around so much a word."""
    if len(lines) < FEWEST_TO_COMPARE:
        return
    sizes = judge.sizes(lines).astype(np.float64)
    lines, sizes = lines[sizes >= 3], sizes[sizes >= 3]
    true, other = judge.score(lines, lines), chance.permutation(lines)
    random, random_sizes = judge.score(lines, other), judge.sizes(other)
    odds = likelihood(true, sizes, random[random_sizes >= 3], random_sizes[random_sizes >= 3])
    odds -= likelihood(true, sizes, true, sizes)
    numbers = (lines[(odds > ODDS) & (true < 0)] + 1).tolist()
    if not numbers:
        return
    severity = grade(len(numbers), len(lines), max(0.0004, 1.5 / len(lines)))
    looked = f" of {len(lines):,} looked at" if len(lines) < len(bitext) else f" of {len(lines):,}"
    yield Finding(
        "misaligned-pairs", severity, at_lines(bitext.files, numbers),
        f"{len(numbers):,} pairs{looked} do not look like translations of each other.",
        "Compare them and leave out those that are not.",
        examples_of_pairs(bitext.source.lines, bitext.target.lines, numbers),
    )  # fmt: skip


def likelihood(scores: np.ndarray, sizes: np.ndarray, seen: np.ndarray, seen_sizes: np.ndarray) -> np.ndarray:
    """log p(score | words), normal with the mean and the spread per word of what was seen."""
    mean = float(np.median(seen / seen_sizes))
    spread = 1.4826 * float(np.median(np.abs(seen - mean * seen_sizes) / np.sqrt(seen_sizes))) + 1e-6
    z = (scores - mean * sizes) / (spread * np.sqrt(sizes))
    return -0.5 * z**2 - math.log(spread)
