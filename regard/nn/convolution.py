"""Gated convolutions along a sequence (Dauphin et al. 2017; Gehring et al. 2017, §3.2).

    GLU:  conv(x) = (A x + a) ∘ σ(B x + b),   A, B over `width` positions `dilation` apart

A causal one ends at its own position, others are centred there. L layers of width k see L (k − 1) + 1 positions;
dilated ones, layer l from 0 at a distance of 2^l, see 1 + (k − 1)(2^L − 1).

A convolution is one matrix product with the neighbours laid side by side, which is also what one step of decoding
computes from the positions it has kept. Departures from the papers: no weight normalisation.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.linear import linear


def neighbours(x: Tensor, width: int, dilation: int, causal: bool) -> Tensor:
    """x: (B, N, d) → (B, N, width·d), what stands around each position, from the left; zeros beyond the ends."""
    N, reach = x.shape[1], (width - 1) * dilation
    left = reach if causal else reach // 2
    padded = F.pad(x, (0, 0, left, reach - left))
    return torch.cat([padded[:, i * dilation : i * dilation + N] for i in range(width)], dim=-1)


def receptive_field(width: int, n_layers: int, dilated: bool = False) -> int:
    """Positions that decide one output of so many layers."""
    return 1 + (width - 1) * (2**n_layers - 1 if dilated else n_layers)


class GatedConvolution(nn.Module):
    """Half of what it computes opens and closes the other half."""

    def __init__(self, d_hidden: int, width: int, dilation: int = 1, causal: bool = False) -> None:
        super().__init__()
        self.width, self.dilation, self.causal = width, dilation, causal
        self.both = nn.Linear(width * d_hidden, 2 * d_hidden)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, N, d), zeros where there is padding → (B, N, d)"""
        return self.gated(neighbours(x, self.width, self.dilation, self.causal))

    def gated(self, around: Tensor) -> Tensor:
        """around: (…, width·d) → (…, d)"""
        return F.glu(linear(around, self.both.weight, self.both.bias), dim=-1)

    @property
    def reach(self) -> int:
        """Positions from the first that is seen to the last."""
        return (self.width - 1) * self.dilation + 1

    def step(self, kept: Tensor) -> Tensor:
        """The last position alone. kept: (R, reach, d), that position last → (R, d)"""
        return self.gated(kept[:, :: self.dilation].flatten(1))

    def initialise(self, dropout: float) -> None:
        """As much variance out as in, the gate half open (Gehring et al. 2017, §3.5)."""
        nn.init.normal_(self.both.weight, std=math.sqrt(4 * (1 - dropout) / self.both.in_features))
        nn.init.zeros_(self.both.bias)
