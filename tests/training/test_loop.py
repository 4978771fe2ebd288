"""The loop: learning, stopping, interrupting, fine-tuning, precision."""

from __future__ import annotations

import io
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

import regard
from regard.config import TrainConfig, resolve
from regard.data.corpus import load_required
from regard.errors import RegardError
from regard.evaluate.bleu import exact_match
from regard.training import checkpoint
from regard.training.device import settle
from regard.training.loop import used
from regard.training.pairs import load_translator, report
from regard.training.run import Run
from regard.training.start import fit


@pytest.mark.parametrize(
    ("name", "steps", "at_least"),
    [
        ("copy", 800, 90.0),
        ("reverse", 800, 90.0),
        pytest.param("copy", 2_000, 98.5, marks=pytest.mark.soak),
        pytest.param("reverse", 2_000, 98.5, marks=pytest.mark.soak),
    ],
)
def test_sequences_are_turned_and_copied(tmp_path: Path, name: str, steps: int, at_least: float) -> None:
    model = fit(name, tmp_path / "run", {"train.tensorboard": False, "train.steps": steps})
    test = load_required(Run.open(tmp_path / "run").recipe.data, "test")
    assert exact_match(model.translate(test.source), test.target).value >= at_least


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(
    tiny_recipe: dict[str, Any], tmp_path: Path
) -> None:
    weights = {}
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        fit(tiny_recipe, tmp_path / name, {"seed": seed})
        weights[name] = (tmp_path / name / "averaged.safetensors").read_bytes()
    assert weights["a"] == weights["b"] != weights["c"]


