"""R-Drop (Liang et al., 2021): two passes with different dropout must agree.

    loss = ½ (CE(z₁) + CE(z₂)) + α/4 (KL(p₁ ‖ p₂) + KL(p₂ ‖ p₁)),      z = hidden Wᵀ + b,  p = softmax(z)

which is half of the paper's, so that with α = 0 it is the loss of one pass. With d = log p₁ − log p₂ both divergences
together are Σ_v (p₁ − p₂) d, and

    ∂ / ∂z₁ = p₁ ∘ (d − Σ p₁ d) + p₁ − p₂        ∂ / ∂z₂ = p₂ ∘ (Σ p₂ d − d) + p₂ − p₁

As in `nn.loss`, a chunk of positions goes through the vocabulary at a time, and gradients are computed with the loss.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.nn import kernels
from regard.nn.linear import product_type
from regard.nn.loss import IGNORED, WithGradients, chunks


def r_drop_loss(
    first: Tensor, second: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float, alpha: float
) -> Tensor:
    """first, second: (n, D), of two passes   weight: (V, D)   bias: (V,)   targets: (n,)   → summed over n."""
    both = torch.stack([first, second]).to(product_type(first))
    compute = loss_and_gradients
    if kernels.usable(both):
        from regard.nn.kernels.r_drop import loss_and_gradients as compute
    return WithGradients.apply(compute, both, weight, bias, targets, smoothing, alpha)


def loss_and_gradients(
    both: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float, alpha: float
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The loss, and the gradients of both passes' hidden (2, n, D), of the weight and of the bias."""
    V, narrow, wide = len(weight), both.dtype, torch.promote_types(both.dtype, torch.float32)
    w, b = weight.to(narrow), None if bias is None else bias.to(narrow)
    loss, d_both = both.new_zeros((), dtype=wide), torch.empty_like(both)
    d_weight = torch.zeros_like(weight, dtype=wide)
    d_bias = None if bias is None else torch.zeros_like(bias, dtype=wide)
    reals, right = (targets != IGNORED).to(wide)[:, None], targets.clamp(min=0)[:, None]  # (n, 1)
    for rows in chunks(both.shape[1], 4 * V * wide.itemsize, both.device):
        real, target = reals[rows], right[rows]
        log_p = F.linear(both[:, rows], w, b).to(wide).log_softmax(-1)  # (2, n, V)
        p, d = log_p.exp(), log_p[0] - log_p[1]
        wanted = torch.full_like(d, smoothing / V).scatter_add_(1, target, torch.full_like(real, 1 - smoothing))  # q
        apart = p[0] - p[1]
        loss -= 0.5 * (real * wanted * log_p.sum(0)).sum()
        loss += 0.25 * alpha * (real * apart * d).sum()
        d_z = 0.5 * (p - wanted)
        means = (p * d).sum(-1, keepdim=True)  # (2, n, 1)
        d_z[0] += 0.25 * alpha * (p[0] * (d - means[0]) + apart)
        d_z[1] += 0.25 * alpha * (p[1] * (means[1] - d) - apart)
        d_z = (d_z * real).to(narrow)
        d_both[:, rows] = d_z @ w
        d_weight += d_z.flatten(0, 1).T @ both[:, rows].flatten(0, 1)
        if d_bias is not None:
            d_bias += d_z.sum((0, 1), dtype=wide)
    return loss, d_both, d_weight.to(weight.dtype), None if d_bias is None else d_bias.to(weight.dtype)
