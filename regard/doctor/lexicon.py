"""Which words translate which: IBM model 1 (Brown et al., 1993), learned in seconds from the corpus under examination.

    p(t | s) = Σ over source words sᵢ of  p(t | sᵢ) / (words of s)

A pair is scored by a lexicon that has not seen it, as the log of how much likelier its target words are given its
source than anywhere: above zero for translations, below for strangers. Words are cut to their first letters, which
joins the inflections of a small corpus.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from regard.data.scripts import SCRIPTS, UNSPACED, script_of
from regard.data.tokenizer import Ragged

STEM = 6  # letters of a word that count
RAREST = 3  # occurrences below which a word says nothing
MOST_WORDS = 40_000  # of a side
MOST_LINKS = 6_000_000  # pairs of a source and a target word to learn from
ROUNDS = 4
CHANCE = 0.15  # how often a target word comes from nowhere: bounds what one word can say against a pair

# Scripts of languages without spaces: there a character is a word.
UNBROKEN = "".join(SCRIPTS[name] for name in sorted({name for code in UNSPACED for name in script_of(code).split()}))
WORD = re.compile(rf"[{UNBROKEN}]|[^\W{UNBROKEN}]+|[?!;:()]")


def stems(line: str) -> set[str]:
    return {word[:STEM] for word in WORD.findall(line.lower())}


class Vocabulary:
    """Numbers for the words of one side that occur often enough; 0 stands for no word."""

    def __init__(self, lines: Sequence[set[str]]) -> None:
        counts = Counter(word for line in lines for word in line)
        known = [(word, n) for word, n in counts.most_common(MOST_WORDS) if n >= RAREST]
        self.numbers = {word: i + 1 for i, (word, _) in enumerate(known)}
        total = np.array([len(lines), *(n for _, n in known)], dtype=np.float64)
        self.frequency = total / total[1:].sum() if known else np.ones(1)  # of a word among all words

    def __len__(self) -> int:
        return len(self.frequency)

    def encode(self, line: set[str]) -> list[int]:
        return sorted(self.numbers[word] for word in line if word in self.numbers)


def links(source: Ragged, target: Ragged) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every source word with every target word of the same pair: source words, target words, and the running number of
    the target word each belongs to."""
    widths = source.lengths.astype(np.int64)
    per_target = np.repeat(widths, target.lengths)  # for each target word, the words of its source
    group = np.repeat(np.arange(len(target.values)), per_target)
    starts = np.repeat(source.offsets[:-1], target.lengths)
    within = np.arange(len(group)) - np.repeat(np.cumsum(per_target) - per_target, per_target)
    return source.values[np.repeat(starts, per_target) + within], target.values[group], group


@dataclass(frozen=True)
class Lexicon:
    """p(target word | source word) of the word pairs that were seen, by key in ascending order."""

    keys: np.ndarray  # source number × size of the target vocabulary + target number
    probabilities: np.ndarray
    frequency: np.ndarray  # of each target word in general

    @classmethod
    def learn(cls, source: Ragged, target: Ragged, frequency: np.ndarray) -> Lexicon:
        size = len(frequency)
        left, right, group = links(source, target)
        keys, place = np.unique(left.astype(np.int64) * size + right, return_inverse=True)
        of_source = keys // size
        table = np.full(len(keys), 1.0)
        for _ in range(ROUNDS):
            share = table[place]
            share /= np.bincount(group, share)[group]
            counts = np.bincount(place, share, minlength=len(keys))
            table = counts / np.bincount(of_source, counts)[of_source]
        return cls(keys, table, frequency)

    def score(self, source: Ragged, target: Ragged) -> np.ndarray:
        """For each pair the sum over its target words of log p(word | source) / p(word). → (pairs,)"""
        size = len(self.frequency)
        left, right, group = links(source, target)
        keys = left.astype(np.int64) * size + right
        found = np.minimum(np.searchsorted(self.keys, keys), max(len(self.keys) - 1, 0))
        p = (
            np.where(self.keys[found] == keys, self.probabilities[found], 0.0)
            if len(self.keys)
            else np.zeros(len(keys))
        )
        given = np.bincount(group, p, minlength=len(target.values)) / np.repeat(source.lengths, target.lengths)
        anywhere = self.frequency[target.values]
        gain = np.log((1 - CHANCE) * given / anywhere + CHANCE)
        which = np.repeat(np.arange(len(target)), target.lengths)
        return np.bincount(which, gain, minlength=len(target))


def parity(lines: np.ndarray) -> np.ndarray:
    return lines % 2


def scattered(lines: np.ndarray) -> np.ndarray:
    """0 or 1 for each line number, where those to learn from are all even or all odd, as every other line is."""
    return lines * 0x9E3779B1 >> 16 & 1


class Judge:
    """Scores pairs of a corpus by two lexicons, each learned from a half that does not contain them."""

    def __init__(self, source: Sequence[str], target: Sequence[str], left: np.ndarray, right: np.ndarray) -> None:
        """Lines, and the numbers of those to learn from: source line left[i] with target line right[i]."""
        self.source = Numbered(source, Vocabulary([stems(source[i]) for i in left]), [0])
        self.target = Numbered(target, Vocabulary([stems(target[i]) for i in right]), [])
        self.lexicons, self.learned_here = [], True
        self.half = parity if len(left) and 0.25 < np.mean(left % 2) < 0.75 else scattered
        for number in (0, 1):
            half = self.half(left) == number
            sides = self.source.take(left[half]), self.target.take(right[half])
            enough = int(np.searchsorted(np.cumsum(sides[0].lengths * sides[1].lengths), MOST_LINKS // 2))
            kept = np.arange(min(enough, len(sides[0])))
            sides = sides[0].take(kept), sides[1].take(kept)
            self.lexicons.append(Lexicon.learn(*sides, self.target.vocabulary.frequency))

    def score(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """The scores of source lines with target lines, by number."""
        scores = np.zeros(len(source))
        for number, lexicon in enumerate(self.lexicons):
            mine = np.flatnonzero(self.half(source) != number)
            for part in np.array_split(mine, max(1, len(mine) // 10_000)):
                scores[part] = lexicon.score(self.source.take(source[part]), self.target.take(target[part]))
        return scores

    def on(self, source: Sequence[str], target: Sequence[str]) -> Judge:
        """The same judge for other text, none of which it has learned from."""
        other = copy(self)
        other.learned_here = False
        other.source = Numbered(source, self.source.vocabulary, self.source.before)
        other.target = Numbered(target, self.target.vocabulary, self.target.before)
        return other

    def sizes(self, target: np.ndarray) -> np.ndarray:
        """How many words of each of these target lines count."""
        return self.target.take(target).lengths


class Numbered:
    """Lines as the numbers of their words, made when they are asked for."""

    def __init__(self, lines: Sequence[str], vocabulary: Vocabulary, before: list[int]) -> None:
        self.lines, self.vocabulary, self.before = lines, vocabulary, before
        self.known: dict[int, list[int]] = {}

    def take(self, numbers: np.ndarray) -> Ragged:
        for i in numbers.tolist():
            if i not in self.known:
                self.known[i] = [*self.before, *self.vocabulary.encode(stems(self.lines[i]))]
        return Ragged.of([self.known[i] for i in numbers.tolist()])
