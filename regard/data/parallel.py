"""Sentence pairs in memory, from two files with a sentence a line, plain or compressed. None is dropped in silence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from regard.data.files import read_lines, unequal
from regard.data.languages import language_of
from regard.errors import RegardError


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs, and how their words correspond where that is known."""

    name: str
    source: list[str]
    target: list[str]
    alignments: list[tuple[tuple[int, int], ...]] | None = None  # (source word, target word), from 0
    lines: list[int] | None = None  # which lines of the files these are, from 1, where some were left out
    empty_lines: tuple[int, ...] = ()  # those left out because a side is empty
    language: str = ""  # the target's code, where it is known

    def __len__(self) -> int:
        return len(self.source)

    def line(self, i: int) -> int:
        """The line of the files, from 1, on which pair `i` stands."""
        return self.lines[i] if self.lines else i + 1


def read_pair(name: str, source: Path, target: Path) -> Corpus:
    """Two files aligned line by line, empty lines included."""
    left, right = list(read_lines(source)), list(read_lines(target))
    if len(left) != len(right):
        raise unequal((source, target), (len(left), len(right)))
    if not any(a.strip() and b.strip() for a, b in zip(left, right, strict=True)):
        raise RegardError(f"{source} and {target} hold no sentence pair.")
    return Corpus(name, left, right, language=language_of(target))


def without_empty(corpus: Corpus) -> Corpus:
    """The pairs of which both sides say something; the others are remembered by line. For training: a score
    must count every line."""
    whole = [bool(a.strip() and b.strip()) for a, b in zip(corpus.source, corpus.target, strict=True)]
    if all(whole):
        return corpus
    kept = [i for i, both in enumerate(whole) if both]
    return replace(
        corpus, source=[corpus.source[i] for i in kept], target=[corpus.target[i] for i in kept], alignments=None,
        lines=[i + 1 for i in kept], empty_lines=tuple(i + 1 for i, both in enumerate(whole) if not both),
    )  # fmt: skip
