"""Attention of one new position of each hypothesis, while sequences are produced (`regard.nn.cache`).

To what was produced torch's way is a batched product for the weights, a softmax, another product, two writes of the new
keys and values, and a copy of everything kept whenever hypotheses change places. Here one pass does all of it
(`step_kernel`): it writes the new keys and values, and reads the kept ones where they lie. Which hypothesis of its slot
each of them was written by, a table says (`ancestors`), so that nothing is ever moved but the table.

A program has one head of several hypotheses of a slot and one warp. What they descend from is the same for most of
them, most of the way: the second time it is read from near by. Four hypotheses and eight positions at a time were
fastest of what was tried, up to twice as fast as a program for each hypothesis (docs/log.md).

The source is the same for all hypotheses of a slot (`source_kernel`): they are the rows of a matrix product with its
keys. A matrix unit takes 16 rows or more; those that stand for nobody cost less than sums across threads would. Where
one hypothesis gets several positions at once, they share its past in the same way (`block_kernel`).

Sources enter by `put_kernel`. How many keys there are is read from memory, so one recording serves all lengths.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.nn.kernels.attention import tile

KEYS = 16  # of a source, or of a block's past, that a program looks at together: measured of sources (docs/log.md)
PREFETCHED = 512  # bytes of a head, at most, for the next keys to be fetched meanwhile
HYPOTHESES = 16  # of a slot that a program has together
TOGETHER = 4  # hypotheses that a program has together where each has a past of its own …
POSITIONS = 16  # … and the positions it looks at together, at most …
NUMBERS = 2048  # … so that their keys are at most so many numbers


@triton.jit
def step_kernel(
    new, k, v, ancestors, positions, out, scale, room, stride,
    H: tl.constexpr, W: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, PK: tl.constexpr, PV: tl.constexpr,
    PW: tl.constexpr, KEYS: tl.constexpr,
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
    q = tl.load(own + head * DK + at_k[None, :], here_k, 0.0).to(tl.float32) * scale
    key = tl.load(own + (H + head) * DK + at_k[None, :], here_k, 0.0)
    value = tl.load(own + 2 * H * DK + head * DV + at_v[None, :], here_v, 0.0)
    n = tl.load(positions + slot * W).to(tl.int32)
    place = ((rows * H + head) * room + n)[:, None]
    tl.store(k + place * DK + at_k[None, :], key, here_k)
    tl.store(v + place * DV + at_v[None, :], value, here_v)
    highest = tl.sum(q * key.to(tl.float32), axis=1)
    total = tl.full([PW], 1.0, tl.float32)
    context = value.to(tl.float32)
    for first in range(0, n, KEYS):
        keys = first + tl.arange(0, KEYS)
        there = real[:, None] & (keys < n)[None, :]
        writers = rows[:, None]
        if W > 1:
            writers = slot * W + tl.load(ancestors + rows[:, None] * room + keys[None, :], there, 0)
        places = ((writers * H + head) * room + keys[None, :])[:, :, None]
        k_tile = tl.load(k + places * DK + at_k[None, None, :], there[:, :, None] & in_k[None, None, :], 0.0)
        v_tile = tl.load(v + places * DV + at_v[None, None, :], there[:, :, None] & in_v[None, None, :], 0.0)
        scores = tl.where(there, tl.sum(k_tile.to(tl.float32) * q[:, None, :], axis=2), -float("inf"))
        new_highest = tl.maximum(highest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_highest[:, None])
        fading = tl.exp2(highest - new_highest)
        context = context * fading[:, None] + tl.sum(weights[:, :, None] * v_tile.to(tl.float32), axis=1)
        total = total * fading + tl.sum(weights, axis=1)
        highest = new_highest
    places = (rows * H + head)[:, None] * DV + at_v[None, :]
    tl.store(out + places, (context / total[:, None]).to(out.dtype.element_ty), here_v)


@triton.jit
def look(
    queries, k, v, n, highest, total, context, scale, at_k, at_v,
    DK: tl.constexpr, DV: tl.constexpr, KEYS: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """What queries see of the first n keys of a slot's head, added to what they have seen; scale holds log₂ e."""
    for first in range(0, n, KEYS):
        keys = first + tl.arange(0, KEYS)
        there = keys < n
        k_tile = tl.load(k + keys[:, None] * DK + at_k[None, :], there[:, None] & (at_k < DK)[None, :], 0.0)
        v_tile = tl.load(v + keys[:, None] * DV + at_v[None, :], there[:, None] & (at_v < DV)[None, :], 0.0)
        scores = tl.dot(queries, tl.trans(k_tile), input_precision=EXACT) * scale
        scores = tl.where(there[None, :], scores, -float("inf"))
        new_highest = tl.maximum(highest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_highest[:, None])
        fading = tl.exp2(highest - new_highest)
        context = context * fading[:, None] + tl.dot(weights.to(v_tile.dtype), v_tile, input_precision=EXACT)
        total = total * fading + tl.sum(weights, axis=1)
        highest = new_highest
    return context * (1 / tl.maximum(total, 1e-30))[:, None]


