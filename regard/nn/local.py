"""Restricted self-attention: *Attention Is All You Need*, §4, Table 1's last row.

    Attention(Q, K, V)_i = softmax(q_i K_{N(i)}ᵀ / √d_k) V_{N(i)},   N(i): r positions around i

The neighbourhood is centred on the query, i − ⌊r/2⌋ … i + ⌊(r−1)/2⌋; a causal one ends with it, i − r + 1 … i. L layers
see L times as far, so that the farthest of n positions are ⌈(n−1) / ⌊r/2⌋⌉ layers apart, ⌈(n−1) / (r−1)⌉ in the causal
case: O(n/r).

`restricted_attention` is the one attention with a mask, which costs O(n²·d) whatever r is. `banded_attention` is the
same function at O(r·n·d): queries in blocks of r, each block against the 2r − 1 keys that any of its queries may see.
Departures from the paper: none; it gives no formula for the ends of a sequence, where a neighbourhood is cut short.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import RegardError
from regard.nn.attention import MultiHeadAttention, fused_attention
from regard.nn.layout import Layout
from regard.nn.masks import neighbourhood_mask


def reach(r: int, causal: bool) -> tuple[int, int]:
    """How many positions before a query, and after it, its neighbourhood of r has."""
    return (r - 1, 0) if causal else (r // 2, (r - 1) // 2)


def restricted_mask(size: int, r: int, mask: Tensor | None, causal: bool, device: torch.device) -> Tensor:
    """(…, N, N): the neighbourhoods, within what `mask` allows."""
    near = neighbourhood_mask(size, *reach(r, causal), device)
    return near if mask is None else mask & near


def restricted_attention(
    q: Tensor, k: Tensor, v: Tensor, r: int, mask: Tensor | None = None, causal: bool = False, dropout: float = 0.0
) -> Tensor:
    """By a mask. q, k: (B, H, N, d_k)   v: (B, H, N, d_v)   mask: (B, 1, 1, N), of keys   → (B, H, N, d_v)"""
    near = restricted_mask(q.shape[-2], r, mask, causal, q.device)
    return fused_attention(q, k, v, near, dropout=dropout)


def banded_attention(
    q: Tensor, k: Tensor, v: Tensor, r: int, mask: Tensor | None = None, causal: bool = False, dropout: float = 0.0
) -> Tensor:
    """The same function of the same arguments, without the scores that the mask would throw away."""
    B, H, N, _ = q.shape
    if N == 0 or r >= 2 * N:  # one block would hold more than there is
        return restricted_attention(q, k, v, r, mask, causal, dropout)
    before, after = reach(r, causal)
    blocks = -(-N // r)
    missing = blocks * r - N
    q = F.pad(q, (0, 0, 0, missing)).reshape(B * H, blocks, r, -1)
    k, v = (windows(x, r, before, after + missing) for x in (k, v))  # (B·H, blocks, 2r − 1, d)
    allowed = band(N, blocks, r, before, q.device)[None]  # (1, blocks, r, 2r − 1)
    if mask is not None:
        real = F.pad(mask[:, 0, 0], (before, after + missing)).unfold(1, 2 * r - 1, r)  # (B, blocks, 2r − 1)
        allowed = allowed & real[:, :, None, :]
        allowed = allowed[:, None].expand(B, H, *allowed.shape[1:]).flatten(0, 1)
    # Blocks stand where heads do elsewhere: to attention, both are so many independent problems.
    context = fused_attention(q, k, v, allowed, dropout=dropout)
    return context.reshape(B, H, blocks * r, -1)[:, :, :N]


def windows(x: Tensor, r: int, before: int, after: int) -> Tensor:
    """x: (B, H, N, d) → (B·H, blocks, 2r − 1, d), what each block of r positions has around it; zeros past the ends."""
    return F.pad(x, (0, 0, before, after)).flatten(0, 1).unfold(1, 2 * r - 1, r).transpose(-2, -1)


def band(size: int, blocks: int, r: int, before: int, device: torch.device) -> Tensor:
    """(blocks, r, 2r − 1), True where a window's key is in the query's neighbourhood and in the sequence."""
    query, key = torch.arange(r, device=device)[:, None], torch.arange(2 * r - 1, device=device)
    near = (query <= key) & (key < query + r)
    places = torch.arange(blocks, device=device)[:, None] * r + key - before
    return near & ((places >= 0) & (places < size))[:, None, :]


class RestrictedAttention(MultiHeadAttention):
    """Several heads, each of which sees a neighbourhood of r positions."""

    def __init__(
        self, d_model: int, n_heads: int, r: int, *, bias: bool = False, attn_dropout: float = 0.0, banded: bool = True
    ) -> None:
        super().__init__(d_model, n_heads, bias=bias, attn_dropout=attn_dropout)
        if r < 1:
            raise RegardError(f"A neighbourhood of {r} positions is none: give at least 1.")
        self.r, self.banded = r, banded

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        memory: Tensor | None = None,
        memory_layout: Layout | None = None,
        *,
        causal: bool = False,
    ) -> Tensor:
        """Self-attention of x. x: (…, D) in `layout` → (…, D)"""
        if memory is not None:
            raise ValueError("a memory has no neighbourhood of a query")
        return super().forward(x, layout, causal=causal)

    def packed_context(
        self, x: Tensor, layout: Layout, memory: Tensor | None, memory_layout: Layout, causal: bool
    ) -> Tensor | None:
        return None  # no kernel knows neighbourhoods

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool = False, dropout: float = 0.0
    ) -> Tensor:
        """By band or by mask, or the formula written out while its weights are recorded."""
        if self.record is None:
            function = banded_attention if self.banded else restricted_attention
            return function(q, k, v, self.r, mask, causal, dropout)
        return super().attend(q, k, v, restricted_mask(q.shape[-2], self.r, mask, causal, q.device), dropout=dropout)
