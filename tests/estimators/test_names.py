"""Columns of data frames go by their names, as far as refusing those of another order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pandas import DataFrame
from sklearn.base import clone

from regard import RegardError, SetTransformerRegressor

BRIEF: dict[str, Any] = {"d_model": 8, "n_heads": 2, "n_inducing": 4, "max_epochs": 1, "device": "cpu",
                         "random_state": 0}  # fmt: skip
ROWS = [np.random.default_rng(0).normal(size=(n, 3)) for n in (2, 1, 0, 4)]
y = np.arange(4.0)


def tables(*names: str, rows: list[np.ndarray] = ROWS) -> list[Any]:
    """The same numbers as tables; the last of the names goes for all that are left."""
    return [DataFrame(one, columns=[*names[min(i, len(names) - 1)]]) for i, one in enumerate(rows)]


def test_names_of_columns_are_kept_and_forgotten_by_a_fit_without(tmp_path: Path) -> None:
    made = SetTransformerRegressor(**BRIEF).fit(tables("abc"), y)
    assert made.feature_names_in_.tolist() == ["a", "b", "c"]
    assert made.feature_names_in_.dtype == object  # as in scikit-learn
    assert not hasattr(clone(made), "feature_names_in_")
    made.save(tmp_path)
    again = SetTransformerRegressor.load(tmp_path, device="cpu")
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(RegardError, match="another order"):
        again.predict(tables("bac"))
    assert not hasattr(made.fit(ROWS, y), "feature_names_in_")
    assert np.array_equal(made.predict(tables("cba")), again.predict(tables("abc")))  # fitted on numbers alone


@pytest.mark.parametrize("sets", [[*tables("abc")[:3], ROWS[3]], [DataFrame(one) for one in ROWS]])
def test_names_are_kept_where_all_sets_have_words_for_them(sets: list[Any]) -> None:
    assert not hasattr(SetTransformerRegressor(**BRIEF).fit(sets, y), "feature_names_in_")


def test_a_set_without_elements_needs_no_names() -> None:
    sets = [*tables("abc")[:2], [], tables("abc")[3]]
    assert SetTransformerRegressor(**BRIEF).fit(sets, y).feature_names_in_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (tables("abc", "abc", "acb"), "Column 1 of set 2 is 'c', but 'b' in set 0: .* the same in another order, so"),
        (tables("abc", "abd"), "Column 2 of set 1 is 'd', but 'c' in set 0: name them alike"),
        ([ROWS[0], *tables("abc", "abc", "abd")[1:3], ROWS[3]], "Column 2 of set 2 is 'd', but 'c' in set 1"),
    ],
)
def test_sets_of_one_fit_have_the_same_columns(sets: list[Any], words: str) -> None:
    with pytest.raises(RegardError, match=words):
        SetTransformerRegressor(**BRIEF).fit(sets, y)


def test_sets_to_predict_have_the_columns_of_the_fit() -> None:
    made = SetTransformerRegressor(**BRIEF).fit(tables("abc"), y)
    for ask in (made.predict, lambda sets: made.score(sets, y)):
        with pytest.raises(RegardError, match=r"Column 0 of set 1 is 'b', but 'a' in fit: .* another order, so"):
            ask(tables("abc", "bac", "abc"))
        with pytest.raises(RegardError, match="Column 2 of set 3 is 'd', but 'c' in fit: name them alike"):
            ask(tables("abc", "abc", "abc", "abd"))
    assert np.array_equal(made.predict(ROWS), made.predict(tables("abc")))
