"""Positional encodings: *Attention Is All You Need*, §3.5 and Table 3 row (E).

    PE(pos, 2i)   = sin(pos / 10000^(2i / d_model))
    PE(pos, 2i+1) = cos(pos / 10000^(2i / d_model))

Positions count from 0. Departures from the paper: none; `halves` is other systems' order of the same
numbers, all sines before all cosines.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.errors import RegardError


def sinusoids(positions: Tensor, d_model: int, layout: str = "interleaved") -> Tensor:
    """positions: (…) → (…, d_model), in float32."""
    # float64 until the end: at large positions a float32 angle would be off in the fourth digit.
    even = torch.arange(0, d_model, 2, dtype=torch.float64, device=positions.device)  # 2i
    angles = positions.to(torch.float64)[..., None] / 10000.0 ** (even / d_model)  # (…, d_model / 2)
    if layout == "halves":
        return torch.cat([angles.sin(), angles.cos()], dim=-1).float()
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).float()


class SinusoidalPositions(nn.Module):
    """A table of `sinusoids`, grown when a longer sequence arrives, so that there is no longest one. The tables before
    it stay in memory, together less than it takes itself: work recorded on a GPU goes on reading them."""

    fixed: ClassVar[bool] = True
    table: Tensor

    def __init__(self, d_model: int, layout: str = "interleaved", size: int = 512) -> None:
        super().__init__()
        self.d_model, self.layout = d_model, layout
        self.register_buffer("table", sinusoids(torch.arange(size), d_model, layout), persistent=False)
        self.outgrown: list[Tensor] = []

    def forward(self, positions: Tensor, size: int) -> Tensor:
        """positions: (…), all below `size` → (…, d_model)."""
        return self.rows(size)[positions]

    def rows(self, size: int) -> Tensor:
        """The vectors of at least the first `size` positions."""
        if size > len(self.table):
            self.outgrown.append(self.table)
            longer = torch.arange(2 * size, device=self.table.device)
            self.table = sinusoids(longer, self.d_model, self.layout).to(self.table.dtype)
        return self.table


class LearnedPositions(nn.Module):
    """A trained vector for each of `size` positions."""

    fixed: ClassVar[bool] = False

    def __init__(self, d_model: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size, d_model))

    def forward(self, positions: Tensor, size: int) -> Tensor:
        """positions: (…), all below `size` → (…, d_model)."""
        return self.rows(size)[positions]

    def rows(self, size: int) -> Tensor:
        """The vectors of at least the first `size` positions."""
        if size > len(self.weight):
            raise RegardError(
                f"A sequence of {size} tokens needs more than the {len(self.weight)} learned positions: "
                "shorten it, or train with a larger model.max_positions or with sinusoidal positions."
            )
        return self.weight
