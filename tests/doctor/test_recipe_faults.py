"""Recipes with one bad number each, on clean text: each must be named, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.config import PairRecipe, resolve, shipped
from regard.doctor.examine import examine
from regard.doctor.findings import Finding, Where
from regard.doctor.recipe import examine as examine_recipe

Documented = dict[str, dict[str, tuple[str, str]]]
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


def write_recipe(path: Path, recipe: dict[str, Any], changes: dict[str, Any]) -> None:
    """What was chosen and nothing else, so that its lines stay where they are when regard learns a new key."""
    sections = {name: dict(section) for name, section in recipe.items() if isinstance(section, dict)}
    for key, value in changes.items():
        section, name = key.split(".")
        sections.setdefault(section, {})[name] = value
    lines = [f"name = {json.dumps(recipe['name'])}"]
    for section, values in sections.items():
        lines += ["", f"[{section}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def diagnose(recipe: dict[str, Any], changes: dict[str, Any], clean: Path, folder: Path) -> list[Finding]:
    """What is found above a note."""
    data = {split: [str(clean / f"{split}.{side}") for side in ("en", "de")] for split in ("train", "valid", "test")}
    write_recipe(folder / "my.toml", {**recipe, "data": data}, changes)
    return [finding for finding in examine(folder / "my.toml") if finding.severity != "note"]


@pytest.mark.parametrize("name", FAULTS)
def test_a_bad_number_is_named_in_its_recipe(
    name: str, clean: Path, tmp_path: Path, documented: Documented, place: Callable[[Where], str]
) -> None:
    code, changes = FAULTS[name]
    found = diagnose(SOUND, changes, clean, tmp_path)
    assert [(finding.code, finding.where.files) for finding in found] == [(code, (str(tmp_path / "my.toml"),))]
    assert documented["recipe"][name] == (code, place(found[0].where))


def test_the_results_list_every_fault(documented: Documented) -> None:
    assert list(documented["recipe"]) == list(FAULTS)


def test_a_bad_number_is_named_with_its_line(clean: Path, tmp_path: Path) -> None:
    """Both numbers that make the peak, where they stand in the file; a comment or another section's key is no match."""
    (found,) = diagnose(SOUND, {"train.lr_scale": 20.0}, clean, tmp_path)
    lines = (tmp_path / "my.toml").read_text(encoding="utf-8").splitlines()
    assert [lines[n - 1] for n in found.lines] == ["warmup_steps = 400", "lr_scale = 20.0"]


def test_a_sound_recipe_is_passed_in_silence(clean: Path, tmp_path: Path) -> None:
    assert not diagnose(SOUND, {}, clean, tmp_path)


TRANSLATORS = [name for name in shipped() if isinstance(resolve(name), PairRecipe)]  # the doctor knows no others


@pytest.mark.parametrize("recipe", [{"model": {"preset": "base"}}, {"model": {"preset": "big"}}, *TRANSLATORS])
def test_the_paper_s_numbers_and_ours_are_passed_in_silence(recipe: Any) -> None:
    found = examine_recipe(resolve(recipe), None, "my.toml")
    assert not [finding for finding in found if finding.severity != "note"]


@pytest.mark.parametrize("name", ["demo", "copy", "reverse"])
def test_built_in_corpora_are_passed_in_silence(name: str) -> None:
    assert not [finding for finding in examine(name) if finding.severity != "note"]


def test_text_that_is_not_here_is_said_once(tmp_path: Path) -> None:
    missing = {f"data.{split}": ["no.en", "no.de"] for split in ("train", "valid")}
    write_recipe(tmp_path / "my.toml", SOUND, missing)
    found = [finding for finding in examine(tmp_path / "my.toml") if finding.severity != "note"]
    assert [finding.code for finding in found] == ["text-missing"]
