"""Numbers far from zero keep their digits until they are centred."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from regard import SetTransformerClusterer, SetTransformerRegressor
from regard.data.files import file_hash
from regard.estimators.checking import checked_sets
from regard.estimators.scaling import moments, scaled, unscaled

SECONDS = 1.7e9  # since 1970; float32 tells moments of two minutes apart there
OPTIONS: dict[str, Any] = {"encoder": "rff", "pooling": "max", "d_model": 16, "n_heads": 2, "max_epochs": 15,
                           "learning_rate": 1e-2, "device": "cpu", "random_state": 0}  # fmt: skip


def numbers(n: int, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """Sets of one to five numbers, and the greatest of each."""
    chance = np.random.default_rng(seed)
    X = [chance.uniform(0, 10, (chance.integers(1, 6), 1)) for _ in range(n)]
    return X, np.array([one.max() for one in X])


def test_an_offset_of_the_targets_changes_nothing_but_the_predictions() -> None:
    X, y = numbers(200)
    here, there = (SetTransformerRegressor(**OPTIONS).fit(X, y + offset) for offset in (0, SECONDS))
    assert here.score(X, y) > 0.95
    assert there.score(X, y + SECONDS) == pytest.approx(here.score(X, y), abs=1e-3)
    assert there.predict(X).dtype == np.float64
    np.testing.assert_allclose(there.predict(X) - SECONDS, here.predict(X), atol=1e-2)


def test_a_model_that_knows_nothing_explains_nothing_of_targets_with_an_offset() -> None:
    X, _ = numbers(40)
    noise = np.random.default_rng(1).normal(size=40) + SECONDS
    made = SetTransformerRegressor(**{**OPTIONS, "max_epochs": 1, "learning_rate": 1e-9}).fit(X, noise)
    assert made.score(X, noise) < 0.5


def test_an_offset_of_the_elements_changes_nothing(tmp_path: Path) -> None:
    X, y = numbers(200)
    moved = [one + SECONDS for one in X]
    here, there = (SetTransformerRegressor(**OPTIONS).fit(sets, y) for sets in (X, moved))
    assert there.score(moved, y) == pytest.approx(here.score(X, y), abs=1e-3)
    assert there.shift_.dtype == there.spread_.dtype == np.float64
    there.save(tmp_path)
    assert np.array_equal(SetTransformerRegressor.load(tmp_path, device="cpu").predict(moved), there.predict(moved))


def test_whole_numbers_keep_their_digits_too() -> None:
    small, large = ([np.array([[offset + n]]) for n in range(40)] for offset in (0, 1_700_000_000))
    found = [SetTransformerRegressor(**OPTIONS).fit(X, np.arange(40)).predict(X) for X in (small, large)]
    np.testing.assert_allclose(*found, atol=1e-3)


def test_mixtures_of_sets_with_an_offset_are_where_the_sets_are() -> None:
    X = [one + SECONDS for one in numbers(30)[0]]
    made = SetTransformerClusterer(d_model=8, n_heads=2, n_clusters=2, max_epochs=1, device="cpu", random_state=0).fit(
        X
    )
    (_, means, sigmas), *_ = made.mixtures(X)
    assert means.dtype == sigmas.dtype == np.float64
    assert (np.abs(means - SECONDS) < 100).all()
    assert len(np.unique(means)) == 2


def test_moments_of_parts_are_those_of_the_whole() -> None:
    chance = np.random.default_rng(0)
    parts = [chance.normal(size=(n, 3)) * [1, 1e-6, 1e6] + [0, 1, SECONDS] for n in (0, 4, 1, 0, 20)]
    shift, spread = moments(parts)
    np.testing.assert_allclose(shift, np.concatenate(parts).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(spread, np.concatenate(parts).std(axis=0), rtol=1e-9)
    both = scaled(np.concatenate(parts), shift, spread)
    assert both.dtype == np.float32
    np.testing.assert_allclose(unscaled(both, shift, spread), np.concatenate(parts), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, SECONDS + 0.1, 1e30])
def test_a_column_that_never_changes_is_not_blown_up(value: float) -> None:
    """The mean of many times the same number is not that number, if it is summed carelessly."""
    parts = [np.full((1000, 1), value), np.full((7, 1), value), np.full((1, 1), np.nextafter(value, 2 * value))]
    for some in (parts[:2], parts):
        shift, spread = moments(some)
        assert spread == 1
        np.testing.assert_allclose(shift, value, rtol=1e-15)


def test_sets_are_not_copied_to_be_checked() -> None:
    for dtype in (np.float32, np.float64):
        one = np.ones((5, 2), dtype)
        assert np.shares_memory(checked_sets([one])[0], one)


def test_estimators_that_were_saved_in_float32_are_loaded(tmp_path: Path) -> None:
    X, y = numbers(30)
    made = SetTransformerRegressor(**OPTIONS).fit(X, y)
    made.save(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    save_file({name: tensor.float() for name, tensor in tensors.items()}, tmp_path / "model.safetensors")
    record = json.loads((tmp_path / "estimator.json").read_text())
    del record["feature_names"]
    record["checksum"] = file_hash(tmp_path / "model.safetensors")
    (tmp_path / "estimator.json").write_text(json.dumps(record))
    again = SetTransformerRegressor.load(tmp_path, device="cpu")
    np.testing.assert_allclose(again.predict(X), made.predict(X), rtol=1e-4)
    assert again.predict(X).dtype == np.float64
