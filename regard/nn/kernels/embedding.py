"""Token vectors times √d_model, plus positions, then dropout: *Attention Is All You Need*, §3.4, §3.5 and §5.4."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.nn.kernels.chance import draw_seed, keep, threshold


@triton.jit
def embed_kernel(
    tokens, table, places, positions, out, seed, scale, dropped, rescale,
    D: tl.constexpr, BLOCK: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < D
    vector = tl.load(table + tl.load(tokens + row) * D + columns, mask, 0.0).to(tl.float32) * scale
    vector += tl.load(positions + tl.load(places + row) * D + columns, mask, 0.0).to(tl.float32)
    if DROPOUT:
        vector = tl.where(keep(tl.load(seed), row * D + columns, dropped), vector * rescale, 0.0)
    tl.store(out + row * D + columns, vector.to(out.dtype.element_ty), mask)


@triton.jit
def embed_backward_kernel(
    tokens, d_out, d_table, seed, scale, dropped, rescale,
    D: tl.constexpr, BLOCK: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < D
    g = tl.load(d_out + row * D + columns, mask, 0.0).to(tl.float32) * scale
    if DROPOUT:
        g = tl.where(keep(tl.load(seed), row * D + columns, dropped), g * rescale, 0.0)
    tl.atomic_add(d_table + tl.load(tokens + row) * D + columns, g, mask & (g != 0.0))


class Embed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tokens: Tensor, table: Tensor, places: Tensor, positions: Tensor, scale: float, p: float,
        dtype: torch.dtype,
    ) -> Tensor:  # fmt: skip
        D = table.shape[1]
        out = torch.empty(*tokens.shape, D, dtype=dtype, device=table.device)
        seed = draw_seed(table.device) if p else None
        embed_kernel[(tokens.numel(),)](
            tokens, table, places, positions, out, tokens if seed is None else seed, scale, threshold(p), 1 / (1 - p),
            D=D, BLOCK=triton.next_power_of_2(D), DROPOUT=p > 0, num_warps=warps(D),
        )  # fmt: skip
        ctx.save_for_backward(tokens, seed)
        ctx.settings = scale, p, table.shape
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        tokens, seed = ctx.saved_tensors
        scale, p, size = ctx.settings
        d_table = torch.zeros(size, dtype=torch.float32, device=d_out.device)
        embed_backward_kernel[(tokens.numel(),)](
            tokens, d_out.contiguous(), d_table, tokens if seed is None else seed, scale, threshold(p), 1 / (1 - p),
            D=size[1], BLOCK=triton.next_power_of_2(size[1]), DROPOUT=p > 0, num_warps=warps(size[1]),
        )  # fmt: skip
        return None, d_table, None, None, None, None, None


def warps(D: int) -> int:
    return max(1, min(4, triton.next_power_of_2(D) // 256))


def embed(
    tokens: Tensor, table: Tensor, places: Tensor, positions: Tensor, scale: float, p: float, dtype: torch.dtype
) -> Tensor:
    """dropout(table[tokens] · scale + positions[places]).   tokens, places: (total,) → (total, D) in `dtype`

    Gradients reach the table alone, by atomic additions whose order is not fixed.
    """
    return Embed.apply(tokens, table, places, positions, scale, p, dtype)
