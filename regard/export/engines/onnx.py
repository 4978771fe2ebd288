"""onnxruntime as an engine: our search over the two graphs of an exported folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.config import DecodeConfig
from regard.data.batching import in_order_of_length
from regard.data.tokenizer import EOS, PAD, SYMBOLS
from regard.decode.engine import Progress
from regard.decode.search import search
from regard.decode.state import Hypothesis, SearchOptions
from regard.errors import RegardError
from regard.export.engines.exported import BANNED, Exported, Settings, needed
from regard.export.onnx import FILES, cache_names


class OnnxEngine(Exported):
    """Our search over the two graphs of an exported folder, run by onnxruntime."""

    name = "ONNX"

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        super().__init__(folder, settings)
        onnxruntime = needed("onnxruntime", "onnx")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.settings.intra_threads
        options.log_severity_level = 3
        provider = "CUDAExecutionProvider" if self.settings.device.startswith("cuda") else "CPUExecutionProvider"
        if provider not in onnxruntime.get_available_providers():
            raise RegardError(f"This onnxruntime has no {provider}: install onnxruntime-gpu, or take --device cpu.")
        try:
            self.encoder, self.decoder = (
                onnxruntime.InferenceSession(folder / name, options, providers=[provider]) for name in FILES
            )
        except Exception as error:  # onnxruntime has exceptions of its own for each fault, and no common one
            raise RegardError(f"onnxruntime cannot open {folder}: {error}.") from None

    def decode(
        self, sources: list[list[int]], n_best: int, config: DecodeConfig, progress: Progress = None
    ) -> list[list[Hypothesis]]:
        options = SearchOptions(
            start=SYMBOLS[self.manifest.model.start], end=EOS, beam_size=max(config.beam_size, n_best), n_best=n_best,
            length_penalty=config.length_penalty, normalization=config.normalization, banned=BANNED,
        )  # fmt: skip
        self.check_lengths(sources)
        found: list[list[Hypothesis]] = [[] for _ in sources]
        done = 0
        for group in in_order_of_length([len(source) for source in sources], config.batch_sentences):
            batch = [sources[i] for i in group]
            limits = [min(len(source) + config.extra_length, self.longest) for source in batch]
            step = OnnxStep(self.encoder, self.decoder, batch, options.beam_size)
            for i, hypotheses in zip(group, search(step, limits, options, torch.device("cpu")), strict=True):
                found[i] = hypotheses
            done += len(group)
            if progress:
                progress(done)
        return found


class OnnxStep:
    """A batch of sentences between steps of the decoder: what `regard.decode.search` asks of a model. All of them enter
    together, so that all are at the same position."""

    def __init__(self, encoder: Any, decoder: Any, sources: Sequence[Sequence[int]], beam: int) -> None:
        self.encoder, self.decoder, self.sources, self.beam = encoder, decoder, sources, beam
        names = [item.name for item in decoder.get_inputs()]
        self.names = cache_names(sum(name.startswith("past_keys") for name in names))
        self.shapes = {item.name: item.shape for item in decoder.get_inputs()}
        self.mask = np.zeros((0, 0), dtype=bool)
        self.memory: list[np.ndarray] = []
        self.past: list[np.ndarray] = []

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        sources = [self.sources[sentence] for sentence in sentences]
        lengths = np.array([len(source) for source in sources])
        self.mask = np.arange(lengths.max()) < lengths[:, None]
        tokens = np.full(self.mask.shape, PAD, dtype=np.int64)
        tokens[self.mask] = np.concatenate([np.asarray(source) for source in sources])
        self.memory = self.encoder.run(self.names["memory"], {"tokens": tokens, "mask": self.mask})
        self.past = [
            np.zeros((len(sources), self.beam, self.shapes[name][2], 0, self.shapes[name][4]), dtype=np.float32)
            for name in self.names["past"]
        ]

    def __call__(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        inputs = {"tokens": tokens.numpy(), "position": positions[:1].numpy(), "mask": self.mask}
        inputs |= dict(zip(self.names["memory"], self.memory, strict=True))
        inputs |= dict(zip(self.names["past"], self.past, strict=True))
        logits, *self.past = self.decoder.run(["logits", *self.names["present"]], inputs)
        return torch.from_numpy(logits)

    def reorder(self, parents: Tensor, longest: int) -> None:
        rows = parents.numpy()
        if self.beam > 1:
            self.past = [part[np.arange(len(rows))[:, None], rows] for part in self.past]

    def keep(self, slots: Tensor) -> None:
        rows = slots.numpy()
        self.mask = self.mask[rows]
        self.memory, self.past = ([part[rows] for part in parts] for parts in (self.memory, self.past))
