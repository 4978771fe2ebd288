"""Mask-predict through the one loop: exact resume, and commands from a teacher to its pupil."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.config import resolve, to_toml
from regard.data.corpus import Corpus, load_required
from regard.errors import RegardError
from regard.export.choice import open_translator
from regard.export.formats import FORMATS, export
from regard.tasks.scoring import log_probs
from regard.training.run import Run
from regard.training.start import fit

RECIPE: dict[str, Any] = {
    "name": "killed",
    "task": "mask_predict",
    "data": {"corpus": "en-de", "train_size": 400, "valid_size": 20, "test_size": 5, "max_length": 60},
    "tokenizer": {"vocab_size": 300, "sampling": 0.2},
    "model": {"n_layers": 1, "d_model": 32, "d_ff": 64, "n_heads": 4, "dropout": 0.2, "max_positions": 80},
    "train": {
        "steps": 14, "batch_tokens": 300, "accumulate": 2, "warmup_steps": 20, "r_drop": 1.0, "report_every": 5,
        "valid_every": 7, "valid_sentences": 5, "save_every": 4, "average": 2, "tensorboard": False,
    },
    "decode": {"iterations": 3, "length_candidates": 2},
}  # fmt: skip


def launch(run: Path, *kill: str) -> int:
    script = Path(__file__).with_name("killable.py")
    command = [sys.executable, str(script), json.dumps(RECIPE), str(run), *kill]
    return subprocess.run(command, capture_output=True, check=False, timeout=300).returncode


def test_a_kill_changes_no_byte(tmp_path: Path) -> None:
    """Subword sampling, masks, dropout and R-Drop are on, and an epoch ends on the way."""
    assert launch(tmp_path / "whole") == 0
    assert launch(tmp_path / "killed", "between the files of a checkpoint", "3") == -signal.SIGKILL
    assert launch(tmp_path / "killed") == 0
    files = [f"checkpoints/step-000014/{name}.safetensors" for name in ("model", "training")]
    for file in [*files, "averaged.safetensors", "samples.txt"]:
        assert (tmp_path / "killed" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


# --- from a teacher to its pupil -------------------------------------------------------------------------


def call(*words: str, folder: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "regard", *words]
    return subprocess.run(command, cwd=folder, input=text, capture_output=True, text=True, check=False)


def test_a_pupil_learns_from_its_teachers_translations(reverser: Path, tmp_path: Path) -> None:
    teacher = str(reverser)
    told = call("evaluate", teacher, "--split", "train", "--beam", "1", "--save", "distilled.txt", folder=tmp_path)
    assert told.returncode == 0, told.stderr
    distilled = (tmp_path / "distilled.txt").read_text().splitlines()
    train = load_required(Run.open(reverser).recipe.data, "train")
    assert len(distilled) == len(train)
    assert distilled[:3] == regard.load(reverser).translate(train.source[:3], beam_size=1)
    text = "".join(f"{line}\n" for line in train.source[:50])
    translated = call("translate", teacher, "--beam", "1", folder=tmp_path, text=text)
    assert translated.stdout.splitlines() == distilled[:50]  # the other way to make it, for text in files
    data = {"corpus": "reverse", "train_size": 4000, "valid_size": 5, "test_size": 5, "max_length": 60}
    recipe = {**RECIPE, "name": "pupil", "data": {**data, "train_target": "distilled.txt"}}
    values = resolve(recipe, {"train.steps": 3, "train.accumulate": 1, "tokenizer.vocab_size": 60})
    (tmp_path / "pupil.toml").write_text(to_toml(values).replace(str(Path.cwd() / "distilled.txt"), "distilled.txt"))
    learned = call("train", "pupil.toml", folder=tmp_path)
    assert learned.returncode == 0, learned.stderr
    assert "test BLEU = " in learned.stdout
    assert "perplexity" not in learned.stdout
    pupil = Run.open(tmp_path / "runs" / "pupil")
    assert load_required(pupil.recipe.data, "train").target == distilled
    assert load_required(pupil.recipe.data, "valid").target != distilled[:5]


def test_the_command_takes_iterations_and_lengths_and_tells_tokens_a_call(masked_reverser: Path) -> None:
    options = "--iterations", "4", "--length-candidates", "2", "--verify-batch", "--json"
    text = "a b c\n\nd e\n"
    told = call("translate", str(masked_reverser), *options, folder=masked_reverser.parent, text=text)
    assert told.returncode == 0, told.stderr
    found = [json.loads(line)["translations"][0] for line in told.stdout.splitlines()]
    assert [(one["text"], one.get("calls", 0)) for one in found] == [("c b a", 4), ("", 0), ("e d", 4)]
    assert "7 tokens in 8 calls of the decoder: 0.88 tokens a call." in told.stderr
    assert "0 of 3 translations depend on the batch" in told.stderr


def test_a_beam_is_refused_by_name(masked_reverser: Path) -> None:
    told = call("translate", str(masked_reverser), "--beam", "4", folder=masked_reverser.parent)
    assert told.returncode == 2
    assert told.stderr.startswith("regard: decode.beam_size means nothing to a model of task")
    assert "decode.max_source, decode.precision" in told.stderr, "all that does mean something"
    assert "decode.top_k" not in told.stderr
    with pytest.raises(RegardError, match=r'CTranslate2 cannot hold this model\. A model of task = "mask_predict"'):
        open_translator(masked_reverser, "ctranslate2")


def test_probabilities_of_given_sentences_and_other_formats_are_refused(masked_reverser: Path, tmp_path: Path) -> None:
    model = regard.load(masked_reverser)
    with pytest.raises(RegardError, match="--log-probs needs a model that reads from left to right"):
        log_probs(model, Corpus("x", ["a"], ["a"]))
    for name in ("ctranslate2", "onnx", "marian"):
        if all(find_spec(package) for package in FORMATS[name].packages):
            with (
                pytest.raises(RegardError, match=rf'{name} cannot hold this model\. A model of task = "mask_predict"'),
                export(masked_reverser, name, tmp_path / name),
            ):
                pass


def test_a_run_can_be_moved_in_our_own_format(masked_reverser: Path, tmp_path: Path) -> None:
    with export(masked_reverser, "safetensors", tmp_path / "moved"):
        pass
    assert regard.load(tmp_path / "moved").translate("a b c") == "c b a"


def test_two_kinds_of_models_are_compared_each_with_its_own_options(masked_reverser: Path, reverser: Path) -> None:
    options = "--baseline", str(reverser), "--iterations", "2", "--beam", "1", "--json"
    told = call("evaluate", str(masked_reverser), *options, folder=masked_reverser.parent)
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)["test"]
    assert found["comparisons"]
    assert "perplexity" not in [score["name"] for score in found["scores"]]


def test_a_run_of_the_other_kind_is_no_place_to_start_from(reverser: Path, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r'is a run of task = "translation", not "mask_predict"'):
        fit({**RECIPE, "init": str(reverser)}, tmp_path / "run")
