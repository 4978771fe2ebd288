"""Attention over packed sequences on a GPU: which kernel fits."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard.nn.kernels.attention import Heads, Settings, fits, short_attention
from regard.nn.kernels.varlen import takes, varlen_attention

Attention = Callable[[Tensor, Tensor | None, Heads, Settings], Tensor]


def kernel_for(dtype: torch.dtype, heads: Heads, settings: Settings) -> Attention | None:
    """Ours where a program can hold a whole sequence, else the library's, which fills its tiles with long ones; None
    where neither takes these values."""
    if fits(dtype, heads, settings):
        return short_attention
    return varlen_attention if takes(dtype, heads, settings) else None
