"""Texts with labels: one for the whole (classification) or one for each word (tagging); files, sentiment trees,
treebanks, and generated corpora."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.config import LabelDataConfig, LabelRecipe
from regard.data.files import read_lines
from regard.data.generated.labels import generate
from regard.data.treebank import documents_of, split_every
from regard.data.trees import drop_traces, read_trees
from regard.errors import RegardError

UNKNOWN = 0  # the number of a word that the training text does not have
DOCUMENTS = 10  # of a treebank given alone, of which one is for test and one for validation
NEUTRAL = "2"
SENTIMENT_TREES = "https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip"


@dataclass(frozen=True)
class Example:
    words: tuple[str, ...]
    labels: tuple[str, ...]  # one, or one for each word


@dataclass(frozen=True)
class Vocabulary:
    """The words and labels of a training text, by number. Number 0 stands for all other words."""

    words: tuple[str, ...]
    labels: tuple[str, ...]
    lower: bool

    @classmethod
    def of(cls, examples: Sequence[Example], config: LabelDataConfig) -> Vocabulary:
        count = Counter(word.lower() if config.lower else word for each in examples for word in each.words)
        known = sorted(word for word, times in count.items() if times >= config.min_count)
        labels = sorted({label for each in examples for label in each.labels})
        return cls(("", *known), tuple(labels), config.lower)

    @classmethod
    def load(cls, file: Path) -> Vocabulary:
        values = json.loads(file.read_text(encoding="utf-8"))
        return cls(tuple(values["words"]), tuple(values["labels"]), values["lower"])

    def dump(self) -> str:
        return json.dumps(self.__dict__, ensure_ascii=False, indent=0) + "\n"

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.dump().encode()).hexdigest()

    def encode(self, texts: Sequence[Sequence[str]]) -> list[list[int]]:
        numbers = {word: number for number, word in enumerate(self.words)}
        return [[numbers.get(word.lower() if self.lower else word, UNKNOWN) for word in words] for words in texts]

    def unknown(self, texts: Sequence[Sequence[str]]) -> int:
        """How many of their words the training text does not have."""
        return sum(numbers.count(UNKNOWN) for numbers in self.encode(texts))

    def encode_labels(self, labels: Sequence[Sequence[str]]) -> list[list[int]]:
        """−1 where the training text has no such label: nobody can be right there."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        return [[numbers.get(label, -1) for label in one] for one in labels]


def load(recipe: LabelRecipe, split: str) -> list[Example]:
    """The examples of a split (train, valid, test)."""
    data = recipe.data
    if data.corpus:
        return [Example(*drawn) for drawn in generate(data.corpus, split, getattr(data, f"{split}_size"))]
    files: tuple[str, ...] = getattr(data, split)
    alone = data.form == "trees" and data.train and not (data.valid or data.test)
    if not files and not alone:
        raise RegardError(f'The recipe has no {split} text: set data.{split} = ["FILE"], or data.corpus.')
    path = Path((data.train if alone else files)[0])
    if not path.exists():
        key = "train" if alone else split
        raise RegardError(f"No such file: {path}. Say where it lies with --set 'data.{key}=[\"FILE\"]'{origin(data)}.")
    if data.form == "trees":
        found = list(tagged(path, split if alone else ""))
    elif data.form == "sentiment":
        found = list(sentiment(path, data.classes == "two", data.phrases and split == "train"))
    else:
        found = list(lines(path, recipe.task == "tagging"))
    if not found:
        raise RegardError(f"{path} has no {split} examples.")
    return found


def origin(data: LabelDataConfig) -> str:
    """Where files of a form can be got, as the end of a sentence."""
    return f"; the Stanford sentiment trees are at {SENTIMENT_TREES}" if data.form == "sentiment" else ""


def has(data: LabelDataConfig, split: str) -> bool:
    alone = data.form == "trees" and data.train and not (data.valid or data.test)
    return bool(data.corpus or getattr(data, split) or alone)


def lines(path: Path, tagging: bool) -> Iterator[Example]:
    for number, line in enumerate(read_lines(path), 1):
        first, tab, second = line.partition("\t")
        words, labels = (first.split(), second.split()) if tagging else (second.split(), [first])
        if not tab or (tagging and len(words) != len(labels)):
            wanted = "words, a tab and as many tags" if tagging else "a label, a tab and a text"
            raise RegardError(f"{path}, line {number} is not {wanted}: {line[:60]!r}.")
        yield Example(tuple(words), tuple(labels))


def sentiment(path: Path, two: bool, phrases: bool) -> Iterator[Example]:
    """Trees whose labels are classes from 0, very negative, to 4."""
    for tree in read_trees(path):
        every = [Example(tree.words[start:end], (label,)) for label, start, end in tree.brackets]
        leaves = [Example((word,), (tag,)) for word, tag in zip(tree.words, tree.tags, strict=True)]
        for one in [*every, *leaves] if phrases else [*every, *leaves][:1]:
            if not two:
                yield one
            elif one.labels[0] != NEUTRAL:
                yield Example(one.words, ("positive" if one.labels[0] > NEUTRAL else "negative",))


def tagged(path: Path, split: str) -> Iterator[Example]:
    """Words and their parts of speech: of one split, "every 10" of a treebank, or of all where none is named."""
    documents = documents_of(path, path.stat().st_mtime_ns if path.is_file() else 0)
    place = split_every(sorted({name for name, _ in documents}), DOCUMENTS)
    for name, tree in documents:
        whole = drop_traces(tree)
        if whole.words and split in ("", place.get(name, "train")):
            yield Example(whole.words, whole.tags)
