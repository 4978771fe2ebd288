"""Linear maps: torch's own, and one for mixed precision on a GPU.

Under autocast torch multiplies in bfloat16 and also hands back the weight's gradient in bfloat16, to be widened
afterwards. `MixedLinear` has the matrix product write it in float32 at once: nothing is lost in the sum over a batch's
tokens, and a pass over memory is saved. ReLU and bias join the products they follow.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn import kernels


class MixedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
        half = product_type(x)
        x, w = x.to(half), weight.to(half)
        rows = x.reshape(-1, x.shape[-1])
        if relu and bias is not None:
            out = torch._addmm_activation(bias.to(half), rows, w.t())
        elif bias is not None:
            out = torch.addmm(bias.to(half), rows, w.t())
        else:
            out = rows @ w.t()
        ctx.save_for_backward(rows, w, out if relu else None)
        ctx.has_bias, ctx.shape = bias is not None, x.shape
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        from regard.nn.kernels.columns import sum_rows
        from regard.nn.kernels.loss import wide_product

        rows, w, h = ctx.saved_tensors
        g = g.reshape(-1, g.shape[-1]).contiguous()
        d_bias = sum_rows(g, h) if ctx.has_bias else None
        dx = (g @ w).view(ctx.shape)
        return dx, wide_product(g.t(), rows), d_bias, None


def product_type(x: Tensor) -> torch.dtype:
    """The type in which matrix products of x are computed, autocast considered."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def mixed(x: Tensor) -> bool:
    return kernels.usable(x) and torch.is_autocast_enabled(x.device.type)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b.   x: (…, d_in) → (…, d_out)"""
    return MixedLinear.apply(x, weight, bias, False) if mixed(x) else F.linear(x, weight, bias)


def linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """max(0, x Wᵀ + b)."""
    return MixedLinear.apply(x, weight, bias, True) if mixed(x) else F.linear(x, weight, bias).relu_()


def side_by_side(x: Tensor, *parts: nn.Linear) -> Tensor:
    """Several linear maps of the same input as one matrix product → (…, Σ d_out)."""
    weights: list[Tensor] = [part.weight for part in parts]
    biases: list[Tensor] = [part.bias for part in parts if part.bias is not None]
    return linear(x, torch.cat(weights), torch.cat(biases) if biases else None)
