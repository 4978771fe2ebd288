"""Attention of one new position of each hypothesis, while sequences are produced (`regard.nn.cache`).

To what was produced torch's way is a batched product for the weights, a softmax, another product, two writes of the new
keys and values, and a copy of everything kept whenever hypotheses change places. Here one pass does all of it
(`step_kernel`): it writes the new keys and values, and reads the kept ones where they lie. Which hypothesis of its slot
each of them was written by, a table says (`ancestors`), so that nothing is ever moved but the table.

A program has one head of all hypotheses of a slot. What several of them descend from, or the source, which is the same
for all (`source_kernel`), it reads once. They are the rows of a matrix product. A matrix unit takes 16 rows or more;
those that stand for nobody cost less than sums across threads would, which products number by number need.

How many keys there are is read from memory, so one recording serves all lengths.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.nn.kernels.attention import tile

KEYS = 32  # that a program looks at together, where a head is not too wide
HYPOTHESES = 16  # of a slot that a program has together
WRITERS = 4  # hypotheses whose kept keys a program looks at together
TILE = 8192  # bytes of keys, or of values, that a program looks at together, of one writer


@triton.jit
def step_kernel(
    new, k, v, ancestors, positions, out, scale, room, stride,
    H: tl.constexpr, W: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, PK: tl.constexpr, PV: tl.constexpr,
    PW: tl.constexpr, WRITERS: tl.constexpr, KEYS: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """new: (R, stride), the queries of all heads, behind them the new keys and values; scale holds log₂ e. Where
    W > PW, several programs share a slot."""
    slot, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    hypotheses = tl.program_id(2) * PW + tl.arange(0, PW)
    at_k, at_v = tl.arange(0, PK), tl.arange(0, PV)
    real, in_k, in_v = hypotheses < W, at_k < DK, at_v < DV
    here_k, here_v = real[:, None] & in_k[None, :], real[:, None] & in_v[None, :]
    rows = slot * W + hypotheses
    own = new + rows[:, None] * stride
    q = tl.load(own + head * DK + at_k[None, :], here_k, 0.0)
    key = tl.load(own + (H + head) * DK + at_k[None, :], here_k, 0.0)
    value = tl.load(own + 2 * H * DK + head * DV + at_v[None, :], here_v, 0.0)
    n = tl.load(positions + slot * W).to(tl.int32)
    place = ((rows * H + head) * room + n)[:, None]
    tl.store(k + place * DK + at_k[None, :], key, here_k)
    tl.store(v + place * DV + at_v[None, :], value, here_v)
    highest = tl.sum(q.to(tl.float32) * key.to(tl.float32), axis=1) * scale
    total = tl.full([PW], 1.0, tl.float32)
    context = value.to(tl.float32)
    queries = q.to(k.dtype.element_ty)
    cells = tl.arange(0, WRITERS * KEYS)
    for first in range(0, n, KEYS):
        for writer in range(0, W, WRITERS):
            keys, writers = first + cells % KEYS, writer + cells // KEYS
            there = (keys < n) & (writers < W)
            seen = real[:, None] & there[None, :]
            if W > 1:
                seen &= tl.load(ancestors + rows[:, None] * room + keys[None, :], seen, -1) == writers[None, :]
                there = tl.max(seen.to(tl.int32), axis=0) > 0  # what nobody here descends from is not read
            places = (((slot * W + writers) * H + head) * room + keys)[:, None]
            k_tile = tl.load(k + places * DK + at_k[None, :], there[:, None] & in_k[None, :], 0.0)
            v_tile = tl.load(v + places * DV + at_v[None, :], there[:, None] & in_v[None, :], 0.0)
            scores = tl.dot(queries, tl.trans(k_tile), input_precision=EXACT) * scale
            scores = tl.where(seen, scores, -float("inf"))
            new_highest = tl.maximum(highest, tl.max(scores, axis=1))
            weights = tl.exp2(scores - new_highest[:, None])
            fading = tl.exp2(highest - new_highest)
            context = context * fading[:, None] + tl.dot(weights.to(v_tile.dtype), v_tile, input_precision=EXACT)
            total = total * fading + tl.sum(weights, axis=1)
            highest = new_highest
    places = (rows * H + head)[:, None] * DV + at_v[None, :]
    tl.store(out + places, (context / total[:, None]).to(out.dtype.element_ty), here_v)


@triton.jit
def source_kernel(
    q, k, v, lengths, out, scale, room, stride,
    H: tl.constexpr, W: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, PK: tl.constexpr, PV: tl.constexpr,
    PW: tl.constexpr, KEYS: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """q: (R, stride), the queries of all heads; scale holds log₂ e. Where W > PW, several programs share a slot."""
    slot, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    hypotheses = tl.program_id(2) * PW + tl.arange(0, PW)
    at_k, at_v = tl.arange(0, PK), tl.arange(0, PV)
    real, in_k, in_v = hypotheses < W, at_k < DK, at_v < DV
    rows = slot * W + hypotheses
    queries = tl.load(q + rows[:, None] * stride + head * DK + at_k[None, :], real[:, None] & in_k[None, :], 0.0)
    queries = queries.to(k.dtype.element_ty)
    n = tl.load(lengths + slot).to(tl.int32)
    k += (slot * H + head) * room * DK
    v += (slot * H + head) * room * DV
    highest = tl.full([PW], -1e30, tl.float32)
    total = tl.zeros([PW], tl.float32)
    context = tl.zeros([PW, PV], tl.float32)
    for first in range(0, n, KEYS):
        keys = first + tl.arange(0, KEYS)
        there = keys < n
        k_tile = tl.load(k + keys[:, None] * DK + at_k[None, :], there[:, None] & in_k[None, :], 0.0)
        v_tile = tl.load(v + keys[:, None] * DV + at_v[None, :], there[:, None] & in_v[None, :], 0.0)
        scores = tl.dot(queries, tl.trans(k_tile), input_precision=EXACT) * scale
        scores = tl.where(there[None, :], scores, -float("inf"))
        new_highest = tl.maximum(highest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_highest[:, None])
        fading = tl.exp2(highest - new_highest)
        context = context * fading[:, None] + tl.dot(weights.to(v_tile.dtype), v_tile, input_precision=EXACT)
        total = total * fading + tl.sum(weights, axis=1)
        highest = new_highest
    context = context * (1 / tl.maximum(total, 1e-30))[:, None]
    places = (rows * H + head)[:, None] * DV + at_v[None, :]
    tl.store(out + places, context.to(out.dtype.element_ty), real[:, None] & in_v[None, :])


def past_attention(projected: Tensor, k: Tensor, v: Tensor, ancestors: Tensor, positions: Tensor, beam: int) -> Tensor:
    """softmax(q Kᵀ / √d_k) V over the kept positions and the new one, which is written behind them.

    projected: (R, H·d_k + H·d_k + H·d_v), new queries, keys and values   k: (R, H, room, d_k)   v: (R, H, room, d_v)
    ancestors: (R, room), which hypothesis of its slot wrote what is kept   positions: (R,) → (R, H·d_v)
    """
    (R, H, room, d_k), d_v = k.shape, v.shape[-1]
    out = projected.new_empty(R, H * d_v)
    writers = min(WRITERS, triton.next_power_of_2(beam))
    step_kernel[(R // beam, H, triton.cdiv(beam, HYPOTHESES))](
        projected, k, v, ancestors, positions, out, math.log2(math.e) / math.sqrt(d_k), room, projected.stride(0),
        W=beam, WRITERS=writers, num_warps=writers, **shape_of(k, v),
    )  # fmt: skip
    return out


def memory_attention(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, beam: int) -> Tensor:
    """softmax(q Kᵀ / √d_k) V over a slot's source, the same for its hypotheses; zero where the source is empty.

    q: (R, H·d_k)   k: (B, H, S, d_k)   v: (B, H, S, d_v)   lengths: (B,) → (R, H·d_v)
    """
    (B, H, S, d_k), d_v = k.shape, v.shape[-1]
    out = q.new_empty(len(q), H * d_v)
    source_kernel[(B, H, triton.cdiv(beam, HYPOTHESES))](
        q, k, v, lengths, out, math.log2(math.e) / math.sqrt(d_k), S, q.stride(0),
        W=beam, num_warps=max(1, min(4, head_bytes(k, v) // 128)), num_stages=1, **shape_of(k, v),
    )  # fmt: skip
    return out


def shape_of(k: Tensor, v: Tensor) -> dict[str, int | str]:
    """What both kernels are compiled for."""
    d_k, d_v = k.shape[-1], v.shape[-1]
    return {
        "H": k.shape[1], "DK": d_k, "DV": d_v, "PK": tile(d_k), "PV": tile(d_v), "PW": HYPOTHESES,
        "KEYS": max(16, min(KEYS, TILE // head_bytes(k, v))), "EXACT": "ieee" if k.dtype == torch.float32 else "tf32",
    }  # fmt: skip


def head_bytes(k: Tensor, v: Tensor) -> int:
    """Of a key or a value, the wider of them."""
    return tile(max(k.shape[-1], v.shape[-1])) * k.element_size()
