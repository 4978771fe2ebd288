"""Dropout, residual sum and layer normalisation in one pass: *Attention Is All You Need*, §3.1 and §5.4.

    z = x + dropout(y)      out = (z − mean z) / √(var z + ε) · weight + bias

The backward pass draws the dropout mask again from its seed, and adds the gradients of weight and bias over many rows
within each program before a last sum over programs, always in the same order. Sums are in float32 whatever the tensors.
Where no gradient is asked for, nothing is written but `out`.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.nn.kernels.chance import draw_seed, keep, threshold

PROGRAMS = 528  # of a backward pass: four for each multiprocessor of the largest GPUs


@triton.jit
def norm_kernel(
    x, y, z, out, means, scales, weight, bias, seed, n, eps, dropped, rescale,
    D: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, ADD: tl.constexpr, DROPOUT: tl.constexpr,
    GRADIENT: tl.constexpr,
):  # fmt: skip
    """GRADIENT: whether a backward pass comes, which needs z, means and scales."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    places = rows[:, None] * D + columns[None, :]
    mask = (rows < n)[:, None] & (columns < D)[None, :]
    total = tl.load(x + places, mask, 0.0).to(tl.float32)
    if ADD:
        term = tl.load(y + places, mask, 0.0).to(tl.float32)
        if DROPOUT:
            term = tl.where(keep(tl.load(seed), places, dropped), term * rescale, 0.0)
        total += term
        stored = total.to(z.dtype.element_ty)
        if GRADIENT:
            tl.store(z + places, stored, mask)
        total = stored.to(tl.float32)  # what the backward pass will see
    mean = tl.sum(total, axis=1) / D
    centred = tl.where(mask, total - mean[:, None], 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=1) / D + eps)
    w = tl.load(weight + columns, columns < D, 0.0).to(tl.float32)
    b = tl.load(bias + columns, columns < D, 0.0).to(tl.float32)
    normal = centred * scale[:, None] * w[None, :] + b[None, :]
    tl.store(out + places, normal.to(out.dtype.element_ty), mask)
    if GRADIENT:
        tl.store(means + rows, mean, rows < n)
        tl.store(scales + rows, scale, rows < n)


