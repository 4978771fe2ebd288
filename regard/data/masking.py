"""Which target tokens a masked model must guess: *Mask-Predict* (Ghazvininejad et al. 2019), §2.2.

The number of masks is uniform between one and the length of the target, its end symbol included, and every choice of so
many tokens is as likely as any other. The draw follows from the seed and the example's number alone, which goes on
through the epochs (`BatchOrder`): new masks each time a sentence is seen, and the same in a resumed run, in any batch
and on any number of ranks.

Departure from the released code: there the number of masks is below the length, so that all-masked targets, with which
decoding begins, are never seen.
"""

from __future__ import annotations

import numpy as np

from regard.data.sampling import chance

APART = 2**40  # from the seeds that subwords are drawn with


def mask_counts(lengths: np.ndarray, numbers: np.ndarray, seed: int) -> np.ndarray:
    """How many of its tokens each of the examples `numbers` hides. (n,)"""
    drawn = chance(seed + APART, numbers, np.full(len(numbers), -1))  # no token has this place
    return (drawn % np.maximum(lengths, 1).astype(np.uint64)).astype(np.int64) + (lengths > 0)


def masks(lengths: np.ndarray, numbers: np.ndarray, seed: int) -> np.ndarray:
    """Which of their tokens, of all examples end to end: those that draw the smallest numbers. (total,) bool"""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    places = np.arange(len(rows)) - starts
    order = np.lexsort((chance(seed + APART, numbers[rows], places), rows))
    hidden = np.empty(len(rows), dtype=bool)
    hidden[order] = places < mask_counts(lengths, numbers, seed)[rows]  # sorted, each example stays where it was
    return hidden
