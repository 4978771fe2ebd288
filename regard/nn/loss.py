"""The loss: *Attention Is All You Need*, §5.4, with the output projection of §3.4 in it.

    z = hidden Wᵀ + b,   q_v = (1 − ε) [v = target] + ε / V          (Szegedy et al. 2016: over all V tokens)
    loss = − Σ_v q_v log softmax(z)_v = log Σ_v exp z_v − (1 − ε) z_target − ε / V Σ_v z_v
    ∂loss / ∂z = softmax(z) − q

Logits of all positions would be the largest tensor of a training step, and their gradient as large again.
So a chunk of positions goes through the vocabulary at a time: logits, loss, the logits' gradient in their
place, and from it the gradients of hidden, W and b. The even part ε / V of q needs no pass over the
vocabulary: Σ_v z_v = hidden · Σ_v W_v + Σ_v b_v, and its gradient is as simple.

Departures from the paper: its code spreads ε over the V − 1 other tokens, a difference of the order ε / V.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.nn import kernels
from regard.nn.linear import onednn_product, onednn_takes, product_type

IGNORED = -100  # a target that is no token: no loss, no gradient
# Logits at a time. On a CPU they should stay in cache, but the fewer rows, the slower the products.
CHUNK_BYTES = {"cpu": 8 * 2**20, "cuda": 512 * 2**20}


def smoothed_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, label_smoothing: float
) -> Tensor:
    """hidden: (n, D)   weight: (V, D)   bias: (V,)   targets: (n,)   → the loss, summed over n."""
    hidden = hidden.to(product_type(hidden))
    needed = [torch.is_grad_enabled() and x is not None and x.requires_grad for x in (hidden, weight, bias)]
    compute = loss_and_gradients
    if kernels.usable(hidden):
        from regard.nn.kernels.loss import loss_and_gradients as compute
    return WithGradients.apply(compute, hidden, weight, bias, targets, label_smoothing, needed)


class WithGradients(torch.autograd.Function):
    """`compute(hidden, weight, bias, …)` gives a loss and the gradients of these three; later they are only scaled."""

    @staticmethod
    def forward(
        ctx: Any, compute: Callable[..., tuple[Tensor | None, ...]], hidden: Tensor, weight: Tensor,
        bias: Tensor | None, *more: Any,
    ) -> Tensor:  # fmt: skip
        with torch.autocast(hidden.device.type, enabled=False):
            loss, *gradients = compute(hidden, weight, bias, *more)
        assert loss is not None
        ctx.save_for_backward(*gradients)
        ctx.more = [None] * len(more)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if gradient is None else gradient * grad for gradient in ctx.saved_tensors)
        return (None, *scaled, *ctx.more)


def loss_and_gradients(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float, needed: list[bool]
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """The loss, and the gradients of hidden, weight and bias where `needed`.

    Products are in the type of `hidden`; softmax, loss and sums over chunks in float32 at least.
    """
    V, even = len(weight), smoothing / len(weight)  # ε / V
    on_cpu = any(needed) and onednn_takes(hidden)
    narrow, wide = hidden.dtype, torch.promote_types(hidden.dtype, torch.float32)
    w, b = weight.to(narrow), None if bias is None else bias.to(narrow)
    w_sum, b_sum = w.sum(0, dtype=wide), 0.0 if b is None else b.sum(dtype=wide)  # (D,), ()
    loss = hidden.new_zeros((), dtype=wide)
    d_hidden = torch.empty_like(hidden) if needed[0] else None
    d_weight = torch.zeros_like(weight, dtype=wide) if needed[1] else None
    d_bias = weight.new_zeros(V, dtype=wide) if needed[2] else None
    reals, right = (targets != IGNORED).to(wide)[:, None], targets.clamp(min=0)[:, None]  # (n, 1)
    for rows in chunks(len(hidden), V * wide.itemsize, hidden.device):
        h, real, target = hidden[rows], reals[rows], right[rows]
        z = (onednn_product(h, w, b, False) if on_cpu else F.linear(h, w, b)).to(wide)  # (n, V)
        z_target, z_sum = z.gather(1, target), (h.to(wide) @ w_sum + b_sum)[:, None]  # (n, 1)
        top = z.amax(1, keepdim=True)
        p = z.softmax(1)
        total = top - p.amax(1, keepdim=True).log()  # log Σ exp z, by the one token whose p is never 0
        loss += (real * (total - (1 - smoothing) * z_target - even * z_sum)).sum()
        if not any(needed):
            continue
        d = p.scatter_add_(1, target, torch.full_like(real, smoothing - 1)).to(narrow)  # softmax(z) − q, but for ε / V
        if d_hidden is not None:
            d_hidden[rows] = (d @ w - even * w_sum) * real
        if d_weight is not None:
            add_product(d_weight, d.T, (h * real).to(narrow))
        if d_bias is not None:
            d_bias += (d.T @ real.to(narrow))[:, 0]
    if d_weight is not None:
        d_weight -= even * (hidden * reals).sum(0)
    if d_bias is not None:
        d_bias -= even * reals.sum()
    d_weight, d_bias = (None if d is None else d.to(weight.dtype) for d in (d_weight, d_bias))
    return loss, d_hidden, d_weight, d_bias


def chunks(n: int, row_bytes: int, device: torch.device) -> Iterator[slice]:
    """Slices of 0 … n as even as can be, whose rows take up the bytes of a chunk at most."""
    most = CHUNK_BYTES.get(device.type, CHUNK_BYTES["cuda"])
    count = -(-n // max(1, most // row_bytes))
    for i in range(count):
        yield slice(n * i // count, n * (i + 1) // count)


def add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """total += a b, of which total may be the wider type."""
    if total.dtype == a.dtype:
        total.addmm_(a, b)
    else:
        total += a @ b
