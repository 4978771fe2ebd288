"""Prepared data is examined as the text it was made from would be."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.config import TokenizerConfig
from regard.data.prepare import Settings, prepare
from regard.doctor.examine import examine
from regard.doctor.findings import Finding

RECIPE = """name = "mine"
[data]
prepared = "out"
[model]
n_layers = 2
d_model = 64
d_ff = 128
n_heads = 2
[train]
steps = 2000
batch_tokens = 1000
warmup_steps = 400
lr_scale = 0.5
save_every = 100
"""


@pytest.fixture
def recipe(clean: Path, tmp_path: Path) -> Path:
    """A recipe and, beside it, its prepared data."""
    for split in ("train", "valid", "test"):
        sides = [(clean / f"{split}.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "de")]
        rows = "".join(f"{source}\t{target}\n" for source, target in zip(*sides, strict=True))
        (tmp_path / f"{split}.tsv").write_text(rows, encoding="utf-8")
    inputs = {split: (str(tmp_path / f"{split}.tsv"),) for split in ("train", "valid", "test")}
    prepare(Settings(("en", "de"), **inputs, tokenizer=TokenizerConfig(vocab_size=400)), tmp_path / "out", jobs=1)
    (tmp_path / "my.toml").write_text(RECIPE, encoding="utf-8")
    return tmp_path / "my.toml"


def above_notes(recipe: Path) -> list[Finding]:
    return [finding for finding in examine(recipe) if finding.severity != "note"]


def test_clean_prepared_data_is_passed_in_silence(recipe: Path) -> None:
    """Also the size of its vocabulary, which the recipe does not say."""
    assert not above_notes(recipe)
    assert not above_notes(recipe.parent / "out")


def test_the_folder_alone_is_examined_too(recipe: Path) -> None:
    text = recipe.parent / "out" / "valid.source"
    text.write_text(text.read_text(encoding="utf-8") + "One more.\n", encoding="utf-8")
    assert {finding.code for finding in above_notes(recipe.parent / "out")} == {
        "prepared-damaged",
        "line-counts-differ",
    }


@pytest.mark.parametrize(("name", "code"), [("train.target.text", "mojibake"), ("test.source", "markup")])
def test_a_fault_in_prepared_text_is_named_with_its_line_beside_the_damage(recipe: Path, name: str, code: str) -> None:
    path = recipe.parent / "out" / name
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[6] = f"<b>{lines[6]}</b>" if code == "markup" else "Ein mÃ¼der Hund."
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = {finding.code: (finding.where.files, finding.lines) for finding in above_notes(recipe)}
    assert found[code] == ((str(path),), [7])
    assert found["prepared-damaged"] == ((str(recipe.parent / "out"),), [])


def test_languages_are_those_the_data_was_prepared_for(recipe: Path) -> None:
    index = recipe.parent / "out" / "prepared.json"
    index.write_text(index.read_text(encoding="utf-8").replace('"en"', '"fr"', 1), encoding="utf-8")
    assert "wrong-language" in [finding.code for finding in above_notes(recipe)]


def test_data_that_is_not_there_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(RECIPE, encoding="utf-8")
    assert [finding.code for finding in above_notes(tmp_path / "my.toml")] == ["text-missing"]
