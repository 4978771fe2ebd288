"""Whether what should come first does: the areas under the ROC curve and under the precision–recall curve."""

from __future__ import annotations

import numpy as np


def auroc(scores: np.ndarray, positive: np.ndarray) -> float:
    """The chance that a positive scores higher than a negative, ties counted half; NaN where one kind is missing, or a
    score is NaN."""
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    if not n_positive or not n_negative or np.isnan(scores).any():
        return float("nan")
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2  # the mean rank of each value, from 1
    total = float(ranks[inverse][positive].sum())
    return (total - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative)


def average_precision(scores: np.ndarray, positive: np.ndarray) -> float:
    """Σ (recall step) · precision over the thresholds, as scikit-learn has it; NaN where nothing is positive, or a
    score is NaN."""
    if not positive.any() or np.isnan(scores).any():
        return float("nan")
    order = np.argsort(-scores, kind="stable")
    found, ranked = np.cumsum(positive[order]), scores[order]
    last = np.append(ranked[1:] != ranked[:-1], True)  # equal scores cross a threshold together
    precision, recall = (found / np.arange(1, len(found) + 1))[last], (found / found[-1])[last]
    return float((np.diff(recall, prepend=0.0) * precision).sum())
