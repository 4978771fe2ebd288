"""Recipes that learn to parse: *Attention Is All You Need*, §6.3."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from regard.config.checks import at_least, between
from regard.config.pairs import (
    FOREIGN,
    DecodeConfig,
    SequenceTrainConfig,
    TokenizerConfig,
    TransformerConfig,
    foreign,
)
from regard.config.recipe import Recipe
from regard.errors import RegardError

EVERY = re.compile(r"every ([0-9]+)")  # how a treebank is split by its documents
SOURCES = ("corpus", "files", "train")


@dataclass(frozen=True)
class TreebankConfig:
    """Where the trees come from: generated, treebanks to be split here, or files that are split already."""

    corpus: str = ""  # "sentences": trees of a small grammar of English, generated
    files: tuple[str, ...] = ()  # treebanks, lines `document<TAB>(tree)` or trees alone, plain or compressed
    splits: tuple[str, ...] = ()  # of each: "every 10" (documents sorted by name, each tenth for test, the one after it
    # for validation), or "named" (by the two lists below)
    valid_documents: tuple[str, ...] = ()
    test_documents: tuple[str, ...] = ()
    train: tuple[str, ...] = ()  # treebanks that are split already, any number of files a split
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()  # more training trees: parses of plain text (self-training)
    gold_times: int = 1  # how often each tree of a person stands beside those
    form: Literal["plain", "tags"] = "tags"  # every word is XX, or its part-of-speech tag
    unary: Literal["keep", "join"] = "keep"  # of brackets over the same words: each a symbol, or one for them all
    train_size: int = 5_000  # trees drawn from a generated corpus
    valid_size: int = 200
    test_size: int = 300
    max_length: int = 600  # tokens; longer training trees are counted, reported and left out

    def __post_init__(self) -> None:
        given = [key for key in SOURCES if getattr(self, key)]
        if len(given) > 1:
            raise RegardError(f"data.{given[0]} and data.{given[1]} exclude each other: remove one of them.")
        if len(self.splits) != len(self.files):
            raise RegardError(
                f"data.splits has {len(self.splits)} entries for {len(self.files)} data.files: give one for each, such "
                'as "every 10" or "named".'
            )
        for split in self.splits:
            found = EVERY.fullmatch(split)
            if split != "named" and not (found and int(found[1]) >= 3):
                raise RegardError(f'data.splits: {split!r} must be "named" or "every N" with N of at least 3.')
        if "named" in self.splits and not (self.valid_documents and self.test_documents):
            raise RegardError('data.splits = "named" needs data.valid_documents and data.test_documents.')
        at_least(self, "data", train_size=1, valid_size=1, test_size=1, max_length=4, gold_times=1)


@dataclass(frozen=True)
class SourceTokenizerConfig(TokenizerConfig):
    """Subwords of the sentences. The target has symbols of its own, one for each bracket and tag."""

    vocab_size: int = 4_000
    shared: bool = False
    normalization: Literal["nmt_nfkc", "nfkc", "identity"] = "identity"  # others may split a word in two

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shared:
            raise RegardError("tokenizer.shared = true: a parser's symbols are no subwords, leave it false.")


@dataclass(frozen=True)
class ParserModelConfig(TransformerConfig):
    """The Transformer, and what helps it where there are few trees (not in the paper)."""

    tie: Literal["all", "target", "none"] = "target"
    next_word: bool = False  # the decoder is fed what the encoder says of the last word read and of the next one
    word_dropout: float = 0.0  # subwords that become unknown in training

    def __post_init__(self) -> None:
        super().__post_init__()
        between(self, "model", 0.0, 1.0, "word_dropout")
        if self.tie == "all":
            raise RegardError('Subwords and tree symbols cannot share one matrix: set model.tie = "target" or "none".')
        if self.block_heads > 1:
            raise RegardError('model.block_heads means nothing to task = "parsing": leave it out.')


@dataclass(frozen=True)
class ParserTrainConfig(SequenceTrainConfig):
    """The loop over sentences and their trees."""

    best_by: Literal["loss", "f1"] = "f1"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.freeze:
            raise RegardError('train.freeze means nothing to task = "parsing": leave it out.')


@dataclass(frozen=True)
class ParserDecodeConfig(DecodeConfig):
    """The paper's search for trees, §6.3."""

    beam_size: int = 21
    length_penalty: float = 0.3
    extra_length: int = 300
    constrained: bool = True  # nothing comes out but trees over all words; else what is malformed is repaired


@dataclass(frozen=True)
class ParsingRecipe(Recipe):
    """Everything that decides a run of constituency parsing."""

    PLACES: ClassVar[tuple[str, ...]] = ("data.files", "data.train", "data.valid", "data.test", "data.extra")
    VERBS: ClassVar[tuple[str, ...]] = ("parse", "evaluate", "view")

    task: Literal["parsing"] = "parsing"
    data: TreebankConfig = field(default_factory=TreebankConfig)
    tokenizer: SourceTokenizerConfig = field(default_factory=SourceTokenizerConfig)
    model: ParserModelConfig = field(default_factory=ParserModelConfig)
    train: ParserTrainConfig = field(default_factory=ParserTrainConfig)
    decode: ParserDecodeConfig = field(default_factory=ParserDecodeConfig)

    def __post_init__(self) -> None:
        if self.model.positions == "learned" and self.data.max_length > self.model.max_positions:
            raise RegardError(
                f"data.max_length = {self.data.max_length} tokens need more than model.max_positions = "
                f"{self.model.max_positions} learned positions: change one of them."
            )
        for key in FOREIGN[self.task]:
            if getattr(self.decode, key) != getattr(DecodeConfig, key):
                raise RegardError(foreign(self.task, key))
