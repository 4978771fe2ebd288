"""Sums over the rows of a tall matrix, with the backward pass of ReLU on the way.

What a linear layer's bias needs, and what the first half of a feed-forward layer needs: reading the gradient once gives
both the gradient before the non-linearity, in place, and the bias's.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PROGRAMS = 1056  # eight for each multiprocessor of the largest GPUs


@triton.jit
def columns_kernel(g, h, sums, n, D, ROWS: tl.constexpr, BLOCK: tl.constexpr, RELU: tl.constexpr):
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([ROWS, BLOCK], tl.float32)
    for first in range(tl.program_id(1) * ROWS, n, tl.num_programs(1) * ROWS):
        rows = first + tl.arange(0, ROWS).to(tl.int64)
        places = rows[:, None] * D + columns[None, :]
        mask = (rows < n)[:, None] & (columns < D)[None, :]
        values = tl.load(g + places, mask, 0.0)
        if RELU:
            values = tl.where(tl.load(h + places, mask, 0.0) > 0, values, 0.0)
            tl.store(g + places, values, mask)
        total += values.to(tl.float32)
    tl.store(sums + tl.program_id(1) * D + columns, tl.sum(total, axis=0), columns < D)


def sum_rows(g: Tensor, h: Tensor | None = None) -> Tensor:
    """The sum of g's rows in float32. With h, the output of a ReLU, g is first set to zero where h is.

    g, h: (n, D), contiguous → (D,)
    """
    n, D = g.shape
    rows, block = 16, min(256, triton.next_power_of_2(D))
    programs = min(max(1, PROGRAMS // triton.cdiv(D, block)), triton.cdiv(n, rows))
    sums = torch.empty(programs, D, dtype=torch.float32, device=g.device)
    columns_kernel[(triton.cdiv(D, block), programs)](
        g, g if h is None else h, sums, n, D, ROWS=rows, BLOCK=block, RELU=h is not None, num_warps=4
    )
    return sums.sum(0)
