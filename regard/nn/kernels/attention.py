"""Attention over packed sequences, for short ones: *Attention Is All You Need*, eq. 1.

Library kernels cut queries into tiles of 64 or 128 rows and walk along the keys; a sentence of 26 tokens fills a fifth
of one. Here a program takes one head of one whole sequence in a tile just large enough, so that softmax needs no second
look and the backward pass recomputes the weights instead of reading anything stored. Memory is read and written once.

    S = Q Kᵀ / √d_k      P = softmax(S)      P' = dropout(P)      O = P' V
    dV = P'ᵀ dO          dP = dropout'(dO Vᵀ)                      dS = P ∘ (dP − rowsum(P ∘ dP)) / √d_k
    dQ = dS K            dK = dSᵀ Q

Departures from the formula: none. A query without keys gets zeros.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.nn.kernels.chance import draw_seed, keep, threshold

LONGEST = 128  # the largest tile; longer sequences are for the library's kernel
ROOM = 128 * 64 * 4  # bytes of one operand, longest × head, that a program can hold beside the others


class Heads(NamedTuple):
    n: int
    d_k: int
    d_v: int

    def split(self, projected: Any, memory: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (…, H·d) as views of one or two products."""
        q, k, v = self.n * self.d_k, self.n * self.d_k, self.n * self.d_v
        if memory is None:
            return projected.split([q, k, v], dim=-1)
        return (projected, *memory.split([k, v], dim=-1))


class Settings(NamedTuple):
    """Sequence i has the queries q_offsets[i] to q_offsets[i + 1] and the keys k_offsets[i] to k_offsets[i + 1], at
    most `longest` of each."""

    q_offsets: Tensor
    k_offsets: Tensor
    longest: int
    causal: bool = False
    dropout: float = 0.0


def tile(longest: int) -> int:
    """The tile for sequences of up to `longest` positions: 16 is the least a matrix unit takes."""
    return max(16, triton.next_power_of_2(longest))


def fits(dtype: torch.dtype, heads: Heads, settings: Settings) -> bool:
    """Whether a program can hold one head of a whole sequence."""
    width = tile(max(heads.d_k, heads.d_v))
    return settings.longest <= LONGEST and tile(settings.longest) * width * dtype.itemsize <= ROOM


def warps(block: int) -> int:
    return {16: 1, 32: 2, 64: 4, 128: 8}[block]


@triton.jit
def span(offsets, sequence):
    """Where a sequence begins, and its length."""
    start = tl.load(offsets + sequence)
    return start, (tl.load(offsets + sequence + 1) - start).to(tl.int32)


@triton.jit
def within(rows, n, columns, width: tl.constexpr):
    """The part of a tile that lies in a sequence of length n and a head of this width."""
    return (rows < n)[:, None] & (columns < width)[None, :]


@triton.jit
def tile_weights(q, k, n_k, rows, columns, scale, CAUSAL: tl.constexpr, EXACT: tl.constexpr):
    """softmax(q kᵀ · scale) over the keys each row may attend to, in float32; scale holds log₂ e."""
    scores = tl.dot(q, tl.trans(k), input_precision=EXACT) * scale
    allowed = (columns < n_k)[None, :]
    if CAUSAL:
        allowed = allowed & (columns[None, :] <= rows[:, None])
    scores = tl.where(allowed, scores, float("-inf"))
    top = tl.max(scores, axis=1)
    top = tl.where(top == float("-inf"), 0.0, top)
    weights = tl.exp2(scores - top[:, None])
    total = tl.sum(weights, axis=1)
    return weights / tl.where(total == 0.0, 1.0, total)[:, None]


@triton.jit
def tile_kept(seed, sequence, head, H, rows, columns, threshold, BLOCK: tl.constexpr):
    first = (sequence * H + head) * (BLOCK * BLOCK)
    return keep(seed, first + rows[:, None] * BLOCK + columns[None, :], threshold)


@triton.jit
def attention_kernel(
    q, k, v, out, q_offsets, k_offsets, seed, q_row, k_row, v_row, scale, dropped, rescale,
    H: tl.constexpr, D_K: tl.constexpr, D_V: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr,
    BLOCK: tl.constexpr, CAUSAL: tl.constexpr, DROPOUT: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    head, sequence = tl.program_id(0), tl.program_id(1)
    q_start, n_q = span(q_offsets, sequence)
    k_start, n_k = span(k_offsets, sequence)
    if n_q == 0:
        return
    rows, d_k, d_v = tl.arange(0, BLOCK), tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_V)
    q_mask, k_mask = within(rows, n_q, d_k, D_K), within(rows, n_k, d_k, D_K)
    v_mask, o_mask = within(rows, n_k, d_v, D_V), within(rows, n_q, d_v, D_V)
    q_rows, k_rows = (q_start + rows)[:, None], (k_start + rows)[:, None]
    q_tile = tl.load(q + q_rows * q_row + head * D_K + d_k[None, :], q_mask, 0.0)
    k_tile = tl.load(k + k_rows * k_row + head * D_K + d_k[None, :], k_mask, 0.0)
    v_tile = tl.load(v + k_rows * v_row + head * D_V + d_v[None, :], v_mask, 0.0)
    weights = tile_weights(q_tile, k_tile, n_k, rows, rows, scale, CAUSAL, EXACT)
    if DROPOUT:
        kept = tile_kept(tl.load(seed), sequence, head, H, rows, rows, dropped, BLOCK)
        weights = tl.where(kept, weights * rescale, 0.0)
    context = tl.dot(weights.to(v_tile.dtype), v_tile, input_precision=EXACT)
    tl.store(out + q_rows * (H * D_V) + head * D_V + d_v[None, :], context.to(out.dtype.element_ty), o_mask)


