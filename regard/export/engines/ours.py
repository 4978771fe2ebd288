"""Our own model and search, as an engine."""

from __future__ import annotations

from dataclasses import fields

import torch

from regard.config import DecodeConfig
from regard.decode.engine import Progress
from regard.decode.state import Hypothesis
from regard.decode.translator import Translator
from regard.training.checkpoint import tensor_digest, weights


class TorchEngine:
    """Our own model and search."""

    name, at_once = "torch", 1
    honours = frozenset(item.name for item in fields(DecodeConfig))

    def __init__(self, translator: Translator) -> None:
        self.translator = translator

    @property
    def longest(self) -> int:
        return self.translator.longest

    def identity(self) -> dict[str, str]:
        models = [self.translator.model, *self.translator.partners]
        digests = [tensor_digest({name: part.cpu() for name, part in weights(model).items()}) for model in models]
        return {"engine": self.name, "weights": " ".join(digests), "tokenizer": self.translator.tokenizers.hash}

    @torch.inference_mode()
    def decode(
        self, sources: list[list[int]], n_best: int, config: DecodeConfig, progress: Progress = None
    ) -> list[list[Hypothesis]]:
        return self.translator.decode(sources, n_best, config, progress)
