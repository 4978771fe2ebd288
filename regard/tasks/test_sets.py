"""What is to be scored: sentences from a recipe or from files, their references, and the texts that translate them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.config import DataConfig
from regard.data.corpus import Corpus, load_required, read_pair, test_splits
from regard.data.files import read_lines, unequal
from regard.data.languages import language_of
from regard.errors import RegardError, nearest

FILE_SPLITS = ("train", "valid", "test")  # of a recipe that names files


@dataclass(frozen=True)
class ScoredSet:
    """Sentences and what is said of them; all texts agree line by line."""

    name: str
    source: list[str] | None
    references: list[list[str]]
    language: str  # of the references, where their name tells
    corpus: Corpus | None = None  # for what only a model can score
    texts: Sequence[str] = ()
    baseline: Sequence[str] | None = None

    def without_reference(self) -> list[int]:
        """The lines, from 1, of which every reference is empty."""
        return [n for n, right in enumerate(zip(*self.references, strict=True), start=1) if not "".join(right).strip()]


def of_recipe(config: DataConfig, splits: Sequence[str]) -> list[ScoredSet]:
    """Some splits of a recipe's text, or the ones it is reported on."""
    for split in splits:
        if not config.corpus and split not in FILE_SPLITS:
            raise RegardError(f"No split {split}{nearest(split, FILE_SPLITS)}: there are {', '.join(FILE_SPLITS)}.")
    corpora = [load_required(config, split) for split in dict.fromkeys(splits or test_splits(config))]
    return [ScoredSet(one.name, one.source, [one.target], one.language, corpus=one) for one in corpora]


def of_files(source: Path, references: Sequence[Path]) -> ScoredSet:
    corpus = read_pair(source.name, source, references[0])
    targets = [corpus.target, *(list(read_lines(file)) for file in references[1:])]
    check_lines({source: corpus.source, **dict(zip(references, targets, strict=True))})
    return ScoredSet(corpus.name, corpus.source, targets, corpus.language, corpus=corpus)


def of_hypotheses(hypotheses: Path, references: Sequence[Path], source: Path | None = None) -> ScoredSet:
    """A text that is there already; the source is there for a baseline that is not."""
    texts = {file: list(read_lines(file)) for file in (hypotheses, *references, *([source] if source else []))}
    check_lines(texts)
    language = language_of(references[0])
    sides = texts[source] if source else None, [texts[file] for file in references]
    return ScoredSet(hypotheses.name, *sides, language, texts=texts[hypotheses])


def check_lines(texts: dict[Path, list[str]]) -> None:
    (first, lines), *others = texts.items()
    for file, found in others:
        if len(found) != len(lines):
            raise unequal((first, file), (len(lines), len(found)))
