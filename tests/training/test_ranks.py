"""Two ranks: the gradient of one process, the same end after a fault, and a run that changes hands.

Real processes under torchrun, with gloo. Starting them is slow, so one launch does several jobs.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from regard.config import resolve, to_toml
from regard.training.ranks import buckets, share
from regard.training.run import Run

RECIPE: dict[str, Any] = {
    "name": "ranks",
    "seed": 3,
    "data": {"corpus": "reverse", "train_size": 600, "valid_size": 20, "test_size": 5},
    "tokenizer": {"vocab_size": 44},
    "model": {"n_layers": 1, "d_model": 16, "d_ff": 32, "n_heads": 2, "dropout": 0.0},
    "train": {
        "steps": 50, "batch_tokens": 200, "warmup_steps": 100, "report_every": 10, "valid_every": 20,
        "valid_sentences": 4, "save_every": 25, "keep": 2, "average": 2, "tensorboard": False, "threads": 1,
        "precision": "float32",
    },
}  # fmt: skip
# Whole batches, odd ones, a single sentence that leaves rank 1 with nothing, and all of these in one update.
UPDATES = [[[*range(7)]], [[*range(9)], [*range(9, 20)]], [[0, 1, 2], [3], [4, 5, 6, 7, 8]], [[5]]]


def with_(**changes: Any) -> dict[str, Any]:
    """The recipe with dotted changes, dots written as underscores after the section."""
    recipe: dict[str, Any] = json.loads(json.dumps(RECIPE))
    for key, value in changes.items():
        section, _, name = key.partition("_")
        recipe[section][name] = value
    return recipe


def command(world: int, *arguments: str, restarts: int = 0) -> list[str]:
    options = ["--standalone", f"--nproc-per-node={world}", f"--max-restarts={restarts}"]
    return [sys.executable, "-m", "torch.distributed.run", *options, *arguments]


def launch(world: int, folder: Path, *jobs: tuple[str, dict[str, Any]], restarts: int = 0) -> str:
    script = [str(Path(__file__).with_name("ranked.py")), str(folder), json.dumps(jobs)]
    start = command(world, *script, restarts=restarts) if world > 1 else [sys.executable, *script]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(start, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert result.returncode == 0, result.stderr[-4000:]
    return result.stderr


DROPOUT = with_(model_dropout=0.2, train_steps=24, train_save_every=8, train_accumulate=2, train_valid_every=12)
JOBS = [
    ("gradient", {"name": "gradient", "recipe": RECIPE, "updates": UPDATES}),
    ("fit", {"name": "fifty", "recipe": RECIPE}),
]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One process."""
    folder = tmp_path_factory.mktemp("alone")
    launch(1, folder, *JOBS, ("fit", {"name": "moving", "recipe": with_(train_steps=25)}))
    return folder


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Two ranks, and what they said."""
    folder = tmp_path_factory.mktemp("two")
    moving = ("fit", {"name": "moving", "recipe": with_(train_steps=25)})
    said = launch(2, folder, *JOBS, moving, ("fit", {"name": "whole", "recipe": DROPOUT}))
    return folder, said


@pytest.mark.parametrize("update", range(len(UPDATES)))
def test_two_ranks_give_the_gradient_of_one(alone: Path, two: tuple[Path, str], update: int) -> None:
    """Ragged lengths, label smoothing, unequal shares, and a rank without a sentence."""
    ours, theirs = (load_file(folder / f"gradient-{update}.safetensors") for folder in (two[0], alone))
    assert ours.keys() == theirs.keys()
    largest = max(float(gradient.abs().max()) for name, gradient in theirs.items() if name != "loss")
    for name, gradient in theirs.items():
        bound = 1e-6 * (largest if name != "loss" else float(gradient))
        assert float((ours[name] - gradient).abs().max()) <= bound, name


def test_after_fifty_steps_two_ranks_have_the_weights_of_one(alone: Path, two: tuple[Path, str]) -> None:
    assert_close(two[0] / "fifty", alone / "fifty")


def assert_close(ours: Path, theirs: Path) -> None:
    """The weights of two runs after fifty steps."""
    found, expected = (load_file(Run(run).checkpoint(50) / "model.safetensors") for run in (ours, theirs))
    for name, weights in expected.items():
        assert float((found[name] - weights).abs().max()) <= 1e-5, name


def test_one_rank_speaks_and_writes(two: tuple[Path, str], alone: Path) -> None:
    folder, said = two
    assert said.count("50 steps in") == 1
    assert said.count("Learning 44 subwords") == 3  # once for each run
    assert "on 2 ranks (cpu)" in said
    losses = [[(r["kind"], r["step"]) for r in Run(place / "fifty").records()] for place in (folder, alone)]
    assert losses[0] == losses[1]
    ours, theirs = ([r["loss"] for r in Run(place / "fifty").records()] for place in (folder, alone))
    assert ours == pytest.approx(theirs, abs=1e-4)


LONGER = ("fit", {"name": "moving", "recipe": RECIPE})


def lengthen(run: Path) -> None:
    """Let a run of 25 steps be one of 50, as --extend would."""
    Run(run).recipe_file.write_text(to_toml(resolve(RECIPE)))


@pytest.fixture(scope="module")
def faulty(alone: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Two ranks that go on with the run of one process, and then a run in which one of them is killed."""
    folder = tmp_path_factory.mktemp("faulty")
    (alone / "moving").rename(folder / "moving")
    lengthen(folder / "moving")
    return folder, launch(2, folder, LONGER, ("fit", {"name": "whole", "recipe": DROPOUT, "die": 13}), restarts=1)


