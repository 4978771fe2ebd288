"""What the estimators learn, predict, save and refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.sparse
import torch

import regard
from regard import RegardError, SetTransformerClassifier, SetTransformerClusterer, SetTransformerRegressor

SMALL: dict[str, Any] = {"d_model": 16, "n_heads": 2, "n_inducing": 4, "device": "cpu", "random_state": 0}
BRIEF: dict[str, Any] = {**SMALL, "d_model": 8, "max_epochs": 1}


def numbers(n: int, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """Sets of one to five numbers, and the greatest of each."""
    chance = np.random.default_rng(seed)
    X = [chance.uniform(0, 100, (chance.integers(1, 6), 1)) for _ in range(n)]
    return X, np.array([one.max() for one in X])


def blobs(n: int, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Sets of points around a left and a right centre, and which of them."""
    chance = np.random.default_rng(seed)
    labels = [chance.integers(0, 2, chance.integers(8, 20)) for _ in range(n)]
    X = [
        np.where(label[:, None], 3.0, -3.0) * [1, 0] + chance.normal(0, 0.3, (len(label), 2)) + [100, 0]
        for label in labels
    ]
    return X, labels


# --- learning --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def regressor() -> SetTransformerRegressor:
    X, y = numbers(300)
    options = {**SMALL, "encoder": "rff", "pooling": "max", "max_epochs": 40, "learning_rate": 1e-2}
    return SetTransformerRegressor(**options).fit(X, y)


def test_a_regressor_learns_the_greatest_number(regressor: SetTransformerRegressor) -> None:
    X, y = numbers(100, seed=1)
    assert regressor.score(X, y) > 0.95
    found = regressor.predict(X)
    assert found.shape == (100,)
    residual = 1 - np.square(y - found).sum() / np.square(y - y.mean()).sum()
    assert regressor.score(X, y) == pytest.approx(residual)


def test_its_predictions_do_not_depend_on_order_or_company(regressor: SetTransformerRegressor) -> None:
    X, _ = numbers(20, seed=2)
    together = regressor.predict(X)
    alone = np.concatenate([regressor.predict([one[::-1]]) for one in X])
    np.testing.assert_allclose(together, alone, atol=1e-3)


def test_tensors_may_have_gradients(regressor: SetTransformerRegressor) -> None:
    X, y = numbers(10)
    tensors = [torch.tensor(one, requires_grad=True) for one in X]
    assert np.array_equal(regressor.predict(tensors), regressor.predict(X))
    assert regressor.score(tensors, torch.tensor(y, requires_grad=True)) == regressor.score(X, y)


def test_rows_of_targets_give_rows_of_predictions() -> None:
    X, y = numbers(30)
    wanted = np.stack([y, -y, np.ones_like(y)], axis=1)
    made = SetTransformerRegressor(**BRIEF, loss="absolute_error").fit(X, wanted)
    assert made.predict(X).shape == (30, 3)
    assert made.score(X, wanted) <= 1


