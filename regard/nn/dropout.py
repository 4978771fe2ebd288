"""Dropout: *Attention Is All You Need*, §5.4 (Srivastava et al. 2014).

    dropout(x) = x ⊙ m / (1 − p),   each entry of m 0 with probability p, else 1

Departures from the paper: p is rounded to a multiple of 2^-16 on a CPU, and the scale with it, so that the
mean stays exact; kernels round it to 2^-31.

torch draws a CPU's masks one by one from a Mersenne Twister (docs/log.md has what that costs). Here each
call takes one number from torch's default generator, so that its state decides every mask, and seeds a
faster stream with it: one thread's, so that the number of threads changes nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

STEPS = 2**16  # a probability is a multiple of 1 / STEPS: the random numbers compared have 16 bits


def dropout(x: Tensor, p: float) -> Tensor:
    """Set each number to zero with probability p and scale up the others. For training; p = 0 is free."""
    if p == 0.0:
        return x
    if not draws_own_masks(x):
        return F.dropout(x, p)
    return Dropout.apply(x, p)


def draws_own_masks(x: Tensor) -> bool:
    """Whether x is where torch is slow at random numbers: in a CPU's memory."""
    return x.device.type == "cpu"


def draw(shape: torch.Size, p: float) -> tuple[Tensor, float]:
    """A mask, 1 on what stays, as bytes; and the scale that keeps the mean."""
    dropped = round(p * STEPS)
    seed = int(torch.empty((), dtype=torch.int64).random_())
    words = np.random.SFC64(seed).random_raw(-(-shape.numel() // 4))  # 64 bits each, four numbers
    mask = torch.from_numpy(words.view(np.uint16)[: shape.numel()] >= dropped).view(torch.uint8)
    return mask.view(shape), STEPS / (STEPS - dropped) if dropped < STEPS else 0.0


def masked(x: Tensor, mask: Tensor, scale: float) -> Tensor:
    """x ⊙ mask · scale, in one pass."""
    return torch.addcmul(x.new_zeros(()), x, mask, value=scale)


class Dropout(torch.autograd.Function):
    """The product with a mask; its gradient is the same product."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        mask, ctx.scale = draw(x.shape, p)
        ctx.save_for_backward(mask)
        return masked(x, mask, ctx.scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return masked(grad, mask, ctx.scale), None
