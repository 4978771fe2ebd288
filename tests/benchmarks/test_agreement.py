"""One model decoded in every way: the outputs are the same, and a way that is wrong is found out."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import regard
from benchmarks.agreement import afresh, compared, in_batches, table, ways
from regard.config import DecodeConfig
from regard.data.corpus import Corpus
from regard.data.tokenizer import EOS
from regard.decode.state import Hypothesis
from regard.decode.translator import Translator


@pytest.fixture(scope="module")
def translator(reverser: Path) -> Translator:
    return regard.load(reverser, device="cpu")


def test_batches_a_cache_and_exports_change_no_output(
    reverser: Path, translator: Translator, reverser_test: Corpus
) -> None:
    pytest.importorskip("ctranslate2", reason="needs ctranslate2: pip install 'regard[dev]'")
    said: list[str] = []
    with ways(reverser, "auto", translator, [7, 64], ["ctranslate2"]) as others:
        found = compared(translator, ["", *reverser_test.source[:50]], others, said.append)
    assert [*found] == ["batches of 7", "batches of 64", "no cache", "ctranslate2"]
    assert all(one.exact and one.sentences == 50 for each in found.values() for one in each), table(found)
    assert len(said) == 8, "each way, greedily and by beam"
    assert table(found).count("| 0 of 50 |") == 8


def test_a_way_that_forgets_a_token_is_found_out(translator: Translator, reverser_test: Corpus) -> None:
    def broken(sources: list[list[int]], config: DecodeConfig) -> list[Hypothesis]:
        first, *others = afresh(translator, sources, config)
        return [first._replace(tokens=[*first.tokens[:-2], EOS]), *others]

    others = {"right": partial(in_batches, translator, 3), "broken": broken}
    found = compared(translator, reverser_test.source[:5], others, str)
    assert all(one.exact for one in found["right"])
    for one in found["broken"]:
        assert not one.exact
        assert [difference.line for difference in one.differences] == [1]
    assert "greedy, broken, line 1, margin" in table(found)
