"""Batches: bounded by tokens, every sentence once an epoch, any place reachable at once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from regard.data.batching import BatchOrder, EvenOrder, Place, cut, cut_packed, in_order_of_length

LENGTHS = np.random.default_rng(0).integers(1, 60, size=2000)


def test_every_sentence_comes_once_an_epoch() -> None:
    order = BatchOrder(LENGTHS[:, None], 300, seed=1)
    for epoch in (0, 1, 7):
        assert sorted(np.concatenate(order.plan(epoch)).tolist()) == list(range(2000 * epoch, 2000 * (epoch + 1)))


def test_no_batch_exceeds_the_budget_and_little_is_padding() -> None:
    plan = BatchOrder(LENGTHS[:, None], 300, seed=1).plan(0)
    assert all(len(batch) * LENGTHS[batch].max() <= 300 for batch in plan)
    padded = sum(len(batch) * LENGTHS[batch].max() for batch in plan)
    assert LENGTHS.sum() / padded > 0.97


def test_batches_are_as_full_as_they_can_be() -> None:
    lengths = np.sort(LENGTHS)
    batches = cut(np.arange(2000), lengths, 300)
    for batch, following in pairwise(batches):
        assert (len(batch) + 1) * lengths[following[0]] > 300


def test_a_sentence_over_the_budget_stands_alone() -> None:
    assert [b.tolist() for b in cut(np.arange(4), np.array([2, 2, 50, 60]), 10)] == [[0, 1], [2], [3]]


def test_order_depends_on_seed_and_epoch_alone() -> None:
    def first(seed: int, epoch: int) -> list[int]:
        return BatchOrder(LENGTHS[:, None], 300, seed).plan(epoch)[0].tolist()

    assert first(1, 0) == first(1, 0)
    assert first(1, 0) != first(2, 0)
    assert first(1, 0) != first(1, 1)


@pytest.mark.parametrize("skip", [1, 10, 333])
def test_going_on_from_a_place_equals_never_having_stopped(skip: int) -> None:
    whole, _ = BatchOrder(LENGTHS[:, None], 300, 1).take(Place(), skip + 20)
    _, place = BatchOrder(LENGTHS[:, None], 300, 1).take(Place(), skip)
    rest, _ = BatchOrder(LENGTHS[:, None], 300, 1).take(place, 20)
    assert [b.tolist() for b in rest] == [b.tolist() for b in whole[skip:]]


def test_a_far_place_costs_one_plan() -> None:
    """Resuming at batch a million makes the plan of one epoch, as starting does."""
    made: list[int] = []

    class Counting(BatchOrder):
        def plan(self, epoch: int) -> list[np.ndarray]:
            made.append(epoch)
            return super().plan(epoch)

    per_epoch = len(BatchOrder(LENGTHS[:, None], 300, 1).plan(0))
    Counting(LENGTHS[:, None], 300, 1).take(Place(1_000_000 // per_epoch, 5), 1)
    assert set(made) == {1_000_000 // per_epoch}


def test_decoding_groups_put_sentences_of_one_length_together() -> None:
    groups = list(in_order_of_length([3, 9, 1, 9, 2], 2))
    assert groups == [[1, 3], [0, 4], [2]]


def test_without_padding_each_side_is_bounded_and_the_larger_is_full() -> None:
    chance = np.random.default_rng(1)
    sides = np.stack([LENGTHS, np.clip(LENGTHS + chance.integers(-3, 8, size=2000), 1, None)], axis=1)
    order = BatchOrder(sides, 300, seed=1, padded=False)
    plan = order.plan(0)
    assert sorted(np.concatenate(plan).tolist()) == list(range(2000))
    totals = np.array([sides[batch].sum(axis=0) for batch in plan])
    assert totals.max() <= 300
    assert np.sort(totals.max(axis=1))[1:].min() > 300 - 67  # all but the last lack less than one sentence
    assert all(order.positions(batch) == total.max() for batch, total in zip(plan, totals, strict=True))


def test_a_sentence_beyond_the_budget_is_packed_alone() -> None:
    batches = cut_packed(np.arange(4), np.array([[2, 3], [9, 1], [2, 20], [1, 1]]), 10)
    assert [batch.tolist() for batch in batches] == [[0], [1], [2], [3]]


def test_batches_of_equal_counts_hold_every_example_once_and_know_their_positions() -> None:
    lengths = np.array([3, 0, 9, 1, 4, 2, 7])
    order = EvenOrder(lengths, 3, seed=1)
    for epoch in (0, 1):
        plan = order.plan(epoch)
        assert [len(batch) for batch in plan] == [3, 3, 1]
        assert sorted(np.concatenate(plan) - epoch * 7) == list(range(7))
        assert [order.positions(batch) for batch in plan] == [lengths[batch % 7].sum() for batch in plan]
        assert order.positions(order.largest(epoch)) == max(order.positions(batch) for batch in plan)
    assert not np.array_equal(np.concatenate(order.plan(0)), np.concatenate(order.plan(1)) - 7)
