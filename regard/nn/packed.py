"""Attention over packed sequences on a GPU: the kernel that fits their length.

Up to `LONGEST` positions one program holds a whole sequence; beyond, the library's tiles are full and its kernel wins
(docs/log.md).
"""

from __future__ import annotations

from torch import Tensor

from regard.nn.kernels.attention import LONGEST, Heads, Settings, short_attention
from regard.nn.kernels.varlen import takes, varlen_attention


def packed_attention(projected: Tensor, memory: Tensor | None, heads: Heads, settings: Settings) -> Tensor | None:
    """As `short_attention`, for any length; None where no kernel takes these values."""
    if settings.longest <= LONGEST:
        return short_attention(projected, memory, heads, settings)
    if takes(projected, heads, settings):
        return varlen_attention(projected, memory, heads, settings)
    return None
