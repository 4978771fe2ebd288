"""`regard export` and `regard import` as people use them: real processes, exit codes, a sentence for every mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import regard
from regard.cli.import_ import look_at_export
from regard.errors import RegardError
from regard.export.formats import export
from regard.export.runs import write_run
from regard.training.checkpoint import weights
from regard.training.run import Run

NEEDS = ("ctranslate2", "transformers")


def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "regard", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # models this small are slower with more
    return subprocess.run(command, capture_output=True, check=False, timeout=240, text=True, env=environment)


@pytest.fixture
def held_out(tmp_path: Path, sentences: list[str]) -> Path:
    (tmp_path / "held-out.txt").write_text("\n".join(sentences[:8]) + "\n")
    return tmp_path / "held-out.txt"


def test_an_export_is_checked_and_says_so(trained: Path, tmp_path: Path, held_out: Path) -> None:
    result = call("export", trained, "--to", "ctranslate2", "--out", tmp_path / "out", "--check", held_out)
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("passed\n")
    assert "beam 4  8 sentences" in result.stdout
    assert (tmp_path / "out" / "model.bin").is_file()


def test_machines_read_the_report(trained: Path, tmp_path: Path, held_out: Path) -> None:
    reference = tmp_path / "reference.txt"
    reference.write_text(held_out.read_text())
    result = call(
        "export", trained, "--to", "ctranslate2", "--quantization", "int8", "--out", tmp_path / "out",
        "--check", held_out, "--reference", reference, "--json", "--threads", "1",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["check"]["passed"] is True
    assert [one["search"] for one in report["check"]["comparisons"]] == ["greedy", "beam 4"]
    assert "ΔBLEU" in report["check"]["comparisons"][0]["quality"]
    assert report["bytes"] > 0


def test_an_export_that_answers_otherwise_is_refused(
    random_run: Callable[..., Path], tmp_path: Path, held_out: Path
) -> None:
    """Activations so small that the ε of the norms decides, and Marian has another one than the recipe."""
    run = random_run()
    model = regard.load(run, device="cpu").model
    for name, tensor in weights(model).items():
        if tensor.dim() == 1:
            tensor *= 1e-3
        elif "layers" in name:
            tensor *= 0.5
    write_run(tmp_path / "small", Run.open(run).recipe, regard.load(run).tokenizers, weights(model))
    result = call("export", tmp_path / "small", "--to", "marian", "--out", tmp_path / "out", "--check", held_out)
    assert result.returncode == 1, result.stderr
    assert "REFUSED" in result.stdout
    assert not (tmp_path / "out").exists()
    assert (tmp_path / "out.refused").is_dir()
    assert "Traceback" not in result.stderr


def test_an_export_without_a_check_says_its_size(trained: Path, tmp_path: Path) -> None:
    result = call("export", trained, "--to", "safetensors", "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith(" MB\n")
    ours, theirs = (regard.load(run, device="cpu").translate("k a d") for run in (trained, tmp_path / "out"))
    assert ours == theirs


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--to", "onxn"), "did you mean onnx"),
        (("--to", "marian", "--quantization", "int8"), "marian has no quantization int8"),
        (("--to", "marian", "--reference", "nowhere"), "--reference needs --check"),
        (("--to", "marian", "--check", "nowhere"), "No such file: nowhere"),
    ],
)
def test_a_mistake_ends_in_a_sentence(trained: Path, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    result = call("export", trained, "--out", tmp_path / "out", *arguments)
    assert result.returncode == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()


def test_an_exported_marian_folder_is_imported_again(trained: Path, tmp_path: Path) -> None:
    assert call("export", trained, "--to", "marian", "--out", tmp_path / "out").returncode == 0
    result = call("import", tmp_path / "out", "--from", "marian", "--run", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    assert "2 layers of 32, 60 subwords" in result.stderr
    lines = ["k a d", "b"]
    models = (regard.load(run, device="cpu") for run in (trained, tmp_path / "run"))
    ours, theirs = (model.translate(lines, beam_size=4, normalization="power", length_penalty=0.6) for model in models)
    assert ours == theirs


def test_an_import_of_our_own_export_says_what_was_altered(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with export(trained, "marian", tmp_path / "out"):
        pass
    look_at_export(tmp_path / "out", "marian")
    assert capsys.readouterr().err == ""
    config = tmp_path / "out" / "config.json"
    config.write_text(config.read_text() + "\n")
    look_at_export(tmp_path / "out", "marian")
    assert "config.json is not the one that was exported: taken as it is." in capsys.readouterr().err
    with pytest.raises(RegardError, match="an export in the format marian, not fairseq"):
        look_at_export(tmp_path / "out", "fairseq")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--from", "fairsec"), "did you mean fairseq"),
        (("--from", "marian"), "no MarianMT folder: it has no config.json"),
        (("--from", "fairseq"), "should hold one checkpoint (.pt) but has none"),
        (("--from", "marian", "--tokenizer", "a.model"), "--tokenizer is for fairseq"),
    ],
)
def test_a_folder_that_cannot_be_imported_is_named(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    result = call("import", tmp_path, "--run", tmp_path / "run", *arguments)
    assert result.returncode == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr
