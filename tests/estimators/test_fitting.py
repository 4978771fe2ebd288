"""What training says, and what is left of a model when it does not come to its end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from regard import RegardError, SetTransformerClassifier, SetTransformerClusterer, SetTransformerRegressor
from regard.tasks.arrays import ArrayTask

BRIEF: dict[str, Any] = {"d_model": 8, "n_heads": 2, "n_inducing": 4, "max_epochs": 2, "batch_size": 4,
                         "device": "cpu", "random_state": 0}  # fmt: skip
chance = np.random.default_rng(0)
X = [chance.normal(size=(chance.integers(1, 6), 2)) for _ in range(20)]
y = np.array([one.sum() for one in X])


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Have a signal come in the n-th validation."""

    def arm(number: signal.Signals, n: int) -> None:
        validate, seen = ArrayTask.validate, []

        def killed(self: ArrayTask, device: torch.device) -> Any:
            seen.append(None)
            if len(seen) == n:
                os.kill(os.getpid(), number)
            return validate(self, device)

        monkeypatch.setattr(ArrayTask, "validate", killed)

    return arm


def test_ctrl_c_keeps_the_best_weights_so_far(kill: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    options = {**BRIEF, "max_epochs": 30, "learning_rate": 0.05, "n_iter_no_change": 30}
    kill(signal.SIGINT, 5)
    with pytest.warns(UserWarning, match="interrupted after 5 epochs: the model has the weights of epoch") as warned:
        made = SetTransformerRegressor(**options).fit(X, y)
    assert warned[0].filename == __file__
    assert [epoch["epoch"] for epoch in made.history_] == [1, 2, 3, 4, 5]
    losses = [epoch["validation_loss"] for epoch in made.history_]
    assert f"epoch {np.argmin(losses) + 1}, the best so far." in str(warned[0].message)
    monkeypatch.undo()
    held_out = np.sort(np.random.default_rng(0).permutation(20)[:2])
    found = made.predict([X[i] for i in held_out])
    assert np.square((found - y[held_out]) / y.std()).mean() == pytest.approx(min(losses), rel=1e-3)


def test_ctrl_c_before_any_validation_ends_the_fit_and_keeps_the_one_before() -> None:
    made = SetTransformerRegressor(**BRIEF).fit(X, y)
    before = made.predict(X)
    made.set_params(max_epochs=100_000, early_stopping=False)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        made.fit(X[:10], -y[:10])
    assert np.array_equal(made.predict(X), before)
    fresh = SetTransformerRegressor(**BRIEF).set_params(max_epochs=100_000, early_stopping=False)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(X, y)
    with pytest.raises(RegardError, match="not fitted"):
        fresh.predict(X)


def test_a_polite_kill_is_no_wish_to_go_on(kill: Callable[..., None]) -> None:
    kill(signal.SIGTERM, 2)
    with pytest.raises(KeyboardInterrupt):
        SetTransformerRegressor(**{**BRIEF, "max_epochs": 9}).fit(X, y)


@pytest.mark.parametrize(
    ("made", "labels"),
    [
        (SetTransformerRegressor(**BRIEF), y),
        (SetTransformerClassifier(**BRIEF), np.where(y > 0, "up", "down")),
        (SetTransformerClusterer(**BRIEF, n_clusters=2), None),
    ],
)
def test_a_fit_that_fails_leaves_the_one_before_it_whole(made: Any, labels: Any) -> None:
    made.fit(X, labels)
    before = {name: value for name, value in vars(made).items() if name.endswith("_")}
    answers = made.predict(X)
    wider, others = [np.ones((2, 5)), np.zeros((1, 5))], np.array([1, 0])

    def intact() -> bool:
        now = {name: value for name, value in vars(made).items() if name.endswith("_")}
        same = all(np.array_equal(a, b) for a, b in zip(made.predict(X), answers, strict=True))
        return same and now.keys() == before.keys() and all(now[name] is before[name] for name in now)

    for sets in ([np.ones((2, 5)), np.ones((2, 4))], [wider[0], [[np.nan] * 5]], wider[:1]):
        with pytest.raises(RegardError):
            made.fit(sets, others[: len(sets)])
        assert intact()
    made.set_params(learning_rate=1e30, layer_norm=False, max_epochs=5, early_stopping=False)
    with pytest.raises(RegardError, match="diverged"):
        made.fit(wider * 10, np.tile(others, 10))
    assert intact()


def test_training_that_diverges_says_what_to_lower() -> None:
    with pytest.raises(RegardError, match="diverged at learning_rate = 1e"):
        SetTransformerRegressor(**{**BRIEF, "learning_rate": 1e30, "max_epochs": 5, "layer_norm": False}).fit(X, y)


def test_progress_is_a_line_an_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    made = SetTransformerRegressor(**BRIEF).fit(X, y)
    assert capsys.readouterr().err == ""
    made.set_params(max_epochs=3, verbose=True).fit(X, y)
    told = [f"epoch {one['epoch']}/3: loss {one['loss']:.4g}, validation {one['validation_loss']:.4g}"
            for one in made.history_]  # fmt: skip
    assert capsys.readouterr().err.splitlines() == told
    made.set_params(early_stopping=False).fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["epoch 1/3", "epoch 2/3", "epoch 3/3"]
    assert ["validation" in line for line in lines] == [False, False, True]


def test_early_stopping_says_which_epoch_was_best(capsys: pytest.CaptureFixture[str]) -> None:
    options = {**BRIEF, "max_epochs": 40, "learning_rate": 0.05, "n_iter_no_change": 2, "verbose": True}
    made = SetTransformerRegressor(**options).fit(X, np.random.default_rng(1).normal(size=20))
    best = int(np.argmin([epoch["validation_loss"] for epoch in made.history_])) + 1
    *epochs, last = capsys.readouterr().err.splitlines()
    assert len(epochs) == made.n_iter_ == best + 2
    assert last == f"Stopped early: 2 epochs without a better validation; the best was epoch {best}."


@pytest.mark.parametrize(("verbose", "lines"), [(0, 0), (False, 0), (1, 2), (10, 2), (np.int64(2), 2), (np.True_, 2)])
def test_verbose_may_be_a_number(verbose: Any, lines: int, capsys: pytest.CaptureFixture[str]) -> None:
    SetTransformerRegressor(**BRIEF, verbose=verbose).fit(X, y)
    assert len(capsys.readouterr().err.splitlines()) == lines


def test_verbose_is_no_word() -> None:
    with pytest.raises(RegardError, match=r"^verbose must be true or false, not 'yes'"):
        SetTransformerRegressor(**BRIEF, verbose="yes").fit(X, y)
