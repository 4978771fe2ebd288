"""Prepared data: a folder with clean training text, tokenised once and read through memory maps ever after.

prepared.json                  version, languages, counts, settings, and size and SHA-256 of every file
tokenizer/                     one or two SentencePiece models
train.source.tokens            all token numbers end to end: uint16 where the vocabulary allows, else int32
train.source.offsets           int64: sentence i is tokens[offsets[i] : offsets[i + 1]]
train.source.text              the clean text in UTF-8, a sentence a line
train.source.lines             int64: line i is text[lines[i] : lines[i + 1]], its line end included
train.target.*                 the same of the other side
valid.source, valid.target     plain text, as it came; test.source, test.target too
report.json, report.txt        what was dropped and why

Maps are read-only and nothing is copied: all processes that open a folder share the same pages of memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np

from regard.data.files import file_hash, lock
from regard.data.parallel import Corpus, read_pair
from regard.data.tokenizer import Ragged, TokenizerPair
from regard.errors import RegardError

VERSION = 1
SIDES = ("source", "target")
INDEX = "prepared.json"
READ_AT_ONCE = 1 << 30  # bytes of a folder that is still read through when it is opened to be verified


class Flat:
    """Writes sequences end to end into one file and where each begins into another."""

    def __init__(self, data: Path, offsets: Path) -> None:
        self.paths = data, offsets
        self.files = data.open("wb"), offsets.open("wb")
        self.hashes = hashlib.sha256(), hashlib.sha256()
        self.sizes = [0, 0]
        self.total = 0  # in the unit of the lengths
        self.put(1, np.zeros(1, dtype="<i8").tobytes())

    def put(self, which: int, content: bytes) -> None:
        self.files[which].write(content)
        self.hashes[which].update(content)
        self.sizes[which] += len(content)

    def append(self, content: bytes, lengths: np.ndarray) -> None:
        ends = self.total + np.cumsum(lengths, dtype="<i8")
        self.put(0, content)
        self.put(1, ends.tobytes())
        self.total += int(lengths.sum())

    def close(self) -> dict[str, dict[str, Any]]:
        """The files with their sizes and hashes."""
        for file in self.files:
            file.close()
        rows = zip(self.paths, self.sizes, self.hashes, strict=True)
        return {path.name: {"bytes": size, "sha256": total.hexdigest()} for path, size, total in rows}


class Lines(Sequence[str]):
    """The lines of a text that is never read as a whole."""

    def __init__(self, text: np.ndarray, starts: np.ndarray) -> None:
        self.text, self.starts = text, starts

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> list[str]: ...
    def __getitem__(self, i: int | slice) -> str | list[str]:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        if not -len(self) <= i < len(self):
            raise IndexError(f"line {i} of {len(self)}")
        i %= len(self)
        return self.text[self.starts[i] : self.starts[i + 1] - 1].tobytes().decode("utf-8")


@dataclass(frozen=True)
class Prepared:
    """A folder of prepared data. `open` it."""

    folder: Path
    index: dict[str, Any]  # what prepared.json holds

    @classmethod
    def open(cls, folder: str | Path, *, verify: bool | None = None) -> Prepared:
        """The sizes of all files are checked, and what is in them: by default of the small ones, that is of all but the
        training text; with `verify` of all where that takes seconds, up to READ_AT_ONCE; with False of none."""
        prepared = cls(Path(folder), read_index(Path(folder)))
        files: dict[str, dict[str, Any]] = prepared.index["files"]
        everything = verify and sum(entry["bytes"] for entry in files.values()) <= READ_AT_ONCE
        for name, entry in files.items():
            small = verify is not False and not name.startswith("train.")
            check(prepared.folder / name, entry, whole=everything or small)
        return prepared

    def check_all(self) -> None:
        """Read every file through, however large."""
        for name, entry in self.index["files"].items():
            check(self.folder / name, entry, whole=True)

    def __len__(self) -> int:
        return int(self.index["pairs"])

    @property
    def languages(self) -> tuple[str, str]:
        source, target = self.index["languages"]
        return source, target

    @property
    def fingerprint(self) -> str:
        """SHA-256 that stands for the training tokens of both sides."""
        return str(self.index["fingerprint"])

    @cached_property
    def tokenizers(self) -> TokenizerPair:
        return TokenizerPair.load(self.folder / "tokenizer")

    @cached_property
    def train(self) -> tuple[Ragged, Ragged]:
        """The tokens of source and target, in maps."""
        source, target = (
            Ragged(self.map(f"train.{side}.tokens", self.index["dtype"]), self.map(f"train.{side}.offsets", "int64"))
            for side in SIDES
        )
        return source, target

    def text(self, side: str) -> Lines:
        """The clean training text of a side, line by line."""
        return Lines(self.map(f"train.{side}.text", "uint8"), self.map(f"train.{side}.lines", "int64"))

    def has(self, split: str) -> bool:
        """Whether there is validation or test text."""
        return f"{split}.source" in self.index["files"]

    def corpus(self, split: str) -> Corpus | None:
        """The validation or test text; None where there is none."""
        if not self.has(split):
            return None
        corpus = read_pair(split, *(self.folder / f"{split}.{side}" for side in SIDES))
        return replace(corpus, language=self.languages[1])

    def map(self, name: str, dtype: str) -> np.ndarray:
        return np.memmap(self.folder / name, dtype=np.dtype(dtype).newbyteorder("<"), mode="r")


def read_index(folder: Path) -> dict[str, Any]:
    try:
        index: dict[str, Any] = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise RegardError(
            f"{folder} holds no prepared data: make it with regard data prepare --out {folder}."
        ) from None
    except ValueError:
        raise RegardError(f"{folder / INDEX} is damaged: prepare the data again.") from None
    if not isinstance(index, dict) or index.get("version") != VERSION:
        found = index.get("version") if isinstance(index, dict) else None
        raise RegardError(
            f"{folder} was prepared as version {found}, and this is for version {VERSION}: prepare the data again."
        )
    return index


def check(path: Path, entry: dict[str, Any], whole: bool) -> None:
    size = path.stat().st_size if path.is_file() else None
    if size is None:
        raise RegardError(f"{path} is missing: prepare the data again.")
    if size != entry["bytes"]:
        raise RegardError(f"{path} has {size:,} bytes instead of {entry['bytes']:,}: prepare the data again.")
    if whole and file_hash(path) != entry["sha256"]:
        raise RegardError(f"{path} is damaged, its SHA-256 is not the one recorded: prepare the data again.")


def fingerprint(files: dict[str, dict[str, Any]]) -> str:
    """One SHA-256 for the training tokens, from those of their files."""
    names = [f"train.{side}.{part}" for side in SIDES for part in ("tokens", "offsets")]
    return hashlib.sha256(" ".join(files[name]["sha256"] for name in names).encode()).hexdigest()


@contextmanager
def written_whole(out: Path, force: bool) -> Iterator[Path]:
    """A folder beside `out` that takes its name when all is written. After an error it goes again; what a process left
    that was interrupted or killed goes with the next call."""
    refuse(out, force)
    out = out.resolve()
    part, old = (out.with_name(f".{out.name}.{what}") for what in ("part", "old"))
    handle = claim(part, out)
    try:
        refuse(out, force)  # now that nobody else can be making it
        empty(part)
        yield part
        shutil.rmtree(old, ignore_errors=True)
        if out.exists():
            out.rename(old)
        part.rename(out)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    finally:
        os.close(handle)


def refuse(out: Path, force: bool) -> None:
    """An error where there is something that must not be replaced."""
    if out.exists() and not force:
        raise RegardError(f"{out} exists already: give another folder with --out, or --force to replace it.")
    if out.is_file() or (out.is_dir() and any(out.iterdir()) and not (out / INDEX).is_file()):
        raise RegardError(f"{out} is no prepared data, which is all that --force replaces: remove it yourself.")


def claim(part: Path, out: Path) -> int:
    """Make and lock a folder; one that was renamed or removed before we had its lock is not the one."""
    while True:
        part.mkdir(parents=True, exist_ok=True)
        try:
            handle = lock(part, f"Another process is preparing {out} at this moment: wait for it.")
            if os.path.samestat(os.fstat(handle), part.stat()):
                return handle
            os.close(handle)
        except FileNotFoundError:
            continue


def empty(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
