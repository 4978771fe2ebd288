"""A linear map of a few rows in float32, whose matrix is read once.

One hypothesis and the tokens proposed behind it are a handful of rows (`regard.decode.blockwise`). Torch's library cuts
them into tiles, which leave most of a GPU without work where the output is narrow; for a single row it has a product of
its own. Here a program has some columns of the output, for all rows. One compilation serves all numbers of rows up to a
power of two, for slots come and go.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

NUMBERS = 4096  # of the matrix that a program has before it
PROGRAMS = 256  # at least, where there are so many columns: about twice the multiprocessors of a large GPU


@triton.jit(do_not_specialize=["M"])
def rows_kernel(
    x, weight, bias, out, M, N, K, stride,
    PM: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, BIAS: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """x: (M, stride), K numbers of each row   weight: (N, K)   out: (M, N)"""
    columns, rows = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, PM)
    lines = weight + columns.to(tl.int64)[:, None] * K
    total = tl.zeros([PM, COLUMNS], tl.float32)
    for first in range(0, K, DEPTH):
        at = first + tl.arange(0, DEPTH)
        numbers = tl.load(lines + at[None, :], (columns < N)[:, None] & (at < K)[None, :], 0.0)
        for row in tl.static_range(PM):
            factors = tl.load(x + tl.minimum(row, M - 1) * stride + at, at < K, 0.0)
            part = tl.sum(numbers * factors[None, :], axis=1)
            total += tl.where(rows[:, None] == row, part[None, :], 0.0)
    if BIAS:
        total += tl.load(bias + columns, columns < N, 0.0)[None, :]
    if RELU:
        total = tl.where(total < 0.0, 0.0, total)  # what is no number stays none
    tl.store(out + rows[:, None] * N + columns[None, :], total, (rows < M)[:, None] & (columns < N)[None, :])


def columns_of(d_out: int, depth: int) -> int:
    """How many columns a program has, a power of two."""
    shared = max(1, d_out // PROGRAMS)
    return min(NUMBERS // depth, 2 ** (shared.bit_length() - 1))


def product_of_rows(x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
    """x Wᵀ + b, or what ReLU leaves of it.   x: (…, d_in)   weight: (d_out, d_in), contiguous   → (…, d_out)"""
    (N, K), rows = weight.shape, x.reshape(-1, x.shape[-1])
    rows = rows if rows.stride(1) == 1 else rows.contiguous()
    M, depth = len(rows), min(NUMBERS, triton.next_power_of_2(K))
    columns = columns_of(N, depth)
    out = x.new_empty(M, N)
    rows_kernel[(triton.cdiv(N, columns),)](
        rows, weight, bias, out, M, N, K, rows.stride(0),
        PM=triton.next_power_of_2(M), COLUMNS=columns, DEPTH=depth, BIAS=bias is not None, RELU=relu, num_warps=4,
    )  # fmt: skip
    return out.view(*x.shape[:-1], N)
