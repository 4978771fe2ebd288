"""Recurrent and convolutional models in the translation task: batches of a fixed shape, pieces, and both losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from regard.config import resolve
from regard.data import tokenizer as subwords
from regard.data.corpus import load_required
from regard.errors import RegardError
from regard.tasks.task import tensors
from regard.tasks.translation import Pairs, TranslationTask

CPU = torch.device("cpu")
RECURRENT = {"family": "recurrent", "d_model": 12, "d_hidden": 16}
MODELS: list[dict[str, Any]] = [
    RECURRENT,
    {**RECURRENT, "attention": "general", "input_feeding": True, "cell": "lstm"},
    {**RECURRENT, "attention": "none", "context": True},
    {"family": "convolutional", "d_model": 12, "d_hidden": 16, "n_layers": 2},
]


def make_task(model: dict[str, Any], **train: Any) -> TranslationTask:
    recipe = resolve(
        {
            "data": {"corpus": "reverse", "train_size": 300, "valid_size": 20},
            "tokenizer": {"vocab_size": 44},
            "model": {**model, "dropout": 0.0},
            "train": train,
        }
    )
    corpora = [load_required(recipe.data, split) for split in ("train", "valid")]
    tokenizers = subwords.train(recipe.tokenizer, corpora[0].source, corpora[0].target, 1)
    return TranslationTask(recipe, tokenizers, Pairs.encode(tokenizers, corpora[0]), corpora[1])


def gradients(task: TranslationTask, loss: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss, list(task.model.parameters())))


@pytest.mark.parametrize("tight", [False, True])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_batches_of_a_fixed_shape_and_of_pieces_have_the_same_loss_and_gradient(
    model: dict[str, Any], tight: bool
) -> None:
    """A room has sequences that nobody asked for, and empty ones."""
    task, numbers = make_task(model), np.arange(20)
    plain = task.batch(numbers, CPU)
    filled = task.pairs.filled_batch(numbers, task.start, 200, task.model.longest, tight)
    assert len(tensors(filled)) == len(tensors(plain))
    pieces = [task.batch(part, CPU) for part in np.array_split(numbers, 3)]
    whole, fixed = task.loss(plain), task.loss(filled)
    apart = torch.stack([task.loss(piece) for piece in pieces]).sum()
    torch.testing.assert_close(fixed, whole)
    torch.testing.assert_close(apart, whole)
    expected = gradients(task, whole)
    for found in (gradients(task, fixed), gradients(task, apart)):
        for mine, other in zip(found, expected, strict=True):
            torch.testing.assert_close(mine, other, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_without_dropout_two_passes_agree(model: dict[str, Any]) -> None:
    """R-Drop adds nothing then: its loss is the plain one."""
    numbers = np.arange(8)
    plain, dropped = make_task(model), make_task(model, r_drop=5.0)
    torch.testing.assert_close(dropped.loss(dropped.batch(numbers, CPU)), plain.loss(plain.batch(numbers, CPU)))


def test_what_only_the_transformer_has_is_refused_by_name() -> None:
    base = {"data": {"corpus": "reverse"}, "model": {"family": "recurrent"}}
    for changes, word in (
        ({"train.recompute": True}, "train.recompute"),
        ({"decode.blockwise": True, "decode.beam_size": 1}, "decode.blockwise"),
        ({"task": "mask_predict"}, "mask_predict"),
        ({"model.n_heads": 4}, "model.n_heads"),
        ({"model.family": "recurent"}, "did you mean 'recurrent'|recurrent"),
    ):
        with pytest.raises(RegardError, match=word):
            resolve(base, changes)
