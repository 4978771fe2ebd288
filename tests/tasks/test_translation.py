"""The translation task: batches, loss, and gradients that do not depend on how an update is cut."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor

from regard.config import resolve
from regard.data import tokenizer as subwords
from regard.data.corpus import load_required
from regard.data.tokenizer import BOS, EOS
from regard.errors import RegardError
from regard.tasks.task import tensors
from regard.tasks.translation import Pairs, TranslationTask
from regard.training.loop import Loop
from regard.training.run import Run

CPU = torch.device("cpu")


def make_task(changes: dict[str, Any] | None = None) -> TranslationTask:
    base = {
        "data": {"corpus": "reverse", "train_size": 300, "valid_size": 20},
        "tokenizer": {"vocab_size": 44},
        "model": {"n_layers": 2, "d_model": 32, "d_ff": 64, "n_heads": 4, "dropout": 0.0},
    }
    recipe = resolve(base, changes or {})
    train, valid = load_required(recipe.data, "train"), load_required(recipe.data, "valid")
    tokenizers = subwords.train(recipe.tokenizer, train.source, train.target, 1)
    return TranslationTask(recipe, tokenizers, Pairs.encode(tokenizers, train), valid)


def test_the_decoder_sees_the_target_shifted_right_behind_the_start_symbol() -> None:
    task = make_task({"train.layout": "padded"})
    batch = task.batch(np.array([0, 1, 2]), CPU)
    expected = [task.pairs.target[i].tolist() for i in range(3)]
    assert batch.expected.tolist() == [token for sentence in expected for token in sentence]
    assert batch.n_tokens == sum(map(len, expected))
    for row, sentence in zip(batch.tgt.tolist(), expected, strict=True):
        assert row[: len(sentence)] == [BOS, *sentence[:-1]]
        assert sentence[-1] == EOS


@pytest.mark.parametrize(("count", "budget"), [(3, 100), (20, 200), (20, 120), (7, 16)])
def test_a_batch_of_fixed_shape_has_the_loss_and_gradient_of_the_plain_one(count: int, budget: int) -> None:
    task = make_task({"train.layout": "packed"})
    numbers = np.arange(count)
    plain = task.batch(numbers, CPU)
    filled = task.pairs.filled_batch(numbers, task.start, budget, task.model.longest)
    assert filled.n_tokens == plain.n_tokens
    assert len(filled.src) == len(filled.tgt) == len(filled.expected) >= plain.n_tokens
    losses = [task.loss(batch) for batch in (plain, filled)]
    torch.testing.assert_close(*losses)
    for a, b in zip(*(torch.autograd.grad(loss, list(task.model.parameters())) for loss in losses), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_batches_of_fixed_shape_come_in_few_shapes() -> None:
    task = make_task({"train.layout": "packed", "train.batch_tokens": 150})
    batches = [task.pairs.filled_batch(n, task.start, 150, task.model.longest) for n in task.order.plan(0)]
    shapes = {batch.shape for batch in batches}
    assert len(batches) > 15
    assert len(shapes) <= 4
    for batch in batches:
        same = next(other for other in batches if other.shape == batch.shape)
        assert [t.shape for t in tensors(batch)] == [t.shape for t in tensors(same)]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_cross_entropy_with_the_distribution_of_szegedy(smoothing: float) -> None:
    task = make_task({"train.label_smoothing": smoothing})
    batch = task.batch(np.array([0, 1, 2]), CPU)
    logits = task.model(batch.src, batch.src_layout, batch.tgt, batch.tgt_layout)
    log_probs = batch.tgt_layout.real(logits).log_softmax(-1)
    V = log_probs.shape[-1]
    target = torch.full_like(log_probs, smoothing / V)
    target[range(batch.n_tokens), batch.expected] += 1 - smoothing
    torch.testing.assert_close(task.loss(batch), -(target * log_probs).sum())


def test_packed_and_padded_batches_have_the_same_loss() -> None:
    padded, packed = make_task(), make_task({"train.layout": "packed"})
    numbers = np.arange(40)
    torch.testing.assert_close(padded.loss(padded.batch(numbers, CPU)), packed.loss(packed.batch(numbers, CPU)))


def gradients(task: TranslationTask, groups: list[np.ndarray], folder: Path) -> list[Tensor]:
    """What the loop's update accumulates for these batches; the optimiser's own step is left out."""
    loop = Loop(task, task.recipe.train, Run(folder), Console(quiet=True))
    loop.optimiser.step = lambda: None  # type: ignore[method-assign]
    loop.update([task.batch(numbers, CPU) for numbers in groups], step=1)
    return [parameter.grad.clone() for parameter in task.model.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_accumulation_does_not_change_the_gradient(tmp_path: Path, layout: str) -> None:
    """64 sentences of ragged lengths as 1 × 64, 4 × 16 and 16 × 4, with label smoothing."""
    task = make_task({"train.layout": layout})
    numbers = np.arange(64)
    assert len(set(task.pairs.lengths[:64])) > 5
    whole = gradients(task, [numbers], tmp_path)
    largest = max(float(gradient.abs().max()) for gradient in whole)
    for pieces in (4, 16):
        cut = gradients(task, np.split(numbers, pieces), tmp_path)
        for ours, theirs in zip(cut, whole, strict=True):
            assert float((ours - theirs).abs().max()) <= 1e-6 * largest


def test_pairs_that_are_too_long_are_counted_and_left_out() -> None:
    task = make_task({"data.max_length": 8})
    kept = np.concatenate(task.order.plan(0))
    assert 0 < len(kept) < 300
    assert sorted([*kept, *task.too_long]) == list(range(300))
    assert task.pairs.lengths[kept].max() <= 8
    with pytest.raises(RegardError, match=r"Every pair is longer than 2 tokens.*raise data\.max_length"):
        make_task({"data.max_length": 2, "data.train_size": 3, "tokenizer.vocab_size": 26})


def test_validation_reports_plain_perplexity_and_the_same_samples_each_time() -> None:
    task = make_task({"train.valid_sentences": 10})
    before = torch.get_rng_state()
    first, second = task.validate(CPU), task.validate(CPU)
    assert torch.equal(torch.get_rng_state(), before)
    assert first == second
    assert first.metrics["perplexity"] == pytest.approx(math.exp(first.metrics["loss"]))
    assert len(first.samples) == 5
    assert task.valid_corpus.source[0] in first.samples[0]
    batch = task.valid.batch(np.arange(20), "padded", BOS)
    logits = task.model(batch.src, batch.src_layout, batch.tgt, batch.tgt_layout)
    log_probs = batch.tgt_layout.real(logits).log_softmax(-1)
    nll = -log_probs[range(batch.n_tokens), batch.expected].mean()
    assert first.metrics["loss"] == pytest.approx(nll.item(), abs=1e-5)
