"""The mask-predict task: what is hidden, what is counted, and gradients that do not depend on how an update is cut."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from rich.console import Console
from torch import Tensor

from regard.config import resolve
from regard.data import tokenizer as subwords
from regard.data.corpus import load_required
from regard.data.masking import masks
from regard.data.tokenizer import EOS
from regard.decode.mask_predict import MASK
from regard.nn.loss import IGNORED, smoothed_cross_entropy
from regard.tasks.mask_predict import MaskPredictTask, filled_batch, length_loss, predictions
from regard.tasks.task import tensors
from regard.tasks.translation import Pairs
from regard.training.loop import Loop
from regard.training.run import Run

CPU = torch.device("cpu")


def make_task(changes: dict[str, Any] | None = None) -> MaskPredictTask:
    base = {
        "task": "mask_predict",
        "data": {"corpus": "reverse", "train_size": 300, "valid_size": 20, "max_length": 30},
        "tokenizer": {"vocab_size": 44},
        "model": {"n_layers": 2, "d_model": 32, "d_ff": 64, "n_heads": 4, "dropout": 0.0, "max_positions": 32},
    }
    recipe = resolve(base, changes or {})
    train, valid = load_required(recipe.data, "train"), load_required(recipe.data, "valid")
    tokenizers = subwords.train(recipe.tokenizer, train.source, train.target, 1)
    return MaskPredictTask(recipe, tokenizers, Pairs.encode(tokenizers, train), valid)


def test_the_decoder_sees_the_target_in_its_place_with_masks_and_must_guess_what_is_behind_them() -> None:
    task = make_task({"train.layout": "padded"})
    numbers = np.array([0, 1, 302])  # the last in its second epoch
    batch = task.batch(numbers, CPU)
    targets = [task.pairs.target[i].tolist() for i in (0, 1, 2)]
    hidden = np.split(masks(np.array([*map(len, targets)]), numbers, 1), np.cumsum([*map(len, targets)])[:-1])
    expected = batch.expected.split([*map(len, targets)])
    for row, wanted, target, mask in zip(batch.tgt.tolist(), expected, targets, hidden, strict=True):
        assert target[-1] == EOS
        assert row[: len(target)] == [MASK if h else token for token, h in zip(target, mask, strict=True)]
        assert wanted.tolist() == [token if h else IGNORED for token, h in zip(target, mask, strict=True)]
    assert batch.lengths.tolist() == [*map(len, targets)]
    assert batch.n_tokens == task.n_tokens(numbers) == sum(mask.sum() for mask in hidden)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_that_of_masked_tokens_and_of_the_length(smoothing: float) -> None:
    task = make_task({"train.label_smoothing": smoothing})
    batch = task.batch(np.arange(9), CPU)
    logits = batch.tgt_layout.real(task.model(batch.src, batch.src_layout, batch.tgt, batch.tgt_layout))
    masked = batch.expected != IGNORED
    tokens = F.cross_entropy(logits[masked], batch.expected[masked], label_smoothing=smoothing, reduction="sum")
    _, lengths = task.model.encode_and_measure(batch.src, batch.src_layout)
    length = -lengths.log_softmax(-1)[torch.arange(9), batch.lengths].sum()
    assert 0 < int(masked.sum()) < len(masked)
    torch.testing.assert_close(task.loss(batch), tokens + length)


def test_tokens_that_are_not_masked_are_not_in_the_loss() -> None:
    """Where shapes are free they never meet the vocabulary; where they are fixed no gradient comes back from there."""
    task = make_task({"train.layout": "packed"})
    numbers = np.arange(5)
    plain, filled = task.batch(numbers, CPU), filled_batch(task.pairs, numbers, 1, 64, task.model.longest)
    hidden, expected, _ = predictions(task.model, plain)
    assert len(hidden) == len(expected) == plain.n_tokens
    assert (expected != IGNORED).all()
    hidden, expected, _ = predictions(task.model, filled)
    loss = smoothed_cross_entropy(hidden, task.model.output.weight, None, expected, 0.1)
    (gradient,) = torch.autograd.grad(loss, hidden)
    assert torch.equal(gradient.abs().sum(-1) > 0, expected != IGNORED)
    assert 0 < plain.n_tokens < len(plain.expected)


@pytest.mark.parametrize(("count", "budget"), [(3, 100), (20, 200), (7, 16)])
def test_a_batch_of_fixed_shape_has_the_loss_and_gradient_of_the_plain_one(count: int, budget: int) -> None:
    task = make_task({"train.layout": "packed"})
    numbers = np.arange(count) + 600
    plain = task.batch(numbers, CPU)
    filled = filled_batch(task.pairs, numbers, task.recipe.seed, budget, task.model.longest)
    assert filled.n_tokens == plain.n_tokens
    assert filled.shape is not None
    losses = [task.loss(batch) for batch in (plain, filled)]
    torch.testing.assert_close(*losses)
    for a, b in zip(*(torch.autograd.grad(loss, list(task.model.parameters())) for loss in losses), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_batches_of_fixed_shape_come_in_few_shapes() -> None:
    task = make_task({"train.batch_tokens": 150})
    batches = [filled_batch(task.pairs, n, 1, 150, task.model.longest) for n in task.order.plan(0)]
    assert len({batch.shape for batch in batches}) <= 4 < len(batches)
    for batch in batches:
        same = next(other for other in batches if other.shape == batch.shape)
        assert [t.shape for t in tensors(batch)] == [t.shape for t in tensors(same)]


def gradients(task: MaskPredictTask, groups: list[np.ndarray], folder: Path) -> list[Tensor]:
    loop = Loop(task, task.recipe.train, Run(folder), Console(quiet=True))
    loop.optimiser.step = lambda: None  # type: ignore[method-assign]
    loop.update([task.batch(numbers, CPU) for numbers in groups], step=1)
    return [parameter.grad.clone() for parameter in task.model.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_accumulation_does_not_change_the_gradient(tmp_path: Path, layout: str) -> None:
    """64 sentences as 1 × 64, 4 × 16 and 16 × 4: the masks are the same, and all are divided by all of them."""
    task = make_task({"train.layout": layout})
    numbers = np.arange(64)
    whole = gradients(task, [numbers], tmp_path)
    largest = max(float(gradient.abs().max()) for gradient in whole)
    for pieces in (4, 16):
        for ours, theirs in zip(gradients(task, np.split(numbers, pieces), tmp_path), whole, strict=True):
            assert float((ours - theirs).abs().max()) <= 1e-6 * largest


def test_with_r_drop_and_no_dropout_it_is_the_plain_loss() -> None:
    plain, doubled = make_task(), make_task({"train.r_drop": 3.0})
    numbers = np.arange(30)
    torch.testing.assert_close(plain.loss(plain.batch(numbers, CPU)), doubled.loss(doubled.batch(numbers, CPU)))


def test_with_sampled_subwords_terms_are_counted_before_a_batch_is_made() -> None:
    task = make_task({"tokenizer.sampling": 0.3})
    for numbers in (np.arange(40), np.arange(40) + 900):
        assert task.n_tokens(numbers) == task.batch(numbers, CPU).n_tokens


def test_validation_hides_the_same_tokens_each_time() -> None:
    task = make_task({"train.valid_sentences": 4, "decode.iterations": 2, "decode.length_candidates": 2})
    before = torch.get_rng_state()
    first, second = task.validate(CPU), task.validate(CPU)
    assert torch.equal(torch.get_rng_state(), before)
    assert first == second
    assert first.metrics["perplexity"] == pytest.approx(math.exp(first.metrics["loss"]))
    assert 0 <= first.metrics["length_accuracy"] <= 1
    assert {"bleu"} <= set(first.metrics)
    assert len(first.samples) == 4


def test_the_length_is_learned_from_its_loss_alone() -> None:
    """A few steps on the lengths of one batch, whose source says them."""
    task = make_task()
    numbers = np.arange(60)
    batch = task.batch(numbers, CPU)
    optimiser = torch.optim.Adam(task.model.parameters(), 3e-3)
    for _ in range(60):
        optimiser.zero_grad()
        length_loss(predictions(task.model, batch)[2], batch).div(60).backward()
        optimiser.step()
    right = predictions(task.model, batch)[2].argmax(-1) == batch.lengths
    assert len(set(batch.lengths.tolist())) > 5
    assert right.float().mean() > 0.9
    wrong = replace(batch, lengths=batch.lengths.roll(1))
    assert length_loss(predictions(task.model, wrong)[2], wrong) > length_loss(predictions(task.model, batch)[2], batch)
