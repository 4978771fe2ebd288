"""Attention while a sequence is produced: what was computed before is kept, and a step costs one position.

A search holds B sentences in as many slots, with W hypotheses each. What a decoder attends to of the source is one for
all hypotheses of a slot (`Memory`): they are W queries to the same keys. What each has produced is its own (`Past`) and
moves when the hypotheses do. It may be Q positions longer at a time; a position that is fed again replaces what was
kept there, and what is kept of later ones is not seen: to take something back, feed what shall stand in its place.

On a GPU one kernel does a step of either, and instead of keys and values a table of `ancestors` moves
(`regard.nn.kernels.stepping`).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.nn import kernels
from regard.nn.attention import MultiHeadAttention
from regard.nn.layout import Layout
from regard.nn.linear import derived, linear, product_type

GROWTH = 32  # positions by which the room for what is produced grows


def attend(q: Tensor, k: Tensor, v: Tensor, barred: Tensor | None) -> Tensor:
    """softmax(q kᵀ / √d_k + barred) v for many small attentions.

    q: (N, Q, d_k)   k: (N, K, d_k)   v: (N, K, d_v)   barred: broadcastable to (N, Q, K), 0 or −∞   → (N, Q, d_v)
    """
    return torch.bmm(weigh(q, k, barred), v)


def weigh(q: Tensor, k: Tensor, barred: Tensor | None) -> Tensor:
    """softmax(q kᵀ / √d_k + barred): (N, Q, K)."""
    bias = q.new_zeros(1, 1, 1) if barred is None else barred
    return torch.baddbmm(bias, q, k.transpose(1, 2), alpha=1 / math.sqrt(q.shape[-1])).softmax(dim=-1)


def joined(*weights: Tensor) -> Tensor:
    return torch.cat(weights)


def future(positions: Tensor, longest: int, n_heads: int) -> Tensor:
    """−∞ on the keys that come after a query, 0 on others. positions: (R, Q), below `longest` → (R·H, Q, longest)"""
    later = torch.arange(longest, device=positions.device) > positions[:, :, None]
    return torch.where(later, -torch.inf, 0.0).repeat_interleave(n_heads, 0)


def put(new: Tensor, kept: Tensor, slots: Tensor, positions: Tensor) -> None:
    """kept[slots[i], :, positions[i]] = new[i]   new: (total, H·d)   kept: (B, H, S, d)"""
    if kernels.usable(kept):
        from regard.nn.kernels.stepping import put as by_kernel

        by_kernel(new, kept, slots, positions)
    else:
        kept[slots, :, positions] = new.unflatten(-1, (kept.shape[1], -1))


class Past:
    """Keys and values of the positions each hypothesis has produced, of one self-attention."""

    def __init__(self, attention: MultiHeadAttention, slots: int, beam: int, room: int = 0) -> None:
        self.attention = attention
        parts = attention.w_q, attention.w_k, attention.w_v
        self.weight = derived(joined, *(part.weight for part in parts))
        self.bias = torch.cat([part.bias for part in parts]) if attention.w_q.bias is not None else None
        # Zeros: what is barred still meets a product.
        self.k, self.v = (
            self.weight.new_zeros(
                slots * beam, attention.n_heads, max(room, GROWTH), width, dtype=product_type(self.weight)
            )
            for width in (attention.d_k, attention.d_v)
        )

    def reach(self, longest: int) -> None:
        """Have room for so many positions."""
        if longest > self.k.shape[2]:
            more = -(-(longest - self.k.shape[2]) // GROWTH) * GROWTH
            self.k, self.v = (F.pad(old, (0, 0, 0, more)) for old in (self.k, self.v))

    def by_kernel(self, x: Tensor, positions: Tensor, ancestors: Tensor, beam: int) -> Tensor:
        """x: (R·Q, D), Q positions more of every hypothesis, more than one in a beam of one alone
        positions: (R, Q), their numbers, one after another   ancestors: (R, room)"""
        from regard.nn.kernels.stepping import block_attention, past_attention

        projected = linear(x, self.weight, self.bias)
        if positions.shape[1] > 1:
            context = block_attention(projected, self.k, self.v, positions)
        else:
            context = past_attention(projected, self.k, self.v, ancestors, positions[:, 0], beam)
        return linear(context, self.attention.w_o.weight, self.attention.w_o.bias)

    def __call__(self, x: Tensor, positions: Tensor, future: Tensor) -> Tensor:
        """x: (R·Q, D), Q positions more of every hypothesis   positions: (R, Q), their numbers
        future: (R·H, Q, K), as `future(positions, K, H)` has it"""
        H, d_k, d_v, (R, Q), longest = (
            self.attention.n_heads, self.attention.d_k, self.attention.d_v, positions.shape, future.shape[-1]
        )  # fmt: skip
        self.reach(longest)
        projected = linear(x, self.weight, self.bias).unflatten(0, (R, Q))
        q, k, v = (part.unflatten(-1, (H, -1)) for part in projected.split([H * d_k, H * d_k, H * d_v], dim=-1))
        every = torch.arange(R, device=x.device)[:, None]
        self.k[every, :, positions] = k
        self.v[every, :, positions] = v
        k, v = (kept.flatten(0, 1)[:, :longest] for kept in (self.k, self.v))
        context = attend(q.transpose(1, 2).flatten(0, 1), k, v, future)  # (R·H, Q, d_v)
        gathered = context.view(R, H, Q, d_v).transpose(1, 2).reshape(R * Q, H * d_v)
        return linear(gathered, self.attention.w_o.weight, self.attention.w_o.bias)

    def move(self, rows: Tensor, parents: Tensor, longest: int) -> None:
        """Row `rows[i]` goes on from what row `parents[i]` was."""
        for kept in (self.k[:, :, :longest], self.v[:, :, :longest]):
            kept.index_copy_(0, rows, kept.index_select(0, parents))

    def keep(self, rows: Tensor) -> None:
        self.k, self.v = self.k[rows], self.v[rows]

    def grow(self, more: int) -> None:
        """So many rows more."""
        self.k, self.v = (F.pad(kept, (0, 0, 0, 0, 0, 0, 0, more)) for kept in (self.k, self.v))


class Memory:
    """Keys and values of the sources in the slots, of one attention to them."""

    def __init__(self, attention: MultiHeadAttention, slots: int, longest: int) -> None:
        self.attention = attention
        weight = attention.w_k.weight
        self.k, self.v = (
            weight.new_zeros(slots, attention.n_heads, longest, width, dtype=product_type(weight))
            for width in (attention.d_k, attention.d_v)
        )
        self.weights = weight.new_zeros(slots, attention.n_heads, 1, longest)  # of the last step, (B, H, W, S)

    def enter(self, slots: Tensor, source: Tensor, layout: Layout) -> None:
        """Put encoded sources, (…, D) in `layout`, into slots."""
        for kept, part in ((self.k, self.attention.w_k), (self.v, self.attention.w_v)):
            new = linear(source, part.weight, part.bias)
            if layout.offsets is None:
                kept[slots, :, : layout.size] = self.attention.heads(new, layout)
            else:  # each position to its place: beyond a source lies what was there before, which is barred
                put(new, kept, layout.spread(slots), layout.positions)

    def by_kernel(self, x: Tensor, lengths: Tensor) -> Tensor:
        """x: (R, D)   lengths: (B,), of the sources"""
        from regard.nn.kernels.stepping import memory_attention

        w_q, w_o = self.attention.w_q, self.attention.w_o
        q = linear(x, w_q.weight, w_q.bias)
        return linear(memory_attention(q, self.k, self.v, lengths, len(x) // len(self.k)), w_o.weight, w_o.bias)

    def __call__(self, x: Tensor, barred: Tensor) -> Tensor:
        """x: (R, D)   barred: (B, 1, S), −∞ on what is no source; what lies beyond is not looked at"""
        slots, H = len(self.k), self.attention.n_heads
        w_q, w_o = self.attention.w_q, self.attention.w_o
        q = linear(x, w_q.weight, w_q.bias).view(slots, -1, H, self.attention.d_k).transpose(1, 2)  # (B, H, W, d_k)
        k, v = (kept.flatten(0, 1)[:, : barred.shape[2]] for kept in (self.k, self.v))
        weights = weigh(q.flatten(0, 1), k, barred.repeat_interleave(H, dim=0))  # (B·H, W, S)
        self.weights = weights.unflatten(0, (slots, H))
        context = torch.bmm(weights, v)  # (B·H, W, d_v)
        gathered = context.unflatten(0, (slots, H)).transpose(1, 2).flatten(-2).flatten(0, 1)
        return linear(gathered, w_o.weight, w_o.bias)

    def keep(self, slots: Tensor) -> None:
        self.k, self.v = self.k[slots], self.v[slots]

    def grow(self, more: int, longest: int) -> None:
        """So many slots more, and room for longer sources."""
        longer = longest - self.k.shape[2]
        self.k, self.v = (F.pad(kept, (0, 0, 0, longer, 0, 0, 0, more)) for kept in (self.k, self.v))
