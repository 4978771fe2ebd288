"""Reading parallel text: two files, one sentence a line, plain or gzipped. Nothing is dropped in silence."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import regard.data.generated as generated
from regard.config import DataConfig
from regard.errors import RegardError, nearest


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs, and how their words correspond where that is known."""

    name: str
    source: list[str]
    target: list[str]
    alignments: list[tuple[tuple[int, int], ...]] | None = None  # (source word, target word), from 0
    lines: list[int] | None = None  # which lines of the files these are, from 1, where some were left out
    empty_lines: tuple[int, ...] = ()  # those left out because a side is empty

    def __len__(self) -> int:
        return len(self.source)

    def line(self, i: int) -> int:
        """The line of the files, from 1, on which pair `i` stands."""
        return self.lines[i] if self.lines else i + 1


def load(config: DataConfig, split: str) -> Corpus | None:
    """A split of the recipe's corpus (train, valid, test, combinations); None where the recipe has none."""
    if config.corpus:
        return built_in(config, split)
    files: tuple[str, ...] = getattr(config, split, ())
    return read_pair(split, Path(files[0]), Path(files[1])) if files else None


def load_required(config: DataConfig, split: str) -> Corpus:
    corpus = load(config, split)
    if corpus is None:
        raise RegardError(
            f"The recipe has no {split} text: set data.{split} = [source file, target file], or data.corpus "
            f"to a built-in corpus ({', '.join(generated.CORPORA)})."
        )
    return corpus


def test_splits(config: DataConfig) -> list[str]:
    """The splits to report on when training has ended: the test sets, or without one the validation set."""
    if config.corpus in ("en-de", "de-en"):
        return ["test", "combinations"]
    return ["test"] if config.corpus or config.test else ["valid"]


def built_in(config: DataConfig, split: str) -> Corpus:
    if config.corpus not in generated.CORPORA:
        hint = nearest(config.corpus, generated.CORPORA)
        raise RegardError(f"No built-in corpus {config.corpus}{hint}; there are {', '.join(generated.CORPORA)}.")
    size = {"train": config.train_size, "valid": config.valid_size}.get(split, config.test_size)
    try:
        pairs = generated.generate(config.corpus, split, size)
    except ValueError as error:
        raise RegardError(str(error)) from None
    sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
    return Corpus(split, *sides, [pair.alignment for pair in pairs])


def read_pair(name: str, source: Path, target: Path) -> Corpus:
    """Two files aligned line by line, empty lines included."""
    left, right = list(read_lines(source)), list(read_lines(target))
    if len(left) != len(right):
        raise RegardError(
            f"{source} has {len(left):,} lines but {target} has {len(right):,}: line by line they must be "
            "translations of each other."
        )
    if not any(a.strip() and b.strip() for a, b in zip(left, right, strict=True)):
        raise RegardError(f"{source} and {target} hold no sentence pair.")
    return Corpus(name, left, right)


def without_empty(corpus: Corpus) -> Corpus:
    """The pairs of which both sides say something; the others are remembered by line. For training: a score
    must count every line."""
    whole = [bool(a.strip() and b.strip()) for a, b in zip(corpus.source, corpus.target, strict=True)]
    if all(whole):
        return corpus
    kept = [i for i, both in enumerate(whole) if both]
    return Corpus(
        corpus.name, [corpus.source[i] for i in kept], [corpus.target[i] for i in kept],
        lines=[i + 1 for i in kept], empty_lines=tuple(i + 1 for i, both in enumerate(whole) if not both),
    )  # fmt: skip


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file without their ends; a bad byte is named with its line."""
    if path.is_dir():
        raise RegardError(f"{path} is a folder, not a text file.")
    try:
        with open_bytes(path) as file:
            yield from decode_lines(file, str(path))
    except FileNotFoundError:
        raise RegardError(f"No such file: {path}.") from None
    except (gzip.BadGzipFile, EOFError) as error:
        raise RegardError(f"{path} is not a sound gzip file: {error}.") from None


def decode_lines(lines: Iterable[bytes], name: str, first: int = 1) -> Iterator[str]:
    """Lines end at \\n or \\r\\n alone: other separators of Unicode occur inside sentences."""
    for number, line in enumerate(lines, start=first):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise RegardError(
                f"{name}, line {number}: byte {error.start + 1} is not UTF-8; convert the file, e.g. with "
                "iconv -f latin1 -t utf-8."
            ) from None
        yield text.removeprefix("\ufeff").rstrip("\r\n") if number == 1 else text.rstrip("\r\n")


def open_bytes(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]
