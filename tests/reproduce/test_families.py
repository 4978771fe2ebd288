"""Recurrence, convolution and attention in one table: rows really trained on a small corpus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.config import PairRecipe, resolve, to_dict
from regard.data.corpus import Corpus
from regard.errors import RegardError
from regard.evaluate.literature import multi_bleu
from regard.reproduce.families import FAMILIES, WITH, WITHOUT, scores


def test_only_the_networks_differ() -> None:
    recipes = [FAMILIES.recipe_of(row, 1, {}) for row in FAMILIES.rows]
    assert all(isinstance(recipe, PairRecipe) for recipe in recipes)
    for section in ("data", "tokenizer", "decode"):
        first, *others = (to_dict(recipe)[section] for recipe in recipes)
        assert all(other == first for other in others), section
    assert [to_dict(recipe)["model"].get("family") for recipe in recipes] == [
        "recurrent", "recurrent", "convolutional", "transformer",
    ]  # fmt: skip


def test_a_row_keeps_its_network(tmp_path: Path) -> None:
    for row in FAMILIES.rows:
        assert FAMILIES.recipe_of(row, 1, {"name": "-"}) == resolve(row.recipe or FAMILIES.recipe, {"name": "-"})
        with pytest.raises(RegardError, match=r"model\.family cannot be set"):
            FAMILIES.experiments(tmp_path, [row], 1, {"model.family": "transformer"})


def test_scores_are_multi_bleus_and_long_sentences_are_told_apart() -> None:
    short, long = "ein hund schläft im garten .", " ".join(f"w{i}" for i in range(20))
    corpus = Corpus("test", ["", ""], [short, long])
    ours = [short, " ".join(f"w{i}" for i in range(10))]
    found = scores(ours, corpus)
    assert found["bleu"] == pytest.approx(multi_bleu(ours, corpus.target, samples=0).value)
    assert found["bleu 6–10"] == pytest.approx(100)
    assert found["sentences 16–20"] == 1
    assert found["lost"] == pytest.approx(100 - multi_bleu(ours[1:], [long], samples=0).value)


def test_the_table_is_trained_drawn_and_shown_again(tmp_path: Path, tiny_recipe: dict[str, Any]) -> None:
    out = tmp_path / "out"
    values = {f"data.{split}": files for split, files in tiny_recipe["data"].items()} | {
        "data.corpus": "", "tokenizer.vocab_size": 40, "tokenizer.sampling": 0.0, "train.steps": 3,
        "train.report_every": 2, "train.valid_every": 3, "train.save_every": 3, "train.average": 1,
        "train.tensorboard": False, "model.d_model": 16, "model.d_hidden": 16, "decode.extra_length": 2,
        "decode.beam_size": 2,
    }  # fmt: skip

    def call(*options: str) -> str:
        found = CliRunner().invoke(app, ["reproduce", "families", "--out", str(out), *options])
        assert found.exit_code == 0, found.output
        return found.stdout

    trained = call(f"--rows={WITHOUT}, {WITH}", *(f"--set={key}={json.dumps(value)}" for key, value in values.items()))
    for name in ("families.md", "families.png", "families-lengths.png"):
        assert (out / name).is_file()
    assert "attention helps" in trained
    assert "Transformer is better" not in trained  # it was not trained
    assert call("--show").strip() == trained.split(f"\n\n{out}")[0].strip()
    for each in FAMILIES.finished(out):
        assert each.result is not None
        assert min(each.result[key] for key in ("parameters", "training_seconds", "sentences_per_second")) > 0
