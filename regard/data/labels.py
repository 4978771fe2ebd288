"""Texts with labels: one for the whole (classification) or one for each word (tagging); files, sentiment trees,
treebanks, and two generated corpora.

`polarity`: a sentence praises or blames, and a word such as "not" or "hardly" turns the next judgement round, so that
the same words in another order mean the opposite. `word-classes`: words such as "paint" and "light" are nouns, verbs or
adjectives by their neighbours alone.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from regard.config import LabelDataConfig, LabelRecipe
from regard.data.files import read_lines
from regard.data.trees import Tree, drop_traces, read_documents, read_trees
from regard.errors import RegardError

UNKNOWN = 0  # the number of a word that the training text does not have
EVERY = 10  # of the documents of a treebank, one is for test and one for validation
NEUTRAL = "2"


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

    def encode_labels(self, labels: Sequence[Sequence[str]]) -> list[list[int]]:
        """−1 where the training text has no such label: nobody can be right there."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        return [[numbers.get(label, -1) for label in one] for one in labels]


def load(recipe: LabelRecipe, split: str) -> list[Example]:
    """The examples of a split (train, valid, test)."""
    data = recipe.data
    if data.corpus:
        return generated(data.corpus, split, getattr(data, f"{split}_size"))
    files: tuple[str, ...] = getattr(data, split)
    alone = data.form == "trees" and data.train and not (data.valid or data.test)
    if not files and not alone:
        raise RegardError(f'The recipe has no {split} text: set data.{split} = ["FILE"], or data.corpus.')
    path = Path((data.train if alone else files)[0])
    if data.form == "trees":
        found = list(tagged(path, split if alone else ""))
    elif data.form == "sentiment":
        found = list(sentiment(path, data.classes == "two", data.phrases and split == "train"))
    else:
        found = list(lines(path, recipe.task == "tagging"))
    if not found:
        raise RegardError(f"{path} has no {split} examples.")
    return found


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
    """Words and their parts of speech. Of documents sorted by name, each tenth is for test, the next for validation."""
    documents = list(read_documents(path))
    places = {name: i % EVERY for i, name in enumerate(sorted({name for name, _ in documents}))}
    wanted = {"test": {EVERY - 1}, "valid": {0}, "train": set(range(1, EVERY - 1)), "": set(range(EVERY))}[split]
    for name, tree in documents:
        whole: Tree = drop_traces(tree)
        if whole.words and places[name] in wanted:
            yield Example(whole.words, whole.tags)


# --- generated -------------------------------------------------------------------------------------------

THINGS = ("film", "plot", "music", "acting", "ending", "story", "cast", "book", "play", "song")
PRAISE = ("good", "fine", "clever", "lovely", "bright", "strong")
BLAME = ("bad", "dull", "weak", "silly", "boring", "poor")
TURNING = ("not", "hardly", "never")
PLAIN = ("really", "very", "quite")
BOTH = ("paint", "light", "water", "change", "open", "clean")  # nouns, verbs and adjectives
NOUNS, VERBS, ADJECTIVES = ("dog", "house", "child"), ("see", "help", "carry"), ("old", "green", "small")


def generated(corpus: str, split: str, size: int) -> list[Example]:
    """Drawn with a seed for each split; an example of another split may occur again."""
    chance = Random(zlib.crc32(f"{corpus} {split}".encode()))
    return [polarity(chance) if corpus == "polarity" else word_classes(chance) for _ in range(size)]


def polarity(chance: Random) -> Example:
    """Two judgements, the second of which decides; each may be turned round by the word before it."""
    words: list[str] = []
    verdict = True
    for i in range(2):
        good, turned = chance.random() < 0.5, chance.random() < 0.5
        verdict = good != turned
        judgement = chance.choice(PRAISE if good else BLAME)
        adverb = chance.choice(TURNING if turned else PLAIN)
        words += [*(["but"] if i else []), "the", chance.choice(THINGS), "is", adverb, judgement]
    return Example(tuple(words), ("positive" if verdict else "negative",))


def word_classes(chance: Random) -> Example:
    """We VERB the (ADJECTIVE) NOUN, with words of which half could be any of them."""

    def one(choices: tuple[str, ...], tag: str) -> tuple[str, str]:
        return chance.choice(chance.choice((choices, BOTH))), tag

    pairs = [("we", "PRON"), one(VERBS, "VERB")]
    for _ in range(chance.randint(1, 2)):
        adjective = [one(ADJECTIVES, "ADJ")] if chance.random() < 0.5 else []
        pairs += [("the", "DET"), *adjective, one(NOUNS, "NOUN"), ("and", "CONJ"), one(VERBS, "VERB")]
    pairs += [("the", "DET"), one(NOUNS, "NOUN")]
    return Example(tuple(word for word, _ in pairs), tuple(tag for _, tag in pairs))
