"""Label-smoothed cross-entropy and its gradient, in place over rows of logits.

    loss = −Σ_v target(v) · log softmax(logits)(v)      d logits = softmax(logits) − target
    target(v) = (1 − ε) · [v is the right token] + ε / V

A program walks along one row twice: once for the maximum and the sums, once to overwrite each logit with its gradient.
Rows are as long as memory and matrix products like; what is beyond the vocabulary counts for nothing.
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
def loss_kernel(logits, targets, losses, V, row, smoothing, GRADIENT: tl.constexpr, BLOCK: tl.constexpr):
    logits += tl.program_id(0).to(tl.int64) * row
    target = tl.load(targets + tl.program_id(0))
    columns = tl.arange(0, BLOCK)
    top = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    plain = tl.zeros([BLOCK], tl.float32)
    for start in range(0, V, BLOCK):
        here = start + columns
        x = tl.load(logits + here, here < V, float("-inf")).to(tl.float32) * 1.4426950408889634  # log₂ e
        higher = tl.maximum(top, x)
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp2(top - safe) + tl.exp2(x - safe)
        plain += tl.where(here < V, x, 0.0)
        top = higher
    highest = tl.max(top, axis=0)
    log_sum = highest + tl.log2(tl.sum(total * tl.exp2(top - highest), axis=0))
    real = target != IGNORED
    right = tl.load(logits + tl.where(real, target, 0)).to(tl.float32)
    mean = tl.sum(plain, axis=0) / V
    value = (log_sum - smoothing * mean) * 0.6931471805599453 - (1.0 - smoothing) * right  # ln 2
    tl.store(losses + tl.program_id(0), tl.where(real, value, 0.0))
    if GRADIENT:
        tl.debug_barrier()  # every thread has read the right token's logit before one overwrites it
        for start in range(0, row, BLOCK):
            here = start + columns
            x = tl.load(logits + here, here < V, float("-inf")).to(tl.float32) * 1.4426950408889634
            g = tl.exp2(x - log_sum) - smoothing / V - tl.where(here == target, 1.0 - smoothing, 0.0)
            tl.store(logits + here, tl.where(real & (here < V), g, 0.0).to(logits.dtype.element_ty), here < row)


def smoothed_rows(logits: Tensor, V: int, targets: Tensor, losses: Tensor, smoothing: float, gradient: bool) -> None:
    """Write each row's loss to `losses`, and with `gradient` overwrite the logits with theirs.

    logits: (n, at least V), contiguous; columns from V on count for nothing and get a gradient of zero
    targets: (n,), −100 where a row counts for nothing   losses: (n,) float32
    """
    n, row = logits.shape
    loss_kernel[(n,)](logits, targets, losses, V, row, smoothing, GRADIENT=gradient, BLOCK=2048, num_warps=8)


def loss_and_gradients(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float, needed: list[bool]
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """As in `regard.nn.loss`: the summed loss, and the gradients of hidden, weight and bias where `needed`."""
    n, V = len(hidden), len(weight)
    extra = -V % ALIGNED
    w = F.pad(weight.to(hidden.dtype), (0, 0, 0, extra))
    b = None if bias is None else F.pad(bias.to(hidden.dtype), (0, extra))
    losses = torch.empty(n, dtype=torch.float32, device=hidden.device)
    d_hidden = torch.empty_like(hidden) if needed[0] else None
    d_weight = torch.zeros(len(w), w.shape[1], dtype=torch.float32, device=w.device) if needed[1] else None
    d_bias = torch.zeros(len(w), dtype=torch.float32, device=w.device) if needed[2] else None
    for rows in loss.chunks(n, len(w) * w.element_size(), hidden.device):
        z = F.linear(hidden[rows], w, b)  # (rows, V + extra)
        smoothed_rows(z, V, targets[rows], losses[rows], smoothing, any(needed))
        if d_hidden is not None:
            torch.mm(z, w, out=d_hidden[rows])
        if d_weight is not None:
            d_weight += wide_product(z.t(), hidden[rows])
        if d_bias is not None:
            d_bias += sum_rows(z)
    return (
        losses.sum(), d_hidden,
        None if d_weight is None else d_weight[:V].to(weight.dtype),
        None if d_bias is None else d_bias[:V].to(weight.dtype),
    )  # fmt: skip