def test_a_classifier_learns_its_classes_whatever_they_are_called() -> None:
    X, y = numbers(300)
    labels = np.where(y > 80, "high", np.where(y > 50, "middle", "low"))
    options = {**SMALL, "encoder": "rff", "pooling": "max", "max_epochs": 30, "learning_rate": 1e-2}
    made = SetTransformerClassifier(**options).fit(X, list(labels))
    assert made.classes_.tolist() == ["high", "low", "middle"]
    probabilities = made.predict_proba(X)
    assert probabilities.shape == (300, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_allclose(np.log(probabilities), made.predict_log_proba(X))
    assert (made.classes_[probabilities.argmax(axis=1)] == made.predict(X)).all()
    assert made.score(X, labels) == (made.predict(X) == labels).mean() > 0.9


def test_labels_of_another_kind_than_those_of_fit_are_no_answers() -> None:
    """numpy compares words with numbers as well, and finds none equal."""
    X, y = numbers(20)
    words, whole = np.where(y > 50, "1", "0"), (y > 50).astype(int)
    by_words, by_numbers = (SetTransformerClassifier(**BRIEF).fit(X, labels) for labels in (words, whole))
    with pytest.raises(RegardError, match="The labels are numbers, but those of fit were strings: "):
        by_words.score(X, whole)
    with pytest.raises(RegardError, match="The labels are truth values, but those of fit were strings: "):
        by_words.score(X, whole == 1)
    with pytest.raises(RegardError, match="The labels are strings, but those of fit were numbers: "):
        by_numbers.score(X, words)
    assert by_numbers.score(X, whole == 1) == by_numbers.score(X, whole.astype(float)) == by_words.score(X, words)
    assert by_words.score(X, ["never seen"] * 20) == by_numbers.score(X, [7] * 20) == 0


@pytest.fixture(scope="module")
def clusterer() -> SetTransformerClusterer:
    X, _ = blobs(150)
    return SetTransformerClusterer(**SMALL, n_clusters=2, max_epochs=40, learning_rate=1e-2).fit(X)


def test_a_clusterer_finds_the_clusters_of_sets_it_has_never_seen(clusterer: SetTransformerClusterer) -> None:
    X, labels = blobs(20, seed=1)
    found = clusterer.predict([*X, np.zeros((0, 2))])
    assert len(found[-1]) == 0
    agreement = [max((a == b).mean(), (a != b).mean()) for a, b in zip(found[:-1], labels, strict=True)]
    assert np.mean(agreement) > 0.95
    probabilities = clusterer.predict_proba(X)
    assert all((p.argmax(axis=1) == f).all() for p, f in zip(probabilities, found, strict=False))


def test_its_mixtures_and_score_are_in_the_units_of_the_data(clusterer: SetTransformerClusterer) -> None:
    X, _ = blobs(10, seed=2)
    total, count = 0.0, 0
    for one, (weights, means, sigmas) in zip(X, clusterer.mixtures(X), strict=True):
        assert weights.sum() == pytest.approx(1, abs=1e-5)
        assert abs(means[:, 0].mean() - 100) < 2
        density = np.exp(-0.5 * ((one[:, None] - means) / sigmas) ** 2) / (sigmas * np.sqrt(2 * np.pi))
        total += np.log((weights * density.prod(axis=-1)).sum(axis=1)).sum()
        count += len(one)
    assert clusterer.score(X) == pytest.approx(total / count, abs=1e-2)


def test_early_stopping_ends_and_keeps_the_best() -> None:
    chance = np.random.default_rng(0)
    X, _ = numbers(40)
    noise = chance.normal(size=40)  # nothing can be learned from it
    made = SetTransformerRegressor(**{**SMALL, "max_epochs": 60, "n_iter_no_change": 3, "learning_rate": 1e-2})
    made.fit(X, noise)
    losses = [epoch["validation_loss"] for epoch in made.history_]
    assert made.n_iter_ < 60
    assert int(np.argmin(losses)) == len(losses) - 4


def test_attention_of_an_estimator_can_be_looked_at(clusterer: SetTransformerClusterer) -> None:
    X, _ = blobs(1)
    with regard.capture(clusterer) as maps:
        clusterer.predict(X)
    assert maps["pool.mab.attn"].shape == (1, 2, 2, len(X[0]))
    assert maps["encoder.0.collect.attn"].shape == (1, 2, 4, len(X[0]))


# --- saving ----------------------------------------------------------------------------------------------


def test_saved_estimators_answer_as_before(
    tmp_path: Path, regressor: SetTransformerRegressor, clusterer: SetTransformerClusterer
) -> None:
    X, y = numbers(20, seed=3)
    classifier = SetTransformerClassifier(**BRIEF).fit(X, y > 50)
    for made, sets in ((regressor, X), (classifier, X), (clusterer, blobs(5)[0])):
        made.save(tmp_path / "model")
        assert {path.name for path in (tmp_path / "model").iterdir()} == {"estimator.json", "model.safetensors"}
        again = type(made).load(tmp_path / "model", device="cpu")
        assert again.get_params() == made.get_params()
        assert (again.n_iter_, again.n_features_in_) == (made.n_iter_, made.n_features_in_)
        for before, after in zip(made.predict(sets), again.predict(sets), strict=True):
            assert np.array_equal(before, after)


def test_parameters_may_be_numpy_s_numbers(tmp_path: Path) -> None:
    """As a search over np.arange and np.logspace gives them."""
    X, y = numbers(10)
    plain = {"d_model": 8, "max_epochs": 2, "dropout": 0.25, "random_state": 3, "layer_norm": True, "device": "cpu"}
    theirs = {name: np.array(value)[()] for name, value in plain.items() if name != "device"}
    made = SetTransformerRegressor(**{**BRIEF, **theirs, "device": torch.device("cpu")}).fit(X, y)
    made.save(tmp_path / "model")
    again = SetTransformerRegressor.load(tmp_path / "model", device="cpu")
    assert np.array_equal(again.predict(X), made.predict(X))
    assert np.array_equal(again.predict(X), SetTransformerRegressor(**{**BRIEF, **plain}).fit(X, y).predict(X))
    assert {name: again.get_params()[name] for name in plain} == plain
    assert all(type(again.get_params()[name]) is type(value) for name, value in plain.items())


@pytest.mark.parametrize("n_clusters", [0, "2", 2.5])
def test_clusters_are_a_whole_number(n_clusters: Any) -> None:
    with pytest.raises(RegardError, match=r"^n_clusters = .* must be a whole number of at least 1"):
        SetTransformerClusterer(**BRIEF, n_clusters=n_clusters).fit(GOOD)


def test_what_cannot_be_loaded_or_saved_is_explained(tmp_path: Path) -> None:
    X, y = numbers(10)
    with pytest.raises(RegardError, match="is not fitted yet"):
        SetTransformerRegressor().save(tmp_path / "none")
    made = SetTransformerRegressor(**BRIEF).fit(X, y)
    made.save(tmp_path / "model")
    with pytest.raises(RegardError, match="holds a SetTransformerRegressor: open it with"):
        SetTransformerClassifier.load(tmp_path / "model")
    with pytest.raises(RegardError, match="is not a saved estimator"):
        SetTransformerRegressor.load(tmp_path)
    record = tmp_path / "model" / "estimator.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "format": 99}))
    with pytest.raises(RegardError, match="has format 99"):
        SetTransformerRegressor.load(tmp_path / "model")
    made.save(tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(RegardError, match="checksum does not match"):
        SetTransformerRegressor.load(tmp_path / "model")
    made.set_params(n_heads=[2])
    with pytest.raises(RegardError, match=r"n_heads = \[2\] cannot be saved: set n_heads to"):
        made.save(tmp_path / "model")


@pytest.mark.parametrize("change", [{"n_heads": 4}, {"pooling": "max"}, {"d_model": 16}, {"encoder": "rff"}])
def test_what_is_saved_is_the_network_that_was_fitted(tmp_path: Path, change: dict[str, Any]) -> None:
    """Parameters that were set after `fit` are for the next one."""
    X, y = numbers(10)
    made = SetTransformerRegressor(**BRIEF).fit(X, y).set_params(**change)
    made.save(tmp_path / "model")
    again = SetTransformerRegressor.load(tmp_path / "model", device="cpu")
    assert np.array_equal(again.predict(X), made.predict(X))
    assert again.get_params() == made.get_params()


def test_estimators_of_earlier_versions_are_loaded(tmp_path: Path) -> None:
    """They have no network in their record: it follows from the parameters."""
    X, y = numbers(10)
    made = SetTransformerRegressor(**BRIEF).fit(X, y)
    made.save(tmp_path)
    record = json.loads((tmp_path / "estimator.json").read_text())
    del record["network"]
    (tmp_path / "estimator.json").write_text(json.dumps(record))
    assert np.array_equal(SetTransformerRegressor.load(tmp_path, device="cpu").predict(X), made.predict(X))


@pytest.mark.parametrize("chance", [np.random.RandomState(0), np.random.default_rng(0)])
def test_a_model_that_was_fitted_by_a_generator_can_be_saved(tmp_path: Path, chance: Any) -> None:
    X, y = numbers(10)
    made = SetTransformerRegressor(**{**BRIEF, "random_state": chance}).fit(X, y)
    made.save(tmp_path)
    again = SetTransformerRegressor.load(tmp_path, device="cpu")
    assert again.random_state is None
    assert np.array_equal(again.predict(X), made.predict(X))


def test_a_saved_estimator_is_no_run_and_says_so(tmp_path: Path) -> None:
    X, y = numbers(10)
    SetTransformerClassifier(**BRIEF).fit(X, y > 50).save(tmp_path)
    with pytest.raises(
        RegardError, match=r"is a saved SetTransformerClassifier, .* with SetTransformerClassifier\.load"
    ):
        regard.load(tmp_path)
    (tmp_path / "estimator.json").write_text("[]")
    with pytest.raises(RegardError, match=r"is a saved SetTransformerRegressor, not a run"):
        regard.load(tmp_path)


def test_a_saved_estimator_can_be_read_by_those_who_can_read_its_record(tmp_path: Path) -> None:
    X, y = numbers(10)
    SetTransformerRegressor(**BRIEF).fit(X, y).save(tmp_path)
    assert (tmp_path / "model.safetensors").stat().st_mode == (tmp_path / "estimator.json").stat().st_mode


def test_a_damaged_record_is_called_damaged(tmp_path: Path) -> None:
    X, y = numbers(10)
    SetTransformerRegressor(**BRIEF).fit(X, y).save(tmp_path)
    path = tmp_path / "estimator.json"
    whole = json.loads(path.read_text())
    needed = ("checksum", "format", "estimator", "params", "fitted", "d_out")
    less = [{key: value for key, value in whole.items() if key != left} for left in needed]
    wrong = [{**whole, "params": {"depth": 3}}, {**whole, "fitted": {}}, {**whole, "d_out": 7}, []]
    for text in ("", path.read_text()[:100], "\xff", *map(json.dumps, [*less, *wrong])):
        path.write_text(text, encoding="latin-1")
        with pytest.raises(RegardError, match=r"estimator\.json is damaged: save"):
            SetTransformerRegressor.load(tmp_path)


def test_a_clusterer_may_pool_in_every_way() -> None:
    X, _ = blobs(4)
    for pooling, layers in (("max", 0), ("pma", 1)):
        made = SetTransformerClusterer(**BRIEF, n_clusters=2, pooling=pooling).fit(X)
        assert len(made.model_.decoder) == layers
        assert made.get_params()["decoder_layers"] is None
    with pytest.raises(RegardError, match=r'decoder_layers = 1 needs pooling = "pma"'):
        SetTransformerClusterer(**BRIEF, pooling="max", decoder_layers=1).fit(X)


# --- bad input -------------------------------------------------------------------------------------------

GOOD = [np.ones((2, 3)), np.zeros((1, 3)), np.ones((4, 3))]
BAD_SETS: list[tuple[Any, str]] = [
    ([], "X has no sets"),
    (None, "X is a NoneType: give a list of sets"),
    ("sets", "X is a str: give a list of sets"),
    (np.ones((5, 3)), r"X is one array of shape \(5, 3\): give a list of sets"),
    (pandas.DataFrame(np.ones((5, 3)), columns=[*"abc"]), r"X is one DataFrame of shape \(5, 3\): give a list of sets"),
    (scipy.sparse.csr_array(np.eye(3)), r"X is one csr_array of shape \(3, 3\): give a list of sets"),
    (torch.ones(5, 3), r"X is one Tensor of shape \(5, 3\): give a list of sets"),
    ([np.ones((2, 3)), scipy.sparse.csr_array(np.eye(3))], r"Set 1 is a csr_array: each set must be an \(n, d\) array"),
    ([np.ones((2, 3)), np.ones((2, 4))], "Set 1 has 4 columns but set 0 has 3"),
    ([np.ones((2, 3)), np.ones(3)], r"Set 1 has shape \(3,\): .* use reshape\(-1, 1\)"),
    ([np.ones((2, 3)), np.ones((2, 3, 1))], r"Set 1 has shape \(2, 3, 1\)"),
    ([np.ones((2, 3)), [[1, 2, 3], [4, 5]]], "Set 1 has rows of different lengths"),
    ([np.ones((2, 3)), [[1, 2, np.nan]]], "Set 1 has a value that is not finite in float32, nan, in row 0, column 2"),
    ([np.ones((2, 3)), [[1, -np.inf, 2]]], "Set 1 .* -inf, in row 0, column 1"),
    ([np.ones((2, 3)), [[1, 1e300, 2]]], r"Set 1 .* 1e\+300, in row 0, column 1"),
    ([np.ones((2, 3)), [["a", "b", "c"]]], "Set 1 holds values that are not real numbers"),
    ([np.ones((2, 3)), [[1j, 2, 3]]], "Set 1 holds values that are not real numbers"),
    ([np.zeros((0, 3)), []], "Every set of X is empty"),
    ([np.ones((2, 3)), np.zeros((3, 0))], r"Set 1 has shape \(3, 0\): it has no columns"),
    ([np.ones((2, 3)), np.ma.array(np.ones((1, 3)), mask=[[0, 1, 0]])], "Set 1 has masked values"),
]


@pytest.mark.parametrize(("X", "words"), BAD_SETS)
def test_bad_sets_are_refused_in_one_sentence(X: Any, words: str) -> None:
    for made in (SetTransformerRegressor(**BRIEF), SetTransformerClassifier(**BRIEF), SetTransformerClusterer(**BRIEF)):
        with pytest.raises(RegardError, match=words) as caught:
            made.fit(X, [1, 2])
        assert isinstance(caught.value, ValueError)  # as scikit-learn expects
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([1.0, 2.0], "There are 3 sets but 2 targets"),
        (None, "y is missing"),
        (1.0, "There are 3 sets but 1 target:"),
        ([1.0, np.nan, 2.0], "The target of set 1 is not finite"),
        (["a", "b", "c"], "a regression needs one number"),
        ([[1, 2], [3], [4]], "The targets have rows of different lengths"),
        (np.ones((3, 2, 2)), r"The targets have shape \(3, 2, 2\)"),
        (np.ones((3, 0)), r"The targets have shape \(3, 0\) .* needs one number, or one row of numbers"),
    ],
)
def test_bad_targets_of_a_regression_are_refused(y: Any, words: str) -> None:
    with pytest.raises(RegardError, match=words):
        SetTransformerRegressor(**BRIEF).fit(GOOD, y)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (["a", "b"], "There are 3 sets but 2 targets"),
        (["a", "a", "a"], "All labels are 'a': .*at least two classes"),
        ([1, 1, 1], "All labels are 1: "),
        (["a", None, "b"], "The label of set 1 is None: "),
        (["a", "b", np.nan], "The label of set 2 is nan: "),
        ([1.0, 0.0, np.nan], "The label of set 2 is nan: "),
        (np.array([None, "a", "b"], dtype=object), "The label of set 0 is None: "),
        (["a", "b", 1], "Set 0 has the label 'a' and set 2 the label 1: give strings for all sets, or numbers"),
        (np.array([1, "a", 1], dtype=object), "Set 0 has the label 1 and set 1 the label 'a'"),
        (np.ma.array([0, 1, 1], mask=[0, 0, 1]), "The target of set 2 is masked"),
        ([0.5, 1.5, 0.5], "use SetTransformerRegressor"),
        ([[0, 1], [1, 0], [1, 1]], r"The labels have shape \(3, 2\)"),
    ],
)
def test_bad_labels_are_refused(y: Any, words: str) -> None:
    with pytest.raises(RegardError, match=words):
        SetTransformerClassifier(**BRIEF).fit(GOOD, y)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch_size": 0}, "batch_size = 0 must be at least 1"),
        ({"max_epochs": 0}, "max_epochs = 0 must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate = 0.0 must be above 0"),
        ({"validation_fraction": 1.5}, "validation_fraction = 1.5 must lie between"),
        ({"validation_fraction": None}, "^validation_fraction must be a number, not None"),
        ({"max_epochs": "3"}, "^max_epochs must be a whole number, not '3'"),
        ({"max_epochs": 2.5}, "^max_epochs must be a whole number, not 2.5"),
        ({"batch_size": 2.0}, "^batch_size must be a whole number, not 2.0"),
        ({"learning_rate": "fast"}, "^learning_rate must be a number, not 'fast'"),
        ({"early_stopping": "yes"}, "^early_stopping must be true or false, not 'yes'"),
        ({"n_layers": 2.0}, "^n_layers must be a whole number, not 2.0"),
        ({"random_state": -1}, "^random_state = -1 must be None, a whole number from 0 on"),
        ({"d_model": 9}, "d_model = 9 is not a multiple"),
        ({"loss": "huber"}, "loss = 'huber' must be"),
        ({"device": "nowhere"}, "device 'nowhere' cannot be used"),
        ({"encoder": "lstm"}, "encoder = 'lstm' must be one of"),
        ({"scale": "none"}, "scale = 'none' must be one of"),
    ],
)
def test_bad_parameters_are_explained_when_fitting(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(RegardError, match=words):
        SetTransformerRegressor(**{**BRIEF, **changes}).fit(GOOD, [1, 2, 3])


def test_predicting_too_soon_or_with_other_columns_is_refused() -> None:
    made = SetTransformerRegressor(**BRIEF)
    with pytest.raises(RegardError, match="This SetTransformerRegressor is not fitted yet: call fit first"):
        made.predict(GOOD)
    made.fit(GOOD, [1, 2, 3])
    with pytest.raises(RegardError, match="Set 1 has 2 columns; the model was fitted on sets with 3"):
        made.predict([np.ones((1, 3)), np.ones((1, 2))])
    with pytest.raises(RegardError, match="There are 3 sets but 2 targets"):
        made.score(GOOD, [1, 2])
    assert made.predict([[], np.zeros((0, 3))]).shape == (2,)  # empty sets may be asked about
    with pytest.raises(RegardError, match="there is no element to score"):
        SetTransformerClusterer(**BRIEF, n_clusters=2).fit(GOOD).score([[]])
    with pytest.raises(RegardError, match="early_stopping=False"):
        SetTransformerRegressor(**BRIEF).fit(GOOD[:1], [1])
