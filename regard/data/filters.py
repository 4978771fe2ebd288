"""What makes a sentence pair fit for training: normal text, and a reason for each pair that is left out.

Two texts are *near* each other where they have the same near form: HTML entities as characters, in NFC, case folded;
everything dropped that is no letter, mark or digit (punctuation, symbols, spaces); every run of digits written as 0.
They differ then in case, punctuation, spacing, encoding and numbers at most. It is made from the text as it came,
whatever else is done to the training text, so the same bytes in two splits always have the same near form.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Literal, get_args, get_type_hints

import numpy as np

from regard.config import at_least
from regard.data.scripts import Script, script_of, unspaced
from regard.errors import RegardError, nearest

# Control characters other than white space, and characters that show nothing: soft hyphen, zero-width space, marks of
# writing direction, word joiner, byte order mark. The joiners U+200C and U+200D are spelling in some languages.
INVISIBLE = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
DIGITS = re.compile(r"\d+")
ASCII_NOISE = bytes(code for code in range(128) if not chr(code).isalnum())
NOT_LETTERS = "".join(chr(code) for code in range(128) if not chr(code).isalpha()) + "«»„“”‚‘’–—…¿¡·•°§€£²³"
SHORT = 10  # words up to which the ratio of lengths says nothing

STEPS = {
    "malformed": "records that could not be read",
    "empty": "a side without text",
    "length": "a side with more words or characters than allowed",
    "ratio": f"one side many times longer than the other (and longer than {SHORT} words)",
    "script": "too few letters of a side in its language's script",
    "copy": "source and target the same but for case, punctuation and spacing",
    "leakage": "near form in the validation or test text",
    "exact duplicate": "the same pair again",
    "near duplicate": "the same near forms again: other case, punctuation, spacing or numbers at most",
    "targets": "more targets of one source (by near form) than allowed",
}


@dataclass(frozen=True)
class Cleaning:
    """What is done to the training text. 0 or `off` switches a filter off."""

    normalize: bool = True  # NFC, invisible characters dropped, any white space one space
    unescape: bool = False  # HTML entities to characters
    max_words: int = 200  # of a side; where a language has no spaces two characters count as a word
    max_characters: int = 2_000
    max_ratio: float = 3.0  # words of the longer side to words of the shorter
    min_script: float = 0.5  # share of a side's letters in the script of its language
    copies: Literal["text", "all", "off"] = "text"  # text: all but lines of numbers, symbols and capitalised names
    duplicates: Literal["near", "exact", "off"] = "near"
    targets_per_source: int = 0
    leakage: Literal["side", "pair", "off"] = "side"  # side: one side in valid or test is enough

    def __post_init__(self) -> None:
        at_least(self, "cleaning", max_words=0, max_characters=0, max_ratio=0.0, targets_per_source=0)
        for name in ("copies", "duplicates", "leakage"):
            choices = get_args(get_type_hints(Cleaning)[name])
            if (value := getattr(self, name)) not in choices:
                raise RegardError(
                    f"cleaning.{name} = {value} must be one of {', '.join(choices)}{nearest(value, choices)}."
                )
        if not 0 <= self.min_script <= 1:
            raise RegardError(f"cleaning.min_script = {self.min_script} is a share and must lie between 0 and 1.")


@dataclass(frozen=True)
class Known:
    """Hashes of the near forms in valid and test, sorted: of sources, of targets, of pairs."""

    sources: np.ndarray
    targets: np.ndarray
    pairs: np.ndarray

    @classmethod
    def of(cls, sources: Sequence[str], targets: Sequence[str]) -> Known:
        """A text without a letter, such as a number alone, is nothing to know."""
        forms = [[near(text) for text in side] for side in (sources, targets)]
        telling = [np.array([tells(form) for form in side], dtype=bool) for side in forms]
        left, right = (hashes(side) for side in forms)
        both = telling[0] & telling[1]
        return cls(
            np.unique(left[telling[0]]), np.unique(right[telling[1]]), np.unique(pair_keys(left[both], right[both]))
        )


@dataclass(frozen=True)
class Chunk:
    """Some records of one input, as a reader gave them."""

    input: int
    lines: list[int]
    sources: list[str]
    targets: list[str]
    left: list[tuple[int, str, bool]]  # line, reason and whether malformed, of what the reader left out


@dataclass(frozen=True)
class Cleaned:
    """What is left of a chunk: clean lines as bytes, with hashes to know them by."""

    chunk: Chunk  # without its texts
    n_read: int
    lines: list[int]
    sources: list[bytes]
    targets: list[bytes]
    exact: np.ndarray  # (n,) uint64, of the pair
    near_sources: np.ndarray  # (n,) uint64, of the near form
    near_targets: np.ndarray
    dropped: list[tuple[int, str, str, str]]  # line, reason, source, target; the texts only where they are wanted
    normalized: Counter[str]


class Cleaner:
    """Chunks in, clean pairs out: everything that can be judged pair by pair."""

    def __init__(self, cleaning: Cleaning, languages: tuple[str, str], known: Known | None, keep_dropped: bool) -> None:
        self.cleaning, self.known, self.keep_dropped = cleaning, known, keep_dropped
        self.unspaced = [unspaced(language) for language in languages]
        names = [script_of(language) if cleaning.min_script else "" for language in languages]
        self.scripts = [Script(name) if name else None for name in names]
        self.changes: Counter[str] = Counter()

    def __call__(self, chunk: Chunk) -> Cleaned:
        self.changes = Counter()
        kept: list[tuple[int, str, str]] = []
        near: list[tuple[str, str]] = []
        dropped: list[tuple[int, str, str, str]] = []
        for line, raw_source, raw_target in zip(chunk.lines, chunk.sources, chunk.targets, strict=True):
            source, target = self.normal(raw_source), self.normal(raw_target)
            forms = bare(raw_source), bare(raw_target)
            reason = self.reason(source, target, *forms)
            if reason:
                dropped.append((line, reason, *((source, target) if self.keep_dropped else ("", ""))))
            else:
                kept.append((line, source, target))
                near.append((DIGITS.sub("0", forms[0]), DIGITS.sub("0", forms[1])))
        near_sources, near_targets = hashes(a for a, _ in near), hashes(b for _, b in near)
        leaked = self.leaks(near_sources, near_targets)
        for i in np.flatnonzero(leaked):
            line, source, target = kept[i]
            dropped.append((line, "leakage", *((source, target) if self.keep_dropped else ("", ""))))
        kept = [pair for pair, leak in zip(kept, leaked, strict=True) if not leak]
        return Cleaned(
            Chunk(chunk.input, [], [], [], chunk.left), len(chunk.lines), [line for line, _, _ in kept],
            [f"{source}\n".encode() for _, source, _ in kept], [f"{target}\n".encode() for _, _, target in kept],
            hashes(f"{source}\n{target}" for _, source, target in kept),
            near_sources[~leaked], near_targets[~leaked], dropped, self.changes,
        )  # fmt: skip

    def normal(self, text: str) -> str:
        """The text in NFC on one line, without what cannot be seen and with single spaces."""
        if self.cleaning.unescape and "&" in text and (plain := html.unescape(text)) != text:
            self.changes["HTML entities"] += 1
            text = plain
        if not self.cleaning.normalize:
            return text.replace("\n", " ").replace("\r", " ")
        if not text.isascii() and not unicodedata.is_normalized("NFC", text):
            self.changes["not in NFC"] += 1
            text = unicodedata.normalize("NFC", text)
        if not text.isprintable() and (seen := INVISIBLE.sub("", text)) != text:
            self.changes["invisible characters"] += 1
            text = seen
        spaced = " ".join(text.split())
        if spaced != text:
            self.changes["spaces"] += 1
        return spaced

    def reason(self, source: str, target: str, bare_source: str, bare_target: str) -> str:
        """Why a pair is dropped, or nothing; cheap tests first."""
        rules = self.cleaning
        if not source or not target or source.isspace() or target.isspace():
            return "empty"
        if rules.max_characters and max(len(source), len(target)) > rules.max_characters:
            return "length"
        shorter, longer = sorted((self.words(source, 0), self.words(target, 1)))
        if rules.max_words and longer > rules.max_words:
            return "length"
        if rules.max_ratio and longer > SHORT and longer > rules.max_ratio * shorter:
            return "ratio"
        if rules.copies != "off" and bare_source == bare_target and (rules.copies == "all" or has_words(source)):
            return "copy"
        for script, text in zip(self.scripts, (source, target), strict=True):
            if script and script.share(text) < rules.min_script:
                return "script"
        return ""

    def words(self, text: str, side: int) -> int:
        return (len(text) + 1) // 2 if self.unspaced[side] else text.count(" ") + 1

    def leaks(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Which pairs are in the validation or test text."""
        if self.known is None or self.cleaning.leakage == "off":
            return np.zeros(len(sources), dtype=bool)
        if self.cleaning.leakage == "pair":
            return among(pair_keys(sources, targets), self.known.pairs)
        return among(sources, self.known.sources) | among(targets, self.known.targets)


