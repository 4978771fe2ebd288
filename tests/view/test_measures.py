"""Entropy, distance and rollout against what can be derived by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regard.view import AttentionMap, set_map
from regard.view.measures import distances, entropies, rollouts


def one(name: str, weights: list[list[float]]) -> AttentionMap:
    array = np.array([weights], dtype=np.float32)
    return AttentionMap(name, ["q"] * array.shape[1], ["k"] * array.shape[2], array)


def test_entropy_is_zero_for_one_key_and_log_n_for_n_alike() -> None:
    sharp, flat, half = [[1, 0, 0, 0]], [[0.25] * 4], [[0.5, 0.5, 0, 0]]
    assert [entropies(one("x", rows).weights)[0] for rows in (sharp, flat, half)] == [0, 2, 1]
    assert entropies(one("x", [*flat, [0, 0, 0, 0]]).weights) == [2]  # a row that looks at nothing counts for nothing


def test_distance_is_counted_in_positions_from_the_diagonal() -> None:
    assert distances(one("x", [[1, 0, 0], [0, 1, 0], [0, 0, 1]])) == [0]
    assert distances(one("x", [[0, 1, 0], [0, 0, 1], [0, 1, 0]])) == [1]
    # Two queries over five keys: the diagonal goes from 0 to 0 and from 1 to 4.
    assert distances(one("x", [[1, 0, 0, 0, 0], [0, 0, 0, 0, 1]])) == [0]
    assert distances(one("x", [[0, 0, 1, 0, 0], [0, 0, 0, 0, 1]])) == [1]


def test_distance_between_points_is_euclids_and_seeds_have_none() -> None:
    points = np.array([[0.0, 0.0], [3.0, 4.0]])
    swap = np.array([[[0, 1], [1, 0]]], dtype=np.float32)
    assert distances(set_map("x", swap, points)) == [5]
    assert distances(set_map("x", swap, points, rows="seed")) is None


def test_rollout_multiplies_layers_with_half_of_each_the_residual() -> None:
    rng = np.random.default_rng(0)
    layers = [rng.dirichlet(np.ones(4), size=(3, 4)).astype(np.float32) for _ in range(3)]
    names = ["k"] * 4
    maps = [AttentionMap(f"encoder.layers.{i}.self_attn", names, names, layer) for i, layer in enumerate(layers)]
    cross = AttentionMap(
        "decoder.layers.0.cross_attn", ["q"] * 2, names, rng.dirichlet(np.ones(4), size=(3, 2)).astype("f4")
    )
    expected = np.eye(4)
    for layer, found in zip(layers, rollouts([*maps, cross]), strict=False):
        expected = (0.5 * layer.astype(float).mean(0) + 0.5 * np.eye(4)) @ expected
        assert found == pytest.approx(expected, abs=1e-6)
    assert rollouts([*maps, cross])[-1] == pytest.approx(cross.weights.astype(float).mean(0) @ expected, abs=1e-6)


def test_rollout_rows_sum_to_one_and_stay_causal() -> None:
    masked = [[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]]
    for found in rollouts([one(f"decoder.layers.{i}.self_attn", masked) for i in range(4)]):
        assert found is not None
        assert found.sum(-1) == pytest.approx(np.ones(3))
        assert np.triu(found, 1).max() == 0


def test_attention_that_stands_alone_has_no_rollout() -> None:
    points = np.zeros((2, 2))
    alone = [one("attention", [[1, 0, 0], [0, 1, 0]]), set_map("pma", np.ones((1, 1, 2)) / 2, points, rows="seed")]
    assert rollouts(alone) == [None, None]
    assert math.isclose(entropies(alone[1].weights)[0], 1)
