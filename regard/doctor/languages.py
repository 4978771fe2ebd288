"""Which language a text is in, without a dependency: the commonest words of some languages, by `regard.data.detection`,
tell what a file is, and the two sides of a corpus, compared with each other, tell to which of them a line belongs."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_letters

from regard.data.detection import WORDS, words
from regard.data.languages import name_of
from regard.data.scripts import LANGUAGES, SCRIPTS
from regard.doctor.findings import Finding, at_lines, examples_of, examples_of_pairs, grade, share
from regard.doctor.texts import Bitext, Side, Sought, scan

HOMOGLYPHS = re.compile("[\u0370-\u052f](?:(?<=[A-Za-z].)|(?=[A-Za-z]))")
LATIN = ascii_letters

SAMPLE = 20_000  # lines from which a side's words are learned
LOOKED_AT = 150_000  # lines whose language is judged; of more, every so many-th
SURE = 6.0  # log-odds at which a line belongs to the other side
TOLERATED = 0.0002  # share of lines in another language that is normal: quotations, titles, names


def sampled(lines: Sequence[str], most: int = SAMPLE) -> Sequence[str]:
    return lines[:: math.ceil(len(lines) / most)] if lines else lines


def identify(lines: Sequence[str]) -> str:
    """The language of a text, "" where it is none of those known here, or no language."""
    counts = Counter(word for line in sampled(lines, 3_000) for word in words(line))
    total = sum(counts.values())
    if total < 50 or sum(n for word, n in counts.items() if len(word) == 1) > 0.5 * total:  # symbols
        return ""
    hits = {
        language: sum(counts[word] for word in common) / total if sum(word in counts for word in common) > 3 else 0.0
        for language, common in WORDS.items()
    }
    (best, most), (_, second) = sorted(hits.items(), key=lambda item: -item[1])[:2]
    return best if most > 0.1 and most > 1.25 * second else ""


@dataclass(frozen=True)
class Profile:
    """How much likelier each word is in source text than in target text, as a log of the ratio."""

    odds: dict[str, float]
    telling: bool  # whether the two sides can be told apart at all

    @classmethod
    def of(cls, source: Sequence[str], target: Sequence[str]) -> Profile:
        source, target = sampled(source), sampled(target)
        left, right = (Counter(word for line in lines for word in set(words(line))) for lines in (source, target))
        known = [word for word in left.keys() | right.keys() if left[word] + right[word] >= 3]
        scale = math.log((len(target) + 1) / (len(source) + 1))
        odds = {word: max(-4.0, min(4.0, math.log((left[word] + 0.5) / (right[word] + 0.5)) + scale)) for word in known}
        profile = cls(odds, False)
        right_way = sum(profile.side(line) > 0 for line in source) + sum(profile.side(line) < 0 for line in target)
        return cls(odds, right_way > 0.85 * (len(source) + len(target)) > 0)

    def side(self, line: str) -> float:
        """Above zero: source text. Below: target text."""
        return sum(self.odds.get(word, 0.0) for word in set(words(line)))


def wrong_lines(bitext: Bitext, profile: Profile) -> Iterator[Finding]:
    """Lines in the language of the other side: exchanged pairs, and what was never translated."""
    if not profile.telling:
        return
    lines = range(1, len(bitext) + 1, math.ceil(len(bitext) / LOOKED_AT) or 1)
    total = len(lines)
    exchanged, untranslated, foreign = [], [], []
    for number in lines:
        source, target = bitext.source.lines[number - 1], bitext.target.lines[number - 1]
        left, right = profile.side(source), profile.side(target)
        if left < -SURE and right > SURE:
            exchanged.append(number)
        elif right > SURE and left > -1 and source != target:
            untranslated.append(number)
        elif left < -SURE and right < 1 and source != target:
            foreign.append(number)
    both = bitext.source.lines, bitext.target.lines
    if exchanged:
        yield Finding(
            "lines-swapped", grade(len(exchanged), total, 0.0001), at_lines(bitext.files, exchanged),
            f"{share(len(exchanged), total)} have source and target exchanged.", "Exchange them back.",
            examples_of_pairs(*both, exchanged),
        )  # fmt: skip
    if untranslated:
        yield Finding(
            "untranslated", grade(len(untranslated), total, TOLERATED), at_lines(bitext.target.file, untranslated),
            f"{share(len(untranslated), total)} of the target are in the language of the source.",
            "Translate them or leave the pairs out: a model learns from them not to translate.",
            examples_of_pairs(*both, untranslated),
        )  # fmt: skip
    if foreign:
        yield Finding(
            "source-in-target-language", grade(len(foreign), total, TOLERATED), at_lines(bitext.source.file, foreign),
            f"{share(len(foreign), total)} of the source are in the language of the target.",
            "Leave the pairs out.", examples_of_pairs(*both, foreign),
        )  # fmt: skip


def third_languages(side: Side, other: Side, expected: str) -> Iterator[Finding]:
    """Lines in a language that is neither side's. One that is expected but not known here cannot be judged."""
    own, theirs = identify(side.lines), identify(other.lines)
    if not own or (expected and expected not in WORDS):
        return
    numbers, kinds = [], Counter[str]()
    strangers = {
        word: [k for k, common in WORDS.items() if word in common] for common in WORDS.values() for word in common
    }
    lines = range(1, len(side.lines) + 1, math.ceil(len(side.lines) / LOOKED_AT) or 1)
    for number in lines:
        seen = [word for word in set(words(side.lines[number - 1])) if word in strangers]
        if sum(own not in strangers[word] for word in seen) < 3:
            continue
        hits = Counter(language for word in seen for language in strangers[word])
        best, most = hits.most_common(1)[0]
        if most >= 4 and 4 * hits[own] < most and best != theirs:
            numbers.append(number)
            kinds[best] += 1
    if numbers:
        named = " or ".join(name_of(kind) for kind, _ in kinds.most_common(2))
        yield Finding(
            "other-language", grade(len(numbers), len(lines), TOLERATED), at_lines(side.file, numbers),
            f"{share(len(numbers), len(lines))} seem to be {named}, where the rest is {name_of(own)}.",
            "Leave the pairs out.",
            examples_of(side.lines, numbers),
        )  # fmt: skip


