"""Folders of every format: complete, refused by the recipe key that does not fit, and never half-written."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import regard
from regard.doctor.weights import sound
from regard.errors import RegardError
from regard.export.formats import FORMATS, export
from regard.export.runs import write_run
from regard.training.checkpoint import weights
from regard.training.load import load_weights
from regard.training.run import Run

NEEDS = ("ctranslate2", "transformers")


@pytest.mark.parametrize(
    ("to", "model", "message"),
    [
        ("ctranslate2", {"d_k": 16}, r"model\.d_k = 16: CTranslate2 needs d_k = d_model / n_heads, here 8"),
        ("ctranslate2", {"d_v": 4}, r"model\.d_v = 4"),
        ("marian", {"d_k": 16}, r"model\.d_k = 16: Marian"),
        ("marian", {"norm": "pre"}, r'model\.norm = "pre"'),
        ("marian", {"positions": "learned", "max_positions": 300}, r'model\.positions = "learned"'),
        ("marian", {"norm_eps": 1e-3}, r"model\.norm_eps = 0\.001: Marian has 1e-05"),
    ],
)
def test_a_shape_that_a_format_cannot_hold_is_refused_by_its_key(
    random_run: Callable[..., Path], tmp_path: Path, to: str, model: dict[str, object], message: str
) -> None:
    with pytest.raises(RegardError, match=message), export(random_run(**model), to, tmp_path / "out"):
        pass
    assert not (tmp_path / "out").exists()


def test_widths_that_are_spelled_out_but_ordinary_are_no_reason_to_refuse(
    random_run: Callable[..., Path], tmp_path: Path
) -> None:
    with export(random_run(d_k=8, d_v=8), "ctranslate2", tmp_path / "out"):
        pass
    assert (tmp_path / "out" / "model.bin").exists()


@pytest.mark.parametrize(
    ("to", "quantization", "message"),
    [
        ("ctranslate", "float32", "no format ctranslate .did you mean ctranslate2"),
        ("onnx", "int16", "onnx has no quantization int16: choose float32, int8"),
        ("marian", "int8", "marian has no quantization int8"),
        ("ctranslate2", "int4", "choose float32, int16, int8"),
    ],
)
def test_a_format_or_quantization_that_does_not_exist_is_named(
    tmp_path: Path, to: str, quantization: str, message: str
) -> None:
    with pytest.raises(RegardError, match=message), export(tmp_path, to, tmp_path / "out", quantization):
        pass


def test_a_folder_that_is_there_is_not_overwritten(random_run: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(RegardError, match="is there already"), export(random_run(), "safetensors", tmp_path / "out"):
        pass
    assert (tmp_path / "out" / "mine.txt").read_text() == "mine"


def test_an_interrupted_export_leaves_nothing(random_run: Callable[..., Path], tmp_path: Path) -> None:
    run = random_run()
    before = set(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt), export(run, "safetensors", tmp_path / "out"):
        raise KeyboardInterrupt
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("to", ["ctranslate2", "marian", "safetensors"])
def test_a_folder_says_what_it_is_and_its_readme_runs(
    trained: Path, tmp_path: Path, to: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with export(trained, to, tmp_path / "out"):
        pass
    shutil.move(tmp_path / "out", tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert json.loads(Path("export.json").read_text())["format"] == to
    readme = Path("README.md").read_text()
    assert ("|Y|^α" in readme) == (to in ("ctranslate2", "marian"))
    code = readme.split("```python\n")[1].split("```")[0].replace("A sentence.", "k a d")
    exec(code, {})
    expected = regard.load(trained, device="cpu").translate("k a d", beam_size=4, normalization="power")
    assert expected
    assert expected in capsys.readouterr().out


def test_the_documentation_of_engines_runs(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run and an export of it, under the names that the page uses."""
    page = Path(__file__).parents[2] / "docs" / "export.md"
    shutil.copytree(trained, tmp_path / "runs" / "demo", symlinks=True)
    with export(trained, "ctranslate2", tmp_path / "demo-ct2"):
        pass
    monkeypatch.chdir(tmp_path)
    translator, engine = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S)
    exec(translator.replace("Is she sleeping?", "k a d"), {})
    assert capsys.readouterr().out.strip()
    exec(engine.replace("Is she sleeping?", "k a d"), {})
    expected = regard.load(trained, device="cpu").translate("k a d", beam_size=4, normalization="power")
    assert capsys.readouterr().out.startswith(f"{expected} -")


def test_safetensors_are_a_run_without_training_state(trained: Path, tmp_path: Path) -> None:
    with export(trained, "safetensors", tmp_path / "out"):
        pass
    ours, theirs = regard.load(trained, device="cpu"), regard.load(tmp_path / "out", device="cpu")
    for name, tensor in weights(ours.model).items():
        assert torch.equal(tensor, weights(theirs.model)[name])
    assert not (tmp_path / "out" / "checkpoints").exists()
    assert sorted(FORMATS) == ["ctranslate2", "marian", "onnx", "safetensors"]


def test_block_heads_trained_on_a_frozen_run_are_exported_without_it(
    random_run: Callable[..., Path], tmp_path: Path
) -> None:
    """The recipe names neither the run that `init` did nor what was frozen of it."""
    headed = Run.open(random_run(block_heads=2))
    recipe = replace(headed.pair_recipe, init="runs/base", train=replace(headed.pair_recipe.train, freeze="base"))
    translator = regard.load(headed.path, device="cpu")
    frozen = write_run(tmp_path / "frozen", recipe, translator.tokenizers, weights(translator.model))
    with export(frozen.path, "safetensors", tmp_path / "out"):
        pass
    exported = Run.open(tmp_path / "out").pair_recipe
    assert (exported.init, exported.train.freeze, exported.model.block_heads) == ("", "", 2)
    options = {"beam_size": 1, "blockwise": True}
    ours, theirs = (
        regard.load(path, device="cpu").translate("k a d", **options) for path in (frozen.path, tmp_path / "out")
    )
    assert ours == theirs


def test_an_export_without_whole_weights_says_to_export_again(random_run: Callable[..., Path], tmp_path: Path) -> None:
    out = Run(tmp_path / "out")
    with export(random_run(n_layers=1), "safetensors", out.path):
        pass
    with pytest.raises(RegardError, match="is an export and has one set of weights: leave --weights out"):
        load_weights(out, "best")
    whole = out.averaged.read_bytes()
    out.averaged.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RegardError, match=r"its checksum does not match\. Export the run again\.$"):
        load_weights(out)
    out.averaged.unlink()
    with pytest.raises(RegardError, match=r"is an export without its averaged\.safetensors: export the run again"):
        load_weights(out)
    (finding,) = sound(out)
    assert (finding.what, finding.fix) == ("The export has no averaged.safetensors.", "Export the run again.")
