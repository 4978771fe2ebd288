"""Set Transformers that fit, predict and score on lists of arrays.

    model = SetTransformerRegressor().fit(X, y)       X: a list of (n_i, d) arrays, n_i ≥ 0
    model.predict(X)                                  y: one target for each set

The order of the elements of a set means nothing to them. scikit-learn is not required; where it is installed, they are
its estimators: `clone`, `cross_val_score`, `GridSearchCV` and `Pipeline` take them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch

from regard.errors import InputError
from regard.estimators.base import SetEstimator
from regard.estimators.checking import checked_answers, checked_classes, checked_numbers
from regard.estimators.conventions import ClassifierMixin, ClusterMixin, RegressorMixin
from regard.estimators.scaling import moments, scaled, unscaled
from regard.nn.mixture import Mixture, log_joint, log_likelihood, mixture_of
from regard.tasks.arrays import SIGMA_FLOOR, Classification, Clustering, Regression


@dataclass(kw_only=True, repr=False, eq=False)
class SetTransformerRegressor(
    RegressorMixin,
    SetEstimator,
    losses="the `loss` of targets with mean 0 and standard deviation 1",
    own="""
    target_shift_, target_spread_
                         the same of the targets; predictions are in the targets' own units
    single_              whether the target of a set is a number, and not a row""",
):
    """One number, or one row of numbers, for each set. `loss` is "squared_error" or "absolute_error"."""

    loss: Literal["squared_error", "absolute_error"] = "squared_error"

    _PLAIN: ClassVar[tuple[str, ...]] = (*SetEstimator._PLAIN, "single_")
    _ARRAYS: ClassVar[tuple[str, ...]] = (*SetEstimator._ARRAYS, "target_shift_", "target_spread_")

    def fit(self, X: Any, y: Any) -> Self:
        """X: arrays (n_i, d), one for each set   y: a number, or a row of numbers, for each"""
        if self.loss not in ("squared_error", "absolute_error"):
            raise InputError(f"loss = {self.loss!r} must be squared_error or absolute_error.")
        with self._refitting():
            sets = self._checked(X)
            numbers = checked_numbers(len(sets), y)
            self.single_ = numbers.ndim == 1  # whether a prediction is a number and not a row
            numbers = numbers.reshape(len(sets), -1)
            self.target_shift_, self.target_spread_ = moments([numbers])
            target = torch.from_numpy(scaled(numbers, self.target_shift_, self.target_spread_))
            self._fit_to(sets, target, Regression(self.loss == "absolute_error"), n_outputs=1, d_out=numbers.shape[1])
        return self

    def predict(self, X: Any) -> np.ndarray:
        """(B,), or (B, d_out) where the targets were rows."""
        found = unscaled(self._outputs(X)[:, 0], self.target_shift_, self.target_spread_)
        return found[:, 0] if self.single_ else found

    def score(self, X: Any, y: Any) -> float:
        """R², the share of the targets' variance that is explained; of rows, the mean over columns."""
        found = self.predict(X)
        target = checked_numbers(len(found), y).reshape(found.shape)
        off = np.square(target - found).sum(axis=0)
        spread = np.square(target - target.mean(axis=0)).sum(axis=0)
        explained = np.where(spread > 0, 1 - off / np.where(spread > 0, spread, 1), np.where(off > 0, 0.0, 1.0))
        return float(explained.mean())


