"""Agreement of two clusterings: the adjusted Rand index (Hubert & Arabie, 1985)."""

from __future__ import annotations

import numpy as np


def adjusted_rand_index(ours: np.ndarray, theirs: np.ndarray) -> float:
    """1 where both put the same elements together, 0 on average where they have nothing to do with each other.

    (Σ_ij C(n_ij, 2) − E) / (½ (A + B) − E)    A = Σ_i C(a_i, 2)   B = Σ_j C(b_j, 2)   E = A B / C(n, 2)
    """
    _, rows = np.unique(ours, return_inverse=True)
    _, columns = np.unique(theirs, return_inverse=True)
    n_columns = int(columns.max(initial=0)) + 1
    n_rows = int(rows.max(initial=0)) + 1
    counts = np.bincount(rows * n_columns + columns, minlength=n_rows * n_columns).reshape(n_rows, n_columns)
    together, a, b = pairs(counts), pairs(counts.sum(axis=1)), pairs(counts.sum(axis=0))
    expected = a * b / max(pairs(np.array(len(rows))), 1.0)
    most = (a + b) / 2
    return 1.0 if most == expected else (together - expected) / (most - expected)


def pairs(counts: np.ndarray) -> float:
    return float((counts * (counts - 1) / 2).sum())
