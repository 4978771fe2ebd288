"""Recurrent models through the one loop and what stands behind it: exact resume, learning, and what a run is for."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.data.corpus import Corpus
from regard.errors import RegardError
from regard.export.choice import open_translator
from regard.export.formats import FORMATS, export
from regard.tasks.attention import draw
from regard.tasks.scoring import evaluate, model_scores
from regard.training.start import fit

KILLED: dict[str, Any] = {
    "name": "killed",
    "data": {"corpus": "en-de", "train_size": 60, "valid_size": 10, "test_size": 5, "max_length": 60},
    "tokenizer": {"vocab_size": 120, "sampling": 0.2},
    "model": {
        "family": "recurrent", "cell": "lstm", "n_layers": 2, "d_model": 24, "d_hidden": 32, "attention": "general",
        "input_feeding": True, "dropout": 0.2,
    },
    "train": {
        "steps": 10, "batch_tokens": 200, "accumulate": 2, "warmup_steps": 20, "r_drop": 1.0, "clip_norm": 1.0,
        "report_every": 5, "valid_every": 5, "valid_sentences": 2, "save_every": 3, "average": 2, "tensorboard": False,
    },
}  # fmt: skip


def launch(run: Path, *kill: str) -> int:
    script = Path(__file__).with_name("killable.py")
    command = [sys.executable, str(script), json.dumps(KILLED), str(run), *kill]
    return subprocess.run(command, capture_output=True, check=False, timeout=300).returncode


def test_a_kill_changes_no_byte(tmp_path: Path) -> None:
    """Subword sampling, dropout and R-Drop are on, and an epoch ends on the way."""
    assert launch(tmp_path / "whole") == 0
    assert launch(tmp_path / "killed", "between the files of a checkpoint", "3") == -signal.SIGKILL
    assert launch(tmp_path / "killed") == 0
    files = [f"checkpoints/step-000010/{name}.safetensors" for name in ("model", "training")]
    for file in [*files, "averaged.safetensors", "samples.txt"]:
        assert (tmp_path / "killed" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


# --- a run that has learned to reverse -------------------------------------------------------------------


@pytest.fixture(scope="module")
def recurrent(reverser_recipe: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("recurrent") / "run"
    train = {**reverser_recipe["train"], "schedule": "linear", "peak_lr": 0.01, "clip_norm": 1.0, "warmup_steps": 20}
    model = {"family": "recurrent", "d_model": 32, "d_hidden": 48, "attention": "additive", "dropout": 0.0}
    fit({**reverser_recipe, "model": model, "train": train}, run)
    return run


def test_it_has_learned_and_looks_where_the_words_come_from(recurrent: Path, reverser_test: Corpus) -> None:
    model = regard.load(recurrent)
    scores = {score.name: score.value for score in evaluate(model, reverser_test).scores}
    assert scores["BLEU"] > 60
    assert model_scores(model, reverser_test)[0].value < 3  # perplexity; chance is above 30
    (translation,) = model.search(["a b c d"])[0]
    links = model.align([translation])[0]
    assert len({s for s, _ in links}) == 4


@pytest.mark.parametrize("beam", [1, 4])
def test_translations_do_not_depend_on_the_batch(recurrent: Path, reverser_test: Corpus, beam: int) -> None:
    model, sentences = regard.load(recurrent), reverser_test.source[:60]
    together = model.translate(sentences, beam_size=beam)
    for size in (1, 7):
        assert model.translate(sentences[::-1], beam_size=beam, batch_sentences=size)[::-1] == together


def test_a_capture_around_translate_gets_the_alignment(recurrent: Path) -> None:
    model = regard.load(recurrent)
    with regard.capture(model) as maps:
        (translation,) = model.search(["a b c d"])[0]
    (weights,) = maps.values()
    T, S = len(translation.target_tokens), len(translation.source_tokens)
    assert weights.shape == (1, 1, T, S)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1, T))


def test_its_pages_and_pictures_are_drawn(recurrent: Path, tmp_path: Path) -> None:
    model = regard.load(recurrent)
    page, png = draw(model, model.search(["a b c d"])[0], tmp_path, "view")
    assert "decoder.cross_attn" in page.read_text()
    assert png.stat().st_size > 1000


def test_families_translate_together(recurrent: Path, reverser: Path) -> None:
    """A Transformer of the same vocabulary produces each token with it."""
    assert regard.load([recurrent, reverser]).translate("a b c") == "c b a"


def test_other_formats_refuse_it_by_name_and_our_own_holds_it(recurrent: Path, tmp_path: Path) -> None:
    for name in ("ctranslate2", "onnx", "marian"):
        if all(find_spec(package) for package in FORMATS[name].packages):
            with (
                pytest.raises(RegardError, match=rf'{name} cannot hold .* model\.family = "recurrent"'),
                export(recurrent, name, tmp_path / name),
            ):
                pass
    with export(recurrent, "safetensors", tmp_path / "moved"):
        pass
    assert regard.load(tmp_path / "moved").translate("a b c") == regard.load(recurrent).translate("a b c")


def test_what_needs_a_transformer_says_so_and_leaves_nothing(recurrent: Path) -> None:
    before, said = sorted(recurrent.rglob("*")), []
    with pytest.raises(RegardError, match=r"Blockwise decoding needs model\.family = \"transformer\""):
        regard.load(recurrent).translate("a b", beam_size=1, blockwise=True)
    for asked in ({"engine": "ctranslate2"}, {"quantization": "int8"}):
        with pytest.raises(RegardError, match=r'"recurrent" is a run of our own alone\. Leave --engine and --quant'):
            open_translator(recurrent, **asked, remark=said.append)
    assert not said
    assert sorted(recurrent.rglob("*")) == before


def test_without_attention_there_is_a_report_but_no_alignment(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    model = {"family": "recurrent", "d_model": 16, "d_hidden": 16, "attention": "none"}
    trained = regard.train({**tiny_recipe, "model": model}, tmp_path / "run")
    report = (tmp_path / "run" / "report" / "report.txt").read_text()
    assert "test BLEU" in report
    assert "no picture: this model has no attention to the source" in report
    with pytest.raises(RegardError, match="no attention to the source"):
        trained.align(trained.search(["a b"])[0])
    with pytest.raises(RegardError, match="no attention to the source"):
        trained.translate("a b", coverage_penalty=0.2)


def test_a_convolutional_run_trains_and_reports(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    model = {"family": "convolutional", "d_model": 16, "d_hidden": 16, "n_layers": 2, "max_positions": 256}
    trained = regard.train({**tiny_recipe, "model": model}, tmp_path / "run")
    assert "attention page" in (tmp_path / "run" / "report" / "report.txt").read_text()
    assert trained.alignment_path == "decoder.layers.1.cross_attn"
