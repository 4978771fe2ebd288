"""Exact resume: killed at any moment and started again, a run ends with the same bytes.

Dropout, R-Drop, subword sampling and a moving average are on, updates accumulate two batches, and reports, validations
and checkpoints fall on different steps, so that kills find the run in every state.
"""

from __future__ import annotations

import json
import os
import random
import shutil
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
    "data": {"corpus": "en-de", "train_size": 600, "valid_size": 40, "test_size": 5},
    "tokenizer": {"vocab_size": 300, "sampling": 0.2},
    "model": {"n_layers": 2, "d_model": 32, "d_ff": 64, "n_heads": 4, "dropout": 0.2, "attn_dropout": 0.1},
    "train": {
        "steps": STEPS, "batch_tokens": 300, "accumulate": 2, "r_drop": 1.0, "ema": 0.9, "warmup_steps": 20,
        "report_every": 5, "valid_every": 15, "valid_sentences": 10, "save_every": 8, "keep": 3, "average": 3,
        "tensorboard": False,
    },
}  # fmt: skip


PARSER: dict[str, Any] = {
    **RECIPE,
    "name": "killed-parser",
    "task": "parsing",
    "data": {"corpus": "sentences", "train_size": 300, "valid_size": 20, "test_size": 5},
    "tokenizer": {"vocab_size": 150, "sampling": 0.2},
    "model": {**RECIPE["model"], "n_layers": 1, "next_word": True, "word_dropout": 0.2},
    "train": {**RECIPE["train"], "steps": 20, "valid_every": 6},
    "decode": {"beam_size": 1},
}


def launch(run: Path, *kill: str, recipe: dict[str, Any] = RECIPE) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(Path(__file__).with_name("killable.py")), json.dumps(recipe), str(run), *kill]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ})


def finish(run: Path, recipe: dict[str, Any] = RECIPE) -> None:
    process = launch(run, recipe=recipe)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors.decode()


def outcome(run: Path, steps: int = STEPS) -> dict[str, bytes]:
    """Every byte that describes the end of a run: weights, moments, random numbers, place, log."""
    last = run / "checkpoints" / f"step-{steps:06d}"
    files = {name: (last / name).read_bytes() for name in ("model.safetensors", "training.safetensors")}
    state = json.loads((last / "state.json").read_text())
    files["progress"] = json.dumps(state["progress"]).encode()
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    for record in log:
        record.pop("tokens_per_second", None)
        record.pop("seconds", None)
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


def differing(found: dict[str, bytes], expected: dict[str, bytes]) -> set[str]:
    return {name for name in expected if found[name] != expected[name]}


# In `make test`: three kills in one run, each where something is half done.
SERIES = [("second batch of an update", 3), ("between the files of a checkpoint", 2), ("before best is pointed to", 2)]
# In `make soak`: every place, early and late.
PLACES = [
    "second batch of an update", "validation", "between the files of a checkpoint", "before a checkpoint gets its name",
    "before best is pointed to", "while an old checkpoint is deleted", "averaging",
]  # fmt: skip


def kill_at(run: Path, place: str, count: int, recipe: dict[str, Any] = RECIPE) -> None:
    process = launch(run, place, str(count), recipe=recipe)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL, errors.decode()


def test_three_kills_in_a_row_change_no_byte(tmp_path: Path, uninterrupted: tuple[dict[str, bytes], float]) -> None:
    for place, count in SERIES:
        kill_at(tmp_path / "killed", place, count)
    finish(tmp_path / "killed")
    assert differing(outcome(tmp_path / "killed"), uninterrupted[0]) == set()
    assert not list((tmp_path / "killed" / "checkpoints").glob(".*"))


def test_a_parser_that_is_killed_ends_with_the_same_bytes(tmp_path: Path) -> None:
    """With what translation does not have: words that become unknown, and a decoder that is fed the next word."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(whole, PARSER)
    kill_at(killed, "second batch of an update", 11, PARSER)  # after the checkpoint of step 8
    finish(killed, PARSER)
    assert differing(outcome(killed, 20), outcome(whole, 20)) == set()


def test_a_kill_at_a_random_moment_changes_no_byte(
    tmp_path: Path, uninterrupted: tuple[dict[str, bytes], float]
) -> None:
    expected, duration = uninterrupted
    kill_at_random(tmp_path / "killed", random.Random(time.time_ns()), duration)
    finish(tmp_path / "killed")
    assert differing(outcome(tmp_path / "killed"), expected) == set()


def kill_at_random(run: Path, chance: random.Random, duration: float) -> None:
    """One kill somewhere between start-up and the end; a run that was quicker begins again."""
    for _ in range(20):
        process = launch(run)
        try:
            process.wait(timeout=chance.uniform(0.2, 0.95) * duration)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            return
        process.communicate()
        shutil.rmtree(run)
    raise AssertionError("the run always ended before it could be killed")


@pytest.mark.soak
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("place", PLACES)
def test_a_kill_at_any_named_place_changes_no_byte(
    tmp_path: Path, uninterrupted: tuple[dict[str, bytes], float], place: str, count: int
) -> None:
    if place == "averaging" and count > 1:
        count = 1  # it happens once
    kill_at(tmp_path / "killed", place, count)
    finish(tmp_path / "killed")
    assert differing(outcome(tmp_path / "killed"), uninterrupted[0]) == set()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_twenty_kills_at_random_moments_change_no_byte(
    tmp_path: Path, uninterrupted: tuple[dict[str, bytes], float], seed: int
) -> None:
    """Four kills in each of five runs."""
    expected, duration = uninterrupted
    for kill in range(4):
        kill_at_random(tmp_path / "killed", random.Random(10 * seed + kill), duration)
    finish(tmp_path / "killed")
    assert differing(outcome(tmp_path / "killed"), expected) == set()
