"""Attention: *Attention Is All You Need*, §3.2.

    Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V                                    (§3.2.1, eq. 1)
    MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O                             (§3.2.2)
        head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)

`attention` is the formula written out; `fused_attention` is the same function through torch's kernels.
Departures from the paper: none. A query that may attend to nothing, which the paper does not meet, gets
zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn import kernels
from regard.nn.layout import Layout
from regard.nn.linear import linear, product_type, side_by_side
from regard.nn.masks import causal_mask, key_mask

SHORT = 64  # keys, up to which two batched products take the place of the fused kernel on a CPU (docs/log.md)
MANY = 1024  # queries, beyond which the fused kernel fills its blocks, however few the keys


def attention_weights(q: Tensor, k: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    """softmax(q kᵀ / √d_k) over the keys each query may attend to.

    q: (B, H, Q, d_k)   k: (B, H, K, d_k)   mask: broadcastable to (B, H, Q, K)   → (B, H, Q, K)
    """
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (B, H, Q, K)
    if causal:
        past = causal_mask(q.shape[-2], k.shape[-2], q.device)
        mask = past if mask is None else mask & past
    return scores.softmax(dim=-1) if mask is None else masked_softmax(scores, mask)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Over the last dimension where the mask is true; zeros where it is nowhere."""
    # The lowest finite number, not -inf: exp() of it is an exact zero beside any real score, and a row of
    # nothing else stays finite until the second fill makes it zero, in value and in gradient.
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1).masked_fill(~mask, 0.0)


def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False, dropout: float = 0.0
) -> Tensor:
    """The formula. Shapes as in `attention_weights`; v: (B, H, K, d_v) → (B, H, Q, d_v)."""
    return F.dropout(attention_weights(q, k, mask, causal), dropout) @ v


def fused_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False, dropout: float = 0.0
) -> Tensor:
    """The same function of the same arguments, through `scaled_dot_product_attention` or what is faster."""
    small = k.shape[-2] <= SHORT and q.shape[-2] <= MANY
    if q.device.type == "cpu" and small and torch.is_grad_enabled() and not dropout:
        return batched_attention(q, k, v, mask, causal)
    if causal and (mask is not None or q.shape[-2] != k.shape[-2]):
        past = causal_mask(q.shape[-2], k.shape[-2], q.device)
        mask, causal = past if mask is None else mask & past, False
    if mask is not None:
        # Kernels differ on rows without any key: let those attend to everything, then set them to zero.
        some = mask.any(dim=-1, keepdim=True)
        attended = F.scaled_dot_product_attention(q, k, v, mask | ~some, dropout)
        return attended.masked_fill(~some, 0.0)
    return F.scaled_dot_product_attention(q, k, v, None, dropout, is_causal=causal)


def batched_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """The same again as two batched products, the mask added in the first: on a CPU, training on short sequences, less
    work than torch's fused kernel, which cuts into blocks what is smaller than a block."""
    B, H, Q, _ = q.shape
    K = k.shape[-2]
    if causal:
        past = causal_mask(Q, K, q.device)
        mask = past if mask is None else mask & past
    barred = q.new_zeros(1, 1, 1)
    if mask is not None:
        barred = q.new_zeros(mask.shape).masked_fill_(~mask, torch.finfo(q.dtype).min / 2)
        barred = barred.expand(B, H, *barred.shape[-2:]).flatten(0, 1) if barred.dim() == 4 else barred
    q, k, v = (x.flatten(0, 1) for x in (q, k.transpose(-2, -1), v))
    weights = torch.baddbmm(barred, q, k, alpha=1 / math.sqrt(q.shape[-1])).softmax(dim=-1)
    context = torch.bmm(weights, v).unflatten(0, (B, H))
    if mask is None:
        return context
    some = mask.any(dim=-1, keepdim=True)
    return context if bool(some.all()) else context.masked_fill(~some, 0.0)


class Attending(nn.Module):
    """A module that hands its weights to `record` while somebody captures them."""

    def __init__(self) -> None:
        super().__init__()
        self.record: Callable[[Tensor], None] | None = None

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool = False, dropout: float = 0.0
    ) -> Tensor:
        """`fused_attention`, or the formula written out while its weights are recorded."""
        if self.record is None:
            return fused_attention(q, k, v, mask, causal, dropout)
        self.record(attention_weights(q, k, mask, causal).detach())
        return attention(q, k, v, mask, causal, dropout)


