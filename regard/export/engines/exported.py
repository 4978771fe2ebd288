"""What the engines that run an exported folder have in common: settings, identity, and how their outputs are ranked."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from regard.config import DecodeConfig
from regard.data.files import file_hash
from regard.data.tokenizer import BOS, PAD, UNK
from regard.decode.engine import Progress
from regard.decode.state import NORMALIZATIONS, Hypothesis
from regard.errors import RegardError
from regard.export.manifest import Manifest

BANNED = (PAD, BOS, UNK)
HONOURED = frozenset(  # all of them also take alignment_layer, which concerns no search
    (
        "beam_size",
        "length_penalty",
        "normalization",
        "extra_length",
        "max_source",
        "batch_sentences",
        "alignment_layer",
    )
)
Found = tuple[list[int], float]  # an output and its log-probability


@dataclass(frozen=True)
class Settings:
    """How an engine runs; what it answers does not depend on these."""

    device: str = "cpu"  # cpu, cuda or cuda:1 …
    compute_type: str = "default"  # CTranslate2's: default keeps the type of the weights, or takes one of more bits
    inter_threads: int = 1  # CTranslate2: batches at a time
    intra_threads: int = 0  # threads within a batch; 0: the engine's own choice
    patience: float = 2.0  # CTranslate2 ends a beam after beam_size · patience hypotheses, ours when none can win

    def spread(self, threads: int, side_by_side: bool) -> Settings:
        """Threads for batches side by side, which gets most done, or all for one batch, which answers soonest."""
        if self.device != "cpu":
            return self
        inter, intra = (threads, 1) if side_by_side else (1, threads)
        return replace(self, inter_threads=inter, intra_threads=intra)


class Exported(ABC):
    """An engine that reads a folder of `regard export`."""

    name: str
    honours: frozenset[str] = HONOURED
    at_once: int = 1

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        self.folder, self.settings, self.manifest = folder, settings or Settings(), Manifest.verified(folder)

    @property
    def longest(self) -> int:
        return self.manifest.longest

    @property
    def compute_type(self) -> str:
        """What numbers it computes with, where there is a choice."""
        return ""

    def identity(self) -> dict[str, str]:
        """What decides its answers."""
        total = hashlib.sha256()
        for path in sorted(path for path in self.folder.rglob("*") if path.is_file()):
            total.update(f"{path.relative_to(self.folder)} {file_hash(path)}\n".encode())
        return {"engine": self.name, "weights": total.hexdigest(), "compute_type": self.compute_type}

    @abstractmethod
    def decode(
        self, sources: list[list[int]], n_best: int, config: DecodeConfig, progress: Progress = None
    ) -> list[list[Hypothesis]]:
        """What `regard.decode.engine.Engine` says."""

    def check_lengths(self, sources: Sequence[Sequence[int]]) -> None:
        for i, source in enumerate(sources):
            if len(source) > self.longest:
                raise RegardError(
                    f"Sentence {i + 1} has {len(source)} tokens, and the export positions for {self.longest}."
                )


def needed(package: str, extra: str) -> Any:
    """A package that only those need who use this engine."""
    try:
        return import_module(package)
    except ImportError:
        raise RegardError(f"This needs {package}: pip install 'regard[{extra}]'.") from None


def alike(numbers: Iterable[int], values: Sequence[int], batch: int) -> Iterator[list[int]]:
    """Groups of numbers for which `values` are equal, the largest first."""
    order = sorted(numbers, key=lambda i: -values[i])
    while order:
        group = [i for i in order[:batch] if values[i] == values[order[0]]]
        order = order[len(group) :]
        yield group


def ranked(found: Sequence[Found], n_best: int, config: DecodeConfig) -> list[Hypothesis]:
    """The n best of some outputs, best first by the request's own normalisation: under "gnmt", of those that were best
    by "power"."""
    lengths = torch.tensor([len(tokens) for tokens, _ in found], dtype=torch.float64)
    penalties = NORMALIZATIONS[config.normalization](lengths, config.length_penalty).tolist()
    hypotheses = [
        Hypothesis(tokens, log_prob, log_prob / penalty)
        for (tokens, log_prob), penalty in zip(found, penalties, strict=True)
    ]
    return sorted(hypotheses, key=lambda one: -one.score)[:n_best]
