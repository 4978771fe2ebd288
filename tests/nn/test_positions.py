"""Positions: §3.5."""

from __future__ import annotations

import gc
import math
import weakref

import pytest
import torch

from regard.errors import RegardError
from regard.nn.positions import LearnedPositions, SinusoidalPositions, sinusoids


def test_sinusoids_are_the_papers_formula() -> None:
    table = sinusoids(torch.arange(50), 8)
    for position in (0, 1, 7, 49):
        for i in range(4):
            angle = position / 10000 ** (2 * i / 8)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_halves_are_the_same_numbers_with_all_sines_first() -> None:
    interleaved, halves = (sinusoids(torch.arange(9), 6, layout) for layout in ("interleaved", "halves"))
    assert torch.equal(halves, torch.cat([interleaved[:, 0::2], interleaved[:, 1::2]], dim=1))


def test_a_shift_is_a_rotation_of_each_pair() -> None:
    """The paper's reason for sinusoids: PE(pos + k) is a linear function of PE(pos)."""
    k, d_model = 5, 8
    table = sinusoids(torch.arange(40), d_model).double()
    for i in range(d_model // 2):
        turn = k / 10000 ** (2 * i / d_model)
        rotation = torch.tensor(
            [[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]], dtype=torch.float64
        )
        pair = table[:, 2 * i : 2 * i + 2]
        torch.testing.assert_close(pair[k:], pair[:-k] @ rotation.T, atol=1e-5, rtol=1e-5)


def test_the_table_grows_with_the_longest_sequence() -> None:
    positions = SinusoidalPositions(8, size=4)
    assert torch.equal(positions(torch.arange(100), 100), sinusoids(torch.arange(100), 8))


def test_learned_positions_say_when_a_sequence_is_too_long() -> None:
    positions = LearnedPositions(8, size=4)
    assert positions(torch.arange(4), 4).shape == (4, 8)
    with pytest.raises(RegardError, match=r"5 tokens.*4 learned positions"):
        positions(torch.arange(5), 5)


def test_a_table_that_was_outgrown_stays_in_memory_for_recordings_that_read_it() -> None:
    positions = SinusoidalPositions(8, size=4)
    first = weakref.ref(positions.table)
    positions.rows(10)
    positions.rows(100)
    gc.collect()
    assert first() is not None
    assert sum(map(len, positions.outgrown)) < len(positions.table)