def near(text: str) -> str:
    return DIGITS.sub("0", bare(text))


def tells(form: str) -> bool:
    """Whether a near form says anything: a number alone is in every corpus."""
    return bool(form.strip("0"))


def bare(text: str) -> str:
    """Case folded, and nothing but letters, marks and digits."""
    if "&" in text:
        text = html.unescape(text)
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    folded = text.casefold().encode().translate(None, ASCII_NOISE).decode()
    # Once more: what was dropped may have stood between a letter and its mark.
    return folded if folded.isascii() else unicodedata.normalize("NFC", noise().sub("", folded))


@cache
def noise() -> re.Pattern[str]:
    """Everything that is no letter, mark or digit; a mark is part of its letter, which Python's \\w does not know.

    Variation selectors are marks too, but of how a character looks: they are noise.
    """
    codes = (code for code in range(0x300, 0x10000) if not 0xFE00 <= code <= 0xFE0F and not 0x180B <= code <= 0x180F)
    marks = "".join(chr(code) for code in codes if unicodedata.category(chr(code))[0] == "M")
    return re.compile(rf"[^\w{marks}]+")


def has_words(text: str) -> bool:
    """Whether a text has a word that is neither number nor capitalised, as a name is. A script without case has."""
    return any(letters and not letters[0].isupper() for letters in (word.lstrip(NOT_LETTERS) for word in text.split()))


def hashes(texts: Iterable[str]) -> np.ndarray:
    """64 bits of each text, the same on every machine."""
    return np.frombuffer(b"".join([blake2b(text.encode(), digest_size=8).digest() for text in texts]), dtype="<u8")


def pair_keys(sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """One hash of two."""
    return sources * np.uint64(0x9E3779B97F4A7C15) + targets


def among(keys: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    """Which keys are in a sorted array."""
    if not len(ordered):
        return np.zeros(len(keys), dtype=bool)
    places = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    return ordered[places] == keys
