"""The estimators follow scikit-learn's conventions, and do without it.

`check_estimator` gives its estimators tables, so the conventions are tested here by hand, on lists of sets.
"""

from __future__ import annotations

import copy
import inspect
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from pandas import DataFrame
from sklearn.base import clone, is_classifier, is_clusterer, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from regard import SetTransformerClassifier, SetTransformerClusterer, SetTransformerRegressor
from regard.estimators.base import SetEstimator
from regard.estimators.conventions import seed_of

ESTIMATORS = (SetTransformerRegressor, SetTransformerClassifier, SetTransformerClusterer)
SMALL = {"d_model": 8, "n_heads": 2, "n_inducing": 4, "max_epochs": 2, "device": "cpu", "random_state": 0}


def problem(n: int, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """Sets of up to six pairs of numbers, and the sum of the first column; one set is empty."""
    chance = np.random.default_rng(seed)
    X = [chance.normal(size=(chance.integers(1, 7), 2)) for _ in range(n - 1)] + [np.zeros((0, 2))]
    return X, np.array([one[:, 0].sum() for one in X])


def targets(kind: type[SetEstimator], y: np.ndarray) -> Any:
    return {SetTransformerRegressor: y, SetTransformerClassifier: np.where(y > 0, "up", "down")}.get(kind)


def same(a: Any, b: Any) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(a, b, strict=True))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_parameters_are_those_of_the_constructor_and_nothing_is_done_with_them_there(kind: type[Any]) -> None:
    signature = inspect.signature(kind)
    assert all(parameter.default is not inspect.Parameter.empty for parameter in signature.parameters.values())
    made = kind(d_model=-3, encoder="nonsense")
    assert made.get_params() == {**{n: p.default for n, p in signature.parameters.items()}, "d_model": -3,
                                 "encoder": "nonsense"}  # fmt: skip
    assert made.set_params(d_model=12) is made
    assert made.d_model == 12
    with pytest.raises(ValueError, match="d_modle"):
        made.set_params(d_modle=3)
    assert "d_model=12" in repr(made)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_fit_returns_the_estimator_leaves_its_parameters_and_clone_forgets_the_fit(kind: type[Any]) -> None:
    X, y = problem(12)
    before = copy.deepcopy(X)
    estimator = kind(**SMALL)
    params = estimator.get_params()
    assert estimator.fit(X, targets(kind, y)) is estimator
    assert estimator.get_params() == params
    assert same(X, before)
    assert estimator.n_features_in_ == 2
    assert 1 <= estimator.n_iter_ <= 2
    assert len(estimator.history_) == estimator.n_iter_
    check_is_fitted(estimator)
    fresh = clone(estimator)
    assert fresh.get_params() == params
    with pytest.raises(NotFittedError):
        check_is_fitted(fresh)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_random_state_decides_everything_and_disturbs_nobody(kind: type[Any]) -> None:
    X, y = problem(12)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one = kind(**{**SMALL, "dropout": 0.2}).fit(X, targets(kind, y))
    assert torch.equal(torch.rand(3), expected)  # the global generator was left alone
    torch.manual_seed(6)
    again = kind(**{**SMALL, "dropout": 0.2}).fit(X, targets(kind, y))
    assert same(one._outputs(X), again._outputs(X))
    other = kind(**{**SMALL, "dropout": 0.2, "random_state": 1}).fit(X, targets(kind, y))
    assert not same(one._outputs(X), other._outputs(X))


def test_random_states_of_every_form_give_seeds() -> None:
    assert seed_of(7) == seed_of(np.int64(7)) == 7
    assert seed_of(np.random.RandomState(3)) == seed_of(np.random.RandomState(3))
    assert seed_of(np.random.default_rng(3)) == seed_of(np.random.default_rng(3))
    np.random.seed(1)
    first = seed_of(None)
    np.random.seed(1)
    assert seed_of(None) == first
    with pytest.raises(ValueError, match="random_state = 'x' must be"):
        seed_of("x")


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_help_names_all_that_a_fit_leaves_and_says_what_every_method_does(kind: type[Any]) -> None:
    X, y = problem(12)
    fitted = vars(kind(**SMALL).fit([DataFrame(one, columns=[*"ab"]) for one in X], targets(kind, y)))
    names = [name for name in fitted if name.endswith("_")]
    assert {"n_features_in_", "feature_names_in_", "n_iter_", "history_", "shift_", "spread_"} <= set(names)
    assert all(re.search(rf"^ {{4}}(\w+, )?{name}[ ,\n]", kind.__doc__ or "", flags=re.M) for name in names)
    methods = {*vars(kind), *vars(SetEstimator)} - set(kind().get_params())
    assert all(inspect.getdoc(getattr(kind, name)) for name in methods if not name.startswith("_"))


def test_scikit_learn_knows_what_they_are() -> None:
    assert is_regressor(SetTransformerRegressor())
    assert is_classifier(SetTransformerClassifier())
    assert is_clusterer(SetTransformerClusterer())


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_cross_validation_searches_and_pipelines_take_them(kind: type[Any]) -> None:
    X, y = problem(12)
    wanted = targets(kind, y)
    scores = cross_val_score(kind(**{**SMALL, "max_epochs": 1}), X, wanted, cv=2)
    assert scores.shape == (2,)
    assert np.isfinite(scores).all()
    doubled = FunctionTransformer(lambda sets: [2 * one for one in sets], check_inverse=False)
    pipeline = make_pipeline(doubled, kind(**{**SMALL, "max_epochs": 1})).fit(X, wanted)
    assert len(pipeline.predict(X)) == len(X)
    if kind is SetTransformerRegressor:
        search = GridSearchCV(kind(**{**SMALL, "max_epochs": 1}), {"pooling": ["max", "pma"]}, cv=2).fit(X, wanted)
        assert search.best_params_["pooling"] in ("max", "pma")


def test_they_work_without_scikit_learn() -> None:
    code = """
import sys
sys.modules["sklearn"] = None  # importing it fails
import numpy as np
from regard import RegardError, SetTransformerClassifier, SetTransformerClusterer, SetTransformerRegressor
X = [np.ones((n, 1)) * n for n in (1, 2, 3, 0, 1, 2)]
options = dict(d_model=8, n_heads=2, max_epochs=1, random_state=0, device="cpu")
for kind, y in ((SetTransformerRegressor, [1.0, 2, 3, 0, 1, 2]), (SetTransformerClassifier, list("abcaab"))):
    made = kind(**options)
    try:
        made.predict(X)
    except RegardError as error:
        assert "not fitted" in str(error)
    assert np.isfinite(made.fit(X, y).score(X, y))
made = SetTransformerClusterer(**options, n_clusters=2).set_params(max_epochs=2)
assert made.get_params()["max_epochs"] == 2
assert [len(labels) for labels in made.fit_predict(X)] == [1, 2, 3, 0, 1, 2]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_regard_imports_neither_torch_nor_scikit_learn() -> None:
    code = "import sys, regard; assert not {'torch', 'sklearn'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
