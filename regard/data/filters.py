"""What makes a sentence pair fit for training: normal text, and a reason for each pair that is left out."""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from regard.data.cleaning import SHORT, Cleaning
from regard.data.near import bare, near, tells, without_numbers
from regard.data.scripts import Script, script_of, unspaced

# Control characters other than white space, and characters that show nothing: soft hyphen, zero-width space, marks of
# writing direction, word joiner, byte order mark. The joiners U+200C and U+200D are spelling in some languages.
INVISIBLE = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
NOT_LETTERS = "".join(chr(code) for code in range(128) if not chr(code).isalpha()) + "«»„“”‚‘’–—…¿¡·•°§€£²³"


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
        near_forms: list[tuple[str, str]] = []
        dropped: list[tuple[int, str, str, str]] = []
        for line, raw_source, raw_target in zip(chunk.lines, chunk.sources, chunk.targets, strict=True):
            source, target = self.normal(raw_source), self.normal(raw_target)
            forms = bare(raw_source), bare(raw_target)
            reason = self.reason(source, target, *forms)
            if reason:
                dropped.append((line, reason, *((source, target) if self.keep_dropped else ("", ""))))
            else:
                kept.append((line, source, target))
                near_forms.append((without_numbers(forms[0]), without_numbers(forms[1])))
        near_sources, near_targets = hashes(a for a, _ in near_forms), hashes(b for _, b in near_forms)
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
