"""Recipes that learn labels: one for a text (classification), or one for each of its words (tagging)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from regard.config.checks import at_least, between
from regard.config.pairs import TransformerConfig
from regard.config.recipe import Recipe, TrainConfig
from regard.errors import RegardError


@dataclass(frozen=True)
class LabelDataConfig:
    """Where texts and labels come from: generated, or a file for each split."""

    corpus: Literal["", "polarity", "word-classes"] = ""  # generated, instead of files: for classification, for tagging
    train: tuple[str, ...] = ()  # one file, plain or compressed (.gz, .xz, .zst)
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    form: Literal["lines", "sentiment", "trees"] = "lines"  # label, tab, text (tagging: words, tab, tags); trees with
    # numbers at their nodes; a treebank, whose documents are split here where it is the only file
    classes: Literal["five", "two"] = "five"  # of sentiment: all, or negative and positive without the neutral
    phrases: bool = False  # of sentiment, in training: every phrase of a tree with its own label, not the whole alone
    train_size: int = 5_000  # examples of a generated corpus
    valid_size: int = 500
    test_size: int = 1_000
    lower: bool = False
    min_count: int = 2  # words that are rarer in the training text are unknown

    def __post_init__(self) -> None:
        for name in ("train", "valid", "test"):
            if len(getattr(self, name)) > 1:
                raise RegardError(f"data.{name} needs one file, but has {len(getattr(self, name))}.")
            if self.corpus and getattr(self, name):
                raise RegardError(f"data.corpus and data.{name} exclude each other: remove one of them.")
        at_least(self, "data", train_size=1, valid_size=1, test_size=1, min_count=1)


@dataclass(frozen=True)
class BagConfig:
    """A feed-forward network that sees words one by one: a text is the mean of its words, whatever their order."""

    family: Literal["bag"] = "bag"
    d_model: int = 128
    d_ff: int = 256
    dropout: float = 0.3

    def __post_init__(self) -> None:
        at_least(self, "model", d_model=1, d_ff=1)
        between(self, "model", 0.0, 1.0, "dropout")


@dataclass(frozen=True)
class TextCnnConfig:
    """Convolutions of several widths side by side; a text is the maximum of each over time (Kim 2014)."""

    family: Literal["cnn"] = "cnn"
    d_model: int = 128
    filters: int = 100  # of each width
    min_width: int = 3
    max_width: int = 5
    dropout: float = 0.5

    def __post_init__(self) -> None:
        at_least(self, "model", d_model=1, filters=1, min_width=1)
        between(self, "model", 0.0, 1.0, "dropout")
        if self.max_width < self.min_width:
            raise RegardError(f"model.max_width = {self.max_width} is less than model.min_width = {self.min_width}.")


@dataclass(frozen=True)
class ReaderConfig:
    """Recurrent layers; a text is the state after its last word, in both directions the state after its first too."""

    family: Literal["recurrent"] = "recurrent"
    cell: Literal["lstm", "gru", "rnn"] = "lstm"
    d_model: int = 128
    d_hidden: int = 128  # of each direction
    n_layers: int = 1
    bidirectional: bool = True
    dropout: float = 0.5

    def __post_init__(self) -> None:
        at_least(self, "model", d_model=1, d_hidden=1, n_layers=1)
        between(self, "model", 0.0, 1.0, "dropout")


@dataclass(frozen=True)
class LabelTrainConfig(TrainConfig):
    """The loop over labelled texts."""

    batch_tokens: int = 2_000  # words of a batch
    label_smoothing: float = 0.0
    layout: Literal["packed", "padded"] = "padded"
    best_by: Literal["loss", "accuracy"] = "accuracy"

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, "train", batch_tokens=1)
        between(self, "train", 0.0, 1.0, "label_smoothing")


@dataclass(frozen=True)
class LabelRecipe(Recipe):
    """Everything that decides a run of classification or tagging."""

    PLACES: ClassVar[tuple[str, ...]] = ("data.train", "data.valid", "data.test")
    VERBS: ClassVar[tuple[str, ...]] = ("label", "evaluate")

    task: Literal["classification", "tagging"] = "classification"
    data: LabelDataConfig = field(default_factory=LabelDataConfig)
    model: TransformerConfig | BagConfig | TextCnnConfig | ReaderConfig = field(default_factory=TransformerConfig)
    train: LabelTrainConfig = field(default_factory=LabelTrainConfig)

    def __post_init__(self) -> None:
        theirs = {"classification": ("polarity", "lines", "sentiment"), "tagging": ("word-classes", "lines", "trees")}
        asked = self.data.corpus or self.data.form
        if asked not in theirs[self.task]:
            key = "corpus" if self.data.corpus else "form"
            raise RegardError(
                f'data.{key} = "{asked}" has no labels for task = "{self.task}": '
                f"choose {' or '.join(theirs[self.task])}."
            )