def test_ctrl_c_saves_and_the_run_goes_on_to_the_same_end(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    recipe = {**tiny_recipe, "train": {**tiny_recipe["train"], "steps": 150, "save_every": 50}}  # type: ignore[dict-item]
    command = [sys.executable, "-m", "regard", "train", str(to_toml(recipe, tmp_path)), "--run", str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "run" / "log.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Saved" in errors
    assert "same command" in errors
    step = Run.open(tmp_path / "run").steps()[-1]
    assert 0 < step < 150
    fit(recipe, tmp_path / "run")
    fit(recipe, tmp_path / "whole")
    ends = [tmp_path / name for name in ("run", "whole")]
    for file in ("checkpoints/step-000150/model.safetensors", "averaged.safetensors", "log.jsonl", "samples.txt"):
        ours, theirs = ((end / file).read_bytes() for end in ends)
        assert ours == theirs or file == "log.jsonl"
    logs = [[{**record, "tokens_per_second": 0, "seconds": 0} for record in Run.open(end).records()] for end in ends]
    assert logs[0] == logs[1]
    assert Run.open(ends[0]).steps() == Run.open(ends[1]).steps()


def test_a_run_knows_how_long_its_updates_took(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    """Whether a report comes before or after a validation, no step is left out and no validation counted."""
    began = time.perf_counter()
    run = Run(tmp_path / "run")
    changes = {"train.report_every": 4, "train.valid_every": 3, "train.save_every": 5}
    fit(tiny_recipe, run.path, changes, Console(quiet=True))
    whole, took = time.perf_counter() - began, run.training_seconds()
    assert took is not None
    assert 0 < took < whole
    assert took == pytest.approx(sum(record.get("seconds", 0.0) for record in run.records()))  # 12 steps, 3 reports
    assert Run(tmp_path / "none").training_seconds() is None


def test_the_last_step_is_reported_whatever_the_interval(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    """Its loss is the mean since the last report, and a run that is extended reports what it would have."""
    every = train_losses(tiny_recipe, tmp_path / "every", {"train.report_every": 1, "train.steps": 8})
    late = {"train.report_every": 5, "train.steps": 8}
    some = train_losses(tiny_recipe, tmp_path / "some", late)
    assert list(some) == [5, 8]
    assert some[8] == pytest.approx(sum(every[step] for step in (6, 7, 8)) / 3, abs=1e-5)
    whole = train_losses(tiny_recipe, tmp_path / "whole", {**late, "train.steps": 10})
    assert train_losses(tiny_recipe, tmp_path / "some", {**late, "train.steps": 10}) == {**whole, 8: some[8]}
    assert list(train_losses(tiny_recipe, tmp_path / "late", {**late, "train.report_every": 100})) == [8]


def train_losses(recipe: dict[str, Any], path: Path, changes: dict[str, Any]) -> dict[int, float]:
    fit(recipe, path, changes, Console(quiet=True), extend=True)
    return {record["step"]: record["loss"] for record in Run(path).records() if record["kind"] == "train"}


def to_toml(recipe: dict[str, Any], folder: Path) -> Path:
    from regard.config import to_toml as write

    path = folder / "recipe.toml"
    path.write_text(write(resolve(recipe)))
    return path


def test_early_stopping_keeps_the_best(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    changes = {
        "train.steps": 200, "train.valid_every": 2, "train.patience": 3, "train.lr_scale": 100.0,
        "train.save_every": 50,
    }  # fmt: skip
    fit(tiny_recipe, tmp_path / "run", changes)
    run = Run.open(tmp_path / "run")
    last = run.steps()[-1]
    state = json.loads((run.checkpoint(last) / "state.json").read_text())["progress"]
    assert last < 200
    assert state["ended"]
    assert state["stalled"] == 3
    assert last == state["best_step"] + 6
    assert not checkpoint.unfinished(run)
    before = run.log.read_bytes()
    fit(tiny_recipe, tmp_path / "run", changes)  # an ended run stays as it is
    assert run.steps()[-1] == last
    assert run.log.read_bytes() == before


def test_a_new_run_starts_from_the_weights_and_tokenizer_of_another(
    tiny_recipe: dict[str, Any], tmp_path: Path
) -> None:
    fit(tiny_recipe, tmp_path / "first")
    changes = {"init": str(tmp_path / "first"), "train.steps": 1, "train.lr_scale": 1e-9, "train.average": 1}
    fit(tiny_recipe, tmp_path / "second", changes)
    assert regard.load(tmp_path / "second").tokenizers.hash == regard.load(tmp_path / "first").tokenizers.hash
    ours, theirs = (load_file(tmp_path / name / "averaged.safetensors") for name in ("second", "first"))
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], atol=1e-6, rtol=0)
    with pytest.raises(RegardError, match=r"another model, make \[model\] match it: d_model: 32 here, 16 there"):
        fit(tiny_recipe, tmp_path / "third", {**changes, "model.d_model": 32})
    with pytest.raises(RegardError, match="There is no run"):
        fit(tiny_recipe, tmp_path / "fourth", {"init": str(tmp_path / "nowhere")})
    same = {**changes, "model.n_decoder_layers": regard.load(tmp_path / "first").model.config.n_layers}
    fit(tiny_recipe, tmp_path / "fifth", same)  # said in another way: 0 is as many as the encoder has
    shutil.rmtree(tmp_path / "first")
    fit(tiny_recipe, tmp_path / "second", changes)  # once begun, a run needs its parent no more


def test_python_gets_the_report_too(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    model = regard.train(tiny_recipe, tmp_path / "run")
    names = {path.name for path in (tmp_path / "run" / "report").iterdir()}
    assert {"report.txt", "scores.json", "attention.html", "attention.png", "loss.png"} <= names
    assert model.translate("a b c") == regard.load(tmp_path / "run").translate("a b c")


def test_a_long_alignment_is_cut_in_the_report(reverser: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.training.pairs.N_ROWS", 2)
    run = Run(shutil.copytree(reverser, tmp_path / "run", symlinks=True))
    assert re.search(r"^… \d+ more$", report(load_translator(run.path), run.pair_recipe, run), re.MULTILINE)


def test_a_test_set_that_begins_with_empty_lines_is_reported(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    for side in tiny_recipe["data"]["test"]:
        Path(side).write_text("\n" * 6 + Path(side).read_text())
    regard.train(tiny_recipe, tmp_path / "run")
    report = (tmp_path / "run" / "report" / "report.txt").read_text()
    assert "attention page" in report
    assert len((tmp_path / "run" / "report" / "test.hypotheses.txt").read_text().splitlines()) == 26


def test_a_finished_run_can_be_trained_longer(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    fit(tiny_recipe, tmp_path / "run")
    with pytest.raises(RegardError, match="add --extend"):
        fit(tiny_recipe, tmp_path / "run", {"train.steps": 24})
    with pytest.raises(RegardError, match="differs in: seed"):
        fit(tiny_recipe, tmp_path / "run", {"train.steps": 24, "seed": 2}, extend=True)
    fit(tiny_recipe, tmp_path / "run", {"train.steps": 24}, extend=True)
    fit(tiny_recipe, tmp_path / "whole", {"train.steps": 24})
    ours, theirs = (
        (tmp_path / name / "checkpoints" / "step-000024" / "model.safetensors").read_bytes()
        for name in ("run", "whole")
    )
    assert ours == theirs


@pytest.mark.parametrize(
    ("changes", "init", "extend"),
    [
        ({"train.steps": 24}, True, True),
        ({"train.steps": 6}, True, False),
        ({"train.steps": 24, "seed": 2}, True, False),
        ({"model.dropout": 0.2}, True, False),
        ({"model.d_model": 32}, False, False),
    ],
)
def test_another_recipe_is_told_what_helps_it_alone(
    tiny_recipe: dict[str, Any], tmp_path: Path, changes: dict[str, Any], init: bool, extend: bool
) -> None:
    (tmp_path / "run" / "checkpoints" / "step-000012").mkdir(parents=True)
    to_toml(tiny_recipe, tmp_path / "run")
    with pytest.raises(RegardError, match="Give another directory with --run") as refused:
        Run.claim(tmp_path / "run", resolve(tiny_recipe, changes))
    assert ("--set init=" in str(refused.value), "--extend" in str(refused.value)) == (init, extend)
    linear = {**tiny_recipe, "train": {**tiny_recipe["train"], "schedule": "linear"}}
    to_toml(linear, tmp_path / "run")
    with pytest.raises(RegardError) as refused:
        Run.claim(tmp_path / "run", resolve(linear, changes))
    assert "--extend" not in str(refused.value)


def test_an_average_that_begins_early_is_noted(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    said: list[str] = []
    for average in (2, 3):
        with (console := Console(width=300, file=io.StringIO())).capture() as seen:
            fit(tiny_recipe, tmp_path / str(average), {"train.average": average, "train.save_every": 3}, console)
        said.append(seen.get())
    note = "Note: train.average = 3 checkpoints with train.save_every = 3 reach back over 6 of 12 steps"
    assert [note in text for text in said] == [False, True]
    assert "the mean of those at step 9, 12 (train.average)" in said[1]


def test_a_mean_of_one_is_not_called_a_mean() -> None:
    assert used([30]) == "The weights that are used are those at step 30 (train.average)."
    assert used([20, 30]) == "The weights that are used are the mean of those at step 20, 30 (train.average)."


def test_a_start_that_failed_does_not_block_its_directory(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="more than this text can fill"):
        fit(tiny_recipe, tmp_path / "run", {"tokenizer.vocab_size": 5000})
    fit(tiny_recipe, tmp_path / "run")


def test_a_start_that_failed_leaves_nothing_of_a_new_run(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    runs, missing = tmp_path / "runs", {"data.valid": ["no.src", "no.tgt"]}
    with pytest.raises(RegardError, match="No such file"):
        fit(tiny_recipe, runs / "one", missing)
    assert not runs.exists()
    fit(tiny_recipe, runs / "one")
    with pytest.raises(RegardError, match="No such file"):
        fit(tiny_recipe, runs / "one", missing)
    assert Run.open(runs / "one").steps()


def test_test_files_are_looked_at_before_the_first_step(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "short.tgt").write_text("a b\n")
    source = tiny_recipe["data"]["test"][0]
    for target, message in (("no.tgt", "No such file"), ("short.tgt", "has 20 lines but .* has 1")):
        with pytest.raises(RegardError, match=message):
            fit(tiny_recipe, tmp_path / "run", {"data.test": [source, str(tmp_path / target)]})


def test_a_ruined_model_never_replaces_a_good_checkpoint(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    changes = {"train.lr_scale": 1e30, "train.report_every": 1000, "train.valid_every": 1000, "train.save_every": 1}
    with pytest.raises(RegardError, match="training has diverged"):
        fit(tiny_recipe, tmp_path / "run", {**changes, "train.steps": 100})
    for step in Run.open(tmp_path / "run").steps():
        tensors = load_file(Run.open(tmp_path / "run").checkpoint(step) / "model.safetensors")
        assert all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()) or step == 1


def test_clipping_bounds_the_gradient(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    norms = []

    def look(parameters: Iterable[torch.Tensor], largest: float) -> torch.Tensor:
        parameters = list(parameters)
        before = clip(parameters, largest)
        norms.append((float(before), float(torch.stack([p.grad.norm() for p in parameters]).norm())))  # type: ignore[union-attr]
        return before

    clip = torch.nn.utils.clip_grad_norm_
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.utils, "clip_grad_norm_", look)
        fit(tiny_recipe, tmp_path / "run", {"train.clip_norm": 0.1})
    assert len(norms) == 12
    assert all(before > 0.1 and after == pytest.approx(0.1, rel=1e-3) for before, after in norms)


@pytest.mark.parametrize(
    "changes",
    [{"train.precision": "bfloat16"}, {"train.layout": "packed"}, {"train.accumulate": 3}],
    ids=str,
)
def test_options_train_too(tiny_recipe: dict[str, Any], tmp_path: Path, changes: dict[str, Any]) -> None:
    fit(tiny_recipe, tmp_path / "run", {"train.steps": 60, **changes})
    losses = [record["loss"] for record in Run.open(tmp_path / "run").records() if record["kind"] == "train"]
    assert losses[-1] < 0.9 * losses[0]


def test_divergence_is_said_in_a_sentence(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    changes = {"train.lr_scale": 1e30, "train.steps": 100, "train.valid_every": 500, "train.report_every": 1}
    with pytest.raises(RegardError, match=r"training has diverged.*Lower train\.lr_scale"):
        fit(tiny_recipe, tmp_path / "run", changes)


def test_an_unknown_device_is_said_in_a_sentence(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"device 'abacus' cannot be used: it is not one of"):
        fit(tiny_recipe, tmp_path / "run", {"train.device": "abacus"})


def test_auto_is_what_suits_the_device_or_what_the_run_began_with() -> None:
    config = TrainConfig(device="cpu")
    began = settle(config, None)
    assert began.precision == "float32"
    assert settle(config, replace(config, precision="bfloat16")).precision == "bfloat16"
    assert settle(replace(config, precision="bfloat16"), began).precision == "bfloat16"


def test_tensorboard_has_the_curves_of_the_log(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    fit(tiny_recipe, tmp_path / "run", {"train.tensorboard": True})
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    curve = {event.step: event.value for event in events.Scalars("valid/loss")}
    logged = {r["step"]: r["loss"] for r in Run.open(tmp_path / "run").records() if r["kind"] == "valid"}
    assert curve == pytest.approx(logged, abs=1e-5)
