"""Labels of texts and of words: many-to-one and many-to-many, in the one loop. And their use once they are learned."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config import LabelRecipe
from regard.data.batching import BatchOrder, cut
from regard.data.labels import Example, Vocabulary
from regard.data.tokenizer import Ragged
from regard.errors import RegardError
from regard.evaluate.accuracy import accuracy
from regard.evaluate.bleu import Score
from regard.models.labeller import Labeller
from regard.nn.layout import Layout, Packed, Padded
from regard.tasks.task import Validation, evaluating, move, pin
from regard.wording import counted

N_SAMPLES = 5
NO_LABEL = -1  # of what the training text does not have; costs nothing and is never right


@dataclass(frozen=True)
class LabelBatch:
    numbers: np.ndarray
    words: Tensor  # (…) in `layout`
    layout: Layout
    labels: Tensor  # (B,), or (total,) where each word has one

    @property
    def n_tokens(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> None:
        return None


@dataclass(frozen=True)
class Encoded:
    """Examples in numbers."""

    words: Ragged
    labels: Ragged

    @classmethod
    def of(cls, examples: Sequence[Example], vocabulary: Vocabulary) -> Encoded:
        words = Ragged.of(vocabulary.encode([each.words for each in examples]))
        return cls(words, Ragged.of(vocabulary.encode_labels([each.labels for each in examples])))

    def batch(self, numbers: np.ndarray, layout: str) -> LabelBatch:
        chosen = numbers % len(self.words)
        words, labels = self.words.take(chosen), self.labels.take(chosen)
        size = max(1, int(words.lengths.max()))  # where all texts are empty, a place for nobody
        packed = Packed.of(words.lengths, size)
        flat = torch.from_numpy(words.values.astype(np.int64))
        expected = torch.from_numpy(labels.values.astype(np.int64))
        if layout == "packed":
            return LabelBatch(numbers, flat, packed, expected)
        return LabelBatch(numbers, packed.pad(flat), Padded.of(words.lengths, size), expected)

    def by_length(self, batch_tokens: int) -> Iterator[np.ndarray]:
        order = np.argsort(self.words.lengths, kind="stable")
        yield from cut(order, np.maximum(self.words.lengths[order], 1), batch_tokens)

    def by_example(self, numbers: np.ndarray, rows: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """rows: one for each label of a batch → the number of each example in it and the rows that are its own"""
        yield from zip(numbers, np.split(rows, np.cumsum(self.labels.lengths[numbers])[:-1]), strict=True)

    @property
    def hash(self) -> str:
        digest = hashlib.sha256()
        for part in (self.words, self.labels):
            digest.update(part.values.tobytes())
            digest.update(part.offsets.tobytes())
        return digest.hexdigest()


def build(recipe: LabelRecipe, vocabulary: Vocabulary) -> Labeller:
    return Labeller(recipe.model, len(vocabulary.words), len(vocabulary.labels), recipe.task == "tagging")


class LabelTask:
    """One recipe's texts and model."""

    def __init__(
        self, recipe: LabelRecipe, vocabulary: Vocabulary, train: Sequence[Example], valid: Sequence[Example]
    ) -> None:
        self.recipe, self.vocabulary, self.valid = recipe, vocabulary, list(valid)
        if len(vocabulary.labels) < 2:
            raise RegardError("The training text has a single label: there is nothing to learn.")
        torch.manual_seed(recipe.seed)
        self.model: nn.Module = build(recipe, vocabulary)
        self.train = Encoded.of(train, vocabulary)
        padded = recipe.train.layout == "padded"
        lengths = np.maximum(self.train.words.lengths, 1)[:, None]
        self.order = BatchOrder(lengths, recipe.train.batch_tokens, recipe.seed, padded=padded)
        self.d_model = recipe.model.d_model
        self.fingerprints = {"vocabulary": vocabulary.hash, "training text": self.train.hash}

    @property
    def unit(self) -> str:
        """What has a label, and so a loss."""
        return "words" if self.recipe.task == "tagging" else "texts"

    @property
    def extent(self) -> str:
        words, labels = len(self.vocabulary.words), len(self.vocabulary.labels)
        return f"{counted(len(self.train.words), 'text')}, {counted(words, 'word')}, {counted(labels, 'label')}"

    def n_tokens(self, numbers: np.ndarray) -> int:
        return int(self.train.labels.lengths[numbers % len(self.train.labels)].sum())

    def batch(self, numbers: np.ndarray, device: torch.device) -> LabelBatch:
        return pin(self.train.batch(numbers, self.recipe.train.layout), device)

    def loss(self, batch: LabelBatch) -> Tensor:
        logits = self.model(batch.words, batch.layout).float()
        return total_loss(logits, batch.labels, self.recipe.train.label_smoothing)

    @torch.inference_mode()
    def validate(self, device: torch.device) -> Validation:
        with evaluating(self.model):
            encoded, total = Encoded.of(self.valid, self.vocabulary), 0.0
            found: list[list[str]] = [[] for _ in self.valid]
            for batch, logits in logits_of(self.model, encoded, self.recipe.train.batch_tokens, device):
                total += float(total_loss(logits, batch.labels))
                for number, likeliest in encoded.by_example(batch.numbers, logits.argmax(dim=-1).cpu().numpy()):
                    found[number] = [self.vocabulary.labels[i] for i in likeliest]
            right = [each.labels for each in self.valid]
        samples = [
            f"text   {' '.join(each.words)}\nright  {' '.join(each.labels)}\nfound  {' '.join(labels)}\n"
            for each, labels in list(zip(self.valid, found, strict=True))[:N_SAMPLES]
        ]
        n_labels = sum(len(each.labels) for each in self.valid)
        return Validation({"loss": total / n_labels, "accuracy": accuracy(found, right, samples=2).value}, samples)


