"""A translator scored: on the text it writes, and on its probability of given pairs."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.data.corpus import Corpus
from regard.decode.translator import Translator
from regard.evaluate.bleu import bleu, ter
from regard.tasks.scoring import evaluate, log_probs
from regard.tasks.translation import Pairs, score_pairs
from regard.training.start import fit


@pytest.fixture(scope="module")
def translator(reverser: Path) -> Translator:
    return regard.load(reverser)


@pytest.fixture(scope="module")
def corpus(reverser_test: Corpus) -> Corpus:
    return reverser_test


def test_an_evaluation_has_every_score_and_tells_its_progress(translator: Translator, corpus: Corpus) -> None:
    heard: list[int] = []
    evaluation = evaluate(translator, corpus, progress=heard.append)
    texts = [translation.text for translation in evaluation.translations]
    assert texts == translator.translate(corpus.source)
    assert evaluation["BLEU"] == bleu(texts, corpus.target)
    assert evaluation["TER"] == ter(texts, corpus.target)
    assert [score.name for score in evaluation.scores][:5] == ["BLEU", "chrF", "TER", "exact match", "perplexity"]
    assert heard[-1] == len(corpus)
    assert heard == sorted(heard)


def test_progress_counts_empty_sentences_too(translator: Translator) -> None:
    heard: list[int] = []
    translator.search(["a b", "", "c"], progress=heard.append, batch_sentences=1)
    assert heard == [2, 3]


def test_pairs_add_up_to_the_perplexity_whatever_the_batch(translator: Translator, corpus: Corpus) -> None:
    found = log_probs(translator, corpus)
    nll, n_tokens = score_pairs(translator.model, Pairs.encode(translator.tokenizers, corpus), 4000, translator.device)
    assert sum(pair.tokens for pair in found) == n_tokens
    assert -sum(pair.log_prob or math.nan for pair in found) == pytest.approx(nll, rel=1e-5)
    for one, alone in zip(found, log_probs(translator, corpus, batch_tokens=1), strict=True):
        assert one.log_prob == pytest.approx(alone.log_prob, abs=1e-4)
        assert one.tokens == alone.tokens


def test_the_model_gives_its_own_translation_the_probability_the_search_found(
    translator: Translator, corpus: Corpus
) -> None:
    found = [best[0] for best in translator.search(corpus.source)]
    encode = translator.tokenizers.target.encode
    same = [one for one in found if encode([one.text])[0] == one.target_tokens]
    assert len(same) > 10
    pairs = log_probs(translator, Corpus("own", [one.source for one in same], [one.text for one in same]))
    for one, pair in zip(same, pairs, strict=True):
        assert pair.log_prob == pytest.approx(one.log_prob, abs=1e-3)
        assert pair.tokens == len(one.target_tokens)
        assert pair.per_token == pytest.approx(one.log_prob / len(one.target_tokens), abs=1e-4)


def test_empty_sides_have_a_probability_and_keep_their_line(translator: Translator) -> None:
    heard: list[int] = []
    found = log_probs(translator, Corpus("x", ["a b", "", "c"], ["b a", "c", ""]), progress=heard.append)
    assert [pair.tokens for pair in found][2] == 1  # the end alone
    assert all(pair.log_prob is not None and pair.log_prob < 0 for pair in found)
    assert heard[-1] == 3


def test_pairs_beyond_the_positions_have_none(reverser_recipe: dict[str, Any], tmp_path: Path) -> None:
    changes = {"model.positions": "learned", "model.max_positions": 16, "data.max_length": 16, "train.steps": 1}
    model = fit(reverser_recipe, tmp_path / "run", changes)
    long = " ".join("abcdefghijklmnopqrstuvwxyz")
    found = log_probs(model, Corpus("x", ["a b", long, "b"], ["b a", "a", "b"]))
    assert [pair.log_prob is None for pair in found] == [False, True, False]
    assert found[1].per_token is None
    assert replace(found[0], log_prob=-4.0, tokens=2).per_token == -2.0
