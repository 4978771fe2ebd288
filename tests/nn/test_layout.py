"""Layouts: padded and packed describe the same sequences."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.nn.layout import Packed, Padded, Room

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


@pytest.mark.parametrize("layout", [Padded, Packed])
@pytest.mark.parametrize("lengths", [[-1], [3, -1], [1.5], [1.0], [[1, 2]], ["2"]])
def test_lengths_that_are_none_are_refused(layout: type[Padded] | type[Packed], lengths: list) -> None:
    with pytest.raises(InputError, match=r"^Lengths are whole numbers of at least 0, in one row, not \["):
        layout.of(lengths)


@pytest.mark.parametrize("layout", [Padded, Packed])
def test_there_may_be_no_sequences(layout: type[Padded] | type[Packed]) -> None:
    assert layout.of([]).lengths.tolist() == []


def test_padding_is_zero() -> None:
    assert Packed.of([1, 2]).pad(torch.ones(3)).tolist() == [[1, 0], [1, 1]]


@pytest.mark.parametrize("lengths", LENGTHS)
def test_a_position_before_each_sequence_comes_and_goes(lengths: list[int]) -> None:
    x, first = torch.randn(len(lengths), max(lengths), 3), torch.randn(3)
    led_lengths = [length + 1 for length in lengths]
    for layout in (Padded.of(lengths), Packed.of(lengths)):
        mine = layout.unpad(x)
        led, leading = layout.led(), layout.lead(first, mine)
        expected = type(layout).of(led_lengths)
        assert torch.equal(led.mask, expected.mask)
        assert led.size == expected.size
        assert led.full == expected.full
        assert torch.equal(led.real(led.positions.expand(leading.shape[:-1])), Packed.of(led_lengths).positions)
        rows = led.pad(leading)
        for row, sequence, length in zip(rows, x, lengths, strict=True):
            assert torch.equal(row[: length + 1], torch.cat([first[None], sequence[:length]]))
        firsts, rest = layout.unlead(leading)
        assert torch.equal(firsts, first.expand(len(lengths), 3))
        assert torch.equal(layout.real(rest), layout.real(mine))


def test_in_a_filled_room_empty_sequences_get_their_position_too() -> None:
    """So that the shape is that of the room, whatever is in it."""
    shapes = set()
    for lengths in ([3, 5, 2], [7, 1, 1]):
        room = Room(64, 16, 16)
        layout = Packed.filled(np.array(lengths), room)
        led = layout.led()
        leading = layout.lead(torch.ones(2), torch.zeros(64, 2))
        assert torch.equal(led.offsets.diff(), layout.offsets.diff() + 1)
        assert torch.equal(leading[led.offsets[:-1]], torch.ones(16, 2))
        assert leading.sum() == 2 * 16
        shapes.add((led.positions.shape, leading.shape, led.size))
    assert shapes == {(torch.Size([80]), torch.Size([80, 2]), 17)}


@pytest.mark.parametrize("lengths", [*LENGTHS, [0, 0]])
def test_both_layouts_sum_and_spread_alike(lengths: list[int]) -> None:
    padded, packed = Padded.of(lengths), Packed.of(lengths)
    x, y = torch.randn(sum(lengths), 2), torch.randn(len(lengths), 2)
    rectangle = packed.pad(x).masked_fill(~padded.mask[..., None], 7.0)  # rubbish in the padding
    torch.testing.assert_close(padded.sums(rectangle), packed.sums(x))
    assert torch.equal(padded.maxima(rectangle), packed.maxima(x))
    assert torch.equal(padded.real(padded.spread(y).expand(-1, padded.size, -1)), packed.spread(y))
    assert padded.lengths.tolist() == packed.lengths.tolist() == lengths
    for form in (padded, packed):
        assert form.uniform(3).full
        assert form.uniform(3).lengths.tolist() == [3] * len(lengths)
        assert torch.equal(form.uniform(3).mask, Padded.of([3] * len(lengths)).mask)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_both_layouts_add_up_from_the_first_on_and_pick_the_same_places(lengths: list[int]) -> None:
    """What lies at some place of each source, for each position of sequences of other lengths."""
    torch.manual_seed(0)
    others = [n + 2 for n in lengths]
    padded, packed = (kind.of(lengths) for kind in (Padded, Packed))
    wide, tight = (kind.of(others) for kind in (Padded, Packed))
    x, numbers = torch.randn(sum(lengths), 3), torch.randint(0, 5, (sum(others),))
    assert torch.equal(wide.real(wide.running(tight.pad(numbers))), tight.running(numbers))
    first = torch.tensor([sum(others[:i]) for i in range(len(others))])
    assert tight.running(numbers)[first].tolist() == numbers[first].tolist()
    places = torch.cat([torch.randint(0, max(n, 1), (m,)) for n, m in zip(lengths, others, strict=True)])
    found, expected = packed.pick(x, places, tight), padded.pick(packed.pad(x), tight.pad(places), wide)
    there = tight.spread(packed.lengths) > 0
    assert torch.equal(found[there], wide.real(expected)[there])


def test_long_sums_of_half_precision_are_made_in_full() -> None:
    ones = torch.ones(1000, 1, dtype=torch.bfloat16)  # added up in bfloat16 they stop at 256
    assert Packed.of([1000]).sums(ones).item() == Padded.of([1000]).sums(ones[None]).item() == 1000


@pytest.mark.parametrize("layout", [Padded, Packed])
def test_twice_is_everything_and_the_same_again(layout: type[Padded] | type[Packed]) -> None:
    once = layout.of([3, 0, 2])
    x = torch.arange(5.0) if layout is Packed else torch.arange(9.0).view(3, 3)
    twice, xx = once.twice(), torch.cat([x, x])
    assert torch.equal(twice.pad(xx), torch.cat([once.pad(x), once.pad(x)]))
    assert torch.equal(twice.real(xx), torch.cat([once.real(x), once.real(x)]))
    assert torch.equal(twice.mask, torch.cat([once.mask, once.mask]))
    assert twice.positions.expand(xx.shape).tolist() == 2 * once.positions.expand(x.shape).tolist()
