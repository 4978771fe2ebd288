"""Numbers about attention: how spread a head is, how far it looks, and what attention amounts to through layers.

They are taken of the weights themselves, not of what a page stores of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from regard.view.labels import CROSS, ENCODER_SELF, group_of
from regard.view.maps import AttentionMap, Floats


def entropies(weights: Floats) -> list[float]:
    """(H, Q, K) → for each head −Σ w log₂ w in bits, the mean over the queries that look at anything."""
    w = weights.astype(np.float64)
    bits = -(w * np.log2(w, out=np.zeros_like(w), where=w > 0)).sum(-1)
    return _mean_of_looking(bits, w)


def distances(one: AttentionMap) -> list[float] | None:
    """For each head how far its queries look on average, or None where there is no distance (seeds and points).

    Between points it is Euclid's. Between tokens it is the number of positions from the diagonal: |q − k| within one
    sequence; between two, the diagonal runs from first to first and from last to last token.
    """
    _, Q, K = one.weights.shape
    if one.row_points is not None and one.column_points is not None:
        apart = np.linalg.norm(one.row_points[:, None] - one.column_points[None], axis=-1)
    elif one.row_points is None and one.column_points is None:
        level = np.arange(Q) * ((K - 1) / (Q - 1) if Q > 1 else 1.0)
        apart = np.abs(level[:, None] - np.arange(K)[None])
    else:
        return None
    w = one.weights.astype(np.float64)
    return _mean_of_looking((w * apart).sum(-1), w)


def rollouts(maps: Sequence[AttentionMap]) -> list[npt.NDArray[np.float64] | None]:
    """Attention rollout (Abnar and Zuidema, 2020): for each map, (Q, K) from its positions to the first layer's.

    Within one sequence a layer is taken as Ā = ½ (mean over heads + I), its residual connection being the I, and the
    rollout of layer l is Ā_l … Ā_1. Cross-attention is followed on through the encoder: its mean over heads times the
    rollout of the last encoder layer. None where neither is meant: an attention that stands alone, of seeds, say.
    """
    found: list[npt.NDArray[np.float64] | None] = []
    through: dict[str, npt.NDArray[np.float64]] = {}
    for one in maps:
        group, mean = group_of(one.name), one.weights.astype(np.float64).mean(axis=0)
        Q, K = mean.shape
        if group == CROSS or Q != K or (one.row_points is None) != (one.column_points is None):
            found.append(None)
            continue
        layer = _rows_to_one((mean + np.eye(Q)) / 2)
        before = through.get(group)
        through[group] = layer if before is None or before.shape != layer.shape else layer @ before
        found.append(through[group])
    encoder = through.get(ENCODER_SELF)
    for i, one in enumerate(maps):
        if group_of(one.name) == CROSS and encoder is not None:
            S = one.weights.shape[2]
            # A masked model's encoder has one position more than its memory, the first, which tells lengths.
            found[i] = _rows_to_one(one.weights.astype(np.float64).mean(axis=0) @ encoder[-S:, -S:])
    return found


def _rows_to_one(matrix: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    total = matrix.sum(-1, keepdims=True)
    return np.divide(matrix, total, out=np.zeros_like(matrix), where=total > 0)


def _mean_of_looking(values: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> list[float]:
    looking = weights.sum(-1) > 0  # (H, Q)
    mean = (values * looking).sum(-1) / np.maximum(looking.sum(-1), 1)
    return [float(one) for one in mean]