@triton.jit
def source_kernel(
    q, k, v, lengths, out, scale, room, stride,
    H: tl.constexpr, W: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, PK: tl.constexpr, PV: tl.constexpr,
    PW: tl.constexpr, KEYS: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """q: (R, stride), the queries of all heads. Where W > PW, several programs share a slot."""
    slot, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    hypotheses = tl.program_id(2) * PW + tl.arange(0, PW)
    at_k, at_v = tl.arange(0, PK), tl.arange(0, PV)
    real = hypotheses < W
    rows = slot * W + hypotheses
    queries = tl.load(q + rows[:, None] * stride + head * DK + at_k[None, :], real[:, None] & (at_k < DK)[None, :], 0.0)
    queries = queries.to(k.dtype.element_ty)
    n = tl.load(lengths + slot).to(tl.int32)
    k += (slot * H + head) * room * DK
    v += (slot * H + head) * room * DV
    highest, total = tl.full([PW], -1e30, tl.float32), tl.zeros([PW], tl.float32)
    context = look(
        queries, k, v, n, highest, total, tl.zeros([PW, PV], tl.float32), scale, at_k, at_v, DK, DV, KEYS, EXACT
    )
    places = (rows * H + head)[:, None] * DV + at_v[None, :]
    tl.store(out + places, context.to(out.dtype.element_ty), real[:, None] & (at_v < DV)[None, :])


@triton.jit
def block_kernel(
    new, k, v, positions, out, scale, room, stride,
    H: tl.constexpr, Q: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, PK: tl.constexpr, PV: tl.constexpr,
    PQ: tl.constexpr, KEYS: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """new: (B·Q, stride), the queries of all heads, behind them the new keys and values, of positions one after
    another from positions[slot · Q] on."""
    slot, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    each, at_k, at_v = tl.arange(0, PQ), tl.arange(0, PK), tl.arange(0, PV)
    here_k = (each < Q)[:, None] & (at_k < DK)[None, :]
    here_v = (each < Q)[:, None] & (at_v < DV)[None, :]
    own = new + (slot * Q + each)[:, None] * stride
    queries = tl.load(own + head * DK + at_k[None, :], here_k, 0.0).to(k.dtype.element_ty)
    new_k = tl.load(own + (H + head) * DK + at_k[None, :], here_k, 0.0).to(k.dtype.element_ty)
    new_v = tl.load(own + 2 * H * DK + head * DV + at_v[None, :], here_v, 0.0).to(v.dtype.element_ty)
    n = tl.load(positions + slot * Q).to(tl.int32)
    k += (slot * H + head) * room * DK
    v += (slot * H + head) * room * DV
    tl.store(k + (n + each)[:, None] * DK + at_k[None, :], new_k, here_k)
    tl.store(v + (n + each)[:, None] * DV + at_v[None, :], new_v, here_v)
    scores = tl.dot(queries, tl.trans(new_k), input_precision=EXACT) * scale  # of one another, themselves included
    scores = tl.where(each[None, :] <= each[:, None], scores, -float("inf"))
    highest = tl.max(scores, axis=1)
    weights = tl.exp2(scores - highest[:, None])
    total = tl.sum(weights, axis=1)
    context = tl.dot(weights.to(new_v.dtype), new_v, input_precision=EXACT)
    context = look(queries, k, v, n, highest, total, context, scale, at_k, at_v, DK, DV, KEYS, EXACT)
    places = ((slot * Q + each) * H + head)[:, None] * DV + at_v[None, :]
    tl.store(out + places, context.to(out.dtype.element_ty), here_v)


@triton.jit
def put_kernel(new, kept, slots, positions, room, stride, H: tl.constexpr, D: tl.constexpr, P: tl.constexpr):
    """A program has one position: new: (total, stride), all heads of a position side by side."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, P)
    numbers = tl.load(new + row * stride + at, at < H * D, 0.0)
    places = (tl.load(slots + row) * H + at // D) * room + tl.load(positions + row)
    tl.store(kept + places * D + at % D, numbers, at < H * D)


def put(new: Tensor, kept: Tensor, slots: Tensor, positions: Tensor) -> None:
    """kept[slots[i], :, positions[i]] = new[i], with one write for what lies side by side.

    new: (total, H·d)   kept: (B, H, S, d)   slots, positions: (total,)
    """
    _, H, S, d = kept.shape
    size = triton.next_power_of_2(H * d)
    put_kernel[(len(new),)](new, kept, slots, positions, S, new.stride(0), H=H, D=d, P=size, num_warps=1)


def past_attention(projected: Tensor, k: Tensor, v: Tensor, ancestors: Tensor, positions: Tensor, beam: int) -> Tensor:
    """softmax(q Kᵀ / √d_k) V over the kept positions and the new one, which is written behind them.

    projected: (R, H·d_k + H·d_k + H·d_v), new queries, keys and values   k: (R, H, room, d_k)   v: (R, H, room, d_v)
    ancestors: (R, room), which hypothesis of its slot wrote what is kept   positions: (R,) → (R, H·d_v)
    """
    (R, H, room, d_k), d_v = k.shape, v.shape[-1]
    out = projected.new_empty(R, H * d_v)
    PW, PK, PV = (triton.next_power_of_2(size) for size in (min(beam, TOGETHER), d_k, d_v))
    step_kernel[(R // beam, H, triton.cdiv(beam, PW))](
        projected, k, v, ancestors, positions, out, math.log2(math.e) / math.sqrt(d_k), room, projected.stride(0),
        H=H, W=beam, DK=d_k, DV=d_v, PK=PK, PV=PV, PW=PW,
        KEYS=max(1, min(POSITIONS, NUMBERS // (PW * max(PK, PV)))), num_warps=1,
    )  # fmt: skip
    return out


def block_attention(projected: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> Tensor:
    """The same for Q positions more of one hypothesis a slot, of which each sees those before it.

    projected: (B·Q, H·d_k + H·d_k + H·d_v)   k: (B, H, room, d_k)   v: (B, H, room, d_v)
    positions: (B, Q), one after another → (B·Q, H·d_v)
    """
    (B, H, room, d_k), d_v, Q = k.shape, v.shape[-1], positions.shape[1]
    out = projected.new_empty(B * Q, H * d_v)
    block_kernel[(B, H)](
        projected, k, v, positions.contiguous(), out, math.log2(math.e) / math.sqrt(d_k), room, projected.stride(0),
        H=H, Q=Q, PQ=max(HYPOTHESES, triton.next_power_of_2(Q)), **tiling(k, v),
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
        H=H, W=beam, PW=HYPOTHESES, **tiling(k, v),
    )  # fmt: skip
    return out


def tiling(k: Tensor, v: Tensor) -> dict[str, Any]:
    """How many keys a program looks at together, and how, where heads are as wide as these."""
    d_k, d_v = k.shape[-1], v.shape[-1]
    head_bytes = tile(max(d_k, d_v)) * k.element_size()
    return {
        "DK": d_k, "DV": d_v, "PK": tile(d_k), "PV": tile(d_v), "KEYS": KEYS,
        "EXACT": "ieee" if k.dtype == torch.float32 else "tf32",
        "num_warps": max(1, min(4, head_bytes // 128)), "num_stages": 3 if head_bytes <= PREFETCHED else 1,
    }  # fmt: skip
