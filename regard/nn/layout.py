"""Where sequences begin and end in a tensor of positions.

A layout travels beside every tensor of sequences. `Padded` keeps a batch as (B, N, …) with a mask of real
positions; `Packed` keeps the real positions alone, end to end, as (total, …). Embedding, attention, pooling
and the loss ask the layout; everything else works on (…, d) and need not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.nn.masks import length_mask


class Layout(Protocol):
    """What blocks may ask of a layout."""

    @property
    def packed(self) -> bool:
        """Whether sequences lie end to end, without padding."""

    @property
    def offsets(self) -> Tensor:
        """(B + 1,), where each sequence would begin if they lay end to end; the last is the total."""

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
    packed: ClassVar[bool] = False

    @property
    def offsets(self) -> Tensor:
        return F.pad(self.mask.sum(dim=1).cumsum(0), (1, 0))

    @classmethod
    def of(cls, lengths: Sequence[int] | np.ndarray) -> Padded:
        counts = torch.as_tensor(lengths, dtype=torch.long)
        size = int(counts.max()) if len(counts) else 0
        return cls(length_mask(counts, size), torch.arange(size)[None], size, full=bool((counts == size).all()))

    @classmethod
    def step(cls, rows: int, position: int, device: torch.device) -> Padded:
        """One new position in each of `rows` sequences, as a decoder with a cache takes them."""
        mask = torch.ones(rows, 1, dtype=torch.bool, device=device)
        return cls(mask, torch.full((1, 1), position, device=device), position + 1, full=True)

    def pad(self, x: Tensor) -> Tensor:
        return x

    def unpad(self, x: Tensor) -> Tensor:
        return x

    def real(self, x: Tensor) -> Tensor:
        return x.flatten(0, 1) if self.full else x[self.mask]

    def select(self, rows: Tensor) -> Padded:
        """The sequences `rows`, in that order."""
        return Padded(self.mask[rows], self.positions, self.size, self.full)

    def to(self, device: torch.device) -> Padded:
        return Padded(self.mask.to(device), self.positions.to(device), self.size, self.full)


@dataclass(frozen=True)
class Packed:
    """Sequences end to end, without padding."""

    offsets: Tensor  # (B + 1,) where each sequence begins; the last is the total
    positions: Tensor  # (total,)
    slots: Tensor  # (total,) where each position lies in the padded rectangle, row by row
    size: int  # N, at least the longest sequence
    full: bool = False
    packed: ClassVar[bool] = True

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
    def filled(cls, lengths: np.ndarray, total: int, sequences: int, size: int) -> Packed:
        """The same shape for every batch: after the real sequences come some of at most `size` positions up to `total`,
        and empty ones up to the number of `sequences`."""
        rest = total - int(lengths.sum())
        filler = np.full(-(-rest // size), size)
        filler[-1:] -= len(filler) * size - rest
        empty = np.zeros(sequences - len(lengths) - len(filler), dtype=np.int64)
        return cls.of(np.concatenate([lengths, filler, empty]), size)

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
