"""What a benchmark run measures: the model's size, the batches, the rounds, and how operations are counted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SYSTEMS = ("regard", "regard-plain", "torch", "marian", "marian-compiled", "x-transformers")
PAD, START, END, FIRST_WORD = 0, 1, 2, 4  # the symbols of `regard.data.tokenizer`; words begin after unknown
LONGEST = 1024  # positions the peers' tables have


@dataclass(frozen=True)
class ModelSize:
    """One size for every system: N layers on each side, one matrix for both embeddings and the output."""

    n_layers: int
    d_model: int
    d_ff: int
    n_heads: int
    vocab_size: int
    dropout: float = 0.1  # on embeddings and sub-layer outputs alone, the places of the paper


MODELS = {
    "toy": ModelSize(1, 32, 64, 2, 200),
    "small": ModelSize(3, 256, 1024, 4, 8_000),
    "base": ModelSize(6, 512, 2048, 8, 37_000),
    "big": ModelSize(6, 1024, 4096, 16, 37_000, dropout=0.3),
}
CPU_VOCAB = {"base": 8_000}  # what a corpus that fits a CPU's patience has


@dataclass(frozen=True)
class Setting:
    """Everything that decides a run, as the parent hands it to the workers."""

    name: str  # of the model size
    model: ModelSize
    device: str  # cpu, cuda
    systems: tuple[str, ...]
    shapes: str  # repeated, real
    sentences: str  # short, long; or the folder they come from
    budget: int  # real tokens of a batch, per side
    n_batches: int
    rounds: int
    updates: int  # per round
    warmup: int  # updates before the first round
    threads: int = 0  # 0: torch's own choice
    label_smoothing: float = 0.1
    learning_rate: float = 1e-4
    seed: int = 1

    @classmethod
    def of(cls, values: dict[str, Any]) -> Setting:
        """From plain values, as JSON has them."""
        model = ModelSize(**values["model"])
        return cls(**{**values, "model": model, "systems": tuple(values["systems"])})

    def plain(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @property
    def precision(self) -> str:
        return "float32" if self.device == "cpu" else "bfloat16"

    def warmup_batches(self) -> list[int]:
        return [i % self.n_batches for i in range(self.warmup)]

    def round_batches(self, number: int) -> list[int]:
        """The batches of round `number`: the same for every system, going on where the last round ended."""
        first = self.warmup + number * self.updates
        return [i % self.n_batches for i in range(first, first + self.updates)]


def operations(model: ModelSize, source_tokens: int, target_tokens: int) -> int:
    """Of forward and backward: 6 for each weight a real token meets, attention scores left out.

    A source token meets an encoder layer (4d² + 2d·d_ff) and the keys and values of a decoder layer's
    cross-attention (2d²); a target token meets the rest of that layer and the output projection. Padding counts for
    nothing, so a system that computes on it shows a lower rate.
    """
    layer = 6 * model.d_model**2 + 2 * model.d_model * model.d_ff
    source = source_tokens * model.n_layers * layer
    target = target_tokens * (model.n_layers * layer + model.d_model * model.vocab_size)
    return 6 * (source + target)


@dataclass(frozen=True)
class System:
    """A thing to be measured, as two functions."""

    prepare: Callable[[Any], Any]  # `batches.Batch` → its tensors on the device; not timed
    update: Callable[[Any], Any]  # those tensors → the loss, after forward, backward and the optimiser's step
