"""`regard reproduce`, as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def sets(tiny_recipe: dict[str, Any]) -> list[str]:
    """Changes that make a row trainable in a second, on a small corpus in files."""
    values = {
        **{f"data.{split}": list(files) for split, files in tiny_recipe["data"].items()},
        "data.corpus": '""', "tokenizer.vocab_size": 32, "train.steps": 3, "train.valid_every": 2,
        "train.save_every": 2, "decode.extra_length": 2,
    }  # fmt: skip
    return [f"--set={key}={value}" for key, value in values.items()]


def call(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "regard", "reproduce", "table-3", "--out", "runs", *options]
    environment = {**os.environ, "REGARD_DATA": str(folder / "no cache")}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


def test_rows_are_added_to_those_that_are_there(tmp_path: Path, sets: list[str]) -> None:
    for row in ("N = 2", "h = 1"):
        result = call(tmp_path, "--rows", row, *sets)
        assert result.returncode == 0, result.stderr
    assert (tmp_path / "runs" / "table-3.md").read_text(encoding="utf-8").count("*not run here*") == 3 * 18
    assert sum(" – " in line for line in result.stdout.splitlines()) == 18
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert (tmp_path / "runs" / "table-3.png").is_file()
    shown = call(tmp_path, "--show")  # whatever recipes the rows were made with
    assert shown.stdout.strip() == result.stdout.split("\n\nruns")[0].strip()
    chosen = call(tmp_path, "--show", "--rows", "N=2")
    assert [line[:5].strip() for line in chosen.stdout.split("\n\n")[0].splitlines()[2:]] == ["N = 2"]
    other = call(tmp_path, "--rows", "N = 2", *sets, "--set=train.steps=4")
    assert other.returncode == 2
    assert "was made with another recipe" in " ".join(other.stderr.split())


def test_a_corpus_that_is_missing_is_said_once(tmp_path: Path) -> None:
    result = call(tmp_path, "--rows", "A")
    assert result.returncode == 2
    assert result.stderr.count("is not here yet: regard data fetch multi30k-en-de") == 1
    assert not result.stdout


def test_ctrl_c_saves_every_run_that_is_training(tmp_path: Path) -> None:
    changes = {
        "train.steps": 100_000,
        "train.save_every": 100_000,
        "train.report_every": 5,
        "train.tensorboard": "false",
    }
    command = [
        sys.executable, "-m", "regard", "reproduce", "set-max", "--rows", "rFF+Pool (max)", "--seeds", "2",
        "--jobs", "2", "--out", "runs", *(f"--set={key}={value}" for key, value in changes.items()),
    ]  # fmt: skip
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        for _ in range(600):
            if len([log for log in tmp_path.glob("runs/*/log.jsonl") if log.read_text(encoding="utf-8")]) == 2:
                break
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        said, complained = process.communicate(timeout=60)
    assert process.returncode == 130, complained
    assert "the same command goes on" in " ".join((said + complained).split())
    assert "Traceback" not in complained
    assert "leaked" not in complained
    assert len(list(tmp_path.glob("runs/*/checkpoints/step-*"))) == 2
