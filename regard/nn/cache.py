"""Attention while a sequence is produced: what was computed before is kept, and a step costs one position.

A search holds B sentences in as many slots, with W hypotheses each. What a decoder attends to of the source is one for
all hypotheses of a slot (`Memory`): they are W queries to the same keys. What each has produced is its own (`Past`) and
moves when the hypotheses do.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.nn.attention import MultiHeadAttention
from regard.nn.linear import product_type

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


class Past:
    """Keys and values of the positions each hypothesis has produced, of one self-attention."""

    def __init__(self, attention: MultiHeadAttention, slots: int, beam: int, room: int = 0) -> None:
        self.attention = attention
        parts = attention.w_q, attention.w_k, attention.w_v
        self.weight = torch.cat([part.weight for part in parts])
        self.bias = torch.cat([part.bias for part in parts]) if attention.w_q.bias is not None else None
        # Zeros: what is barred still meets a product.
        self.k, self.v = (
            self.weight.new_zeros(
                slots * beam, attention.n_heads, max(room, GROWTH), width, dtype=product_type(self.weight)
            )
            for width in (attention.d_k, attention.d_v)
        )

    def __call__(self, x: Tensor, positions: Tensor, longest: int) -> Tensor:
        """x: (R, D), a position more of every hypothesis   positions: (R,), its number   longest: above all of them."""
        H, d_k, d_v, rows = self.attention.n_heads, self.attention.d_k, self.attention.d_v, len(x)
        if longest > self.k.shape[2]:
            self.k, self.v = (F.pad(old, (0, 0, 0, GROWTH)) for old in (self.k, self.v))
        projected = F.linear(x, self.weight, self.bias)
        q, k, v = (part.unflatten(-1, (H, -1)) for part in projected.split([H * d_k, H * d_k, H * d_v], dim=-1))
        every = torch.arange(rows, device=x.device)
        self.k[every, :, positions] = k
        self.v[every, :, positions] = v
        later = torch.arange(longest, device=x.device) > positions[:, None]  # (R, K)
        barred = x.new_zeros(later.shape).masked_fill_(later, -torch.inf)[:, None].repeat_interleave(H, dim=0)
        k, v = (kept.flatten(0, 1)[:, :longest] for kept in (self.k, self.v))
        context = attend(q.flatten(0, 1)[:, None], k, v, barred)  # (R·H, 1, d_v)
        return self.attention.w_o(context.view(rows, H * d_v))

    def move(self, rows: Tensor, longest: int) -> None:
        """Row i goes on from what row `rows[i]` was."""
        for kept in (self.k, self.v):
            kept[:, :, :longest] = kept[rows, :, :longest]

    def keep(self, rows: Tensor) -> None:
        self.k, self.v = self.k[rows], self.v[rows]


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

    def enter(self, slots: Tensor, source: Tensor) -> None:
        """Put encoded sources (b, S, D) into slots."""
        for kept, projection in ((self.k, self.attention.w_k), (self.v, self.attention.w_v)):
            new = projection(source).unflatten(-1, (self.attention.n_heads, -1)).transpose(1, 2)
            kept[slots, :, : source.shape[1]] = new

    def __call__(self, x: Tensor, barred: Tensor) -> Tensor:
        """x: (R, D)   barred: (B, 1, S), −∞ on what is no source."""
        slots, H = len(self.k), self.attention.n_heads
        q = self.attention.w_q(x).view(slots, -1, H, self.attention.d_k).transpose(1, 2)  # (B, H, W, d_k)
        k, v = self.k.flatten(0, 1), self.v.flatten(0, 1)
        weights = weigh(q.flatten(0, 1), k, barred.repeat_interleave(H, dim=0))  # (B·H, W, S)
        self.weights = weights.unflatten(0, (slots, H))
        context = torch.bmm(weights, v)  # (B·H, W, d_v)
        return self.attention.w_o(context.unflatten(0, (slots, H)).transpose(1, 2).flatten(-2).flatten(0, 1))

    def keep(self, slots: Tensor) -> None:
        self.k, self.v = self.k[slots], self.v[slots]
