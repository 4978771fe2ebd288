"""Reading parallel text: two files, one sentence a line, plain or compressed. Nothing is dropped in silence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import regard.data.generated as generated
from regard.config import DataConfig
from regard.data import fetch
from regard.data.files import read_lines
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
    """A split of the recipe's text (train, valid, test, combinations); None where the recipe has none."""
    corpus = load_own(config, split)
    if corpus and split == "train" and config.train_target:
        return with_target(corpus, Path(config.train_target))
    return corpus


def with_target(corpus: Corpus, file: Path) -> Corpus:
    """The same sources with other translations, whose word alignments nobody knows."""
    target = list(read_lines(file))
    if len(target) != len(corpus):
        raise RegardError(
            f"data.train_target = {file} has {len(target):,} lines but the training text has {len(corpus):,}: "
            "translate all of it, e.g. with regard evaluate TEACHER --split train --save FILE."
        )
    return Corpus(corpus.name, corpus.source, target)


def load_own(config: DataConfig, split: str) -> Corpus | None:
    """The same as it is without a teacher's translations."""
    if config.prepared:
        from regard.data.prepared import Prepared  # it reads with what is here

        return Prepared.open(config.prepared).corpus(split)
    if config.corpus in fetch.CORPORA:
        return read_pair(split, *fetch.files(config.corpus, split))
    if config.corpus:
        return built_in(config, split)
    files: tuple[str, ...] = getattr(config, split, ())
    return read_pair(split, Path(files[0]), Path(files[1])) if files else None


def load_required(config: DataConfig, split: str) -> Corpus:
    corpus = load(config, split)
    if corpus is None and config.prepared:
        raise RegardError(f"{config.prepared} has no {split} text: prepare it again with --{split}.")
    if corpus is None:
        raise RegardError(
            f"The recipe has no {split} text: set data.{split} = [source file, target file], or data.corpus "
            f"to a built-in corpus ({', '.join(generated.CORPORA)}) or to one that regard data fetch lists."
        )
    return corpus


def test_splits(config: DataConfig) -> list[str]:
    """The splits to report on when training has ended: the test sets, or without one the validation set."""
    if config.corpus in ("en-de", "de-en"):
        return ["test", "combinations"]
    if config.corpus in fetch.CORPORA:
        return [split for split in fetch.splits(config.corpus) if split not in ("train", "valid")] or ["valid"]
    if config.prepared:
        from regard.data.prepared import Prepared

        return ["test"] if Prepared.open(config.prepared, verify=False).has("test") else ["valid"]
    return ["test"] if config.corpus or config.test else ["valid"]


def built_in(config: DataConfig, split: str) -> Corpus:
    if config.corpus not in generated.CORPORA:
        hint = nearest(config.corpus, [*generated.CORPORA, *fetch.CORPORA])
        raise RegardError(
            f"No built-in corpus {config.corpus}{hint}, and no public one: built in are "
            f"{', '.join(generated.CORPORA)}; regard data fetch gets {', '.join(fetch.CORPORA)}."
        )
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
