"""Sets as users give them: whether they are what a model takes, and if not, what to change.

An element is a vector of some width, or whatever has the shape that a model was trained on. Images are of bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.data.sets.stream import Sets
from regard.errors import InputError

Element = tuple[int, ...] | None  # the shape of an element; None: a vector, nobody knows yet how wide


def as_sets(given: Any, element: tuple[int, ...]) -> Sets:
    """Arrays with an element a row as sets; elements of more than one axis are images."""
    checked = checked_images if len(element) > 1 else checked_set
    arrays = [checked(one, number, element) for number, one in enumerate(listed(given, "What was given", element))]
    sizes = np.array([len(array) for array in arrays])
    elements = np.zeros((len(arrays), int(sizes.max()), *element), dtype=arrays[0].dtype)
    for row, array in enumerate(arrays):
        elements[row, : len(array)] = array
    return Sets(elements, sizes, np.zeros(len(arrays), dtype=np.int64))


def listed(given: Any, name: str, element: Element = None) -> Sequence[Any]:
    """What is a list of sets, or an array of sets of one size. `name`: what a message calls it."""
    form = form_of(element)
    if isinstance(given, (str, bytes, dict)) or not hasattr(given, "__len__") or not hasattr(given, "__iter__"):
        raise InputError(f"{name} is a {type(given).__name__}: give a list of sets, one ({form}) array each.")
    shape = getattr(given, "shape", None)  # data frames, sparse matrices and tensors have one too
    if isinstance(shape, tuple) and len(shape) != form.count(",") + 2 and str(getattr(given, "dtype", "")) != "object":
        kind = "array" if isinstance(given, np.ndarray) else type(given).__name__
        raise InputError(
            f"{name} is one {kind} of shape {tuple(shape)}: give a list of sets, one ({form}) array each, or an array "
            f"of shape (sets, {form})."
        )
    if not len(given):
        raise InputError(f"{name} has no sets: give a list of at least one.")
    return list(given)


def form_of(element: Element) -> str:
    """The shape of a set in words: `n, d`."""
    return ", ".join(["n", *("d" if element is None else map(str, element))])


def checked_set(one: Any, number: int, element: Element = None, exact: bool = False) -> np.ndarray:
    """One set in float32, (n, …); (0, 0) where it is empty and nobody knows how wide.

    exact: in float64 where float32 would round
    """
    form, one = form_of(element), detached(one)
    if np.ma.is_masked(one):  # numpy would take what lies below the mask
        raise InputError(f"Set {number} has masked values: remove or fill them.")
    try:
        array = np.asarray(one)
    except ValueError:
        raise InputError(f"Set {number} has rows of different lengths: each set must be an ({form}) array.") from None
    if array.shape == (0,):
        return np.zeros((0, *(element or (0,))), np.float32)
    if array.ndim == 2 and len(array) and not array.shape[1]:
        raise InputError(f"Set {number} has shape {array.shape}: it has no columns.")
    if array.ndim != form.count(",") + 1:
        advice = "; for a set of single numbers use reshape(-1, 1)" if array.ndim == 1 else ""
        what = f"has shape {array.shape}" if array.ndim else f"is a {type(one).__name__}"
        raise InputError(f"Set {number} {what}: each set must be an ({form}) array{advice}.")
    if element is not None and array.shape[1:] != element:
        what, advice = "elements", ""
        if len(element) > 1:  # images, which can be made to fit
            what, advice = "images", f": resize them to {element[0]} × {element[1]} pixels, as by Pillow's Image.resize"
        raise InputError(
            f"Set {number} has {what} of shape {array.shape[1:]}, but the model was trained on {element}{advice}."
        )
    dtype = np.float64 if exact and not np.can_cast(array.dtype, np.float32) else np.float32
    complaint = f"Set {number} holds values that are not real numbers: encode them as numbers first."
    numbers = as_numbers(array, complaint, dtype)
    if place := first_where(~finite(numbers)):
        raise InputError(
            f"Set {number} has a value that is not finite in float32, {array[place]}, in {described(place)}: remove or "
            "replace it."
        )
    return numbers


def checked_images(one: Any, number: int, element: tuple[int, ...]) -> np.ndarray:
    """One set of images, (n, …) in bytes."""
    pixels = checked_set(one, number, element)
    truths = len(pixels) > 0 and np.asarray(one).dtype == bool  # as numbers they would all be black
    if place := first_where((pixels < 0) | (pixels > 255) | (pixels != np.round(pixels)) | truths):
        raise InputError(
            f"Set {number} has the pixel {np.asarray(one)[place]}, in {described(place)}: images must be whole numbers "
            "from 0 to 255."
        )
    return pixels.astype(np.uint8)


def detached(given: Any) -> Any:
    """A tensor without its gradient and in the memory of the CPU, where numpy can read it; anything else as it is."""
    return given.detach().cpu() if hasattr(given, "detach") else given


def as_numbers(array: np.ndarray, complaint: str, dtype: type[np.floating] = np.float32) -> np.ndarray:
    """In float32, in which networks compute, or in another precision."""
    if array.dtype.kind in "cSUmM":
        raise InputError(complaint)
    try:
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(array, dtype=dtype)
    except (TypeError, ValueError):
        raise InputError(complaint) from None


def finite(numbers: np.ndarray) -> np.ndarray:
    """Which of them are finite in float32."""
    with np.errstate(over="ignore"):
        return np.isfinite(numbers.astype(np.float32, copy=False))


def first_where(wrong: np.ndarray) -> tuple[int, ...]:
    """The place of the first value that is wrong; empty where none is."""
    return tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.any() else ()


def described(place: tuple[int, ...]) -> str:
    row, *within = place
    return f"row {row}, column {within[0]}" if len(within) == 1 else f"element {row}, at {tuple(within)}"