@triton.jit
def attention_backward_kernel(
    q, k, v, d_out, dq, dk, dv, q_offsets, k_offsets, seed,
    q_row, k_row, v_row, o_row, dq_row, dk_row, dv_row, scale, dropped, rescale,
    H: tl.constexpr, D_K: tl.constexpr, D_V: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr,
    BLOCK: tl.constexpr, CAUSAL: tl.constexpr, DROPOUT: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    head, sequence = tl.program_id(0), tl.program_id(1)
    q_start, n_q = span(q_offsets, sequence)
    k_start, n_k = span(k_offsets, sequence)
    if n_q + n_k == 0:
        return
    rows, d_k, d_v = tl.arange(0, BLOCK), tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_V)
    q_mask, k_mask = within(rows, n_q, d_k, D_K), within(rows, n_k, d_k, D_K)
    v_mask, o_mask = within(rows, n_k, d_v, D_V), within(rows, n_q, d_v, D_V)
    q_rows, k_rows = (q_start + rows)[:, None], (k_start + rows)[:, None]
    q_tile = tl.load(q + q_rows * q_row + head * D_K + d_k[None, :], q_mask, 0.0)
    k_tile = tl.load(k + k_rows * k_row + head * D_K + d_k[None, :], k_mask, 0.0)
    v_tile = tl.load(v + k_rows * v_row + head * D_V + d_v[None, :], v_mask, 0.0)
    do_tile = tl.load(d_out + q_rows * o_row + head * D_V + d_v[None, :], o_mask, 0.0)

    weights = tile_weights(q_tile, k_tile, n_k, rows, rows, scale, CAUSAL, EXACT)
    d_weights = tl.dot(do_tile, tl.trans(v_tile), input_precision=EXACT)
    dropped_weights = weights
    if DROPOUT:
        kept = tile_kept(tl.load(seed), sequence, head, H, rows, rows, dropped, BLOCK)
        dropped_weights = tl.where(kept, weights * rescale, 0.0)
        d_weights = tl.where(kept, d_weights * rescale, 0.0)
    dv_tile = tl.dot(tl.trans(dropped_weights.to(do_tile.dtype)), do_tile, input_precision=EXACT)
    tl.store(dv + k_rows * dv_row + head * D_V + d_v[None, :], dv_tile.to(dv.dtype.element_ty), v_mask)

    inner = tl.sum(weights * d_weights, axis=1)
    d_scores = (weights * (d_weights - inner[:, None]) * (scale * 0.6931471805599453)).to(q_tile.dtype)  # ln 2
    dq_tile = tl.dot(d_scores, k_tile, input_precision=EXACT)
    tl.store(dq + q_rows * dq_row + head * D_K + d_k[None, :], dq_tile.to(dq.dtype.element_ty), q_mask)
    dk_tile = tl.dot(tl.trans(d_scores), q_tile, input_precision=EXACT)
    tl.store(dk + k_rows * dk_row + head * D_K + d_k[None, :], dk_tile.to(dk.dtype.element_ty), k_mask)


class ShortAttention(torch.autograd.Function):
    """Takes the projections as the matrix products leave them and gives their gradients in the same form."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, memory: Tensor | None, heads: Heads, settings: Settings) -> Tensor:
        q, k, v = heads.split(projected, memory)
        out = q.new_empty(len(q), heads.n * heads.d_v)
        seed = draw_seed(q.device) if settings.dropout else None
        ctx.save_for_backward(projected, memory, seed)
        ctx.heads, ctx.settings = heads, settings
        launch(attention_kernel, (q, k, v, out), seed, (), heads, settings)
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        projected, memory, seed = ctx.saved_tensors
        d_out = d_out if d_out.stride(-1) == 1 else d_out.contiguous()
        d_projected = torch.empty_like(projected)
        d_memory = None if memory is None else torch.empty_like(memory)
        given, wanted = ctx.heads.split(projected, memory), ctx.heads.split(d_projected, d_memory)
        rows = (d_out.stride(0), *(gradient.stride(0) for gradient in wanted))
        launch(attention_backward_kernel, (*given, d_out, *wanted), seed, rows, ctx.heads, ctx.settings)
        return d_projected, d_memory, None, None


def launch(
    kernel: Any, tensors: tuple[Tensor, ...], seed: Tensor | None, rows: tuple[int, ...], heads: Heads, at: Settings
) -> None:
    q, k, v = tensors[:3]
    block = tile(at.longest)
    kernel[(heads.n, len(at.q_offsets) - 1)](
        *tensors, at.q_offsets, at.k_offsets, at.q_offsets if seed is None else seed,
        q.stride(0), k.stride(0), v.stride(0), *rows,
        math.log2(math.e) / math.sqrt(heads.d_k), threshold(at.dropout), 1 / (1 - at.dropout),
        H=heads.n, D_K=heads.d_k, D_V=heads.d_v, BLOCK_K=tile(heads.d_k), BLOCK_V=tile(heads.d_v), BLOCK=block,
        CAUSAL=at.causal, DROPOUT=at.dropout > 0, EXACT="ieee" if q.dtype == torch.float32 else "tf32",
        num_warps=warps(block),
    )  # fmt: skip


def short_attention(projected: Tensor, memory: Tensor | None, heads: Heads, settings: Settings) -> Tensor:
    """Attention of whole batches of short sequences end to end → (Σ queries, H·d_v).

    Self-attention: projected (total, H·(2 d_k + d_v)), the queries, keys and values side by side.
    Attention to a memory: projected (Σ queries, H·d_k), memory (Σ keys, H·(d_k + d_v)).
    """
    return ShortAttention.apply(projected, memory, heads, settings)
