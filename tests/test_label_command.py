"""`regard label`: real processes and pipes, a line out for each line in."""

from __future__ import annotations

import json
import lzma
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

import regard
from regard.cli import app
from regard.errors import RegardError
from regard.training.start import fit

GOOD, BAD = "the film is bad but the plot is very clever", "the film is good but the plot is not good"


def recipe(task: str, corpus: str, steps: int) -> dict[str, Any]:
    return {
        "name": task, "task": task, "data": {"corpus": corpus, "train_size": 3000, "valid_size": 50, "test_size": 50},
        "model": {"family": "cnn", "d_model": 32, "filters": 32, "max_width": 4, "dropout": 0.1},
        "train": {
            "steps": steps, "batch_tokens": 800, "warmup_steps": 40, "schedule": "linear", "peak_lr": 3e-3,
            "valid_every": 40, "save_every": 40, "average": 0, "tensorboard": False,
        },
    }  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier and a tagger."""
    folder = tmp_path_factory.mktemp("labels")
    fit(recipe("classification", "polarity", 160), folder / "classifier", console=Console(quiet=True))
    fit(recipe("tagging", "word-classes", 80), folder / "tagger", console=Console(quiet=True))
    return folder


def label(*arguments: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "regard", "label", *map(str, arguments)]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, encoding="utf-8")


def lines(*arguments: str | Path, text: str = "") -> list[str]:
    result = label(*arguments, text=text)
    assert result.returncode == 0, result.stderr
    return result.stdout.split("\n")[:-1]


def test_a_label_and_its_probability_for_each_line_empty_ones_included(runs: Path) -> None:
    good, empty, blank, bad = lines(runs / "classifier", text=f"{GOOD}\n\n  \n{BAD}\n")
    assert (empty, blank) == ("", "")
    for found, expected in ((good, "positive"), (bad, "negative")):
        name, probability = found.split("\t")
        assert name == expected
        assert 0.5 < float(probability) <= 1


def test_as_many_labels_as_asked_for_the_likeliest_first(runs: Path) -> None:
    (found,) = lines(runs / "classifier", "--top", "9", text=GOOD)  # there are two
    names, values = found.split("\t")[::2], [float(value) for value in found.split("\t")[1::2]]
    assert names == ["positive", "negative"]
    assert values == sorted(values, reverse=True)
    assert sum(values) == pytest.approx(1, abs=1e-3)


def test_words_that_nobody_has_learned_are_told_beside_the_labels(runs: Path) -> None:
    strange = label(runs / "classifier", text=f"{GOOD}\nxyzzy the quux\n")
    assert len(strange.stdout.splitlines()) == 2
    assert "2 of 13 words are unknown" in strange.stderr
    assert not label(runs / "classifier", text=f"{GOOD}\n").stderr


def test_json_has_every_probability(runs: Path) -> None:
    bad, empty = map(json.loads, lines(runs / "classifier", "--json", text=f"{BAD}\n\n"))
    assert bad["words"] == BAD.split()
    assert bad["label"] == "negative"
    (theirs,) = regard.load(runs / "classifier").probabilities([BAD.split()])
    assert [bad["probabilities"][name] for name in ("negative", "positive")] == pytest.approx(theirs[0], abs=1e-5)
    assert empty == {"words": [], "label": None, "probabilities": {}}


def test_a_tagger_has_a_tag_and_a_probability_for_each_word(runs: Path) -> None:
    text = "we paint the old house"
    both, empty = lines(runs / "tagger", "--top", "2", text=f"{text}\n\n")
    tags, probabilities, second, less = both.split("\t")
    assert tags.split() == regard.load(runs / "tagger").predict(text)[0]
    assert len(second.split()) == 5
    for first, next_best in zip(probabilities.split(), less.split(), strict=True):
        assert float(first) >= float(next_best)
    assert empty == ""
    (told,) = map(json.loads, lines(runs / "tagger", "--json", text=text))
    assert [tag["label"] for tag in told["tags"]] == tags.split()
    for tag in told["tags"]:
        assert sum(tag["probabilities"].values()) == pytest.approx(1, abs=1e-4)


def test_running_text_is_split_and_files_may_be_compressed(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "texts.xz"
    file.write_bytes(lzma.compress(b"we can't paint the house.\n"))
    (told,) = map(json.loads, lines(runs / "tagger", "--raw", "--json", "--input", file))
    assert told["words"] == ["we", "ca", "n't", "paint", "the", "house", "."]


def test_another_kind_of_run_is_sent_to_its_own_command(reverser: Path, runs: Path, tmp_path: Path) -> None:
    for arguments, words in [
        ((reverser,), ('reverser is of task = "translation"', "regard translate")),
        ((tmp_path,), ("is not a run",)),
        ((runs / "tagger", "--input", "nowhere"), ("No such file: nowhere",)),
    ]:
        result = CliRunner().invoke(app, ["label", *map(str, arguments)])
        assert isinstance(result.exception, RegardError)
        assert all(word in str(result.exception) for word in words)
        assert "\n" not in str(result.exception)


def test_what_other_commands_cannot_do_names_the_one_that_can(runs: Path) -> None:
    for verb, *options in (("doctor",), ("translate",), ("evaluate", "--source", "x", "--reference", "y")):
        result = CliRunner().invoke(app, [verb, str(runs / "classifier"), *options])
        assert isinstance(result.exception, RegardError)
        assert "regard label" in str(result.exception)


def test_the_commands_of_the_page_run(runs: Path) -> None:
    page = (Path(__file__).parent.parent / "docs" / "labels.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ echo (.*) \| regard label runs/polarity(.*)$", page, flags=re.M)
    assert len(commands) == page.count("\n$ ") == 3
    for text, options in commands:
        assert lines(runs / "classifier", *options.split(), text=shlex.split(text)[0])[0].count("negative")
