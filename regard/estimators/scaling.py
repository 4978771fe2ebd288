"""Columns centred and scaled in float64, before anything is rounded to the float32 in which networks compute.

float32 has some seven digits. Of numbers such as times in seconds since 1970 they are all spent on what the numbers
have in common, so the mean is subtracted first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

ROUNDING = 8 * np.finfo(np.float64).eps  # of a column's mean: a spread this small is what arithmetic leaves


def moments(parts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column of arrays (n_i, d), not all of them empty; 1 where it never changes.

    One part after the other, so that no second copy of the data is needed.
    """
    n = sum(len(part) for part in parts)
    origin = next(part[0] for part in parts if len(part)).astype(np.float64)  # sums of differences lose no digits
    shift = origin + sum((part - origin).sum(axis=0) for part in parts) / n
    spread = np.sqrt(sum(np.square(part - shift).sum(axis=0) for part in parts) / n)
    return shift, np.where(spread > ROUNDING * np.abs(shift), spread, 1.0)


def scaled(rows: np.ndarray, shift: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Columns with mean 0 and standard deviation 1, in float32."""
    return np.ascontiguousarray((rows - shift) / spread, dtype=np.float32)


def unscaled(rows: np.ndarray, shift: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """In the units of the data again, in float64."""
    return rows.astype(np.float64) * spread + shift