@triton.jit
def norm_backward_kernel(
    d_out, z, means, scales, weight, seed, dx, dy, sums, n, dropped, rescale,
    D: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    columns = tl.arange(0, BLOCK)
    w = tl.load(weight + columns, columns < D, 0.0).to(tl.float32)
    dw = tl.zeros([ROWS, BLOCK], tl.float32)
    db = tl.zeros([ROWS, BLOCK], tl.float32)
    for first in range(tl.program_id(0) * ROWS, n, tl.num_programs(0) * ROWS):
        rows = first + tl.arange(0, ROWS).to(tl.int64)
        places = rows[:, None] * D + columns[None, :]
        mask = (rows < n)[:, None] & (columns < D)[None, :]
        g = tl.load(d_out + places, mask, 0.0).to(tl.float32)
        total = tl.load(z + places, mask, 0.0).to(tl.float32)
        mean, scale = tl.load(means + rows, rows < n, 0.0), tl.load(scales + rows, rows < n, 0.0)
        normal = tl.where(mask, (total - mean[:, None]) * scale[:, None], 0.0)
        dw += g * normal
        db += g
        g = g * w[None, :]
        along = tl.sum(g * normal, axis=1) / D
        even = tl.sum(g, axis=1) / D
        dz = (g - even[:, None] - normal * along[:, None]) * scale[:, None]
        tl.store(dx + places, dz.to(dx.dtype.element_ty), mask)
        if DROPOUT:
            dropped_dz = tl.where(keep(tl.load(seed), places, dropped), dz * rescale, 0.0)
            tl.store(dy + places, dropped_dz.to(dy.dtype.element_ty), mask)
    sums += tl.program_id(0) * (2 * D) + columns
    tl.store(sums, tl.sum(dw, axis=0), columns < D)
    tl.store(sums + D, tl.sum(db, axis=0), columns < D)


@triton.jit
def sum_kernel(x, y, out, seed, n, dropped, rescale, ADD: tl.constexpr, BLOCK: tl.constexpr):
    """out = x + dropout(y), or dropout(y) alone."""
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    term = tl.load(y + places, places < n, 0.0).to(tl.float32)
    term = tl.where(keep(tl.load(seed), places, dropped), term * rescale, 0.0)
    if ADD:
        term += tl.load(x + places, places < n, 0.0).to(tl.float32)
    tl.store(out + places, term.to(out.dtype.element_ty), places < n)


class ResidualNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor | None, weight: Tensor, bias: Tensor, p: float, eps: float) -> Tensor:
        x = x.contiguous()
        z = x if y is None else torch.empty_like(x)
        means, scales = (x.new_empty(x.numel() // x.shape[-1], dtype=torch.float32) for _ in range(2))
        seed = draw_seed(x.device) if p else None
        out = normalised(x, y, weight, bias, seed, p, eps, (z, means, scales))
        ctx.save_for_backward(z, means, scales, weight, seed)
        ctx.p, ctx.adds = p, y is not None
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        z, means, scales, weight, seed = ctx.saved_tensors
        n, D = len(means), z.shape[-1]
        rows = rows_of(D)
        programs = min(PROGRAMS, triton.cdiv(n, rows))
        dx = torch.empty_like(z)
        dy = torch.empty_like(z) if ctx.p else dx
        sums = torch.empty(programs, 2, D, dtype=torch.float32, device=z.device)
        norm_backward_kernel[(programs,)](
            d_out.contiguous(), z, means, scales, weight, means if seed is None else seed, dx, dy, sums,
            n, threshold(ctx.p), 1 / (1 - ctx.p),
            D=D, BLOCK=triton.next_power_of_2(D), ROWS=rows, DROPOUT=ctx.p > 0, num_warps=4,
        )  # fmt: skip
        d_weight, d_bias = sums.sum(0)
        return dx, (dy if ctx.adds else None), d_weight, d_bias, None, None


class ResidualSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, p: float) -> Tensor:
        seed = draw_seed(y.device)
        ctx.save_for_backward(seed)
        ctx.p, ctx.y_type = p, y.dtype
        return dropped_sum(x.contiguous(), y, seed, p)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        (seed,) = ctx.saved_tensors
        return d_out, dropped_sum(None, d_out, seed, ctx.p).to(ctx.y_type), None


def dropped_sum(x: Tensor | None, y: Tensor, seed: Tensor, p: float) -> Tensor:
    y = y.contiguous()
    out = torch.empty_like(y if x is None else x)
    block = 2048
    sum_kernel[(triton.cdiv(y.numel(), block),)](
        y if x is None else x, y, out, seed, y.numel(), threshold(p), 1 / (1 - p), ADD=x is not None, BLOCK=block
    )
    return out


def normalised(
    x: Tensor, y: Tensor | None, weight: Tensor, bias: Tensor, seed: Tensor | None, p: float, eps: float,
    kept: tuple[Tensor, Tensor, Tensor] | None,
) -> Tensor:  # fmt: skip
    """LayerNorm(x + dropout(y)), or LayerNorm(x). kept: where the sums, their means and their scales are written"""
    x, D = x.contiguous(), x.shape[-1]
    y = y.contiguous() if y is not None else None
    n, rows, out = x.numel() // D, rows_of(D), torch.empty_like(x)
    z, means, scales = kept or (out, out, out)
    norm_kernel[(triton.cdiv(n, rows),)](
        x, x if y is None else y, z, out, means, scales, weight, bias, out if seed is None else seed,
        n, eps, threshold(p), 1 / (1 - p),
        D=D, BLOCK=triton.next_power_of_2(D), ROWS=rows, ADD=y is not None, DROPOUT=p > 0, GRADIENT=kept is not None,
        num_warps=4,
    )  # fmt: skip
    return out


def rows_of(D: int) -> int:
    """Rows of a tile for four warps, so that each thread holds a handful of numbers."""
    return max(1, 2048 // triton.next_power_of_2(D))


def residual_norm(x: Tensor, y: Tensor | None, weight: Tensor, bias: Tensor, p: float, eps: float) -> Tensor:
    """LayerNorm(x + dropout(y)), or LayerNorm(x) without a y. x, y: (…, D) → (…, D) in x's type."""
    p = p if y is not None else 0.0
    if torch.is_grad_enabled():
        return ResidualNorm.apply(x, y, weight, bias, p, eps)
    return normalised(x, y, weight, bias, draw_seed(x.device) if p else None, p, eps, None)


def residual_sum(x: Tensor, y: Tensor, p: float) -> Tensor:
    """x + dropout(y), in x's type."""
    return ResidualSum.apply(x, y, p) if p else x + y
