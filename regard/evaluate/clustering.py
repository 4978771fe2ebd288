"""Agreement of two clusterings: the adjusted Rand index (Hubert & Arabie, 1985)."""

from __future__ import annotations

import numpy as np
import torch.nn.functional as F
from torch import Tensor


def adjusted_rand_index(ours: np.ndarray, theirs: np.ndarray) -> float:
    """1 where both put the same elements together, 0 on average where they have nothing to do with each other."""
    _, rows = np.unique(ours, return_inverse=True)
    _, columns = np.unique(theirs, return_inverse=True)
    n_columns = int(columns.max(initial=0)) + 1
    n_rows = int(rows.max(initial=0)) + 1
    counts = np.bincount(rows * n_columns + columns, minlength=n_rows * n_columns).reshape(n_rows, n_columns)
    return float(index_of(counts))


def index_of(counts: np.ndarray) -> np.ndarray:
    """The index by how many elements the two have in cluster i and in cluster j. (…, I, J) → (…)

    (Σ_ij C(n_ij, 2) − E) / (½ (A + B) − E)    A = Σ_i C(a_i, 2)   B = Σ_j C(b_j, 2)   E = A B / C(n, 2)
    """
    together = pairs(counts).sum(axis=(-2, -1))
    a, b = pairs(counts.sum(axis=-1)).sum(axis=-1), pairs(counts.sum(axis=-2)).sum(axis=-1)
    expected = a * b / np.maximum(pairs(counts.sum(axis=(-2, -1))), 1.0)
    most = (a + b) / 2
    alike = most == expected  # nothing, or everything, is together in both
    return np.where(alike, 1.0, (together - expected) / np.where(alike, 1.0, most - expected))


def pairs(counts: np.ndarray) -> np.ndarray:
    return counts * (counts - 1) / 2


def agreement(labels: Tensor, mask: Tensor, n_clusters: int) -> np.ndarray:
    """The index of every two of V clusterings of each set: labels (V, B, N), mask (B, N) → (B, V, V)."""
    V, B, N = labels.shape
    member = F.one_hot(labels, n_clusters) * mask[None, :, :, None]  # (V, B, N, K)
    member = member.float().permute(1, 0, 3, 2).reshape(B, V * n_clusters, N)
    counts = (member @ member.mT).view(B, V, n_clusters, V, n_clusters).transpose(2, 3)  # (B, V, V, K, K)
    return index_of(counts.double().cpu().numpy())
