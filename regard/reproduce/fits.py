"""Exponents of measured growth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import linear_regression

POINTS = 3  # the largest sizes, which an exponent is read from


def exponent(sizes: Sequence[int], values: Sequence[float], points: int = POINTS) -> float:
    """b of the value ∝ size^b that fits the largest sizes best: the slope of logarithm on logarithm."""
    largest = sorted(zip(sizes, values, strict=True))[-points:]
    return linear_regression(*zip(*((math.log(size), math.log(value)) for size, value in largest), strict=True)).slope


def fitted(sizes: Sequence[int], points: int = POINTS) -> tuple[int, int]:
    """The sizes that an exponent is read from: the least and the greatest."""
    largest = sorted(sizes)[-points:]
    return largest[0], largest[-1]
