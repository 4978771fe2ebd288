"""scikit-learn's conventions, from scikit-learn itself where it is installed.

Without it the estimators fit, predict, score, save and load all the same; `clone`, `cross_val_score` and `Pipeline`
are its own.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from regard.errors import InputError, RegardError, nearest


class Parameters:
    """An estimator is what it was told: every argument of its constructor is an attribute of the same name."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **changes: Any) -> Self:
        known = self.get_params()
        for name, value in changes.items():
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no parameter {name}{nearest(name, known)}.")
            setattr(self, name, value)
        return self


class Nothing:
    """In the place of a class that scikit-learn would give."""


if TYPE_CHECKING:
    BaseEstimator = Parameters

    class RegressorMixin: ...

    class ClassifierMixin: ...

    class ClusterMixin: ...

    class NotFittedError(ValueError): ...
else:
    try:
        from sklearn.base import BaseEstimator, ClassifierMixin, ClusterMixin, RegressorMixin
        from sklearn.exceptions import NotFittedError
    except ImportError:
        BaseEstimator = Parameters
        RegressorMixin, ClassifierMixin, ClusterMixin = (type("Mixin", (Nothing,), {}) for _ in range(3))
        NotFittedError = type("NotFittedError", (ValueError, AttributeError), {})


class NotFitted(RegardError, NotFittedError):
    """Asked before `fit`."""


def seed_of(random_state: Any) -> int:
    """A seed from what scikit-learn takes: nothing, a number, or a generator, which is then drawn from."""
    if random_state is None:
        return int(np.random.randint(2**31 - 1))
    if isinstance(random_state, (int, np.integer)) and random_state >= 0:
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    raise InputError(f"random_state = {random_state!r} must be None, a whole number from 0 on or a numpy generator.")
