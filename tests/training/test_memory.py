"""Batches that do not fit: computed in parts, with the same gradient, and nobody's sentence is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from torch import Tensor

from regard.config import resolve
from regard.errors import RegardError
from regard.tasks import translation
from regard.tasks.translation import TranslationBatch
from regard.training.loop import Loop
from regard.training.memory import out_of_memory
from regard.training.run import Run

CPU = torch.device("cpu")
STEPS, AT = 6, 3
RECIPE: dict[str, Any] = {
    "name": "limited",
    "data": {"corpus": "reverse", "train_size": 2000, "valid_size": 20},
    "tokenizer": {"vocab_size": 44},
    "model": {"n_layers": 2, "d_model": 64, "d_ff": 256, "n_heads": 4, "dropout": 0.0},
    "train": {
        # A low rate: Adam makes much of the rounding in gradients that are nearly zero.
        "steps": STEPS, "batch_tokens": 5000, "warmup_steps": 50, "lr_scale": 0.1, "report_every": 50,
        "valid_every": 50, "valid_sentences": 0, "save_every": 50, "average": 1, "tensorboard": False, "threads": 1,
    },
}  # fmt: skip


def train(folder: Path, *limit: str) -> tuple[dict[str, Any], str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, str(Path(__file__).with_name("limited.py")), json.dumps(RECIPE), str(folder), *limit]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout), result.stderr


def test_memory_that_runs_out_on_the_way_changes_neither_losses_nor_weights(tmp_path: Path) -> None:
    """The kernel refuses memory from the third update on; the run ends where the unlimited one does."""
    whole, said = train(tmp_path / "whole")
    assert "do not fit" not in said
    limited, said = train(tmp_path / "limited", str(AT), "0.7")
    assert said.count("do not fit into memory: they are computed in parts, with the same gradient.") == 1
    assert limited["batches"] > whole["batches"] == STEPS + 1  # and the rehearsal
    assert limited["used"] == whole["used"]
    assert len(whole["used"]) == STEPS
    assert all(whole["used"])
    assert limited["losses"][: AT - 1] == whole["losses"][: AT - 1]
    assert limited["losses"] == pytest.approx(whole["losses"], abs=1e-5)
    ours, theirs = (
        load_file(Run(tmp_path / name).checkpoint(STEPS) / "model.safetensors") for name in ("limited", "whole")
    )
    for name, weights in theirs.items():
        assert float((ours[name] - weights).abs().max()) <= 1e-5, name


def make_loop(folder: Path, said: list[str] | None = None, **changes: Any) -> Loop[TranslationBatch]:
    small = {"data": {"corpus": "reverse", "train_size": 300, "valid_size": 20}, "tokenizer": {"vocab_size": 44}}
    model = {"n_layers": 1, "d_model": 16, "d_ff": 32, "n_heads": 2, "dropout": 0.0, **changes}
    recipe = resolve({**small, "model": model, "train": {"batch_tokens": 400}})
    task = translation.prepare(recipe, folder / "tokenizer", None, lambda text: None)
    loop = Loop(task, recipe.train, Run(folder), Console(quiet=True))
    loop.fitting.tell = (said if said is not None else []).append
    return loop


def holding(loop: Loop[TranslationBatch], sentences: int) -> list[int]:
    """Have the loss run out of memory, after half its work, for batches of more sentences; gives the sizes tried."""
    tried: list[int] = []
    loss = loop.task.loss

    def limited(batch: TranslationBatch) -> Tensor:
        tried.append(len(batch.numbers))
        value = loss(batch)
        if len(batch.numbers) > sentences:
            value.backward()  # gradients that must be thrown away
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate …")
        return value

    loop.task.loss = limited  # type: ignore[method-assign]
    return tried


def gradient(loop: Loop[TranslationBatch], groups: list[np.ndarray]) -> dict[str, Tensor]:
    loop.optimiser.step = lambda: None  # type: ignore[method-assign]
    loop.update([loop.task.batch(numbers, CPU) for numbers in groups], step=1)
    found = {name: p.grad.clone() for name, p in loop.model.named_parameters() if p.grad is not None}
    return {**found, "loss": loop.update_loss.clone()}


@pytest.mark.parametrize("holds", [40, 16, 1])
def test_an_update_in_parts_has_the_same_gradient_and_loss(tmp_path: Path, holds: int) -> None:
    """Two batches of ragged lengths, with label smoothing; the second does not fit, or neither does."""
    groups = [np.arange(17), np.arange(17, 60)]
    whole = gradient(make_loop(tmp_path), groups)
    loop = make_loop(tmp_path)
    tried = holding(loop, holds)
    cut = gradient(loop, groups)
    assert max(tried) > holds
    largest = max(float(value.abs().max()) for name, value in whole.items() if name != "loss")
    for name, value in whole.items():
        bound = 1e-6 * (largest if name != "loss" else float(value))
        assert float((cut[name] - value).abs().max()) <= bound, name


def test_what_fits_is_learned_and_said_once(tmp_path: Path) -> None:
    said: list[str] = []
    loop = make_loop(tmp_path, said)
    tried = holding(loop, 20)
    gradient(loop, [np.arange(40)])
    assert tried == [40, 20, 20]
    gradient(loop, [np.arange(40), np.arange(8)])
    assert tried[3:] == [20, 20, 8]  # no second failure
    assert len(said) == 1
    assert "do not fit into memory" in said[0]


def test_one_sentence_too_many_is_an_error_that_helps(tmp_path: Path) -> None:
    loop = make_loop(tmp_path)
    holding(loop, 0)
    with pytest.raises(RegardError, match=r"A single example of \d+ tokens .* train\.recompute = true"):
        gradient(loop, [np.arange(9)])


def test_other_errors_are_not_mistaken_for_a_lack_of_memory(tmp_path: Path) -> None:
    loop = make_loop(tmp_path)

    def broken(batch: TranslationBatch) -> Tensor:
        raise RuntimeError("shapes do not match")

    loop.task.loss = broken  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="shapes"):
        gradient(loop, [np.arange(9)])


def test_the_rehearsal_tries_the_largest_batch_and_leaves_no_trace(tmp_path: Path) -> None:
    said: list[str] = []
    loop = make_loop(tmp_path, said, dropout=0.2)
    tried = holding(loop, 10)
    before = torch.get_rng_state(), loop.progress, {name: p.clone() for name, p in loop.model.named_parameters()}
    loop.rehearse()
    order = loop.task.order
    assert tried[0] == len(order.largest(0))
    assert order.positions(order.largest(0)) == max(order.positions(batch) for batch in order.plan(0))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert loop.progress == before[1]
    assert float(loop.update_loss) == 0
    for name, parameter in loop.model.named_parameters():
        assert parameter.grad is None
        assert torch.equal(parameter, before[2][name])
    assert not loop.optimiser.state
    assert len(said) == 1  # and the first step is cut from the start
    first = len(tried)
    gradient(loop, [order.largest(0)])
    assert max(tried[first:]) <= 10


def test_allocators_say_it_in_different_words() -> None:
    with pytest.raises(RuntimeError) as refused:
        torch.empty(2**60)
    assert out_of_memory(refused.value)
    with pytest.raises(MemoryError) as python:
        np.empty(2**58)
    assert out_of_memory(python.value)
    assert out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert not out_of_memory(RuntimeError("size mismatch"))
    assert not out_of_memory(ValueError("not enough memory"))
