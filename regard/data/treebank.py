"""The trees of a recipe, wherever they come from, and as a parser sees them: sentences and symbols.

A treebank is split by documents, so that no article is in two parts. "every 10": documents sorted by name, the 10th,
the 20th … are for test, each one after those for validation, all others for training; where a file names no documents,
every tree is one. "named": the recipe lists the documents for validation and test.

What is learned are trees as `trees.normalise` makes them. What is scored against keeps labels that stand twice over the
same words, which EVALB counts twice: function tags, traces and the bare root alone are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import regard.data.generated.trees as generated
from regard.config import TreebankConfig
from regard.config.parsing import EVERY
from regard.data.linearise import FORMS, LEAF
from regard.data.parallel import Corpus
from regard.data.tokenizer import Symbols
from regard.data.trees import (
    Tree,
    as_scored,
    join_unaries,
    merge_repeats,
    read_documents,
    read_trees,
    walk,
)
from regard.errors import RegardError, nearest

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Treebank:
    """Trees of one split, as they are scored against; those without words are left out and counted."""

    name: str
    gold: list[Tree]
    wordless: int = 0

    def __len__(self) -> int:
        return len(self.gold)

    @classmethod
    def of(cls, name: str, trees: Iterable[Tree]) -> Treebank:
        bare = [as_scored(tree) for tree in trees]
        kept = [tree for tree in bare if tree.words]
        return cls(name, kept, len(bare) - len(kept))

    @property
    def words(self) -> list[tuple[str, ...]]:
        return [tree.words for tree in self.gold]

    def corpus(self, config: TreebankConfig) -> Corpus:
        """Sentences and their trees in the recipe's linear form, as text."""
        source = [sentence_text(tree.words) for tree in self.gold]
        target = [" ".join(FORMS[config.form](as_learned(tree, config))) for tree in self.gold]
        return Corpus(self.name, source, target)


def as_learned(tree: Tree, config: TreebankConfig) -> Tree:
    """A tree that is scored against as a parser learns it: `trees.normalise`, unary chains joined where asked for."""
    return join_unaries(merge_repeats(tree)) if config.unary == "join" else merge_repeats(tree)


def sentence_text(words: Sequence[str]) -> str:
    """Words with spaces between, as the tokenizer wants them: as many words to it as to the tree."""
    return " ".join(word.replace("▁", "_").replace(" ", "_") or "_" for word in words)


def symbols_of(treebank: Treebank, config: TreebankConfig) -> Symbols:
    """Leaves first, then each label's two brackets, the frequent ones before the rare."""
    leaves: dict[str, int] = {LEAF: 0} if config.form == "plain" else {}
    labels: dict[str, int] = {}
    for scored in treebank.gold:
        tree = as_learned(scored, config) if config.unary == "join" else scored
        for event, i in walk(tree):
            if event == "word" and config.form == "tags":
                leaves[tree.tags[i]] = leaves.get(tree.tags[i], 0) + 1
            elif event == "open":
                labels[tree.brackets[i].label] = labels.get(tree.brackets[i].label, 0) + 1
    ordered = [sorted(some, key=lambda one: (-some[one], one)) for some in (leaves, labels)]
    return Symbols.of([*ordered[0], *(sign + label for label in ordered[1] for sign in "()")])


def load(config: TreebankConfig, split: str) -> Treebank:
    """One split of a recipe's trees."""
    if split not in SPLITS:
        raise RegardError(f"No split {split}{nearest(split, SPLITS)}: there are {', '.join(SPLITS)}.")
    if config.corpus:
        if config.corpus != "sentences":
            raise RegardError(f"No generated treebank {config.corpus}: there is sentences.")
        return Treebank.of(split, generated.trees(split, getattr(config, f"{split}_size")))
    trees = [tree for file in getattr(config, split) for tree in read_trees(Path(file))]
    for file, rule in zip(config.files, config.splits, strict=True):
        trees += split_file(Path(file), rule, config)[split]
    treebank = Treebank.of(split, trees)
    if not treebank.gold:
        raise RegardError(
            f"The recipe has no {split} trees: set data.{split} to bracket files, or data.files and data.splits to "
            'treebanks to be split, or data.corpus = "sentences".'
        )
    return treebank


def training(config: TreebankConfig) -> Treebank:
    """All there is to learn from: gold trees, as often as the recipe says, and parses of plain text."""
    gold = load(config, "train")
    more = Treebank.of("extra", (tree for file in config.extra for tree in read_trees(Path(file))))
    return Treebank("train", gold.gold * config.gold_times + more.gold, gold.wordless + more.wordless)


def test_splits(config: TreebankConfig) -> list[str]:
    """What is reported on: the test set, or without one the validation set."""
    return ["test"] if config.corpus or config.files or config.test else ["valid"]


def split_file(path: Path, rule: str, config: TreebankConfig) -> dict[str, list[Tree]]:
    """The trees of one treebank by split, in the order of the file."""
    documents = documents_of(path, path.stat().st_mtime_ns if path.is_file() else 0)
    if rule == "named":
        place = {**dict.fromkeys(config.valid_documents, "valid"), **dict.fromkeys(config.test_documents, "test")}
    else:
        found = EVERY.fullmatch(rule)
        assert found is not None
        place = split_every(sorted({name for name, _ in documents}), int(found[1]))
    parts: dict[str, list[Tree]] = {split: [] for split in SPLITS}
    for name, tree in documents:
        parts[place.get(name, "train")].append(tree)
    return parts


@lru_cache(maxsize=3)
def documents_of(path: Path, changed: int) -> list[tuple[str, Tree]]:
    """Each tree with its document, or with its own number where there is none. `changed`: when the file was; reading a
    large one takes seconds, and every split asks for it."""
    return [(name or f"tree {number:08d}", tree) for number, (name, tree) in enumerate(read_documents(path))]


def split_every(documents: Sequence[str], n: int) -> dict[str, str]:
    """Where documents belong that are not for training."""
    place = {name: "test" for i, name in enumerate(documents, start=1) if i % n == 0}
    return place | {name: "valid" for i, name in enumerate(documents, start=1) if i > 1 and i % n == 1}
