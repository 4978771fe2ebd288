"""Residual connections: *Attention Is All You Need*, §3.1 and §5.4.

    residual_sum(x, y)  = x + Dropout(y)
    residual_norm(x, y) = LayerNorm(x + Dropout(y)),   y = Sublayer(x)

Departures from the paper: none.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn import kernels
from regard.nn.dropout import draw, draws_own_masks, masked


class LayerNorm(nn.LayerNorm):
    """torch's, which on a GPU gives its output in the type of its input, under autocast too."""

    def forward(self, x: Tensor) -> Tensor:
        """x: (…, D) → (…, D)."""
        if kernels.usable(x):
            from regard.nn.kernels import residual as fused

            return fused.residual_norm(x, None, self.weight, self.bias, 0.0, self.eps)
        return super().forward(x)


def residual_norm(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, p: float, eps: float) -> Tensor:
    """x, y: (…, D)   weight, bias: (D,)   → (…, D)."""
    if kernels.usable(x):
        from regard.nn.kernels import residual as fused

        return fused.residual_norm(x, y, weight, bias, p, eps)
    return F.layer_norm(residual_sum(x, y, p), weight.shape, weight, bias, eps)


def residual_sum(x: Tensor, y: Tensor, p: float) -> Tensor:
    """x, y: (…, D) → (…, D)."""
    if p == 0.0:
        return x + y
    if kernels.usable(x):
        from regard.nn.kernels import residual as fused

        return fused.residual_sum(x, y, p)
    if not draws_own_masks(y):
        return x + F.dropout(y, p)
    return ResidualSum.apply(x, y, p)


class ResidualSum(torch.autograd.Function):
    """x + y ⊙ mask · scale, in one pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, p: float) -> Tensor:
        mask, ctx.scale = draw(y.shape, p)
        ctx.save_for_backward(mask)
        return torch.addcmul(x, y, mask, value=ctx.scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        (mask,) = ctx.saved_tensors
        return grad, masked(grad, mask, ctx.scale), None
