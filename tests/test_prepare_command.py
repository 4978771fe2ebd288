"""`regard data prepare` as people use it: real processes, a sentence for every mistake, and nothing half done."""

from __future__ import annotations

import dataclasses
import inspect
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.cli.prepare import prepare
from regard.config import TokenizerConfig
from regard.data.cleaning import STEPS, Cleaning
from regard.data.generated import generate
from regard.data.prepare import Settings
from regard.data.prepared import Prepared


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "regard", "data", "prepare", *map(str, arguments)]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, check=False, timeout=240, encoding="utf-8")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    for split, n in (("train", 500), ("test", 20)):
        pairs = generate("en-de", split, n)
        (folder / f"{split}.en").write_text("".join(f"{pair.source}\n" for pair in pairs), encoding="utf-8")
        (folder / f"{split}.de").write_text("".join(f"{pair.target}\n" for pair in pairs), encoding="utf-8")
    return folder


def test_the_command_prints_its_report_and_writes_the_folder(text: Path, tmp_path: Path) -> None:
    arguments = ("--languages", "en", "de", "--train", text / "train", "--vocab-size", 400, "--jobs", 2)
    result = run(*map(str, arguments), "--test", text / "test", "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == [  # progress is for a terminal
        "There is no validation text, which training needs",
        "Next",
    ]
    prepared = Prepared.open(tmp_path / "out")
    assert f"en → de: 500 pairs read, {len(prepared)} kept" in result.stdout
    steps = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))["steps"]
    assert [one["step"] for one in steps] == list(STEPS)
    rows = {line[:16].strip(): line[17:] for line in result.stdout.splitlines()}
    dropped = [one["step"] for one in steps if one["dropped"]]
    assert [name for name in rows if name in STEPS] == dropped
    assert rows["without effect"].split(", ") == [step for step in STEPS if step not in dropped]
    assert "pairs a minute" in result.stdout
    assert result.stdout == (tmp_path / "out" / "report.txt").read_text(encoding="utf-8")
    assert (tmp_path / "out" / "test.source").read_bytes() == (text / "test.en").read_bytes()

    again = run(*map(str, arguments), "--test", text / "test", "--out", tmp_path / "out")
    assert again.returncode == 2
    assert "exists already" in again.stderr

    forced = run(*map(str, arguments), "--leakage", "off", "--out", tmp_path / "out", "--force", "--json")
    assert json.loads(forced.stdout)["kept"] == len(Prepared.open(tmp_path / "out")) == 500


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--languages", "en", "de", "--train", "nothing"), "No input nothing"),
        (("--languages", "en", "en", "--train", "TRAIN"), "both en"),
        (("--languages", "en", "de", "--train", "TRAIN", "--copies", "al"), "of text, all, off (did you mean all?)"),
        (("--languages", "en", "de", "--train", "TRAIN", "--kind", "bp"), "regard: --kind 'bp' must be one of"),
        (("--languages", "en", "de", "--train", "TRAIN", "--tokenizer", "nowhere"), "no tokenizer folder nowhere"),
        (
            ("--languages", "en", "de", "--train", "TRAIN", "--tokenizer", "T", "--vocab-size", "8000", "--separate"),
            "leave --vocab-size, --shared/--separate out",
        ),
        (("--languages", "en", "--train", "TRAIN"), "--languages needs two codes"),
        (("--languages", "en", "german", "--train", "TRAIN"), "write de for german"),
        (("--languages", "en", "de", "--train", "a.en", "a.de"), "a.de stands alone"),
        (("--languages", "en", "de", "--train", "TRAIN", "--vocab-size", "40"), "--vocab-size 40 is too small"),
        (("--languages", "en", "de", "--train", "TRAIN", "--vocab-size", "90000"), "--vocab-size 90000 is more than"),
    ],
)  # fmt: skip
def test_mistakes_end_in_one_sentence(text: Path, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    named = [str(text / "train") if word == "TRAIN" else word for word in arguments]
    result = run(*named, "--out", tmp_path / "out")
    assert result.returncode == 2, result.stderr
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.iterdir())


def test_the_usage_names_no_arguments_for_there_are_none() -> None:
    (usage,) = (line for line in run("--help").stdout.splitlines() if "Usage:" in line)
    assert usage.strip().endswith("prepare [OPTIONS]")


def test_options_have_the_librarys_defaults() -> None:
    """They are written down twice, so that `--help` need not load the library."""
    options = {name: option.default for name, option in inspect.signature(prepare).parameters.items()}
    for kind in (Cleaning, TokenizerConfig, Settings):
        for field in dataclasses.fields(kind):
            if field.name in options and field.default is not dataclasses.MISSING and field.name != "tokenizer":
                assert options[field.name] == (field.default if field.default != () else None), field.name


def test_every_option_of_the_tokenizer_can_be_given(text: Path, tmp_path: Path) -> None:
    arguments = (
        "--byte-fallback",
        "--character-coverage",
        "0.99",
        "--normalization",
        "identity",
        "--vocab-size",
        "600",
    )
    result = run("--languages", "en", "de", "--train", text / "train", *arguments, "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    given = Prepared.open(tmp_path / "out").index["settings"]["tokenizer"]
    assert [given[key] for key in ("byte_fallback", "character_coverage", "normalization")] == [True, 0.99, "identity"]
    settable = set(inspect.signature(prepare).parameters) | {"sampling"}  # which belongs to training
    assert {field.name for field in dataclasses.fields(TokenizerConfig)} <= settable


def test_interrupted_it_leaves_no_folder_and_the_next_one_clears_up(text: Path, tmp_path: Path) -> None:
    for language in ("en", "de"):
        lines = (text / f"train.{language}").read_bytes()
        (tmp_path / f"long.{language}").write_bytes(lines * 400)
    arguments = ("--languages", "en", "de", "--vocab-size", "400", "--jobs", "2", "--out", tmp_path / "out")
    with subprocess.Popen(
        command("--train", tmp_path / "long", *arguments, "--duplicates", "off"), stderr=subprocess.PIPE, text=True
    ) as process:
        written = tmp_path / ".out.part" / "train.source.text"
        while process.poll() is None and not written.exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert "interrupted" in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "out").exists()
    assert run("--train", text / "train", *arguments).returncode == 0
    assert not list(tmp_path.glob(".out*"))
