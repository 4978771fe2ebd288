"""Exact resume: killed at any moment and started again, a run ends with the same bytes.

Dropout is on, updates accumulate two batches, and checkpoints are written often, so that kills fall into
saves, accumulation, validation and start-up alike.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

STEPS = 60
RECIPE: dict[str, Any] = {
    "name": "killed",
    "seed": 3,
    "data": {"corpus": "reverse", "train_size": 1500, "valid_size": 40, "test_size": 5},
    "tokenizer": {"vocab_size": 44},
    "model": {"n_layers": 2, "d_model": 32, "d_ff": 64, "n_heads": 4, "dropout": 0.2, "attn_dropout": 0.1},
    "train": {
        "steps": STEPS, "batch_tokens": 300, "accumulate": 2, "warmup_steps": 20, "report_every": 5,
        "valid_every": 15, "valid_sentences": 10, "save_every": 2, "keep": 3, "average": 3, "tensorboard": False,
    },
}  # fmt: skip
DRIVER = "import json, sys, regard; regard.train(json.loads(sys.argv[1]), sys.argv[2], report=False)"


def launch(run: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", DRIVER, json.dumps(RECIPE), str(run)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ})


def finish(run: Path) -> None:
    process = launch(run)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors.decode()


def outcome(run: Path) -> dict[str, bytes]:
    """Every byte that describes the end of a run: weights, moments, random numbers, place, log."""
    last = run / "checkpoints" / f"step-{STEPS:06d}"
    files = {name: (last / name).read_bytes() for name in ("model.safetensors", "training.safetensors")}
    state = json.loads((last / "state.json").read_text())
    files["progress"] = json.dumps(state["progress"]).encode()
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    for record in log:
        record.pop("tokens_per_second", None)
    files["log"] = json.dumps(log).encode()
    files["averaged"] = (run / "averaged.safetensors").read_bytes()
    files["best"] = os.readlink(run / "best").encode()
    files["samples"] = (run / "samples.txt").read_bytes()
    return files


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], float]:
    """The outcome of a run nobody touched, and how long it took."""
    run = tmp_path_factory.mktemp("resume") / "whole"
    start = time.monotonic()
    finish(run)
    return outcome(run), time.monotonic() - start


def kill_and_resume(folder: Path, kills: int, chance: random.Random, duration: float) -> dict[str, bytes]:
    run = folder / "killed"
    done = 0
    while done < kills:
        process = launch(run)
        try:
            process.wait(timeout=chance.uniform(0.3, duration))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            done += 1
        process.communicate()
        if process.returncode == 0:  # it was quicker than the kill: begin again
            for path in sorted(run.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
            run.rmdir()
            done = 0
    finish(run)
    return outcome(run)


def test_three_kills_change_no_byte(tmp_path: Path, uninterrupted: tuple[dict[str, bytes], float]) -> None:
    expected, duration = uninterrupted
    found = kill_and_resume(tmp_path, 3, random.Random(1), duration)
    assert {name for name in expected if found[name] != expected[name]} == set()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_twenty_kills_change_no_byte(tmp_path: Path, uninterrupted: tuple[dict[str, bytes], float], seed: int) -> None:
    """Five kills in each of four runs."""
    expected, duration = uninterrupted
    found = kill_and_resume(tmp_path, 5, random.Random(100 + seed), duration)
    assert {name for name in expected if found[name] != expected[name]} == set()


def test_a_kill_during_a_save_leaves_the_checkpoint_before_it(
    tmp_path: Path, uninterrupted: tuple[dict[str, bytes], float]
) -> None:
    """Kill as soon as a half-written checkpoint is seen on the disk."""
    expected, _ = uninterrupted
    run = tmp_path / "killed"
    process = launch(run)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not list(run.glob("checkpoints/.new-*")):
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate()
    finish(run)
    assert outcome(run) == expected
    assert not list(run.glob("checkpoints/.*"))
