"""The text under examination: files read even where they are damaged, so that the damage can be named."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import numpy as np

from regard.config import DataConfig
from regard.data import fetch
from regard.data.corpus import built_in
from regard.data.files import UTF16, open_bytes
from regard.data.prepared import SIDES, read_index

SPLITS = ("train", "valid", "test")
CHUNK = 20_000  # lines searched at once
GENERATED = 20_000  # training pairs of a built-in corpus to look at


@dataclass(frozen=True)
class Side:
    """One file of text."""

    file: str
    lines: list[str]
    undecodable: tuple[int, ...] = ()  # lines that are not UTF-8, from 1; they are read as Windows-1252
    utf16: bool = False  # the whole file


@dataclass(frozen=True)
class Bitext:
    """Two files that should be translations of each other, line by line."""

    split: str
    source: Side
    target: Side

    def __len__(self) -> int:
        return min(len(self.source.lines), len(self.target.lines))

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.source, self.target

    @property
    def files(self) -> tuple[str, str]:
        return self.source.file, self.target.file

    def pairs(self) -> Iterator[tuple[str, str]]:
        return zip(self.source.lines, self.target.lines, strict=False)  # files of unequal length are a finding


def read_side(path: Path) -> Side:
    """A text file, whatever its bytes."""
    lines, undecodable = [], []
    with open_bytes(path) as file:
        for number, line in enumerate(file, start=1):
            if number == 1 and line.startswith(UTF16):
                return utf16_side(path, line + file.read())
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError:
                undecodable.append(number)
                text = line.decode("cp1252", errors="replace")
            lines.append(text.removeprefix("\ufeff").rstrip("\r\n") if number == 1 else text.rstrip("\r\n"))
    return Side(str(path), lines, tuple(undecodable))


def utf16_side(path: Path, content: bytes) -> Side:
    lines = [line.rstrip("\r") for line in content.decode("utf-16", errors="replace").removesuffix("\n").split("\n")]
    return Side(str(path), lines, utf16=True)


def read_bitext(split: str, source: Path, target: Path) -> Bitext:
    return Bitext(split, read_side(source), read_side(target))


def text_of(data: DataConfig, split: str) -> Bitext | None:
    """A split of a recipe: its files, those of prepared data or of a fetched corpus, or some of a built-in one under
    names in brackets."""
    if data.prepared:
        return prepared_text(Path(data.prepared), split)
    if data.corpus in fetch.CORPORA:
        return read_bitext(split, *fetch.files(data.corpus, split))
    if data.corpus:
        corpus = built_in(replace(data, train_size=min(data.train_size, GENERATED)), split)
        names = [f"<{data.corpus} {split} {side}>" for side in ("source", "target")]
        return Bitext(split, Side(names[0], corpus.source), Side(names[1], corpus.target))
    files = getattr(data, split)
    return read_bitext(split, Path(files[0]), Path(files[1])) if files else None


def prepared_text(folder: Path, split: str) -> Bitext | None:
    names = [f"{split}.{side}.text" if split == "train" else f"{split}.{side}" for side in SIDES]
    if names[0] not in read_index(folder)["files"]:
        return None
    return read_bitext(split, folder / names[0], folder / names[1])


@dataclass(frozen=True)
class Sought:
    """A regular expression, and the characters without which it cannot match: any of these, or any beyond ASCII."""

    pattern: re.Pattern[str]
    characters: str = ""
    beyond_ascii: bool = False


def scan(lines: Sequence[str], sought: Mapping[str, Sought]) -> dict[str, list[int]]:
    """The lines, from 1, in which each pattern occurs. Many lines are searched as one string, and only for what its
    characters allow; so a pattern must not match a line's end."""
    found: dict[str, list[int]] = {name: [] for name in sought}
    for start in range(0, len(lines), CHUNK):
        chunk = lines[start : start + CHUNK]
        text = "\n".join(chunk)
        present = characters_of(text)
        possible = {name: one for name, one in sought.items() if one.beyond_ascii or present & set(one.characters)}
        ends = list(accumulate(len(line) + 1 for line in chunk)) if possible else []
        for name, one in possible.items():
            if one.beyond_ascii and max(present) < "\x80":
                continue
            numbers = found[name]
            for match in one.pattern.finditer(text):
                line = start + bisect_right(ends, match.start()) + 1
                if not numbers or numbers[-1] != line:
                    numbers.append(line)
    return found


def characters_of(text: str) -> set[str]:
    """Every character of a text, once."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return {chr(code) for code in np.flatnonzero(np.bincount(codes, minlength=1))} or {" "}
