"""Recipes with one bad number each, on clean text: each must be named, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.config import resolve, shipped, to_toml
from regard.doctor.examine import examine
from regard.doctor.recipe import examine as examine_recipe

SOUND: dict[str, Any] = {
    "name": "sound",
    "tokenizer": {"vocab_size": 400},
    "model": {"n_layers": 2, "d_model": 64, "d_ff": 128, "n_heads": 2, "dropout": 0.1},
    "train": {"steps": 2_000, "batch_tokens": 1_000, "warmup_steps": 400, "lr_scale": 0.5, "save_every": 100},
}

FAULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "learning rate ten times too high": ("learning-rate-high", {"train.lr_scale": 20.0}),
    "linear peak rate too high for six layers": (
        "learning-rate-high",
        {"train.schedule": "linear", "train.peak_lr": 0.01, "model.n_layers": 6, "model.d_model": 512},
    ),
    "learning rate close to nothing": ("learning-rate-low", {"train.lr_scale": 0.0001}),
    "warm-up longer than the run": ("warmup-too-long", {"train.warmup_steps": 4_000}),
    "vocabulary too large for the text": ("vocabulary-large", {"tokenizer.vocab_size": 16_000}),
    "batch of three pairs": ("batch-small", {"train.batch_tokens": 30}),
    "max_length drops much": ("max-length-drops", {"data.max_length": 8}),
    "no dropout on small data": ("no-dropout", {"model.dropout": 0.0}),
    "most of the model dropped": ("dropout-high", {"model.dropout": 0.8}),
    "label smoothing 0.6": ("label-smoothing-high", {"train.label_smoothing": 0.6}),
    "more averaged than there will be": ("average-too-many", {"train.save_every": 1_000}),
    "average of the whole run": ("average-too-early", {"train.save_every": 400}),
    "Adam's β₂ 0.5": ("adam-odd", {"train.beta2": 0.5}),
    "gradients clipped to nothing": ("clipping-tight", {"train.clip_norm": 0.001}),
    "beam of 200": ("beam-odd", {"decode.beam_size": 200}),
    "length penalty −3": ("length-penalty-odd", {"decode.length_penalty": -3.0}),
    "outputs cut short": ("outputs-cut", {"decode.extra_length": 1}),
    "text that is not there": ("text-missing", {"data.test": ["no.en", "no.de"]}),
}


def codes(recipe: dict[str, Any], changes: dict[str, Any], clean: Path, folder: Path) -> dict[str, list[str]]:
    """What is found above a note, with the files it is found in."""
    data = {split: [str(clean / f"{split}.{side}") for side in ("en", "de")] for split in ("train", "valid", "test")}
    (folder / "my.toml").write_text(to_toml(resolve({**recipe, "data": data}, changes)), encoding="utf-8")
    found = examine(folder / "my.toml")
    return {finding.code: list(finding.where.files) for finding in found if finding.severity != "note"}


@pytest.mark.parametrize("name", FAULTS)
def test_a_bad_number_is_named_in_its_recipe(name: str, clean: Path, tmp_path: Path) -> None:
    code, changes = FAULTS[name]
    assert codes(SOUND, changes, clean, tmp_path) == {code: [str(tmp_path / "my.toml")]}


def test_a_bad_number_is_named_with_its_line(clean: Path, tmp_path: Path) -> None:
    """Both numbers that make the peak, where they stand in the file; a comment or another section's key is no match."""
    codes(SOUND, {"train.lr_scale": 20.0}, clean, tmp_path)
    lines = (tmp_path / "my.toml").read_text(encoding="utf-8").splitlines()
    (found,) = [f for f in examine(tmp_path / "my.toml") if f.code == "learning-rate-high"]
    assert [lines[n - 1] for n in found.lines] == ["warmup_steps = 400", "lr_scale = 20.0"]


def test_a_sound_recipe_is_passed_in_silence(clean: Path, tmp_path: Path) -> None:
    assert not codes(SOUND, {}, clean, tmp_path)


@pytest.mark.parametrize("recipe", [{"model": {"preset": "base"}}, {"model": {"preset": "big"}}, *shipped()])
def test_the_paper_s_numbers_and_ours_are_passed_in_silence(recipe: Any) -> None:
    found = examine_recipe(resolve(recipe), None, "my.toml")
    assert not [finding for finding in found if finding.severity != "note"]


@pytest.mark.parametrize("name", ["demo", "copy", "reverse"])
def test_built_in_corpora_are_passed_in_silence(name: str) -> None:
    assert not [finding for finding in examine(name) if finding.severity != "note"]


def test_text_that_is_not_here_is_said_once(tmp_path: Path) -> None:
    missing = {f"data.{split}": ["no.en", "no.de"] for split in ("train", "valid")}
    (tmp_path / "my.toml").write_text(to_toml(resolve(SOUND, missing)), encoding="utf-8")
    found = [finding for finding in examine(tmp_path / "my.toml") if finding.severity != "note"]
    assert [finding.code for finding in found] == ["text-missing"]
