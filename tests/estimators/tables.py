"""A set as a data frame has it, without pandas: numbers, and names of their columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np


class Table:
    """What the estimators ask of a data frame, and how one goes through it: by its columns."""

    def __init__(self, rows: np.ndarray, columns: Sequence[Any]) -> None:
        self.rows, self.columns = rows, list(columns)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.rows.shape

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.columns)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.rows, dtype=dtype)
