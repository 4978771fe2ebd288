"""R-Drop's loss and its gradient (`regard.nn.r_drop`), in place over pairs of rows of logits.

A program walks along the two rows of a position three times: for their maxima and sums, for Σ p₁ d and Σ p₂ d with
d = log p₁ − log p₂, and to overwrite the logits with their gradients.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from regard.nn import loss
from regard.nn.kernels.columns import sum_rows
from regard.nn.layout import ALIGNED
from regard.nn.linear import wide_product

IGNORED = tl.constexpr(loss.IGNORED)


@triton.jit
def load_row(row, here, V):
    return tl.load(row + here, here < V, float("-inf")).to(tl.float32)


@triton.jit
def log_sum_and_mean(row, V, BLOCK: tl.constexpr):
    """log Σ exp and the mean of one row."""
    columns = tl.arange(0, BLOCK)
    top = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    plain = tl.zeros([BLOCK], tl.float32)
    for start in range(0, V, BLOCK):
        x = load_row(row, start + columns, V)
        higher = tl.maximum(top, x)
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(top - safe) + tl.exp(x - safe)
        plain += tl.where(start + columns < V, x, 0.0)
        top = higher
    highest = tl.max(top, axis=0)
    return highest + tl.log(tl.sum(total * tl.exp(top - highest), axis=0)), tl.sum(plain, axis=0) / V


@triton.jit
def r_drop_kernel(first, second, targets, losses, V, row, smoothing, alpha, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64)
    first += place * row
    second += place * row
    target = tl.load(targets + place)
    real = target != IGNORED
    columns = tl.arange(0, BLOCK)
    log_sum_1, mean_1 = log_sum_and_mean(first, V, BLOCK)
    log_sum_2, mean_2 = log_sum_and_mean(second, V, BLOCK)
    sum_1 = tl.zeros([BLOCK], tl.float32)  # Σ p₁ d
    sum_2 = tl.zeros([BLOCK], tl.float32)  # Σ p₂ d
    for start in range(0, V, BLOCK):
        here = start + columns
        log_1, log_2 = load_row(first, here, V) - log_sum_1, load_row(second, here, V) - log_sum_2
        d = tl.where(here < V, log_1 - log_2, 0.0)
        sum_1 += tl.exp(log_1) * d
        sum_2 += tl.exp(log_2) * d
    mean_d_1, mean_d_2 = tl.sum(sum_1, axis=0), tl.sum(sum_2, axis=0)
    safe = tl.where(real, target, 0)
    right = tl.load(first + safe).to(tl.float32) + tl.load(second + safe).to(tl.float32)
    entropies = log_sum_1 + log_sum_2 - (1.0 - smoothing) * right - smoothing * (mean_1 + mean_2)
    value = 0.5 * entropies + 0.25 * alpha * (mean_d_1 - mean_d_2)
    tl.store(losses + place, tl.where(real, value, 0.0))
    tl.debug_barrier()  # every thread has read the right token's logits before one overwrites them
    for start in range(0, row, BLOCK):
        here = start + columns
        log_1, log_2 = load_row(first, here, V) - log_sum_1, load_row(second, here, V) - log_sum_2
        p_1, p_2 = tl.exp(log_1), tl.exp(log_2)
        d = tl.where(here < V, log_1 - log_2, 0.0)
        q = smoothing / V + tl.where(here == target, 1.0 - smoothing, 0.0)
        g_1 = 0.5 * (p_1 - q) + 0.25 * alpha * (p_1 * (d - mean_d_1) + p_1 - p_2)
        g_2 = 0.5 * (p_2 - q) + 0.25 * alpha * (p_2 * (mean_d_2 - d) + p_2 - p_1)
        kept = real & (here < V)
        tl.store(first + here, tl.where(kept, g_1, 0.0).to(first.dtype.element_ty), here < row)
        tl.store(second + here, tl.where(kept, g_2, 0.0).to(second.dtype.element_ty), here < row)


def loss_and_gradients(
    both: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float, alpha: float
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """As in `regard.nn.r_drop`: the loss, and the gradients of both passes' hidden, of the weight and of the bias."""
    n, V = both.shape[1], len(weight)
    extra = -V % ALIGNED
    w = F.pad(weight.to(both.dtype), (0, 0, 0, extra))
    b = None if bias is None else F.pad(bias.to(both.dtype), (0, extra))
    losses = torch.empty(n, dtype=torch.float32, device=both.device)
    d_both = torch.empty_like(both)
    d_weight = torch.zeros(len(w), w.shape[1], dtype=torch.float32, device=w.device)
    d_bias = None if b is None else torch.zeros(len(w), dtype=torch.float32, device=w.device)
    for rows in loss.chunks(n, 2 * len(w) * w.element_size(), both.device):
        halves = [F.linear(both[i, rows], w, b) for i in range(2)]  # (rows, V + extra)
        r_drop_kernel[(len(halves[0]),)](
            *halves, targets[rows], losses[rows], V, len(w), smoothing, alpha, BLOCK=2048, num_warps=8
        )
        for i, z in enumerate(halves):
            torch.mm(z, w, out=d_both[i, rows])
            d_weight += wide_product(z.t(), both[i, rows])
            if d_bias is not None:
                d_bias += sum_rows(z)
    return losses.sum(), d_both, d_weight[:V].to(weight.dtype), None if d_bias is None else d_bias[:V].to(weight.dtype)
