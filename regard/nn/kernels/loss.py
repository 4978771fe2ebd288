"""Label-smoothed cross-entropy and its gradient, in place over rows of logits.

    loss = −Σ_v target(v) · log softmax(logits)(v)      d logits = softmax(logits) − target
    target(v) = (1 − ε) · [v is the right token] + ε / V

A program walks along one row twice: once for the maximum and the sums, once to overwrite each logit with its gradient.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

IGNORED = tl.constexpr(-100)  # as in torch.nn.functional.cross_entropy


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
    loss = (log_sum - smoothing * mean) * 0.6931471805599453 - (1.0 - smoothing) * right  # ln 2
    tl.store(losses + tl.program_id(0), tl.where(real, loss, 0.0))
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
