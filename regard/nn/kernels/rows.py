"""A linear map of a few rows in float32, as fast as its matrix can be read.

One hypothesis and the tokens proposed behind it are a handful of rows (`regard.decode.blockwise`). Torch's library cuts
them into tiles that leave most of a GPU without work; for a single row it has a product of its own. Here a program has
some columns of the output, for all rows: it reads its part of the matrix once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

MOST_ROWS = 16
NUMBERS = 4096  # of the matrix that a program has before it
PROGRAMS = 256  # at least, where there are so many columns: twice the multiprocessors of a large GPU


@triton.jit
def rows_kernel(
    x, weight, bias, out, N, K, stride,
    M: tl.constexpr, PM: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, BIAS: tl.constexpr,
    RELU: tl.constexpr,
):  # fmt: skip
    """x: (M, stride), K numbers of each row   weight: (N, K)   out: (M, N)"""
    columns, rows = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, PM)
    lines = weight + columns.to(tl.int64)[:, None] * K
    total = tl.zeros([PM, COLUMNS], tl.float32)
    for first in range(0, K, DEPTH):
        at = first + tl.arange(0, DEPTH)
        numbers = tl.load(lines + at[None, :], (columns < N)[:, None] & (at < K)[None, :], 0.0)
        for row in tl.static_range(M):
            factors = tl.load(x + row * stride + at, at < K, 0.0)
            part = tl.sum(numbers * factors[None, :], axis=1)
            total += tl.where(rows[:, None] == row, part[None, :], 0.0)
    if BIAS:
        total += tl.load(bias + columns, columns < N, 0.0)[None, :]
    if RELU:
        total = tl.maximum(total, 0.0)
    tl.store(out + rows[:, None] * N + columns[None, :], total, (rows < M)[:, None] & (columns < N)[None, :])


def takes(x: Tensor, weight: Tensor) -> bool:
    """Whether this is the kernel for x Wᵀ."""
    n = x.numel() // x.shape[-1]
    return x.dtype == weight.dtype == torch.float32 and 1 < n <= MOST_ROWS and weight.is_contiguous()


def product_of_rows(x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
    """x Wᵀ + b, or what ReLU leaves of it.   x: (…, d_in)   weight: (d_out, d_in)   → (…, d_out)"""
    (N, K), rows = weight.shape, x.reshape(-1, x.shape[-1])
    rows = rows if rows.stride(1) == 1 else rows.contiguous()
    M, depth = len(rows), min(NUMBERS, triton.next_power_of_2(K))
    columns = min(NUMBERS // depth, triton.next_power_of_2(triton.cdiv(N, PROGRAMS)))
    out = x.new_empty(M, N)
    rows_kernel[(triton.cdiv(N, columns),)](
        rows, weight, bias, out, N, K, rows.stride(0),
        M=M, PM=triton.next_power_of_2(M), COLUMNS=columns, DEPTH=depth, BIAS=bias is not None, RELU=relu, num_warps=4,
    )  # fmt: skip
    return out.view(*x.shape[:-1], N)
