"""The commands of docs/serving.md, run as they stand there."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.serving import served
from regard.cli.serve import PANEL, serve
from regard.errors import RegardError
from regard.serve.limits import OPTIONS, Limits
from regard.serve.work import MOST
from regard.training.start import fit

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.S) for line in block.splitlines()]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo as to its languages and its layers, if not to what it has learned."""
    run = tmp_path_factory.mktemp("docs") / "demo"
    sets = {"steps": 20, "average": 1, "tensorboard": False, "valid_every": 20, "save_every": 20, "valid_sentences": 2}
    recipe = {
        "name": "demo", "data": {"corpus": "en-de", "train_size": 3000, "valid_size": 10, "test_size": 10},
        "tokenizer": {"vocab_size": 800}, "model": {"n_layers": 2, "d_model": 32, "d_ff": 32, "n_heads": 4},
        "train": {"batch_tokens": 500, "warmup_steps": 20, **sets},
    }  # fmt: skip
    fit(recipe, run)
    return run


@pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl here")
def test_every_command_of_the_page_runs(demo: Path, tmp_path: Path) -> None:
    assert sum(command.startswith("curl") for command in COMMANDS) >= 14
    (tmp_path / "regard").write_text(f'#!/bin/sh\nexec {sys.executable} -m regard "$@"\n')
    (tmp_path / "regard").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with served(demo, tmp_path / "log") as server:
        for command in COMMANDS:
            here = command.replace("localhost:5000", f"localhost:{server.port}")
            here = here.replace("curl ", "curl -S --fail-with-body ")
            result = subprocess.run(
                here, shell=True, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
            )
            assert result.returncode == 0, (command, result.stdout, result.stderr)
            assert result.stdout.strip()
            if command.startswith("curl") and "/metrics" not in command:
                answers = [json.loads(line) for line in result.stdout.splitlines()]
                assert "error" not in answers[-1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"queue": 8}, "--max-queue 8 has no room for a request of --max-items 64: raise the one, or lower the other."),
        ({"seconds": float("nan")}, "--max-seconds nan must be a number above 0."),
        ({"drain_seconds": float("inf")}, "--drain-seconds inf must be a number above 0."),
        ({"body_bytes": 0}, "--max-body 0 must be a number above 0."),
    ],
)
def test_a_limit_that_cannot_be_names_its_option(change: dict[str, Any], words: str) -> None:
    with pytest.raises(RegardError) as raised:
        Limits(**change)
    assert str(raised.value) == words


def test_the_page_has_the_limits_that_there_are() -> None:
    """Each limit is an option with its default, and each option a row of the table."""
    found = {
        name: parameter.default
        for name, parameter in inspect.signature(serve, eval_str=True).parameters.items()
        if any(
            getattr(part, "rich_help_panel", "") == PANEL for part in getattr(parameter.annotation, "__metadata__", ())
        )
    }
    assert sorted(found.values()) == sorted(vars(Limits()).values())
    rows = {option: value for value, option in re.findall(r"^\|[^|]*\| ([\d,]+) \| `(--[a-z-]+)` \|", PAGE, flags=re.M)}
    assert sorted(OPTIONS) == sorted(vars(Limits())), "an error names the option"
    assert sorted(OPTIONS.values()) == sorted(rows)
    assert rows == {f"--{name.replace('_', '-')}": f"{value:,}" for name, value in found.items()}
    assert f"{MOST:,}" in PAGE