class MultiHeadAttention(Attending):
    """h attentions side by side, each on its own projections of width d_k and d_v."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_k: int = 0,
        d_v: int = 0,
        *,
        bias: bool = False,
        attn_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.d_k = d_k or d_model // n_heads
        self.d_v = d_v or d_model // n_heads
        self.attn_dropout = attn_dropout
        self.w_q = nn.Linear(d_model, n_heads * self.d_k, bias=bias)
        self.w_k = nn.Linear(d_model, n_heads * self.d_k, bias=bias)
        self.w_v = nn.Linear(d_model, n_heads * self.d_v, bias=bias)
        self.w_o = nn.Linear(n_heads * self.d_v, d_model, bias=bias)

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        memory: Tensor | None = None,
        memory_layout: Layout | None = None,
        *,
        causal: bool = False,
    ) -> Tensor:
        """Self-attention of x, or attention of x to a memory.

        x: (…, D) in `layout`   memory: (…, D) in `memory_layout`   → (…, D) in `layout`
        """
        if (memory is None) != (memory_layout is None):
            raise ValueError("a memory comes with its layout")
        context = None
        if self.record is None and kernels.usable(x):
            context = self.packed_context(x, layout, memory, memory_layout or layout, causal)
        if context is None:
            context = self.padded_context(x, layout, memory, memory_layout, causal)
        return linear(context, self.w_o.weight, self.w_o.bias)

    def packed_context(
        self, x: Tensor, layout: Layout, memory: Tensor | None, memory_layout: Layout, causal: bool
    ) -> Tensor | None:
        """What the queries gather, without padding; None where no kernel takes it. → (total, H·d_v)"""
        from regard.nn.kernels.attention import Heads, Settings
        from regard.nn.kernels.packed import kernel_for

        if layout.offsets is None or memory_layout.offsets is None:
            return None
        heads, longest = Heads(self.n_heads, self.d_k, self.d_v), max(layout.size, memory_layout.size)
        dropout = self.attn_dropout if self.training else 0.0
        settings = Settings(layout.offsets, memory_layout.offsets, longest, causal, dropout)
        kernel = kernel_for(product_type(x), heads, settings)
        if kernel is None:
            return None
        if memory is None:
            return kernel(side_by_side(x, self.w_q, self.w_k, self.w_v), None, heads, settings)
        q, kv = linear(x, self.w_q.weight, self.w_q.bias), side_by_side(memory, self.w_k, self.w_v)
        return kernel(q, kv, heads, settings)

    def padded_context(
        self, x: Tensor, layout: Layout, memory: Tensor | None, memory_layout: Layout | None, causal: bool
    ) -> Tensor:
        """What the queries gather → (…, H·d_v) in `layout`."""
        if memory is None or memory_layout is None:
            q, k, v = self.queries_keys_and_values(x, layout)
            # Real positions come first, so to a real causal query padding is the future.
            mask = None if layout.full or causal else key_mask(layout.mask)
        else:
            q = self.heads(linear(x, self.w_q.weight, self.w_q.bias), layout)  # (B, H, Q, d_k)
            k, v = self.keys_and_values(memory, memory_layout)
            mask = None if memory_layout.full else key_mask(memory_layout.mask)
        dropout = self.attn_dropout if self.training else 0.0
        context = self.attend(q, k, v, mask, causal, dropout)  # (B, H, Q, d_v)
        return layout.unpad(context.transpose(1, 2)).flatten(-2)

    def queries_keys_and_values(self, x: Tensor, layout: Layout) -> tuple[Tensor, Tensor, Tensor]:
        if not self.training:  # joining the matrices is worth it only for one who keeps them joined
            q = linear(x, self.w_q.weight, self.w_q.bias)
            return self.heads(q, layout), *self.keys_and_values(x, layout)
        widths = [part.out_features for part in (self.w_q, self.w_k, self.w_v)]
        q, k, v = side_by_side(x, self.w_q, self.w_k, self.w_v).split(widths, dim=-1)
        return self.heads(q, layout), self.heads(k, layout), self.heads(v, layout)

    def keys_and_values(self, x: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        if not self.training:
            k, v = (linear(x, part.weight, part.bias) for part in (self.w_k, self.w_v))
            return self.heads(k, layout), self.heads(v, layout)
        k, v = side_by_side(x, self.w_k, self.w_v).split([self.w_k.out_features, self.w_v.out_features], dim=-1)
        return self.heads(k, layout), self.heads(v, layout)

    def heads(self, x: Tensor, layout: Layout) -> Tensor:
        """(…, H·d) → (B, H, N, d)."""
        return layout.pad(x.unflatten(-1, (self.n_heads, -1))).transpose(1, 2)


class HasModules(Protocol):
    """A network, or something that wraps one and passes its modules on."""

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]: ...


@contextmanager
def capture(model: HasModules) -> Iterator[dict[str, Tensor]]:
    """Every attention of `model`, by module path, for as long as the block lasts.

        with capture(model) as maps:
            model(...)
        maps["decoder.layers.0.cross_attn"]   # (B, H, T, S), weights of the last call

    Nothing global changes: the attentions of this one model take the written-out path until the block ends.
    """
    maps: dict[str, Tensor] = {}
    with recording(model, maps.__setitem__):
        yield maps


@contextmanager
def recording(model: HasModules, record: Callable[[str, Tensor], None] | None) -> Iterator[bool]:
    """Let `record(path, weights)` see every attention; None lets nobody see them, so that a search inside
    a `capture` runs fused. Gives whether anybody was looking before."""
    attending = attentions(model)
    before = {path: module.record for path, module in attending.items()}
    for path, module in attending.items():
        module.record = partial(record, path) if record else None
    try:
        yield any(before.values())
    finally:
        for path, module in attending.items():
            module.record = before[path]


def attentions(model: HasModules) -> dict[str, Attending]:
    return {path: module for path, module in model.named_modules() if isinstance(module, Attending)}
