"""torch's attention over packed sequences, for long ones, under the signature it has in the torch at hand.

torch 2.10 took `is_causal`; later ones take a window. The kernel wants half precision and knows no dropout.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import torch
from torch import Tensor

from regard.nn.kernels.attention import Heads, Settings


@cache
def causal_argument() -> dict[str, Any]:
    from torch.nn.attention.varlen import varlen_attn

    known = inspect.signature(varlen_attn).parameters
    return {"is_causal": True} if "is_causal" in known else {"window_size": (-1, 0)}


def takes(dtype: torch.dtype, heads: Heads, settings: Settings) -> bool:
    half, plain = dtype in (torch.bfloat16, torch.float16), not settings.dropout and heads.d_k == heads.d_v
    return half and plain and heads.d_k <= 256 and heads.d_k % 8 == 0


def varlen_attention(projected: Tensor, memory: Tensor | None, heads: Heads, settings: Settings) -> Tensor:
    """`short_attention` for sequences of any length."""
    from torch.nn.attention.varlen import varlen_attn

    q, k, v = (part.unflatten(-1, (heads.n, -1)) for part in heads.split(projected, memory))
    out: Any = varlen_attn(
        q, k, v, settings.q_offsets.int(), settings.k_offsets.int(), settings.longest, settings.longest,
        **(causal_argument() if settings.causal else {}),
    )  # fmt: skip
    return out.flatten(-2)
