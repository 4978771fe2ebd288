"""Where sequences begin and end in a tensor of positions.

A layout travels beside every tensor of sequences. `Padded` keeps a batch as (B, N, …) with a mask of real
positions; `Packed` keeps the real positions alone, end to end, as (total, …). Embedding, attention, pooling
and the loss ask the layout; everything else works on (…, d) and need not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from regard.errors import InputError
from regard.nn.masks import length_mask

ALIGNED = 64  # matrix products like row counts that are multiples of this


def send(x: Tensor, device: torch.device) -> Tensor:
    """x on a device, on its way there while the host goes on."""
    return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" and not x.is_cuda else x.to(device)


def whole_lengths(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    """Lengths as numpy has them, none of them negative or cut to a whole number: sequences would lie on one another."""
    counts = np.asarray(lengths)  # by numpy: for so little, torch would wake all its threads
    if counts.size and (counts.ndim != 1 or counts.dtype.kind not in "iu" or counts.min() < 0):
        raise InputError(f"Lengths are whole numbers of at least 0, in one row, not {lengths}.")
    return counts.astype(np.int64, copy=False).reshape(-1)


class Layout(Protocol):
    """What blocks may ask of a layout."""

    @property
    def offsets(self) -> Tensor | None:
        """(B + 1,), where each sequence begins, the last the total, where they lie end to end; else None."""

    @property
    def mask(self) -> Tensor:
        """(B, N) bool, True on real positions."""

    @property
    def positions(self) -> Tensor:
        """The place of each position in its own sequence, broadcastable to the tensor's leading shape."""

    @property
    def size(self) -> int:
        """N, which no position reaches."""

    @property
    def full(self) -> bool:
        """Whether all sequences have N real positions, so that no mask is needed."""

    def pad(self, x: Tensor) -> Tensor:
        """This layout's tensor → (B, N, …)."""

    def unpad(self, x: Tensor) -> Tensor:
        """(B, N, …) → this layout's tensor."""

    def real(self, x: Tensor) -> Tensor:
        """This layout's tensor → (total, …), the real positions of all sequences end to end."""

    def running(self, x: Tensor) -> Tensor:
        """This layout's tensor of numbers → at each position their sum from the first of its sequence on."""

    def pick(self, x: Tensor, places: Tensor, layout: Layout) -> Tensor:
        """Of this layout's tensor what lies at `places` of the same sequence, for each position of another layout of
        its form; anything where a sequence has no such place. → that layout's tensor"""

    @property
    def lengths(self) -> Tensor:
        """(B,), the real positions of each sequence."""

    def spread(self, y: Tensor) -> Tensor:
        """(B, …), one value for each sequence → the same at its positions, broadcastable to this layout's tensor."""

    def cleared(self, x: Tensor) -> Tensor:
        """The same tensor with zeros for whatever lies in its padding, were it NaN."""

    def sums(self, x: Tensor) -> Tensor:
        """This layout's tensor → (B, …), added up over each sequence; in float32 where x is narrower."""

    def maxima(self, x: Tensor) -> Tensor:
        """This layout's tensor → (B, …), the greatest of each sequence; zeros where it is empty."""

    def uniform(self, size: int) -> Layout:
        """The layout, in the same form, of as many sequences that all have `size` positions."""

    def twice(self) -> Layout:
        """The layout of all sequences and then all of them again: of a tensor and the same behind it."""

    def to(self, device: torch.device) -> Layout: ...

    def led(self) -> Layout:
        """The layout of the same sequences with one position more before each."""

    def lead(self, first: Tensor, x: Tensor) -> Tensor:
        """first (…) before every sequence of this layout's tensor → a tensor of `led()`."""

    def unlead(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """A tensor of `led()` → what stands first in each sequence, (B, …), and the rest, in this layout."""


@dataclass(frozen=True)
class Padded:
    """Sequences as rows of one rectangle; real positions come first in each row."""

    mask: Tensor  # (B, N)
    positions: Tensor  # (1, N)
    size: int  # N; beyond it no position is used
    full: bool = False
    offsets: ClassVar[None] = None

    @classmethod
    def of(cls, lengths: Sequence[int] | np.ndarray, size: int | None = None) -> Padded:
        """size: N, by default the greatest length"""
        counts = torch.from_numpy(whole_lengths(lengths))
        if size is None:
            size = int(counts.max()) if len(counts) else 0
        return cls(length_mask(counts, size), torch.arange(size)[None], size, full=bool((counts == size).all()))

    @classmethod
    def whole(cls, n: int, size: int, device: torch.device | None = None) -> Padded:
        """n sequences of `size` positions each, without padding."""
        mask = torch.ones(n, size, dtype=torch.bool, device=device)
        return cls(mask, torch.arange(size, device=device)[None], size, full=True)

    def pad(self, x: Tensor) -> Tensor:
        return x

    def unpad(self, x: Tensor) -> Tensor:
        return x

    def real(self, x: Tensor) -> Tensor:
        return x.flatten(0, 1) if self.full else x[self.mask]

    def running(self, x: Tensor) -> Tensor:
        return x.cumsum(dim=1)

    def pick(self, x: Tensor, places: Tensor, layout: Layout) -> Tensor:
        return gathered(x, places)

    @property
    def lengths(self) -> Tensor:
        return self.mask.sum(dim=1)

    def spread(self, y: Tensor) -> Tensor:
        return y[:, None]

    def cleared(self, x: Tensor) -> Tensor:
        return x if self.full else x.masked_fill(~self.over(x), 0.0)

    def sums(self, x: Tensor) -> Tensor:
        return wide(self.cleared(x)).sum(dim=1)

    def maxima(self, x: Tensor) -> Tensor:
        if not self.size:
            return x.sum(dim=1)
        if self.full:
            return x.amax(dim=1)
        real = self.over(x)
        return x.masked_fill(~real, torch.finfo(x.dtype).min).amax(dim=1).masked_fill(~real.any(dim=1), 0.0)

    def over(self, x: Tensor) -> Tensor:
        """The mask, broadcastable to (B, N, …)."""
        return self.mask.view(*self.mask.shape, *[1] * (x.dim() - 2))

    def uniform(self, size: int) -> Padded:
        return Padded.whole(len(self.mask), size, self.mask.device)

    def twice(self) -> Padded:
        return replace(self, mask=torch.cat([self.mask, self.mask]))

    def to(self, device: torch.device) -> Padded:
        return Padded(self.mask.to(device), self.positions.to(device), self.size, self.full)

    def led(self) -> Padded:
        first = torch.ones_like(self.mask[:, :1]), torch.zeros_like(self.positions[:, :1])
        mask, positions = torch.cat([first[0], self.mask], dim=1), torch.cat([first[1], self.positions + 1], dim=1)
        return Padded(mask, positions, self.size + 1, self.full)

    def lead(self, first: Tensor, x: Tensor) -> Tensor:
        return torch.cat([first.to(x.dtype).expand(len(x), 1, *x.shape[2:]), x], dim=1)

    def unlead(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x[:, 0], x[:, 1:]


class Room(NamedTuple):
    """A shape that many packed batches share when they are filled up to it."""

    total: int  # positions
    sequences: int
    size: int  # N, at least the longest sequence

    @classmethod
    def for_sides(cls, sides: Sequence[np.ndarray], budget: int, longest: int, tight: bool = False) -> Room:
        """One room for all sides of a batch, by the lengths of their sequences: `budget` positions or so many eighths
        of it, a number of sequences and a greatest length that are powers of two, though not above `longest`.

        `tight`: the latter are multiples of 32 and of 4. There are more such rooms, with less in them that is empty.
        """
        totals, most = [int(lengths.sum()) for lengths in sides], max(int(lengths.max()) for lengths in sides)
        total = multiple(max(totals), multiple(-(-budget // 8), ALIGNED))
        size = min(multiple(most, 4) if tight else power_of_two(max(16, most)), longest)
        sequences = len(sides[0]) + -(-(total - min(totals)) // size)
        return cls(total, multiple(sequences, 32) if tight else power_of_two(sequences), size)


def wide(x: Tensor) -> Tensor:
    """x in a type that long sums may be made in."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def gathered(x: Tensor, places: Tensor) -> Tensor:
    """x: (B, N, d)   places: (B, M) → x[b, places[b, m]], (B, M, d)"""
    return x.gather(1, places[:, :, None].expand(-1, -1, x.shape[-1]))


def multiple(n: int, of: int) -> int:
    """The least multiple of `of` that is at least n."""
    return -(-n // of) * of


def power_of_two(n: int) -> int:
    """The least power of two that is at least n."""
    return 1 << (n - 1).bit_length()


@dataclass(frozen=True)
class Packed:
    """Sequences end to end, without padding."""

    offsets: Tensor  # (B + 1,) where each sequence begins; the last is the total
    positions: Tensor  # (total,)
    slots: Tensor  # (total,) where each position lies in the padded rectangle, row by row
    size: int  # N, at least the longest sequence
    full: bool = False

    @classmethod
    def of(cls, lengths: Sequence[int] | np.ndarray, size: int | None = None) -> Packed:
        """Sequences of these lengths; `size` where the rectangle they stand for is wider than the longest."""
        counts = whole_lengths(lengths)
        size = int(counts.max(initial=0)) if size is None else size
        offsets = np.concatenate([[0], counts.cumsum()])
        rows = np.repeat(np.arange(len(counts)), counts)
        positions = np.arange(offsets[-1]) - offsets[rows]
        places = torch.from_numpy(rows * size + positions)
        full = bool((counts == size).all())
        return cls(torch.from_numpy(offsets), torch.from_numpy(positions), places, size, full)

    @classmethod
    def filled(cls, lengths: np.ndarray, room: Room) -> Packed:
        """Sequences of these lengths, then others that nobody asked for, until the room is full."""
        rest = room.total - int(lengths.sum())
        filler = np.full(-(-rest // room.size), room.size)
        filler[-1:] -= len(filler) * room.size - rest
        empty = np.zeros(room.sequences - len(lengths) - len(filler), dtype=np.int64)
        # Never full: what is done once for a room must be right for every batch in it.
        return replace(cls.of(np.concatenate([lengths, filler, empty]), room.size), full=False)

    @property
    def mask(self) -> Tensor:
        return length_mask(self.offsets.diff(), self.size)

    @property
    def rows(self) -> Tensor:
        """(total,), the sequence of each position."""
        return self.slots // max(self.size, 1)

    def pad(self, x: Tensor) -> Tensor:
        B = len(self.offsets) - 1
        if self.full:
            return x.unflatten(0, (B, self.size))
        rectangle = x.new_zeros(B * self.size, *x.shape[1:]).index_copy_(0, self.slots, x)
        return rectangle.view(B, self.size, *x.shape[1:])

    def unpad(self, x: Tensor) -> Tensor:
        return x.flatten(0, 1) if self.full else x.flatten(0, 1).index_select(0, self.slots)

    def real(self, x: Tensor) -> Tensor:
        return x

    def running(self, x: Tensor) -> Tensor:
        total = x.cumsum(dim=0)
        return total - self.spread(torch.cat([total.new_zeros(1), total])[self.offsets[:-1]])

    def pick(self, x: Tensor, places: Tensor, layout: Layout) -> Tensor:
        first = layout.spread(self.offsets[:-1])
        return x.index_select(0, (first + places).clamp(0, len(x) - 1))

    @property
    def lengths(self) -> Tensor:
        return self.offsets.diff()

    def spread(self, y: Tensor) -> Tensor:
        return y.index_select(0, self.rows)

    def cleared(self, x: Tensor) -> Tensor:
        return x

    def sums(self, x: Tensor) -> Tensor:
        x = wide(x)
        return x.new_zeros(len(self.offsets) - 1, *x.shape[1:]).index_add(0, self.rows, x)

    def maxima(self, x: Tensor) -> Tensor:
        rows = self.rows.view(-1, *[1] * (x.dim() - 1)).expand_as(x)
        none = x.new_zeros(len(self.offsets) - 1, *x.shape[1:])
        return none.scatter_reduce(0, rows, x, "amax", include_self=False)

    def uniform(self, size: int) -> Packed:
        B, device = len(self.offsets) - 1, self.offsets.device
        every = torch.arange(B * size, device=device)
        return Packed(torch.arange(B + 1, device=device) * size, every % max(size, 1), every, size, full=True)

    def twice(self) -> Packed:
        total, B = len(self.positions), len(self.offsets) - 1
        return Packed(
            torch.cat([self.offsets, self.offsets[1:] + total]), self.positions.repeat(2),
            torch.cat([self.slots, self.slots + B * self.size]), self.size, self.full,
        )  # fmt: skip

    def to(self, device: torch.device) -> Packed:
        offsets, positions, slots = (send(part, device) for part in (self.offsets, self.positions, self.slots))
        return Packed(offsets, positions, slots, self.size, self.full)

    def led(self) -> Packed:
        # Empty sequences get their position too: how many positions there are depends on tensor shapes alone.
        rows, firsts, places = self.led_places()
        every = torch.arange(len(firsts), device=rows.device)
        total = len(rows) + len(firsts)
        positions = rows.new_zeros(total).index_copy(0, places, self.positions + 1)
        led_rows = rows.new_zeros(total).index_copy(0, places, rows).index_copy(0, firsts, every)
        offsets = torch.cat([firsts, self.offsets[-1:] + len(firsts)])
        return Packed(offsets, positions, led_rows * (self.size + 1) + positions, self.size + 1, self.full)

    def lead(self, first: Tensor, x: Tensor) -> Tensor:
        _, firsts, places = self.led_places()
        led = x.new_zeros(len(x) + len(firsts), *x.shape[1:]).index_copy(0, places, x)
        return led.index_copy(0, firsts, first.to(x.dtype).expand(len(firsts), *x.shape[1:]))

    def unlead(self, x: Tensor) -> tuple[Tensor, Tensor]:
        _, firsts, places = self.led_places()
        return x.index_select(0, firsts), x.index_select(0, places)

    def led_places(self) -> tuple[Tensor, Tensor, Tensor]:
        """The sequence of each position; where each sequence begins in `led()`; where each position comes to lie."""
        rows = self.rows
        firsts = self.offsets[:-1] + torch.arange(len(self.offsets) - 1, device=rows.device)
        return rows, firsts, torch.arange(len(rows), device=rows.device) + rows + 1