def test_a_rank_killed_on_the_way_changes_no_byte(two: tuple[Path, str], faulty: tuple[Path, str]) -> None:
    """Dropout is on. torchrun starts all ranks again, and they go on from the newest checkpoint."""
    folder, said = faulty
    assert (folder / "whole.died").exists()
    assert "Going on from step 12 of 24" in said  # where the best validation was saved
    ours, theirs = (Run(place / "whole") for place in (folder, two[0]))
    for name in ("model.safetensors", "training.safetensors"):
        assert (ours.checkpoint(24) / name).read_bytes() == (theirs.checkpoint(24) / name).read_bytes()
    assert ours.averaged.read_bytes() == theirs.averaged.read_bytes()


def test_a_run_goes_on_with_more_ranks(alone: Path, faulty: tuple[Path, str]) -> None:
    folder, said = faulty
    assert "Note: ranks was 1 and is now 2; the run goes on with the same batches, but not to the last bit." in said
    assert_close(folder / "moving", alone / "fifty")


def test_a_run_goes_on_with_fewer_ranks(two: tuple[Path, str]) -> None:
    folder = two[0]
    lengthen(folder / "moving")
    assert "Note: ranks was 2 and is now 1; the run goes on" in launch(1, folder, LONGER)
    assert_close(folder / "moving", folder / "fifty")


def test_a_polite_kill_of_one_rank_stops_all_after_the_same_update(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(to_toml(resolve(with_(train_steps=100_000, train_save_every=50_000))))
    run = tmp_path / "run"
    start = command(2, "-m", "--", "regard", "train", str(tmp_path / "recipe.toml"), "--run", str(run))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(start, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        deadline = time.monotonic() + 120
        while not Run(run).records():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.kill(rank_of(process.pid, "1"), signal.SIGTERM)
        _, said = process.communicate(timeout=120)
    finally:
        process.terminate()
    assert process.returncode != 0
    assert said.count("Saved step") == 1
    (step,) = Run(run).steps()[-1:]
    assert f"Saved step {step} in" in said


def rank_of(parent: int, rank: str) -> int:
    """The child process of torchrun with this rank."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    for child in children:
        variables = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        if f"RANK={rank}".encode() in variables:
            return int(child)
    raise AssertionError(f"no rank {rank} among {children}")


def test_every_sentence_of_an_update_goes_to_one_rank() -> None:
    chance = np.random.default_rng(0)
    for world in (1, 2, 3, 8):
        for n_batches in (1, 2, 3, 8):
            batches = [chance.integers(0, 1000, size=size) for size in chance.integers(1, 12, size=n_batches)]
            shares = [share(batches, rank, world) for rank in range(world)]
            dealt = [number for part in shares for batch in part for number in batch.tolist()]
            assert sorted(dealt) == sorted(np.concatenate(batches).tolist())
            assert all(len(batch) for part in shares for batch in part)
            if n_batches % world == 0:
                assert all(len(part) == n_batches // world for part in shares)


def test_buckets_hold_every_tensor_once_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.training.ranks.BUCKET", 10)
    tensors = [torch.zeros(n) for n in (1, 25, 3, 3, 4, 1)]
    made = list(buckets(tensors))
    assert [[len(tensor) for tensor in bucket] for bucket in made] == [[1], [25], [3, 3, 4], [1]]
