"""What may be given to an estimator: a list of sets, each an (n, d) array of finite numbers, and a target for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.data.sets.checking import as_numbers, checked_set, detached, finite, first_where, listed
from regard.errors import InputError
from regard.wording import counted

KINDS = {"U": "strings", "b": "truth values"}


def checked_sets(X: Any, width: int | None = None) -> list[np.ndarray]:
    """The sets as arrays (n, d), n ≥ 0, as exact as they were given. `width`: the d that a fitted model knows."""
    sets = [checked_set(one, number, exact=True) for number, one in enumerate(listed(X, "X"))]
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


def names_of(one: Any) -> tuple[str, ...]:
    """The names of a data frame's columns; none of anything else, or where they are not words."""
    names = tuple(getattr(one, "columns", ()))
    return names if all(isinstance(name, str) for name in names) else ()


def checked_names(X: Any) -> tuple[str, ...]:
    """What the columns of all sets are called, one and the same in each; nothing where a set has no names.

    X: sets that are checked otherwise. A set that has neither elements nor names says nothing.
    """
    named = {number: names for number, one in enumerate(X) if (names := names_of(one))}
    if not named:
        return ()
    first, names = next(iter(named.items()))
    for number, others in named.items():
        check_names(number, others, names, f"set {first}")
    return names if all(number in named or not len(one) for number, one in enumerate(X)) else ()


def check_names(number: int, ours: Sequence[str], theirs: Sequence[str], whose: str) -> None:
    """Refuse a set whose columns are others than `theirs`, or the same in another order. Each set has as many."""
    for place, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if a != b:
            order = sorted(ours) == sorted(theirs)
            raise InputError(
                f"Column {place} of set {number} is {a!r}, but {b!r} in {whose}: "
                + ("the columns are the same in another order, so reorder them." if order else "name them alike.")
            )


def checked_count(n_sets: int, y: Any) -> np.ndarray:
    """The targets as an array with a row for each set."""
    if y is None:
        raise InputError("y is missing: give one target for each set.")
    if np.ma.is_masked(y):
        row = int(np.argwhere(np.ma.getmaskarray(y))[0][0])
        raise InputError(f"The target of set {row} is masked: remove the set, or fill the value.")
    try:
        target = np.asarray(detached(y))
    except ValueError:
        raise InputError("The targets have rows of different lengths: give one target for each set.") from None
    if target.ndim == 0 or len(target) != n_sets:
        n = len(target) if target.ndim else 1
        raise InputError(
            f"There are {counted(n_sets, 'set')} but {counted(n, 'target')}: give one target for each set."
        )
    return target


def checked_numbers(n_sets: int, y: Any) -> np.ndarray:
    """Targets of a regression in float64: (B,) or (B, d_out), finite."""
    target = checked_count(n_sets, y)
    if target.ndim > 2 or not target.size or target.dtype.kind in "USM":
        raise InputError(
            f"The targets have shape {target.shape} and type {target.dtype}: a regression needs one number, or one "
            "row of numbers, for each set."
        )
    numbers = as_numbers(target, "The targets hold values that are not real numbers.", np.float64)
    if place := first_where(~finite(numbers)):
        raise InputError(f"The target of set {place[0]} is not finite in float32: remove or replace it.")
    return numbers


def checked_classes(n_sets: int, y: Any) -> np.ndarray:
    """Labels to learn from, of two classes or more."""
    labels = checked_labels(n_sets, y)
    if len(np.unique(labels)) < 2:
        raise InputError(f"All labels are {labels[:1].tolist()[0]!r}: a classification needs at least two classes.")
    return labels


def checked_answers(n_sets: int, y: Any, classes: np.ndarray) -> np.ndarray:
    """Labels to compare with those of a fitted model: strings with strings, numbers with numbers."""
    labels = checked_labels(n_sets, y)
    if (labels.dtype.kind == "U") != (classes.dtype.kind == "U"):
        ours, theirs = (KINDS.get(array.dtype.kind, "numbers") for array in (labels, classes))
        raise InputError(f"The labels are {ours}, but those of fit were {theirs}: give labels of the same kind.")
    return labels


def checked_labels(n_sets: int, y: Any) -> np.ndarray:
    """Targets of a classification: (B,) whole numbers, truth values or strings."""
    labels = checked_count(n_sets, y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise InputError(f"The labels have shape {labels.shape}: a classification needs one label for each set.")
    check_mixture(labels, y)
    if labels.dtype == object and all(isinstance(label, str) for label in labels):
        labels = labels.astype(str)
    if labels.dtype.kind == "f" and np.isfinite(labels).all() and (labels == np.round(labels)).all():
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "iubU":
        raise InputError(
            f"The labels are of type {labels.dtype}: a classification needs whole numbers, truth values or strings; "
            "for other numbers use SetTransformerRegressor."
        )
    return labels


def check_mixture(labels: np.ndarray, y: Any) -> None:
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
