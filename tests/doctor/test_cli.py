"""`regard doctor` as people use it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def doctor(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "regard", "doctor", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=240)


def test_clean_text_ends_in_a_verdict_and_success(clean: Path) -> None:
    result = doctor("--train", clean / "train.en", clean / "train.de", "--languages", "en", "de")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "Nothing wrong found.\n"


def test_an_error_is_told_with_its_place_and_ends_in_failure(clean: Path, tmp_path: Path) -> None:
    lines = (clean / "train.de").read_text(encoding="utf-8").splitlines()
    (tmp_path / "late.de").write_text("\n".join([*lines[:500], "Das ist so.", *lines[500:-1]]) + "\n", encoding="utf-8")
    result = doctor("--train", clean / "train.en", tmp_path / "late.de")
    assert result.returncode == 1
    assert f"{tmp_path / 'late.de'}:501–1500  [shifted]" in result.stdout
    assert result.stdout.splitlines()[-1].endswith("begin with shifted.")
    as_json = doctor("--train", clean / "train.en", tmp_path / "late.de", "--json")
    assert as_json.returncode == 1
    first = json.loads(as_json.stdout)["findings"][0]
    assert (first["code"], first["severity"], first["lines"]) == ("shifted", "error", [[501, 1500]])


def test_two_files_are_training_text_however_they_are_given(clean: Path, tmp_path: Path) -> None:
    lines = (clean / "train.de").read_text(encoding="utf-8").splitlines()
    (tmp_path / "late.de").write_text("\n".join([*lines[:500], "Das ist so.", *lines[500:-1]]) + "\n", encoding="utf-8")
    files = str(clean / "train.en"), str(tmp_path / "late.de")
    outputs = {doctor(*way).stdout for way in (("--train", *files), files, (",".join(files),))}
    assert len(outputs) == 1
    assert "[shifted]" in outputs.pop()


def test_exchanged_languages_are_told_when_they_are_given(clean: Path, tmp_path: Path) -> None:
    for side in ("en", "de"):  # names that tell nothing
        (tmp_path / f"{side}.txt").write_bytes((clean / f"train.{side}").read_bytes())
    right = doctor("--train", tmp_path / "en.txt", tmp_path / "de.txt", "--languages", "en", "de")
    wrong = doctor("--train", tmp_path / "en.txt", tmp_path / "de.txt", "--languages", "de", "en")
    assert (right.returncode, wrong.returncode) == (0, 1)
    assert "languages-swapped" in wrong.stdout


def test_empty_files_are_named_and_nothing_else_is_said(clean: Path, tmp_path: Path) -> None:
    for side in ("en", "de"):
        (tmp_path / f"none.{side}").touch()
    none, test = [
        (folder / f"{name}.en", folder / f"{name}.de") for folder, name in ((tmp_path, "none"), (clean, "test"))
    ]
    result = doctor(*none, "--test", *test)
    assert result.returncode == 1
    assert not result.stderr
    assert result.stdout.endswith("1 error found; begin with no-text.\n")


def test_bad_input_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.de").write_text("Ein Hund.\n")
    (tmp_path / "a.toml").write_text("Ein Hund.\n")
    for arguments, words in (
        ((), "Give a run"),
        ((tmp_path / "a.de",), "is one file: give two, SOURCE TARGET"),
        ((tmp_path / "a.toml",), "is not valid TOML"),
        (("--train", "none.en", "none.de"), "No such file: none.en"),
        (("demmo",), "did you mean demo?"),
        ((tmp_path,), "not a run directory"),
        (("memory.tmx.gz",), "regard data prepare"),
        (("a.en", "a.de", "--train", "a.en", "a.de"), "given twice"),
        (("a.en", "a.de", "b.en"), "two files: SOURCE TARGET"),
        (("--train", "a.en", "a.de", "--languages", "en", "german"), "write de for german"),
    ):
        result = doctor(*arguments)
        assert result.returncode == 2
        assert words in result.stderr
        assert "Traceback" not in result.stderr