@dataclass(kw_only=True, repr=False, eq=False)
class SetTransformerClassifier(
    ClassifierMixin,
    SetEstimator,
    losses="cross-entropy of a set, in nats",
    own="""
    classes_             the labels, sorted: the columns of predict_proba""",
):
    """One of several classes for each set; `classes_` has them in order."""

    _PLAIN: ClassVar[tuple[str, ...]] = (*SetEstimator._PLAIN, "classes_")

    def fit(self, X: Any, y: Any) -> Self:
        """X: arrays (n_i, d), one for each set   y: a label for each"""
        with self._refitting():
            sets = self._checked(X)
            self.classes_, numbers = np.unique(checked_classes(len(sets), y), return_inverse=True)
            self._fit_to(sets, torch.from_numpy(numbers), Classification(), n_outputs=1, d_out=len(self.classes_))
        return self

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """(B, number of classes), in the order of `classes_`."""
        logits = self._outputs(X)[:, 0].astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def predict_proba(self, X: Any) -> np.ndarray:
        """(B, number of classes), in the order of `classes_`."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """(B,)"""
        best = self._outputs(X)[:, 0].argmax(axis=1)
        return self.classes_[best]

    def score(self, X: Any, y: Any) -> float:
        """Accuracy. A label that no set of `fit` had counts as wrong."""
        found = self.predict(X)
        return float((found == checked_answers(len(found), y, self.classes_)).mean())


@dataclass(kw_only=True, repr=False, eq=False)
class SetTransformerClusterer(
    ClusterMixin,
    SetEstimator,
    losses="negative log-likelihood of an element, which is standardised, in nats",
    own="""
    labels_              of each set of fit, the cluster of each element; these are not saved""",
):
    """Amortised clustering (*Set Transformer*, §5.3): a network that looks at a set and gives the mixture of Gaussians
    its elements come from. Learned from many sets, it clusters a new one in a single pass.

    `n_clusters` is how many Gaussians the mixture of every set has. Clusters of different sets have nothing to do with
    each other.
    """

    n_clusters: int = 8
    decoder_layers: int | None = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """X: arrays (n_i, d), one for each set. y is ignored: nobody says which clusters there are."""
        if not isinstance(self.n_clusters, (int, np.integer)) or self.n_clusters < 1:
            raise InputError(f"n_clusters = {self.n_clusters!r} must be a whole number of at least 1.")
        with self._refitting():
            sets = self._checked(X)
            none = torch.zeros(len(sets), 0)
            self._fit_to(sets, none, Clustering(), n_outputs=self.n_clusters, d_out=1 + 2 * sets[0].shape[1])
            self.labels_ = self.predict(X)
        return self

    def fit_predict(self, X: Any, y: Any = None) -> list[np.ndarray]:
        """Fit, and give the cluster of each element of the same sets: a list of arrays, as `predict` does."""
        return self.fit(X).labels_

    def predict(self, X: Any) -> list[np.ndarray]:
        """The cluster of each element: an array of n_i whole numbers below `n_clusters` for each set."""
        return [probabilities.argmax(axis=1) for probabilities in self.predict_proba(X)]

    def predict_proba(self, X: Any) -> list[np.ndarray]:
        """How likely each element belongs to each cluster: (n_i, n_clusters) for each set."""

        def answer(x: torch.Tensor, layout: Any, outputs: torch.Tensor) -> list[np.ndarray]:
            found = log_joint(x, layout, mixture_of(outputs, SIGMA_FLOOR)).softmax(dim=-1)
            return [part.cpu().numpy() for part in found.split(layout.lengths.tolist())]

        return self._each(X, answer)

    def mixtures(self, X: Any) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """The mixture of each set: weights (K,), means (K, d) and standard deviations (K, d)."""

        def answer(x: torch.Tensor, layout: Any, outputs: torch.Tensor) -> list[Any]:
            found = Mixture(*(part.cpu() for part in mixture_of(outputs, SIGMA_FLOOR)))
            parts = found.log_weights.exp().numpy(), found.means.numpy(), found.sigmas.numpy()
            return [
                (w, unscaled(m, self.shift_, self.spread_), s * self.spread_) for w, m, s in zip(*parts, strict=True)
            ]

        return self._each(X, answer)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log-likelihood of an element."""

        def answer(x: torch.Tensor, layout: Any, outputs: torch.Tensor) -> list[np.ndarray]:
            found = log_likelihood(x, layout, mixture_of(outputs, SIGMA_FLOOR))
            return [part.double().cpu().numpy() for part in found.split(layout.lengths.tolist())]

        found = np.concatenate(self._each(X, answer))
        if not len(found):
            raise InputError("Every set of X is empty: there is no element to score.")
        return float(found.mean() - np.log(self.spread_).sum())  # of the elements as given, not as standardised
