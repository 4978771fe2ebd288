"""Phrases as people write them, for a search that sees pieces; and glossaries of them.

A phrase that must not come out may be spelled by many sequences of pieces, so it is followed character by character: an
automaton over characters is lifted to one over pieces by sending every piece through it from every state. A phrase
matches whole words only: where it begins or ends with a letter or a digit, none stands beside it. Scripts that put no
space between words have no such edges.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from regard.data.files import read_lines
from regard.data.scripts import SCRIPTS
from regard.data.tokenizer import EOS, UNK, Tokenizer
from regard.errors import RegardError

DEAD = -1
SPACE = "▁"
NO_EDGES = re.compile(
    f"[{''.join(SCRIPTS[name] for name in ('Han', 'Kana', 'Thai', 'Lao', 'Khmer', 'Burmese', 'Tibetan'))}]"
)
BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def in_a_word(character: str) -> bool:
    """Whether the character, standing beside a letter, belongs to the same word."""
    return re.match(r"\w", character) is not None and not NO_EDGES.match(character)


@dataclass(frozen=True)
class Spelling:
    """The pieces of a vocabulary, as they appear in text."""

    tokenizer: Tokenizer

    @cached_property
    def pieces(self) -> list[str]:
        """What each token writes; a space for the end of the text, nothing for the other symbols."""
        pieces = self.tokenizer.pieces(range(self.tokenizer.vocab_size))
        shown = [plain_byte(piece).replace(SPACE, " ") for piece in pieces]
        return [" " if token == EOS else "" if token <= UNK else text for token, text in enumerate(shown)]

    @cached_property
    def going_on(self) -> np.ndarray:
        """Whether each piece begins inside a word, (V,)."""
        return np.array([bool(text) and in_a_word(text[0]) for text in self.pieces])

    def text(self, phrase: str) -> str:
        """The phrase as the tokenizer normalises it."""
        pieces = self.tokenizer.processor.encode(phrase, out_type=str)
        return "".join(pieces).replace(SPACE, " ").strip()

    def tokens(self, phrase: str) -> list[int]:
        """The pieces that write a phrase in the middle of a text."""
        tokens = self.tokenizer.encode([phrase])[0][:-1]
        if not tokens or UNK in tokens:
            raise RegardError(f"{phrase!r} cannot be written in the pieces that the model knows.")
        first = self.pieces[tokens[0]]
        if first.startswith(" ") and NO_EDGES.match(self.text(phrase)):  # no space before it in the middle of a text
            bare = [self.pieces.index(first[1:])] if first[1:] in self.pieces[UNK + 1 :] else []
            tokens = [*bare, *tokens[1:]] if bare or first == " " else tokens
        return tokens


def plain_byte(piece: str) -> str:
    """A piece for one byte as its character, where that is ASCII."""
    found = BYTE.fullmatch(piece)
    return chr(int(found[1], 16)) if found and int(found[1], 16) < 128 else piece


def automaton(spelling: Spelling, phrases: Sequence[str]) -> np.ndarray:
    """(states, V): the state after each token, from state 0; DEAD where one of the phrases has come out."""
    texts = [text for phrase in phrases if (text := spelling.text(phrase))]
    classes = {character: number for number, character in enumerate(sorted(set("".join(texts))))}
    letter, other, nothing = len(classes), len(classes) + 1, len(classes) + 2  # characters that no phrase has
    moves = over_characters(texts, classes, letter, other)
    moves = np.concatenate([moves, np.arange(len(moves))[:, None]], axis=1)  # where a piece is over
    moves = np.concatenate([moves, np.full((1, moves.shape[1]), DEAD)])  # the last row, and row −1, is the dead state
    longest = max(len(text) for text in spelling.pieces)
    codes = np.full((len(spelling.pieces), longest), nothing)
    for token, text in enumerate(spelling.pieces):
        for place, character in enumerate(text):
            codes[token, place] = classes.get(character, letter if in_a_word(character) else other)
    states = np.repeat(np.arange(len(moves) - 1)[:, None], len(codes), axis=1)
    for place in range(longest):
        states = moves[states, codes[:, place]]
    return states


def over_characters(texts: Sequence[str], classes: dict[str, int], letter: int, other: int) -> np.ndarray:
    """The automaton over classes of characters, (states, classes).

    A state is the set of (phrase, characters matched) that are under way, and whether the last character was outside of
    any word.
    """
    characters: list[str | None] = [*sorted(classes, key=lambda c: classes[c]), None, None]
    inside = [in_a_word(c) for c in classes] + [True, False]
    State = tuple[frozenset[tuple[int, int]], bool]
    start: State = (frozenset(), True)
    numbers: dict[State, int] = {start: 0}
    rows: list[list[int]] = []
    waiting = [start]
    while waiting:
        under_way, at_edge = waiting.pop(0)
        row = []
        for character, word in zip(characters, inside, strict=True):
            places = {(i, n) for i, n in under_way if n < len(texts[i])}
            places |= {(i, 0) for i, text in enumerate(texts) if at_edge or not in_a_word(text[0])}
            after = frozenset((i, n + 1) for i, n in places if texts[i][n] == character)
            full = any(n == len(texts[i]) and not in_a_word(texts[i][-1]) for i, n in after)
            ended = not word and any(n == len(texts[i]) for i, n in under_way)
            if full or ended:
                row.append(DEAD)
                continue
            state = (after, not word)
            if state not in numbers:
                numbers[state] = len(numbers)
                waiting.append(state)
            row.append(numbers[state])
        rows.append(row)
    return np.array(rows)


@dataclass(frozen=True)
class Glossary:
    """Terms and how they must be translated."""

    entries: tuple[tuple[str, str], ...] = ()  # (term in the source, term in the translation)

    @classmethod
    def read(cls, path: Path) -> Glossary:
        """A line for each term: the source's, a tab, the translation's. Empty lines and those that begin with # are
        skipped."""
        entries = []
        known: dict[str, tuple[int, str]] = {}  # the line and the translation of each term
        for number, line in enumerate(read_lines(path), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            parts = [part.strip() for part in line.strip().split("\t")]
            if len(parts) != 2 or not all(parts):
                raise RegardError(f"{path}, line {number}: a term, one tab and its translation are expected.")
            source, target = parts
            first, before = known.setdefault(source.casefold(), (number, target))
            if target != before:
                raise RegardError(
                    f"{path}, line {number}: {source!r} is {before!r} in line {first} and {target!r} here: keep one of "
                    "them, whatever the case of the term."
                )
            entries.append((source, target))
        return cls(tuple(entries))

    @cached_property
    def terms(self) -> list[str]:
        """The longest first."""
        return sorted(dict.fromkeys(source for source, _ in self.entries), key=len, reverse=True)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Any term as whole words, whatever its case; of several at a place the longest. The group tells which."""
        return re.compile("|".join(f"{edged(term)}()" for term in self.terms), re.IGNORECASE)

    @cached_property
    def translations(self) -> dict[str, str]:
        return {source.casefold(): target for source, target in self.entries}

    def required(self, sentence: str) -> tuple[str, ...]:
        """What a translation of the sentence must contain: each term's translation once."""
        found = self.pattern.finditer(sentence) if self.entries else ()
        return tuple(dict.fromkeys(map(self.translation, found)))

    def translation(self, match: re.Match[str]) -> str:
        """Of what was found; where its case folds to no term, as that of İstanbul does not fold to istanbul, of the
        term that it was found by."""
        by = self.terms[(match.lastindex or 0) - 1]
        return self.translations.get(match[0].casefold()) or self.translations[by.casefold()]


def edged(phrase: str) -> str:
    """A regular expression for a phrase as whole words."""
    left = r"(?<!\w)" if in_a_word(phrase[0]) else ""
    right = r"(?!\w)" if in_a_word(phrase[-1]) else ""
    return left + re.escape(phrase) + right
