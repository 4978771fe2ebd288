"""The text of a recipe, wherever it comes from: files, a fetched or a built-in corpus, prepared data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import regard.data.generated as generated
from regard.config import DataConfig
from regard.data import fetch
from regard.data.files import read_lines
from regard.data.parallel import Corpus, read_pair, without_empty
from regard.data.prepared import Prepared
from regard.errors import RegardError, nearest

__all__ = ["Corpus", "built_in", "load", "load_required", "read_pair", "test_splits", "without_empty"]


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
    return replace(corpus, target=target, alignments=None)


def load_own(config: DataConfig, split: str) -> Corpus | None:
    """The same as it is without a teacher's translations."""
    if config.prepared:
        return Prepared.open(config.prepared).corpus(split)
    if config.corpus in fetch.CORPORA:
        language = fetch.CORPORA[config.corpus].languages[1]
        return replace(read_pair(split, *fetch.files(config.corpus, split)), language=language)
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
    if config.corpus in generated.CORPORA:
        return [split for split in generated.splits(config.corpus) if split not in ("train", "valid")]
    if config.corpus in fetch.CORPORA:
        return [split for split in fetch.splits(config.corpus) if split not in ("train", "valid")] or ["valid"]
    if config.prepared:
        return ["test"] if Prepared.open(config.prepared, verify=False).has("test") else ["valid"]
    return ["test"] if config.test else ["valid"]


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
    _, _, language = config.corpus.partition("-")  # copy has none
    return Corpus(split, *sides, [pair.alignment for pair in pairs], language=language)