def total_loss(logits: Tensor, labels: Tensor, label_smoothing: float = 0.0) -> Tensor:
    return F.cross_entropy(logits, labels, reduction="sum", label_smoothing=label_smoothing, ignore_index=NO_LABEL)


def logits_of(
    model: nn.Module, encoded: Encoded, batch_tokens: int, device: torch.device
) -> Iterator[tuple[LabelBatch, Tensor]]:
    """All examples, texts of like length together, and what the model says of each label: (…, n_labels) in float32."""
    for numbers in encoded.by_length(batch_tokens):
        batch = move(encoded.batch(numbers, "padded"), device)
        yield batch, model(batch.words, batch.layout).float()


Texts = str | Sequence[str | Sequence[str]]
"""Texts with spaces between words, as the training text has them; or lists of words; or one text."""


def in_words(texts: Texts) -> list[Sequence[str]]:
    given = [texts] if isinstance(texts, str) else texts
    if isinstance(given, Iterable):
        found = [text.split() if isinstance(text, str) else text for text in given]
        if all(isinstance(words, list | tuple) and all(isinstance(word, str) for word in words) for words in found):
            return found
    raise RegardError("Give texts: a list of strings or of lists of words, or one string.")


class Labelling:
    """A trained model: `predict` gives a label for each text, or a label for each of its words."""

    def __init__(self, name: str, recipe: LabelRecipe, model: nn.Module, vocabulary: Vocabulary) -> None:
        self.name, self.recipe, self.model, self.vocabulary = name, recipe, model, vocabulary

    @property
    def labels(self) -> tuple[str, ...]:
        return self.vocabulary.labels

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]:
        """Of the network, so that `capture` works."""
        return self.model.named_modules()

    def predict(self, texts: Texts) -> list[str] | list[list[str]]:
        """Gives a list, of one for a single string. A text without words has a label too, but no tags."""
        found = self.label(texts)
        return found if self.recipe.task == "tagging" else [labels[0] for labels in found]

    def translate(self, *texts: object, **options: object) -> NoReturn:
        """For those who take it for a translator."""
        raise RegardError(f"{self.name} labels texts and translates none: use predict.")

    def label(self, texts: Texts) -> list[list[str]]:
        """For each text, one label or as many as words."""
        return [[self.labels[i] for i in one.argmax(axis=-1)] for one in self.probabilities(texts)]

    @torch.inference_mode()
    def probabilities(self, texts: Texts) -> list[np.ndarray]:
        """For each text, (1, n_labels) or (words, n_labels); columns are as `labels`."""
        texts = in_words(texts)
        self.model.eval()
        device = next(self.model.parameters()).device
        unlabelled = Ragged.of([[NO_LABEL] * (len(text) if self.recipe.task == "tagging" else 1) for text in texts])
        encoded = Encoded(Ragged.of(self.vocabulary.encode(texts)), unlabelled)
        found: list[np.ndarray] = [np.empty((0, len(self.labels)))] * len(texts)
        for batch, logits in logits_of(self.model, encoded, self.recipe.train.batch_tokens, device):
            for number, part in encoded.by_example(batch.numbers, logits.softmax(dim=-1).cpu().numpy()):
                found[number] = part
        return found

    def evaluate(self, examples: Sequence[Example]) -> tuple[list[list[str]], Score]:
        found = self.label([each.words for each in examples])
        return found, accuracy(found, [each.labels for each in examples])
