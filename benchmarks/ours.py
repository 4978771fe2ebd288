"""Our Transformer as the benchmark trains it: the fast path, and the plain one a reader of the paper would write."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.batches import Batch
from benchmarks.setting import START, Setting, System
from benchmarks.step import precision, updater
from regard.config import TrainConfig, TransformerConfig
from regard.data.tokenizer import Ragged
from regard.models.transformer import Transformer
from regard.nn import kernels
from regard.nn.layout import Packed, Padded
from regard.tasks.task import pin
from regard.tasks.translation import Pairs, TranslationBatch, smoothed_loss
from regard.training.captured import Captured
from regard.training.device import keep_freed_memory
from regard.training.optim import Adam


def build_ours(setting: Setting, device: torch.device) -> System:
    """What `regard train` does: recorded graphs of packed batches on a GPU; on a CPU padded, with memory kept."""
    return on_cpu(setting) if device.type == "cpu" else on_gpu(setting, device)


def on_cpu(setting: Setting) -> System:
    cpu = torch.device("cpu")
    keep_freed_memory()
    model, optimiser = model_and_optimiser(setting, cpu)

    def loss(batch: TranslationBatch) -> Tensor:
        return smoothed_loss(model, batch, setting.label_smoothing) / batch.n_tokens

    return System(lambda batch: all_of(batch).batch(numbers(batch), "packed", START), updater(loss, optimiser, cpu))


def on_gpu(setting: Setting, device: torch.device) -> System:
    model, optimiser = model_and_optimiser(setting, device)
    captured = Captured[TranslationBatch](
        lambda batch: smoothed_loss(model, batch, setting.label_smoothing), model, lambda: precision(device)
    )

    def prepare(batch: Batch) -> TranslationBatch:
        return pin(all_of(batch).filled_batch(numbers(batch), START, setting.budget, model.longest), device)

    def update(batch: TranslationBatch) -> Tensor:
        optimiser.zero_grad()
        loss = captured.gradient(batch, batch.n_tokens)
        optimiser.step()
        return loss

    return System(prepare, update)


def all_of(batch: Batch) -> Pairs:
    return Pairs(Ragged.of(batch.sources), Ragged.of(batch.targets))


def numbers(batch: Batch) -> np.ndarray:
    return np.arange(len(batch.sources))


def build_plain(setting: Setting, device: torch.device) -> System:
    """Padded and eager, from the public parts and torch's own operations alone, nothing set up around it."""
    kernels.usable = lambda x: False  # in this process
    model, optimiser = model_and_optimiser(setting, device)

    def prepare(batch: Batch) -> tuple[Tensor, Padded, Tensor, Padded, Tensor]:
        inputs = [np.concatenate([[START], target[:-1]]) for target in batch.targets]
        expected = torch.from_numpy(np.concatenate(batch.targets).astype(np.int64))
        return (*rectangle(batch.sources, device), *rectangle(inputs, device), expected.to(device))

    def loss(batch: tuple[Tensor, Padded, Tensor, Padded, Tensor]) -> Tensor:
        src, src_layout, tgt, tgt_layout, expected = batch
        memory = model.encode(src, src_layout)
        hidden = tgt_layout.real(model.decode(tgt, tgt_layout, memory, src_layout))
        return F.cross_entropy(model.output(hidden).float(), expected, label_smoothing=setting.label_smoothing)

    return System(prepare, updater(loss, optimiser, device))


def rectangle(sentences: list[np.ndarray], device: torch.device) -> tuple[Tensor, Padded]:
    lengths = [len(sentence) for sentence in sentences]
    flat = torch.from_numpy(np.concatenate(sentences).astype(np.int64))
    return Packed.of(lengths).pad(flat).to(device), Padded.of(lengths).to(device)


def model_and_optimiser(setting: Setting, device: torch.device) -> tuple[Transformer, Adam]:
    size = setting.model
    config = TransformerConfig(
        n_layers=size.n_layers, d_model=size.d_model, d_ff=size.d_ff, n_heads=size.n_heads, dropout=size.dropout
    )
    model = Transformer(config, size.vocab_size).to(device).train()
    optimiser = Adam(model.parameters(), TrainConfig())
    optimiser.lr = setting.learning_rate
    return model, optimiser