def script_counts(lines: Sequence[str]) -> dict[str, int]:
    sample = "".join(sampled(lines, 2_000))
    return {name: len(re.findall(f"[{letters}]", sample)) for name, letters in SCRIPTS.items()}


def main_script(lines: Sequence[str]) -> tuple[str, int]:
    """The script of most letters of a text, and how many these are in a sample of it."""
    counts = script_counts(lines)
    return max(counts.items(), key=lambda item: item[1])


def companions(counts: Mapping[str, int], main: str) -> set[str]:
    """A text's main script, and those that stand in one sentence with it: Han beside kana or Hangul. It is the kana, or
    the Hangul, that tells whose Han it is."""
    mixed = [names.split() for names in LANGUAGES if "Han" in names.split()]
    return {main}.union(*(names for names in mixed if main in names and counts[names[0]] > 0.05 * counts[main]))


def scripts(side: Side) -> Iterator[Finding]:
    """Lines in another script than the rest of the file, and words made of two scripts."""
    counts = script_counts(side.lines)
    main, letters = main_script(side.lines)
    if letters < 100:
        return
    own = companions(counts, main)
    foreign = re.compile("[" + "".join(letters for name, letters in SCRIPTS.items() if name not in own) + "]")
    home = re.compile("[" + "".join(SCRIPTS[name] for name in sorted(own)) + "]")
    found = scan(side.lines, {"foreign": Sought(foreign, LATIN, True), "mixed": Sought(HOMOGLYPHS, beyond_ascii=True)})
    numbers = []
    for number in found["foreign"]:
        line = side.lines[number - 1]
        strange = len(foreign.findall(line))
        if strange >= 4 and strange > 2 * len(home.findall(line)):
            numbers.append(number)
    if numbers:
        yield Finding(
            "wrong-script", grade(len(numbers), len(side.lines), 0.0002), at_lines(side.file, numbers),
            f"{share(len(numbers), len(side.lines))} are not in {main} script, as the rest of the file is.",
            "Leave the pairs out.", examples_of(side.lines, numbers),
        )  # fmt: skip
    mixed = found["mixed"]
    if mixed:
        yield Finding(
            "mixed-scripts", grade(len(mixed), len(side.lines), 0.0002), at_lines(side.file, mixed),
            f"{share(len(mixed), len(side.lines))} mix Latin with Greek or Cyrillic letters in a word.",
            "Replace the look-alike letters: to a model these are words it has never seen.",
            examples_of(side.lines, mixed),
        )  # fmt: skip
