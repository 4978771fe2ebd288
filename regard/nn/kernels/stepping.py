"""Attention of one new position of each hypothesis, while sequences are produced (`regard.nn.cache`).

Torch's way is a batched product for the weights, a softmax, another product, two writes of the new keys and values, and
a copy of everything kept whenever hypotheses change places. Here one pass does all of it: a program has one head of one
hypothesis, writes its new key and value, and reads the kept ones where they lie. Which hypothesis of its slot each of
them was written by, a table says (`ancestors`), so that nothing is ever moved but the table. How many keys there are is
read from memory, so one recording serves all lengths.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

KEYS = 32  # that a program looks at together


@triton.jit
def step_kernel(
    new, k, v, ancestors, counts, out, scale, room, stride,
    H: tl.constexpr, W: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, PK: tl.constexpr, PV: tl.constexpr,
    OWN: tl.constexpr, TABLE: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """counts: (R,) keys that are kept, of a hypothesis (OWN), or (B,), of the slot that its W hypotheses share.

    new: (R, stride), the queries of all heads, and with OWN behind them the new keys and values.
    """
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    slot = row // W
    at_k, at_v = tl.arange(0, PK), tl.arange(0, PV)
    in_k, in_v = at_k < DK, at_v < DV
    new += row * stride
    q = tl.load(new + head * DK + at_k, in_k, 0.0).to(tl.float32) * scale
    if OWN:
        n = tl.load(counts + row)
        key = tl.load(new + (H + head) * DK + at_k, in_k, 0.0)
        value = tl.load(new + 2 * H * DK + head * DV + at_v, in_v, 0.0)
        place = (row * H + head) * room + n
        tl.store(k + place * DK + at_k, key, in_k)
        tl.store(v + place * DV + at_v, value, in_v)
        highest = tl.sum(q * key.to(tl.float32), axis=0)
        total = highest * 0.0 + 1.0
        context = value.to(tl.float32)
    else:
        n = tl.load(counts + slot)
        highest = tl.sum(q, axis=0) * 0.0 - 1e30
        total = highest * 0.0
        context = tl.zeros([PV], tl.float32)
    for first in range(0, n, KEYS):
        keys = first + tl.arange(0, KEYS)
        there = keys < n
        writer = keys * 0 + (row if OWN else slot)
        if TABLE:
            writer = slot * W + tl.load(ancestors + row * room + keys, there, 0)
        places = (writer * H + head) * room + keys
        k_tile = tl.load(k + places[:, None] * DK + at_k[None, :], there[:, None] & in_k[None, :], 0.0)
        scores = tl.where(there, tl.sum(k_tile.to(tl.float32) * q[None, :], axis=1), -float("inf"))
        new_highest = tl.maximum(highest, tl.max(scores, axis=0))
        weights = tl.exp(scores - new_highest)
        fading = tl.exp(highest - new_highest)
        v_tile = tl.load(v + places[:, None] * DV + at_v[None, :], there[:, None] & in_v[None, :], 0.0)
        context = context * fading + tl.sum(weights[:, None] * v_tile.to(tl.float32), axis=0)
        total = total * fading + tl.sum(weights, axis=0)
        highest = new_highest
    context = context / tl.maximum(total, 1e-30)
    tl.store(out + (row * H + head) * DV + at_v, context.to(out.dtype.element_ty), in_v)


def past_attention(projected: Tensor, k: Tensor, v: Tensor, ancestors: Tensor, positions: Tensor, beam: int) -> Tensor:
    """softmax(q Kᵀ / √d_k) V over the kept positions and the new one, which is written behind them.

    projected: (R, H·d_k + H·d_k + H·d_v), new queries, keys and values   k: (R, H, room, d_k)   v: (R, H, room, d_v)
    ancestors: (R, room), which hypothesis of its slot wrote what is kept   positions: (R,) → (R, H·d_v)
    """
    return launch(projected, k, v, ancestors, positions, beam, own=True)


def memory_attention(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, beam: int) -> Tensor:
    """softmax(q Kᵀ / √d_k) V over a slot's source, the same for its hypotheses; zero where the source is empty.

    q: (R, H·d_k)   k: (B, H, S, d_k)   v: (B, H, S, d_v)   lengths: (B,) → (R, H·d_v)
    """
    return launch(q, k, v, lengths, lengths, beam, own=False)


def launch(new: Tensor, k: Tensor, v: Tensor, ancestors: Tensor, counts: Tensor, beam: int, own: bool) -> Tensor:
    (_, H, room, d_k), d_v = k.shape, v.shape[-1]
    out = torch.empty(len(new), H * d_v, dtype=new.dtype, device=new.device)
    step_kernel[(len(new), H)](
        new, k, v, ancestors, counts, out, 1 / math.sqrt(d_k), room, new.stride(0),
        H=H, W=beam, DK=d_k, DV=d_v, PK=triton.next_power_of_2(d_k), PV=triton.next_power_of_2(d_v), OWN=own,
        TABLE=own and beam > 1, KEYS=KEYS, num_warps=1,
    )  # fmt: skip
    return out
