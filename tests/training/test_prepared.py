"""Training on prepared data: the same run as on the text it was made from, read through maps."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from regard.config import TokenizerConfig, resolve
from regard.data.cleaning import Cleaning
from regard.data.generated import generate
from regard.data.prepare import Settings, prepare
from regard.errors import RegardError
from regard.tasks.test_sets import of_recipe
from regard.training.run import Run
from regard.training.start import fit
from regard.training.start import prepare as make_loop

RECIPE: dict[str, Any] = {
    "tokenizer": {"vocab_size": 300},
    "model": {"n_layers": 1, "d_model": 16, "d_ff": 16, "n_heads": 2},
    "train": {
        "steps": 4, "batch_tokens": 300, "save_every": 4, "valid_every": 4, "valid_sentences": 2, "average": 1,
        "tensorboard": False,
    },
}  # fmt: skip
QUIET = Console(quiet=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split, size in (("train", 300), ("valid", 10)):
        pairs = generate("en-de", split, size)
        for language, side in (("en", "source"), ("de", "target")):
            text = "".join(f"{getattr(pair, side)}\n" for pair in pairs)
            (tmp_path / f"{split}.{language}").write_text(text, encoding="utf-8")
    settings = Settings(
        ("en", "de"), (str(tmp_path / "train"),), (str(tmp_path / "valid"),),
        cleaning=Cleaning(duplicates="off", leakage="off"), tokenizer=TokenizerConfig(vocab_size=300),
    )  # fmt: skip
    prepare(settings, tmp_path / "prepared", jobs=1)
    return tmp_path


def data(folder: Path, kind: str) -> dict[str, Any]:
    if kind == "prepared":
        return {"data": {"prepared": str(folder / "prepared")}}
    files = {split: [str(folder / f"{split}.{language}") for language in ("en", "de")] for split in ("train", "valid")}
    return {"data": files}


def test_the_weights_are_those_of_training_on_the_text(folder: Path) -> None:
    for kind in ("prepared", "text"):
        fit({**RECIPE, **data(folder, kind)}, folder / "runs" / kind, console=QUIET)
    weights = [Run(folder / "runs" / kind).checkpoint(4) / "model.safetensors" for kind in ("prepared", "text")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_the_tokens_stay_in_their_map_even_where_some_pairs_are_too_long(folder: Path) -> None:
    recipe = resolve({**RECIPE, **data(folder, "prepared")}, {"data.max_length": 12})
    run = Run(folder / "run")
    run.path.mkdir()
    task = make_loop(recipe, run, QUIET).task
    assert task.too_long
    for side in (task.pairs.source, task.pairs.target):
        assert isinstance(side.values, np.memmap)
        assert not side.values.flags.writeable


def test_a_run_prepared_with_another_tokenizer_cannot_be_the_start(folder: Path) -> None:
    fit(
        {**RECIPE, **data(folder, "text"), "seed": 5, "tokenizer": {"vocab_size": 250}}, folder / "first", console=QUIET
    )
    with pytest.raises(RegardError, match="was prepared with another tokenizer than that of init"):
        fit({**RECIPE, **data(folder, "prepared"), "init": str(folder / "first")}, folder / "second", console=QUIET)


def test_prepared_data_without_validation_text_says_what_to_do(folder: Path) -> None:
    settings = Settings(("en", "de"), (str(folder / "train"),), tokenizer=TokenizerConfig(vocab_size=300))
    prepare(settings, folder / "bare", jobs=1)
    with pytest.raises(RegardError, match="has no valid text: prepare it again with --valid"):
        fit({**RECIPE, "data": {"prepared": str(folder / "bare")}}, folder / "run", console=QUIET)


def test_a_recipe_that_says_something_else_of_the_tokenizer_is_refused(folder: Path) -> None:
    """Two vocabularies of the same size would fit one matrix, and mean different things by its rows."""
    subwords = TokenizerConfig(vocab_size=300, shared=False, kind="unigram")
    settings = Settings(("en", "de"), (str(folder / "train"),), (str(folder / "valid"),), tokenizer=subwords)
    prepare(settings, folder / "two", jobs=1)
    recipe = {**RECIPE, "data": {"prepared": str(folder / "two")}}
    with pytest.raises(RegardError, match="has a vocabulary for each language"):
        fit(recipe, folder / "run", console=QUIET)
    apart = {"tokenizer.shared": False, "model.tie": "target", "tokenizer.sampling": 0.1}
    with pytest.raises(RegardError, match="has unigram subwords"):
        fit(recipe, folder / "run", apart, console=QUIET)


def test_what_a_recipe_says_of_the_tokenizer_in_vain_is_said(folder: Path) -> None:
    said = StringIO()
    run = Run(folder / "run")
    run.path.mkdir()
    recipe = resolve({**RECIPE, **data(folder, "prepared")}, {"tokenizer.vocab_size": 999, "tokenizer.kind": "unigram"})
    make_loop(recipe, run, Console(file=said, width=400))
    assert "[tokenizer] kind = unigram, vocab_size = 999 counts for nothing" in said.getvalue()
    said.truncate(0)
    make_loop(resolve({**RECIPE, **data(folder, "prepared")}), run, Console(file=said, width=400))
    assert "counts for nothing" not in said.getvalue()


def test_a_run_on_prepared_data_is_scored_in_its_language(folder: Path) -> None:
    (one,) = of_recipe(resolve({**RECIPE, **data(folder, "prepared")}).data, ["valid"])
    assert one.language == "de"
    assert len(one.references[0]) == 10
