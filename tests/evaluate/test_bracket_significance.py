"""Whether a difference of F1 is real."""

from __future__ import annotations

import numpy as np
import pytest

from regard.evaluate.bracket_significance import compare_f1
from regard.evaluate.parseval import Brackets, Comparison, Total


def sentences(matched: list[int], parsed: int = 10) -> list[Comparison]:
    return [Comparison(10, labelled=Brackets(10, parsed, one)) for one in matched]


def test_values_are_the_corpus_f1_of_both() -> None:
    ours, theirs = sentences([9, 3, 7]), sentences([5, 5, 5], parsed=8)
    found = compare_f1(ours, theirs, samples=50, trials=50)
    assert found.value == pytest.approx(Total.of(ours).labelled.f1)
    assert found.baseline == pytest.approx(Total.of(theirs).labelled.f1)
    assert found.difference == pytest.approx(found.value - found.baseline)


def test_a_parser_that_is_better_everywhere_is_believed_and_equal_ones_are_not() -> None:
    better, worse = sentences([8, 9, 7] * 30), sentences([6, 7, 5] * 30)
    found = compare_f1(better, worse)
    assert found.believed
    assert found.better
    same = compare_f1(better, better)
    assert (same.p_value, same.p_randomised) == (1.0, 1.0)
    assert not same.believed


def test_parsers_that_differ_by_chance_are_rarely_believed() -> None:
    """Both draw from the same counts: the share of differences believed stays near one in twenty."""
    dice, believed = np.random.default_rng(1), 0
    for _ in range(60):
        ours, theirs = (sentences(dice.integers(3, 10, size=60).tolist()) for _ in range(2))
        believed += compare_f1(ours, theirs, samples=200, trials=200).believed
    assert believed <= 9  # of 60; a p-value of two sides would give 3


def test_sentences_that_are_skipped_count_for_nobody() -> None:
    skipped = Comparison(3, status="skipped", unscored=4)
    found = compare_f1([*sentences([5]), skipped], [*sentences([4]), skipped], samples=10, trials=10)
    assert found.value == pytest.approx(50.0)
