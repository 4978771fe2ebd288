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

from regard.nn.masks import length_mask

ALIGNED = 64  # matrix products like row counts that are multiples of this


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

    def to(self, device: torch.device) -> Layout: ...


@dataclass(frozen=True)
class Padded:
    """Sequences as rows of one rectangle; real positions come first in each row."""

    mask: Tensor  # (B, N)
    positions: Tensor  # (1, N)
    size: int  # N; beyond it no position is used
    full: bool = False
    offsets: ClassVar[None] = None

    @classmethod
    def of(cls, lengths: Sequence[int] | np.ndarray) -> Padded:
        counts = torch.as_tensor(lengths, dtype=torch.long)
        size = int(counts.max()) if len(counts) else 0
        return cls(length_mask(counts, size), torch.arange(size)[None], size, full=bool((counts == size).all()))

    def pad(self, x: Tensor) -> Tensor:
        return x

    def unpad(self, x: Tensor) -> Tensor:
        return x

    def real(self, x: Tensor) -> Tensor:
        return x.flatten(0, 1) if self.full else x[self.mask]

    def to(self, device: torch.device) -> Padded:
        return Padded(self.mask.to(device), self.positions.to(device), self.size, self.full)


class Room(NamedTuple):
    """A shape that many packed batches share when they are filled up to it."""

    total: int  # positions
    sequences: int
    size: int  # N, at least the longest sequence

    @classmethod
    def for_sides(cls, sides: Sequence[np.ndarray], budget: int, longest: int) -> Room:
        """One room for all sides of a batch, by the lengths of their sequences: `budget` positions or so many eighths
        of it, a number of sequences and a greatest length that are powers of two, though not above `longest`."""
        eighth = -(-budget // (8 * ALIGNED)) * ALIGNED
        totals = [int(lengths.sum()) for lengths in sides]
        total = -(-max(totals) // eighth) * eighth
        size = min(power_of_two(max(16, *(int(lengths.max()) for lengths in sides))), longest)
        filler = -(-(total - min(totals)) // size)
        return cls(total, power_of_two(len(sides[0]) + filler), size)


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
        counts = torch.as_tensor(lengths, dtype=torch.long)
        if size is None:
            size = int(counts.max()) if len(counts) else 0
        offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        rows = torch.repeat_interleave(torch.arange(len(lengths)), counts)
        positions = torch.arange(int(offsets[-1])) - offsets[rows]
        return cls(offsets, positions, rows * size + positions, size, bool((counts == size).all()))

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

    def pad(self, x: Tensor) -> Tensor:
        B = len(self.offsets) - 1
        rectangle = x.new_zeros(B * self.size, *x.shape[1:]).index_copy(0, self.slots, x)
        return rectangle.view(B, self.size, *x.shape[1:])

    def unpad(self, x: Tensor) -> Tensor:
        return x.flatten(0, 1).index_select(0, self.slots)

    def real(self, x: Tensor) -> Tensor:
        return x

    def to(self, device: torch.device) -> Packed:
        return Packed(self.offsets.to(device), self.positions.to(device), self.slots.to(device), self.size, self.full)
