"""Areas under curves: by counting pairs, by hand, and scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regard.evaluate.ranking import auroc, average_precision


def test_auroc_counts_the_pairs_in_the_right_order() -> None:
    chance = np.random.default_rng(0)
    scores, positive = chance.integers(0, 6, 30).astype(float), chance.random(30) < 0.3
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[positive] for b in scores[~positive]]
    assert auroc(scores, positive) == pytest.approx(np.mean(pairs))


def test_average_precision_by_hand() -> None:
    scores = np.array([0.9, 0.8, 0.7, 0.6])
    assert average_precision(scores, np.array([True, False, True, False])) == pytest.approx((1 + 2 / 3) / 2)
    # Two with one score are passed together: precision 1/2 where recall reaches 1.
    assert average_precision(np.array([0.5, 0.5]), np.array([True, False])) == pytest.approx(0.5)


def test_nothing_to_find_is_not_a_number() -> None:
    assert math.isnan(auroc(np.ones(3), np.zeros(3, dtype=bool)))
    assert math.isnan(average_precision(np.ones(3), np.zeros(3, dtype=bool)))


def test_a_score_that_is_no_number_makes_no_area() -> None:
    scores, positive = np.array([0.1, np.nan, 0.3, 0.2]), np.array([False, True, False, True])
    assert math.isnan(auroc(scores, positive))
    assert math.isnan(average_precision(scores, positive))


def test_scikit_learn_agrees() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    chance = np.random.default_rng(1)
    for _ in range(20):
        scores, positive = chance.integers(0, 9, 40).astype(float), chance.random(40) < 0.4
        assert auroc(scores, positive) == pytest.approx(metrics.roc_auc_score(positive, scores))
        assert average_precision(scores, positive) == pytest.approx(metrics.average_precision_score(positive, scores))
