"""What may be given to an estimator: a list of sets, each an (n, d) array of finite numbers, and a target for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.data.sets.checking import as_numbers, checked_set, listed
from regard.errors import InputError
from regard.wording import counted


def checked_sets(X: Any, width: int | None = None) -> list[np.ndarray]:
    """The sets as float32 arrays (n, d), n ≥ 0. `width`: the d that a fitted model knows."""
    sets = [checked_set(one, number) for number, one in enumerate(listed(X, "X"))]
    widths = {one.shape[1]: number for number, one in reversed(list(enumerate(sets))) if one.shape[1]}
    if width is None:
        if not any(len(one) for one in sets):
            raise InputError("Every set of X is empty: at least one needs elements to learn from.")
        if len(widths) > 1:
            (first, at), (second, there) = sorted(widths.items(), key=lambda item: item[1])[:2]
            raise InputError(
                f"Set {there} has {second} columns but set {at} has {first}: all sets must have the same number."
            )
        (width,) = widths
    for number, one in enumerate(sets):
        if one.shape[1] not in (0, width):
            raise InputError(f"Set {number} has {one.shape[1]} columns; the model was fitted on sets with {width}.")
    return [one if one.shape[1] else np.zeros((0, width), np.float32) for one in sets]


def checked_count(n_sets: int, y: Any) -> np.ndarray:
    """The targets as an array with a row for each set."""
    if y is None:
        raise InputError("y is missing: give one target for each set.")
    if np.ma.is_masked(y):
        row = int(np.argwhere(np.ma.getmaskarray(y))[0][0])
        raise InputError(f"The target of set {row} is masked: remove the set, or fill the value.")
    try:
        target = np.asarray(y)
    except ValueError:
        raise InputError("The targets have rows of different lengths: give one target for each set.") from None
    if target.ndim == 0 or len(target) != n_sets:
        n = len(target) if target.ndim else 1
        raise InputError(
            f"There are {counted(n_sets, 'set')} but {counted(n, 'target')}: give one target for each set."
        )
    return target


def checked_numbers(n_sets: int, y: Any) -> np.ndarray:
    """Targets of a regression: (B,) or (B, d_out), finite."""
    target = checked_count(n_sets, y)
    if target.ndim > 2 or target.dtype.kind in "USM":
        raise InputError(
            f"The targets have shape {target.shape} and type {target.dtype}: a regression needs one number, or one "
            "row of numbers, for each set."
        )
    numbers = as_numbers(target, "The targets hold values that are not real numbers.")
    if not np.isfinite(numbers).all():
        row = int(np.argwhere(~np.isfinite(numbers))[0][0])
        raise InputError(f"The target of set {row} is not finite: remove or replace it.")
    return numbers


def checked_labels(n_sets: int, y: Any) -> np.ndarray:
    """Targets of a classification: (B,) whole numbers, truth values or strings."""
    labels = checked_count(n_sets, y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise InputError(f"The labels have shape {labels.shape}: a classification needs one label for each set.")
    check_kinds(labels, y)
    if labels.dtype == object and all(isinstance(label, str) for label in labels):
        labels = labels.astype(str)
    if labels.dtype.kind == "f" and np.isfinite(labels).all() and (labels == np.round(labels)).all():
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "iubU":
        raise InputError(
            f"The labels are of type {labels.dtype}: a classification needs whole numbers, truth values or strings; "
            "for other numbers use SetTransformerRegressor."
        )
    if len(np.unique(labels)) < 2:
        raise InputError(f"All labels are {labels[:1].tolist()[0]!r}: a classification needs at least two classes.")
    return labels


def check_kinds(labels: np.ndarray, y: Any) -> None:
    """Refuse labels that are missing, and words beside numbers, which numpy would make words of.

    labels: what numpy made of y
    """
    if labels.dtype.kind == "f":
        values = labels.tolist()
    elif labels.dtype.kind in "UO":
        values = np.asarray(y, dtype=object).reshape(len(labels)).tolist()
    else:
        return
    first: dict[str, int] = {}  # of each kind, the row it comes in first
    for row, label in enumerate(values):
        if label is None or (isinstance(label, (float, np.floating)) and np.isnan(label)):
            raise InputError(f"The label of set {row} is {label}: remove the set, or give it a label.")
        first.setdefault("word" if isinstance(label, str) else "other", row)
    if len(first) > 1:
        a, b = sorted(first.values())
        raise InputError(
            f"Set {a} has the label {values[a]!r} and set {b} the label {values[b]!r}: give strings for all sets, or "
            "numbers for all."
        )
