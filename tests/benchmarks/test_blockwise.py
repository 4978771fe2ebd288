"""The comparison of blocks with greedy search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.blockwise import compare, show
from regard.data.corpus import Corpus
from regard.decode.translator import Translator
from regard.training.start import fit


@pytest.fixture(scope="module")
def translator(reverser: Path, reverser_recipe: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Translator:
    changes = {"init": str(reverser), "model.block_heads": 2, "train.freeze": "base", "train.steps": 20}
    return fit(reverser_recipe, tmp_path_factory.mktemp("blocks") / "run", changes)


def test_it_counts_calls_and_finds_no_difference(translator: Translator, reverser_test: Corpus) -> None:
    outcome = compare(translator, reverser_test.source[:30], reverser_test.target[:30], batch=1)
    assert (outcome["sentences"], outcome["beyond_margin"]) == (30, 0)
    assert outcome["identical"] + outcome["within_margin"] == 30
    assert 1.0 <= outcome["tokens_per_call"] <= outcome["accepted_block"] <= 2.0
    assert "of 30 identical" in show(outcome)
