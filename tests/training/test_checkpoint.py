"""Checkpoints: complete or absent, checked, never unpickled."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import regard
from regard.errors import RegardError
from regard.training.checkpoint import write_tensors
from regard.training.run import Run
from regard.training.start import fit


@pytest.fixture
def run(tiny_recipe: dict[str, Any], tmp_path: Path) -> Path:
    fit(tiny_recipe, tmp_path / "run")
    return tmp_path / "run"


def test_a_finished_run_explains_itself(run: Path) -> None:
    names = {path.name for path in run.iterdir() if not path.name.startswith(".")}
    assert names == {
        "recipe.toml", "tokenizer", "checkpoints", "best", "averaged.safetensors", "log.jsonl", "samples.txt"
    }  # fmt: skip
    state = json.loads((run / "best" / "state.json").read_text())
    assert state["format"] == 1
    assert set(state["fingerprints"]) == {"tokenizer", "training text"}
    assert state["recipe"]["train"]["steps"] == 12
    assert all(re.fullmatch("[0-9a-f]{64}", print) for print in state["fingerprints"].values())
    kinds = [json.loads(line)["kind"] for line in (run / "log.jsonl").read_text().splitlines()]
    assert kinds.count("train") == 3
    assert kinds.count("valid") == 2


def test_averaged_weights_are_the_mean_of_the_last_checkpoints(run: Path) -> None:
    parts = [load_file(run / "checkpoints" / f"step-{step:06d}" / "model.safetensors") for step in (8, 12)]
    averaged = load_file(run / "averaged.safetensors")
    for name, tensor in averaged.items():
        torch.testing.assert_close(tensor, (parts[0][name] + parts[1][name]) / 2)


def test_any_of_the_weights_can_be_loaded(run: Path) -> None:
    loaded = {which: regard.load(run, which).model.output.weight for which in ("averaged", "best", "last", "auto")}
    assert not torch.equal(loaded["averaged"], loaded["last"])
    assert torch.equal(loaded["averaged"], loaded["auto"])
    with pytest.raises(RegardError, match="no run to load"):
        regard.load([])


@pytest.mark.parametrize("name", ["model.safetensors", "training.safetensors", "state.json"])
@pytest.mark.parametrize("harm", ["truncate", "flip", "delete"])
def test_a_harmed_checkpoint_is_refused_by_name(run: Path, tiny_recipe: dict[str, Any], name: str, harm: str) -> None:
    path = run / "checkpoints" / "step-000012" / name
    data = bytearray(path.read_bytes())
    if harm == "truncate":
        path.write_bytes(data[: len(data) // 2])
    elif harm == "flip":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    else:
        path.unlink()
    with pytest.raises(RegardError, match=rf"step-000012/{name} is missing, truncated or altered.*Delete the folder"):
        fit(tiny_recipe, run)


def test_without_the_harmed_checkpoint_the_run_goes_on_to_the_same_end(run: Path, tiny_recipe: dict[str, Any]) -> None:
    before = (run / "averaged.safetensors").read_bytes()
    shutil.rmtree(run / "checkpoints" / "step-000012")
    fit(tiny_recipe, run)
    assert (run / "averaged.safetensors").read_bytes() == before


def test_harmed_averaged_weights_are_refused(run: Path) -> None:
    data = bytearray((run / "averaged.safetensors").read_bytes())
    data[-5] ^= 1
    (run / "averaged.safetensors").write_bytes(data)
    with pytest.raises(RegardError, match=r"averaged\.safetensors is missing, truncated or altered"):
        regard.load(run)


def test_a_damaged_best_is_named_by_its_own_folder(run: Path) -> None:
    (run / "best" / "model.safetensors").write_bytes(b"")
    with pytest.raises(RegardError, match=r"step-0000\d\d/model\.safetensors .* Delete the folder"):
        regard.load(run, "best")


def test_changed_training_text_is_noticed(run: Path, tiny_recipe: dict[str, Any]) -> None:
    shutil.rmtree(run / "checkpoints" / "step-000012")
    source = Path(tiny_recipe["data"]["train"][0])
    source.write_text(source.read_text().replace("a", "b", 1))
    with pytest.raises(RegardError, match=r"training text is not the one .* was trained with"):
        fit(tiny_recipe, run)


def test_a_kill_while_the_recipe_was_written_does_not_block_the_directory(
    tmp_path: Path, tiny_recipe: dict[str, Any]
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".recipe.toml.new").write_text("name = ")
    fit(tiny_recipe, tmp_path / "run")


def test_another_recipe_in_the_same_directory_is_refused_with_the_differences(
    run: Path, tiny_recipe: dict[str, Any]
) -> None:
    with pytest.raises(RegardError, match=r"differs in: seed: 2 here, 1 there; train\.steps: 15 here, 12 there"):
        fit(tiny_recipe, run, {"train.steps": 15, "seed": 2})


def test_a_directory_with_other_things_in_it_is_refused(tmp_path: Path, tiny_recipe: dict[str, Any]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("…")
    with pytest.raises(RegardError, match="not empty and not a run directory"):
        fit(tiny_recipe, tmp_path / "mine")
    with pytest.raises(RegardError, match=r"is not a run directory: it has no recipe\.toml"):
        regard.load(tmp_path / "mine")


def test_a_second_training_in_the_same_directory_is_refused(tmp_path: Path, tiny_recipe: dict[str, Any]) -> None:
    from regard.config import resolve

    recipe = resolve(tiny_recipe)
    run = Run.claim(tmp_path / "run", recipe)
    with run.training(recipe), pytest.raises(RegardError, match="Another process is training"):
        fit(tiny_recipe, tmp_path / "run")


def test_only_the_newest_and_the_best_checkpoints_are_kept(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    changes = {"train.steps": 40, "train.keep": 2, "train.average": 2, "train.save_every": 2, "train.lr_scale": 200.0,
               "train.valid_every": 4}  # fmt: skip
    fit(tiny_recipe, tmp_path / "run", changes)  # so high a rate that the best comes early
    run = Run.open(tmp_path / "run")
    best = json.loads((run.checkpoint(40) / "state.json").read_text())["progress"]["best_step"]
    assert best < 36
    assert run.steps() == [best, 38, 40]
    assert run.best.resolve() == run.checkpoint(best).resolve()


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o007, 0o660)])
def test_files_of_tensors_are_for_whom_the_umask_lets_in(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write_tensors({"a": torch.zeros(2)}, tmp_path / "new")
        write_tensors({"a": torch.ones(2)}, tmp_path / "new", {"note": "again"})
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == mode
    assert torch.equal(load_file(tmp_path / "new")["a"], torch.ones(2))
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_all_of_a_run_has_one_mode(run: Path) -> None:
    """Colleagues who may read the recipe may read the weights."""
    files = [path for path in run.rglob("*") if path.is_file() and not path.name.startswith(".")]
    assert {path.stat().st_mode for path in files} == {(run / "recipe.toml").stat().st_mode}


FULL_DISK = """
import json, resource, signal, sys
from regard.errors import RegardError
from regard.training.start import fit
recipe, run = json.loads(sys.argv[1]), sys.argv[2]
fit({**recipe, "train": {**recipe["train"], "steps": 4}}, run + "-probe")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
import regard.training.checkpoint as checkpoint
whole = checkpoint.save
def limited(run, snapshot):
    if snapshot.progress.step == 8:  # from here on no file can grow beyond a few kilobytes
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    return whole(run, snapshot)
checkpoint.save = limited
try:
    fit(recipe, run)
except RegardError as error:
    print(error)
"""


def test_a_full_disk_while_saving_loses_nothing(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    """The kernel refuses to write past a limit, as a full disk does; then there is room again."""
    run = tmp_path / "run"
    command = [sys.executable, "-c", FULL_DISK, json.dumps(tiny_recipe), str(run)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert "checkpoint of step 8 could not be written" in result.stdout, result.stderr
    assert "make room and give the same command again" in result.stdout
    names = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert "step-000008" not in names
    assert "step-000004" in names
    fit(tiny_recipe, run)
    fit(tiny_recipe, tmp_path / "undisturbed")
    ours, theirs = (path / "averaged.safetensors" for path in (run, tmp_path / "undisturbed"))
    assert ours.read_bytes() == theirs.read_bytes()


def test_no_pickle_anywhere_in_the_package_but_in_the_reader_that_executes_nothing() -> None:
    package = Path(regard.__file__).parent
    for path in package.rglob("*.py"):
        text = path.read_text()
        assert not re.search(r"\bpickle\.loads?\b|\bpickle\.dumps?\b|torch\.(load|save)\(", text), path
        if path != package / "export" / "pickles.py":
            assert not re.search(r"\bpickle\.\w|import pickle\b", text), path
