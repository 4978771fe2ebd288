"""Accuracy with its interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.errors import RegardError
from regard.evaluate.bleu import Score
from regard.evaluate.counts import SAMPLES, generator, half_width
from regard.wording import counted


def accuracy(found: Sequence[Sequence[str]], right: Sequence[Sequence[str]], samples: int = SAMPLES) -> Score:
    """The percentage of labels that are right, each text with one or with one for each of its words.

    The 95 % interval is that of a bootstrap over texts, not over words: mistakes in one sentence hang together.
    """
    if [len(labels) for labels in found] != [len(labels) for labels in right]:
        raise RegardError("Labels cannot be scored: there are not as many as the right ones.")
    if not any(right):
        raise RegardError("There is nothing to score: no text has a label.")
    hits = np.array([sum(a == b for a, b in zip(*both, strict=True)) for both in zip(found, right, strict=True)])
    sizes = np.array([len(labels) for labels in right])
    drawn = generator().integers(len(hits), size=(samples, len(hits)))
    scores = 100.0 * hits[drawn].sum(axis=1) / np.maximum(sizes[drawn].sum(axis=1), 1)
    n = int(sizes.sum())
    return Score("accuracy", 100.0 * int(hits.sum()) / n, half_width(scores, len(hits)), counted(n, "label"))
