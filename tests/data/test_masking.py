"""Masks: as many as the paper says, every choice as likely as any other, the same whoever asks."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from regard.data.masking import mask_counts, masks
from regard.data.sampling import chance


@pytest.mark.parametrize("length", [1, 2, 5])
def test_the_number_of_masks_is_uniform_between_one_and_the_length(length: int) -> None:
    n = 20_000
    counts = Counter(mask_counts(np.full(n, length), np.arange(n), seed=3).tolist())
    assert set(counts) == set(range(1, length + 1))
    for count in counts.values():
        assert count == pytest.approx(n / length, abs=5 * np.sqrt(n / length))


def test_every_choice_of_so_many_tokens_is_as_likely_as_any_other() -> None:
    n = 40_000
    rows = masks(np.full(n, 4), np.arange(n), seed=3).reshape(n, 4)
    choices = Counter(map(tuple, rows.tolist()))
    assert len(choices) == 2**4 - 1
    for chosen, count in choices.items():
        likely = n / 4 / {1: 4, 2: 6, 3: 4, 4: 1}[sum(chosen)]
        assert count == pytest.approx(likely, abs=5 * np.sqrt(likely))


def test_an_example_is_masked_alike_in_every_batch_and_anew_in_every_epoch() -> None:
    lengths, numbers = np.array([7, 1, 4, 9, 9]), np.array([3, 14, 15, 92, 65])
    whole = np.split(masks(lengths, numbers, 1), np.cumsum(lengths)[:-1])
    order = np.array([4, 0, 3, 1, 2])
    again = np.split(masks(lengths[order], numbers[order], 1), np.cumsum(lengths[order])[:-1])
    for place, i in enumerate(order):
        assert np.array_equal(again[place], whole[i])
        assert np.array_equal(masks(lengths[[i]], numbers[[i]], 1), whole[i])
    assert not np.array_equal(masks(lengths, numbers + 5_000, 1), np.concatenate(whole))
    assert not np.array_equal(masks(lengths, numbers, 2), np.concatenate(whole))


def test_there_are_as_many_masks_as_counted() -> None:
    chooser = np.random.default_rng(0)
    lengths, numbers = chooser.integers(0, 30, 500), chooser.integers(0, 10**9, 500)
    totals = np.add.reduceat(np.append(masks(lengths, numbers, 8), False), np.cumsum(lengths) - lengths)
    assert np.array_equal(np.where(lengths > 0, totals, 0), mask_counts(lengths, numbers, 8))


def test_masks_are_not_the_draws_of_subwords() -> None:
    """The same example and place get other bits, or rare segmentations would be masked more often."""
    numbers, places = np.arange(1000), np.zeros(1000, dtype=int)
    drawn = chance(1, numbers, places) % np.uint64(16)
    hidden = masks(np.full(1000, 1), numbers, 1), masks(np.full(1000, 6), numbers, 1).reshape(1000, 6)[:, 0]
    assert hidden[0].all()
    shares = [hidden[1][drawn == variant].mean() for variant in range(16)]
    assert np.ptp(shares) < 0.45  # 7 in 12 on average, of some sixty each
