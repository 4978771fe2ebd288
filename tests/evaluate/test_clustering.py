"""The adjusted Rand index: a case by hand, its extremes, and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

from regard.evaluate.clustering import adjusted_rand_index


def test_a_case_by_hand() -> None:
    """Counts [[2, 1], [0, 2]]: pairs together 1 + 1 = 2, A = 3 + 1, B = 1 + 3, E = 16 / 10."""
    ours, theirs = np.array([0, 0, 0, 1, 1]), np.array([0, 0, 1, 1, 1])
    assert adjusted_rand_index(ours, theirs) == pytest.approx((2 - 1.6) / (4 - 1.6))


def test_names_of_clusters_do_not_count() -> None:
    labels = np.array([0, 1, 2, 1, 0, 2])
    assert adjusted_rand_index(labels, (labels + 5) % 3 * 7) == 1.0
    assert adjusted_rand_index(np.zeros(4), np.zeros(4)) == 1.0


def test_random_labels_are_worth_nothing() -> None:
    chance = np.random.default_rng(0)
    found = [adjusted_rand_index(chance.integers(0, 3, 60), chance.integers(0, 4, 60)) for _ in range(200)]
    assert np.mean(found) == pytest.approx(0.0, abs=0.01)


def test_scikit_learn_agrees() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    chance = np.random.default_rng(1)
    for _ in range(20):
        ours, theirs = chance.integers(0, 4, 50), chance.integers(0, 3, 50)
        assert adjusted_rand_index(ours, theirs) == pytest.approx(metrics.adjusted_rand_score(theirs, ours))
