"""Training block heads: the loss of several tokens a position, and a base that stays as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.config import resolve
from regard.data import tokenizer as subwords
from regard.data.corpus import load_required
from regard.tasks.translation import Pairs, TranslationTask, block_loss, last_hidden
from regard.training.load import load_weights
from regard.training.run import Run
from regard.training.start import fit

CPU = torch.device("cpu")
K = 3


def make_task(**changes: Any) -> TranslationTask:
    base = {
        "init": "a run",
        "data": {"corpus": "reverse", "train_size": 300, "valid_size": 20},
        "tokenizer": {"vocab_size": 44},
        "model": {"n_layers": 2, "d_model": 32, "d_ff": 64, "n_heads": 4, "dropout": 0.0, "block_heads": K},
    }
    recipe = resolve(base, {key.replace("__", "."): value for key, value in changes.items()})
    train, valid = load_required(recipe.data, "train"), load_required(recipe.data, "valid")
    tokenizers = subwords.train(recipe.tokenizer, train.source, train.target, 1)
    return TranslationTask(recipe, tokenizers, Pairs.encode(tokenizers, train), valid)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_mean_of_the_heads_cross_entropies(smoothing: float, frozen: bool) -> None:
    """Token by token, from the definition."""
    task = make_task(train__label_smoothing=smoothing, train__freeze="base" if frozen else "", train__layout="padded")
    batch = task.batch(np.arange(4), CPU)
    hidden, heads = last_hidden(task.model, batch), task.model.block_heads
    assert heads is not None
    logits = task.model.output(torch.cat([hidden[:, None], heads(hidden)], dim=1)).detach()  # (n, k, V)
    log_probs, V = logits.log_softmax(-1), logits.shape[-1]
    total, row, first = 0.0, 0, int(frozen)
    for sentence in (task.pairs.target[i].tolist() for i in range(4)):
        for t in range(len(sentence)):
            for i in range(first, K):
                if t + i < len(sentence):
                    wanted = torch.full((V,), smoothing / V)
                    wanted[sentence[t + i]] += 1 - smoothing
                    total -= float(wanted @ log_probs[row, i])
            row += 1
    assert task.loss(batch).item() == pytest.approx(total / (K - first), rel=1e-5)
    assert batch.n_tokens == row


@pytest.mark.parametrize("frozen", ["", "base"])
def test_the_gradient_does_not_depend_on_layout_or_on_how_a_batch_is_cut(frozen: str) -> None:
    task, numbers = make_task(train__freeze=frozen), np.arange(20)
    parameters = [parameter for parameter in task.model.parameters() if parameter.requires_grad]

    def gradient(*batches: Any) -> list[torch.Tensor]:
        return list(torch.autograd.grad(sum(task.loss(batch) for batch in batches), parameters))

    whole = gradient(task.pairs.batch(numbers, "packed", task.start))
    for other in (
        gradient(task.pairs.batch(numbers, "padded", task.start)),
        gradient(*(task.pairs.batch(part, "packed", task.start) for part in np.array_split(numbers, 3))),
        gradient(task.pairs.filled_batch(numbers, task.start, 250, task.model.longest)),
    ):
        for a, b in zip(whole, other, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5 * float(a.abs().max()))


def test_a_frozen_base_leaves_only_the_heads_to_be_trained() -> None:
    task = make_task(train__freeze="base")
    trained = {name for name, parameter in task.model.named_parameters() if parameter.requires_grad}
    assert trained == {name for name, _ in task.model.named_parameters() if name.startswith("block_heads.")}
    task.loss(task.batch(np.arange(5), CPU)).backward()
    assert all((parameter.grad is not None) == (name in trained) for name, parameter in task.model.named_parameters())


def test_validation_scores_what_is_trained() -> None:
    task = make_task(train__freeze="base")
    metrics = task.validate(CPU).metrics
    batch = task.valid.batch(np.arange(20), "padded", task.start)
    expected = block_loss(task.model.eval(), batch, 0.0, only_heads=True).item() / batch.n_tokens
    assert metrics["loss"] == pytest.approx(expected, rel=1e-5)
    assert 1.0 <= metrics["tokens_per_call"] <= K


@pytest.fixture
def recipe(reverser: Path, reverser_recipe: dict[str, Any]) -> dict[str, Any]:
    """Heads for the reverser, with dropout, accumulation and a moving average."""
    train = {**reverser_recipe["train"], "steps": 12, "save_every": 3, "valid_every": 6, "accumulate": 2, "ema": 0.9}
    model = {**reverser_recipe["model"], "block_heads": 2, "dropout": 0.2, "ff_dropout": 0.1}
    return {**reverser_recipe, "init": str(reverser), "model": model, "train": {**train, "average": 1}}


@pytest.mark.parametrize("freeze", ["", "base"])
def test_a_run_that_goes_on_ends_with_the_bytes_of_one_that_never_stopped(
    recipe: dict[str, Any], tmp_path: Path, freeze: str
) -> None:
    changes = {"train.freeze": freeze}
    fit(recipe, tmp_path / "whole", changes)
    fit(recipe, tmp_path / "halves", {**changes, "train.steps": 6})
    fit(recipe, tmp_path / "halves", changes, extend=True)
    for name in ("model.safetensors", "training.safetensors"):
        whole, halves = (
            tmp_path / run / "checkpoints" / "step-000012" / name for run in ("whole", "halves")
        )  # fmt: skip
        assert whole.read_bytes() == halves.read_bytes()
    states = [
        json.loads((tmp_path / run / "checkpoints" / "step-000012" / "state.json").read_text())["progress"]
        for run in ("whole", "halves")
    ]
    assert states[0] == states[1]


def test_the_moving_average_of_a_frozen_base_is_itself(recipe: dict[str, Any], reverser: Path, tmp_path: Path) -> None:
    fit(recipe, tmp_path / "run", {"train.freeze": "base"})
    before, after = load_weights(Run.open(reverser)), load_weights(Run.open(tmp_path / "run"), "ema")
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    last = load_weights(Run.open(tmp_path / "run"), "last")
    assert not torch.equal(after["block_heads.feed_forward.w_2.weight"], last["block_heads.feed_forward.w_2.weight"])


def test_heads_are_taken_over_where_they_fit_and_begin_anew_where_not(recipe: dict[str, Any], tmp_path: Path) -> None:
    name = "block_heads.feed_forward.w_1.weight"
    short = {"train.steps": 1, "train.accumulate": 1, "train.peak_lr": 0.0, "train.schedule": "linear"}
    fit(recipe, tmp_path / "first")
    first = load_weights(Run.open(tmp_path / "first"))
    for k, same in ((2, True), (3, False)):
        run = tmp_path / f"of {k}"
        fit(recipe, run, {**short, "init": str(tmp_path / "first"), "model.block_heads": k})
        found = load_weights(Run.open(run))
        assert (found[name].shape == first[name].shape and torch.equal(found[name], first[name])) == same
    fit(recipe, tmp_path / "plain", {**short, "init": str(tmp_path / "first"), "model.block_heads": 1})
    plain = load_weights(Run.open(tmp_path / "plain"))
    assert not any(key.startswith("block_heads.") for key in plain)
    assert all(torch.equal(tensor, first[key]) for key, tensor in plain.items())
