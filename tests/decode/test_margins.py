"""How close two outputs were: ties explain a difference where the search would have met them, and only there."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import regard
from regard.config import DecodeConfig
from regard.data.corpus import Corpus
from regard.data.tokenizer import EOS
from regard.decode.margins import beam_margin, greedy_margin, margin, token_log_probs
from regard.decode.translator import Translator

GREEDY = DecodeConfig(beam_size=1, length_penalty=1.0, normalization="power")
BEAM = replace(GREEDY, beam_size=4)
A, B = [7, 8, 9, EOS], [7, 5, 6, EOS]


class Saying:
    """A model that gives the tokens of some outputs these log-probabilities, whatever comes before them."""

    def __init__(self, *outputs: tuple[list[int], list[float]]) -> None:
        self.outputs = {tuple(tokens): torch.tensor(values).double() for tokens, values in outputs}

    def feed(self, sources: list[list[int]], targets: list[list[int]]) -> Tensor:
        (target,) = targets
        said = self.outputs[tuple(target)]
        rest = torch.log1p(-said.exp())  # one other token has what is left
        logits = torch.full((1, len(target), 12), -math.inf, dtype=torch.float64)
        logits[0, :, 11] = rest
        logits[0, torch.arange(len(target)), torch.tensor(target)] = said
        return logits

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")


def test_a_greedy_difference_is_explained_by_a_tie_where_outputs_part_and_nowhere_else() -> None:
    tied = Saying((A, [-0.1, -1.0, -0.1, -0.1]), (B, [-0.1, -1.0, -3.0, -3.0]))
    assert margin(tied, [4], A, B, GREEDY) == pytest.approx(0.0, abs=1e-12)
    later = Saying((A, [-0.1, -1.0, -3.0, -0.1]), (B, [-0.1, -3.0, -1.0, -0.1]))
    assert margin(later, [4], A, B, GREEDY) == pytest.approx(2.0)
    assert margin(later, [4], A, B, BEAM) == pytest.approx(0.0, abs=1e-12)


def test_a_beam_ranks_whole_outputs_by_score() -> None:
    short, long = [7, EOS], [7, 5, 6, EOS]
    # −1 over two tokens is −2 over four, though no two beginnings are within 0.5.
    model = Saying((short, [-0.1, -0.9]), (long, [-0.1, -1.7, -0.1, -0.1]))
    assert beam_margin(model, [4], short, long, BEAM) == pytest.approx(0.0, abs=1e-6)
    unlike = replace(BEAM, length_penalty=0.0)
    assert beam_margin(model, [4], short, long, unlike) == pytest.approx(0.8, abs=1e-6)


def test_one_that_goes_on_where_the_other_was_cut_is_no_tie_of_greedy_search() -> None:
    model = Saying((A, [-0.1] * 4), (A[:2], [-0.1] * 2))
    assert greedy_margin(model, [4], A, A[:2]) == math.inf


@pytest.fixture(scope="module")
def translator(reverser: Path) -> Translator:
    return regard.load(reverser)


def test_log_probabilities_are_the_models_own(translator: Translator, reverser_test: Corpus) -> None:
    (best,) = translator.search(reverser_test.source[:1])[0]
    found = token_log_probs(translator, best.source_tokens, best.target_tokens)
    assert float(found.sum()) == pytest.approx(best.log_prob, abs=1e-4)


def test_a_translators_margin_goes_by_the_width_that_was_searched(
    translator: Translator, reverser_test: Corpus
) -> None:
    ours, theirs = (best[0] for best in translator.search(reverser_test.source[:2]))
    source, *outputs = ours.source_tokens, ours.target_tokens, theirs.target_tokens
    assert translator.margin(ours, theirs, 1) == greedy_margin(translator, source, *outputs)
    assert translator.margin(ours, theirs, 3) == beam_margin(translator, source, *outputs, translator.config)
    assert np.isfinite(translator.margin(ours, theirs, 1))
