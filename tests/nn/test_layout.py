"""Layouts: padded and packed describe the same sequences."""

from __future__ import annotations

import pytest
import torch

from regard.nn.layout import Packed, Padded

LENGTHS = [[3, 1, 4], [2, 2], [0, 3], [5]]


@pytest.mark.parametrize("lengths", LENGTHS)
def test_packing_and_padding_are_inverse(lengths: list[int]) -> None:
    packed = Packed.of(lengths)
    x = torch.randn(sum(lengths), 2)
    assert torch.equal(packed.unpad(packed.pad(x)), x)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_both_layouts_name_the_same_real_positions(lengths: list[int]) -> None:
    padded, packed = Padded.of(lengths), Packed.of(lengths)
    assert torch.equal(padded.mask, packed.mask)
    assert padded.mask.sum(1).tolist() == lengths
    x = torch.randn(len(lengths), max(lengths), 3)
    assert torch.equal(padded.real(x), packed.real(packed.unpad(x)))
    places = padded.positions.expand(len(lengths), -1)
    assert torch.equal(padded.real(places), packed.positions)


@pytest.mark.parametrize("layout", [Padded, Packed])
def test_full_means_no_padding_at_all(layout: type[Padded] | type[Packed]) -> None:
    assert layout.of([4, 4]).full
    assert not layout.of([4, 3]).full


def test_padding_is_zero() -> None:
    assert Packed.of([1, 2]).pad(torch.ones(3)).tolist() == [[1, 0], [1, 1]]
