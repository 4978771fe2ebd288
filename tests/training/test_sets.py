"""Runs on sets: exact resume with batch statistics and dropout on, equal gradients in parts, a run opened again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from set_files import write_omniglot

import regard
from regard.config import resolve
from regard.config.set_tasks import SET_RECIPES
from regard.errors import Interrupted, RegardError
from regard.training.loop import Loop
from regard.training.run import Run
from regard.training.sets import TASKS, check_data, open_model
from regard.training.start import fit, prepare

QUIET = Console(quiet=True)
TRAIN = {"steps": 12, "batch_sets": 6, "report_every": 2, "valid_every": 5, "save_every": 4, "tensorboard": False}


def characters(folder: Path) -> dict[str, Any]:
    return {
        "name": "counted", "task": "unique_characters", "seed": 3,
        "data": {"path": str(write_omniglot(folder)), "smallest": 3, "largest": 4, "valid_sets": 20, "test_sets": 20},
        "images": {"n_convolutions": 2, "channels": 4},
        "model": {"encoder": "isab", "d_model": 8, "n_heads": 2, "n_inducing": 2, "n_layers": 1, "dropout": 0.3},
        "train": {**TRAIN, "peak_lr": 1e-3, "schedule": "stepped", "decay": 0.5, "decay_every": 3},
    }  # fmt: skip


def stopped_after(recipe: dict[str, Any], run: Path, steps: int) -> None:
    """Train until an update and stop as Ctrl-C does."""
    update = Loop.one_step

    def one_step(self: Loop[Any], *arguments: Any) -> None:
        update(self, *arguments)
        self.stop_asked = self.progress.step >= steps

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loop, "one_step", one_step)
        with pytest.raises(Interrupted):
            fit(recipe, run, console=QUIET)


def ending(run: Path) -> dict[str, bytes]:
    last = run / "checkpoints" / "step-000012"
    return {name: (last / name).read_bytes() for name in ("model.safetensors", "training.safetensors")}


def test_a_run_that_was_stopped_ends_with_the_same_bytes(tmp_path: Path) -> None:
    recipe = characters(tmp_path)
    fit(recipe, tmp_path / "whole", console=QUIET)
    stopped_after(recipe, tmp_path / "stopped", 7)
    assert max(Run(tmp_path / "stopped").steps()) == 7
    fit(recipe, tmp_path / "stopped", console=QUIET)
    assert ending(tmp_path / "stopped") == ending(tmp_path / "whole")


def test_running_statistics_travel_with_the_weights(tmp_path: Path) -> None:
    model = fit(characters(tmp_path), tmp_path / "run", console=QUIET)
    names = dict(model.model.named_parameters())
    assert not torch.equal(names["images.norms.0.running_mean"], torch.zeros(4))
    again = regard.load(tmp_path / "run")
    sets = model.test_sets(range(3))
    images = [elements[:size] for elements, size in zip(sets.elements, sets.sizes, strict=True)]
    assert again.predict(images) == model.predict(images)
    assert again.score() == model.score()


def test_a_batch_in_parts_has_the_same_gradient(tmp_path: Path) -> None:
    model, data = {"encoder": "sab", "d_model": 8, "n_heads": 2}, {"highest": 1.0}
    recipe = resolve({"task": "max_regression", "model": model, "data": data, "train": TRAIN})
    loop = prepare(recipe, Run(tmp_path), QUIET)
    numbers = loop.task.order.numbers(0)
    gradients = []
    for parts in ([numbers], np.array_split(numbers, 3)):
        loop.forget()
        for part in parts:
            loop.gradient(loop.task.batch(part, torch.device("cpu")), len(numbers))
        gradients.append([parameter.grad for parameter in loop.model.parameters()])
    largest = max(float(gradient.abs().max()) for gradient in gradients[0])
    for whole, cut in zip(*gradients, strict=True):
        assert float((whole - cut).abs().max()) <= 1e-6 * largest


def test_a_report_has_scores_and_pictures(tmp_path: Path) -> None:
    recipe = {
        "name": "mixtures", "task": "clustering", "train": TRAIN,
        "data": {"smallest": 10, "largest": 20, "n_components": 2, "valid_sets": 20, "test_sets": 30},
        "model": {"encoder": "isab", "d_model": 8, "n_heads": 2, "n_inducing": 2, "n_seeds": 2},
    }  # fmt: skip
    regard.train(recipe, tmp_path / "run", console=QUIET)
    report = tmp_path / "run" / "report"
    assert {path.name for path in report.iterdir()} == {
        "report.txt", "scores.json", "loss.png", "clusters.png", "clusters.svg", "attention.png", "attention.html",
    }  # fmt: skip
    assert "test gap0" in (report / "report.txt").read_text()


def test_one_run_starts_from_another(tmp_path: Path) -> None:
    recipe = {"task": "max_regression", "model": {"encoder": "rff", "d_model": 8, "n_heads": 2}, "train": TRAIN}
    fit(recipe, tmp_path / "first", console=QUIET)
    second = {**recipe, "init": str(tmp_path / "first"), "train": {**TRAIN, "steps": 1, "peak_lr": 0.0}}
    fit(second, tmp_path / "second", console=QUIET)
    sets = [np.array([[3.0], [4.0]])]
    assert regard.load(tmp_path / "second").predict(sets) == regard.load(tmp_path / "first", weights="best").predict(
        sets
    )


def test_another_model_than_that_of_init_is_named_by_its_keys(tmp_path: Path) -> None:
    recipe = {"task": "max_regression", "model": {"encoder": "rff", "d_model": 8, "n_heads": 2}, "train": TRAIN}
    fit(recipe, tmp_path / "first", console=QUIET)
    wider = {**recipe, "init": str(tmp_path / "first"), "model": {**recipe["model"], "d_model": 16, "dropout": 0.1}}
    words = r"init = .*first is another model, make \[model\] match it: d_model: 16 here, 8 there\.$"
    with pytest.raises(RegardError, match=words):
        fit(wider, tmp_path / "second", console=QUIET)
    images = {
        "task": "unique_characters", "model": {"encoder": "sab", "d_model": 8, "n_heads": 2, "n_layers": 1},
        "images": {"channels": 4}, "train": {**TRAIN, "steps": 1},
        "data": {"path": str(write_omniglot(tmp_path)), "smallest": 3, "largest": 4, "valid_sets": 5, "test_sets": 5},
    }  # fmt: skip
    fit(images, tmp_path / "third", console=QUIET)
    with pytest.raises(RegardError, match=r"make \[images\] match it: channels: 8 here, 4 there"):
        fit({**images, "init": str(tmp_path / "third"), "images": {"channels": 8}}, tmp_path / "fourth", console=QUIET)


def test_every_kind_of_recipe_has_its_task() -> None:
    assert {kind().task for kind in SET_RECIPES} == set(TASKS)


def test_what_cannot_be_opened_is_refused_in_a_sentence() -> None:
    with pytest.raises(RegardError, match=r"reads Omniglot .* say where it is"):
        check_data(resolve({"task": "unique_characters"}))
    with pytest.raises(RegardError, match="opened one at a time"):
        open_model([Run("a"), Run("b")], "auto", "cpu")
    with pytest.raises(RegardError, match=r"gives 2 components and data.n_components = 4"):
        resolve({"task": "clustering", "model": {"n_seeds": 2}})
    with pytest.raises(RegardError, match=r"Unknown recipe key data\.n_points"):
        resolve({"task": "key_chain", "data": {"n_points": 5}})
