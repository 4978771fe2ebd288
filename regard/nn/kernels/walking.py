"""A recurrent decoder along the target, with additive attention by the state before each step (`regard.nn.alignment`).

Every step waits for the one before it, so its length is the number of kernels a step takes one after another. Torch's
operations are some thirty forward and more than a hundred backward, of a few microseconds each. Here a step is four
forward and four backward: two matrix products, attention (`look_kernel`) and gates (`gate_kernel`). With h the state
before, p = [w; U] h in one product, g = W_y y + b_w for all steps before the first:

    α = softmax over s of vᵀ tanh(p_w + u h_s),   c = Σ_s α_s h_s,   g += W_c c,   h' = GRU(g, p_U + b_u, h)

What weights get is one product over all steps, behind the last. A GRU in torch's variant, of one layer; in float32.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

POSITIONS = 16  # of a source that a program looks at together
COLUMNS = 256  # of a state that a program has


@triton.jit
def tanh(x):
    return 1 - 2 / (tl.exp(2 * x) + 1)


@triton.jit
def look_kernel(
    projected, keys, values, mask, v, weights, contexts, S, stride,
    A: tl.constexpr, D: tl.constexpr, PA: tl.constexpr, PD: tl.constexpr, POSITIONS: tl.constexpr,
):  # fmt: skip
    """A program has one sentence; where all of its source is masked, nothing is seen."""
    row = tl.program_id(0).to(tl.int64)
    at_a, at_d = tl.arange(0, PA), tl.arange(0, PD)
    in_a, in_d = at_a < A, at_d < D
    q, sharp = tl.load(projected + row * stride + at_a, in_a, 0.0), tl.load(v + at_a, in_a, 0.0)
    total = tl.sum(sharp * 0.0, axis=0)
    highest = total - 1e30
    context = tl.zeros([PD], tl.float32)
    for first in range(0, S, POSITIONS):
        s = first + tl.arange(0, POSITIONS)
        real = tl.load(mask + row * S + s, s < S, 0) != 0
        places = (row * S + s)[:, None]
        key = tl.load(keys + places * A + at_a[None, :], real[:, None] & in_a[None, :], 0.0)
        value = tl.load(values + places * D + at_d[None, :], real[:, None] & in_d[None, :], 0.0)
        scores = tl.where(real, tl.sum(tanh(q[None, :] + key) * sharp[None, :], axis=1), -float("inf"))
        new_highest = tl.maximum(highest, tl.max(scores, axis=0))
        terms, fading = tl.exp(scores - new_highest), tl.exp(highest - new_highest)
        context = context * fading + tl.sum(terms[:, None] * value, axis=0)
        total = total * fading + tl.sum(terms, axis=0)
        highest = new_highest
        tl.store(weights + row * S + s, scores, s < S)
    part = 1 / tl.maximum(total, 1e-30)
    tl.store(contexts + row * D + at_d, context * part, in_d)
    tl.debug_barrier()  # scores have been written
    for first in range(0, S, POSITIONS):
        s = first + tl.arange(0, POSITIONS)
        scores = tl.load(weights + row * S + s, s < S, -float("inf"))
        tl.store(weights + row * S + s, tl.exp(scores - highest) * part, s < S)


@triton.jit
def look_back_kernel(
    projected, keys, values, v, weights, d_context, d_scores, d_projected, S, stride,
    A: tl.constexpr, D: tl.constexpr, PA: tl.constexpr, PD: tl.constexpr, POSITIONS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    at_a, at_d = tl.arange(0, PA), tl.arange(0, PD)
    in_a, in_d = at_a < A, at_d < D
    d_c = tl.load(d_context + row * D + at_d, in_d, 0.0)
    mean = tl.sum(d_c * 0.0, axis=0)
    for first in range(0, S, POSITIONS):
        s = first + tl.arange(0, POSITIONS)
        weight = tl.load(weights + row * S + s, s < S, 0.0)
        some = (weight > 0)[:, None]
        value = tl.load(values + (row * S + s)[:, None] * D + at_d[None, :], some & in_d[None, :], 0.0)
        d_weight = tl.sum(value * d_c[None, :], axis=1)
        mean += tl.sum(weight * d_weight, axis=0)
        tl.store(d_scores + row * S + s, d_weight, s < S)
    tl.debug_barrier()
    q, sharp = tl.load(projected + row * stride + at_a, in_a, 0.0), tl.load(v + at_a, in_a, 0.0)
    d_q = tl.zeros([PA], tl.float32)
    for first in range(0, S, POSITIONS):
        s = first + tl.arange(0, POSITIONS)
        weight = tl.load(weights + row * S + s, s < S, 0.0)
        d_score = weight * (tl.load(d_scores + row * S + s, s < S, 0.0) - mean)
        some = (weight > 0)[:, None]
        key = tl.load(keys + (row * S + s)[:, None] * A + at_a[None, :], some & in_a[None, :], 0.0)
        bent = tanh(q[None, :] + key)
        d_q += tl.sum(d_score[:, None] * (1 - bent * bent), axis=0)
        tl.store(d_scores + row * S + s, d_score, s < S)
    tl.store(d_projected + row * stride + at_a, d_q * sharp, in_a)


@triton.jit
def keys_back_kernel(
    projected, keys, v, d_scores, d_keys, d_sharp, T, B, S, stride, A: tl.constexpr, PA: tl.constexpr
):  # fmt: skip
    """What all steps say of one position of one source: of its key, and its share of v."""
    row, s = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at = tl.arange(0, PA)
    inside = at < A
    place = (row * S + s) * A + at
    key, sharp = tl.load(keys + place, inside, 0.0), tl.load(v + at, inside, 0.0)
    d_key, share = tl.zeros([PA], tl.float32), tl.zeros([PA], tl.float32)
    for t in range(0, T):
        step = t * B + row
        d_score = tl.load(d_scores + step * S + s)
        bent = tanh(tl.load(projected + step * stride + at, inside, 0.0) + key)
        d_key += d_score * (1 - bent * bent)
        share += d_score * bent
    tl.store(d_keys + place, d_key * sharp, inside)
    tl.store(d_sharp + place, share, inside)


@triton.jit
def gated(given, projected, bias, columns, inside, H: tl.constexpr):
    """The gates of a GRU, and the part of its proposal that r decides about."""
    r = tl.load(given + columns, inside, 0.0) + tl.load(projected + columns, inside, 0.0)
    z = tl.load(given + H + columns, inside, 0.0) + tl.load(projected + H + columns, inside, 0.0)
    r = tl.sigmoid(r + tl.load(bias + columns, inside, 0.0))
    z = tl.sigmoid(z + tl.load(bias + H + columns, inside, 0.0))
    past = tl.load(projected + 2 * H + columns, inside, 0.0) + tl.load(bias + 2 * H + columns, inside, 0.0)
    return r, z, past, tanh(tl.load(given + 2 * H + columns, inside, 0.0) + r * past)


@triton.jit
def gate_kernel(given, projected, bias, before, after, stride, H: tl.constexpr, COLUMNS: tl.constexpr):
    """given: (B, 3H)   projected: (B, stride), its last 3H   before, after: (B, H)"""
    row, columns = tl.program_id(0).to(tl.int64), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < H
    h = tl.load(before + row * H + columns, inside, 0.0)
    _, z, _, n = gated(given + row * 3 * H, projected + (row + 1) * stride - 3 * H, bias, columns, inside, H)
    tl.store(after + row * H + columns, (1 - z) * n + z * h, inside)


@triton.jit
def gate_back_kernel(
    given, projected, bias, before, d_after, d_top, d_given, d_projected, d_before, stride,
    H: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row, columns = tl.program_id(0).to(tl.int64), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < H
    at = row * H + columns
    h = tl.load(before + at, inside, 0.0)
    d_h = tl.load(d_after + at, inside, 0.0) + tl.load(d_top + at, inside, 0.0)
    r, z, past, n = gated(given + row * 3 * H, projected + (row + 1) * stride - 3 * H, bias, columns, inside, H)
    d_n = d_h * (1 - z) * (1 - n * n)
    d_z = d_h * (h - n) * z * (1 - z)
    d_r = d_n * past * r * (1 - r)
    d_given += row * 3 * H + columns
    d_projected += (row + 1) * stride - 3 * H + columns
    tl.store(d_given, d_r, inside)
    tl.store(d_given + H, d_z, inside)
    tl.store(d_given + 2 * H, d_n, inside)
    tl.store(d_projected, d_r, inside)
    tl.store(d_projected + H, d_z, inside)
    tl.store(d_projected + 2 * H, d_n * r, inside)
    tl.store(d_before + at, d_h * z, inside)


class Walk(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, given: Tensor, h: Tensor, keys: Tensor, values: Tensor, mask: Tensor, w: Tensor, v: Tensor,
        w_c: Tensor, u: Tensor, bias: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        (T, B, _), (_, S, D), (A, H) = given.shape, values.shape, w.shape
        both = torch.cat([w, u])
        states, projected = given.new_empty(T + 1, B, H), given.new_empty(T, B, A + 3 * H)
        contexts, weights, gates = given.new_empty(T, B, D), given.new_empty(T, B, S), torch.empty_like(given)
        states[0] = h
        sizes = sizes_of(A, D)
        for t in range(T):
            torch.mm(states[t], both.t(), out=projected[t])
            look_kernel[(B,)](
                projected[t], keys, values, mask, v, weights[t], contexts[t], S, A + 3 * H, **sizes,
            )  # fmt: skip
            torch.addmm(given[t], contexts[t], w_c.t(), out=gates[t])
            gate_kernel[(B, triton.cdiv(H, COLUMNS))](
                gates[t], projected[t], bias, states[t], states[t + 1], A + 3 * H, H=H, COLUMNS=COLUMNS
            )  # fmt: skip
        ctx.save_for_backward(keys, values, v, w_c, both, bias, states, projected, contexts, weights, gates)
        return states[1:], contexts

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        keys, values, v, w_c, both, bias, states, projected, contexts, weights, gates = ctx.saved_tensors
        d_tops, d_contexts = (gradient.contiguous() for gradient in gradients)
        (T, B, S), (_, _, H), (A, D) = weights.shape, states.shape, (len(both) - 3 * states.shape[2], values.shape[2])
        d_given, d_projected, d_scores = (torch.empty_like(x) for x in (gates, projected, weights))
        d_seen, d_h, kept = torch.empty_like(contexts), torch.zeros_like(states[0]), torch.empty_like(states[0])
        stride, sizes = A + 3 * H, sizes_of(A, D)
        for t in reversed(range(T)):
            gate_back_kernel[(B, triton.cdiv(H, COLUMNS))](
                gates[t], projected[t], bias, states[t], d_h, d_tops[t], d_given[t], d_projected[t], kept, stride,
                H=H, COLUMNS=COLUMNS,
            )  # fmt: skip
            torch.addmm(d_contexts[t], d_given[t], w_c, out=d_seen[t])
            look_back_kernel[(B,)](
                projected[t], keys, values, v, weights[t], d_seen[t], d_scores[t], d_projected[t], S, stride, **sizes
            )  # fmt: skip
            torch.addmm(kept, d_projected[t], both, out=d_h)
        d_keys, d_sharp = torch.empty_like(keys), torch.empty_like(keys)
        keys_back_kernel[(B, S)](
            projected, keys, v, d_scores, d_keys, d_sharp, T, B, S, stride, A=A, PA=sizes["PA"]
        )  # fmt: skip
        d_values = torch.bmm(weights.permute(1, 2, 0), d_seen.transpose(0, 1))
        flat = d_projected.flatten(0, 1)
        d_w, d_u = (flat.t() @ states[:-1].flatten(0, 1)).split([A, 3 * H])
        d_w_c = d_given.flatten(0, 1).t() @ contexts.flatten(0, 1)
        return d_given, d_h, d_keys, d_values, None, d_w, d_sharp.sum((0, 1)), d_w_c, d_u, flat[:, A:].sum(0)


def sizes_of(A: int, D: int) -> dict[str, int]:
    """Of attention's kernels."""
    PA, PD = triton.next_power_of_2(A), triton.next_power_of_2(D)
    return {"A": A, "D": D, "PA": PA, "PD": PD, "POSITIONS": POSITIONS, "num_warps": max(4, max(PA, PD) // 128)}


def walk(
    given: Tensor, h: Tensor, keys: Tensor, values: Tensor, mask: Tensor, w: Tensor, v: Tensor, w_c: Tensor, u: Tensor,
    bias: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The state after every step and the context before it: (T, B, H), (T, B, d). All in float32.

    given: (T, B, 3·H), what the tokens give to the gates   h: (B, H), before the first step   keys: (B, S, A)
    values: (B, S, d)   mask: (B, S), True on real positions   w: (A, H), v: (A,) of the scores
    w_c: (3·H, d), u: (3·H, H), bias: (3·H,) of the cell: for contexts, for states
    """
    tensors = (x.float().contiguous() for x in (given, h, keys, values))
    tops, contexts = Walk.apply(*tensors, mask.contiguous().view(torch.uint8), w, v, w_c.contiguous(), u, bias)
    return tops, contexts
