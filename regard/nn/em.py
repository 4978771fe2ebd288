"""Sets under their mixtures: the likelihood of each, and one step of expectation maximisation.

    r_ik ∝ π_k N(x_i; μ_k, σ_k²)   π_k = Σ_i r_ik / n   μ_k = Σ_i r_ik x_i / Σ_i r_ik
    σ_k² = Σ_i r_ik (x_i − μ_k)² / Σ_i r_ik

*Set Transformer*, §5.3 and Table 3, whose LL1 is the likelihood after one such step from what the network gives.
Departures from the paper: none. A component that no element belongs to keeps what it was.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.nn.layout import Layout
from regard.nn.mixture import Mixture, log_joint, log_likelihood

SMALLEST_SIGMA = 1e-3
FEWEST = 1e-3  # elements, in sum of r_ik, that make a component


def mean_log_likelihood(x: Tensor, layout: Layout, mixture: Mixture) -> Tensor:
    """log p(X; θ) / n of each set: x (…, d) in `layout` → (B,)."""
    return layout.sums(log_likelihood(x, layout, mixture)[..., None])[:, 0] / layout.lengths.clamp(min=1)


def assign(x: Tensor, layout: Layout, mixture: Mixture) -> Tensor:
    """The most probable component of each element: x (…, d) in `layout` → (…)."""
    return log_joint(x, layout, mixture).argmax(dim=-1)


def em_step(x: Tensor, layout: Layout, mixture: Mixture) -> Mixture:
    """The mixtures that the elements ask for, when each belongs to the components as `mixture` says."""
    r = log_joint(x, layout, mixture).softmax(dim=-1)  # (…, K)
    share = layout.sums(r)  # (B, K)
    enough, total = (share > FEWEST)[..., None], share.clamp(min=FEWEST)[..., None]
    means = layout.sums(r[..., None] * x[..., None, :]) / total  # (B, K, d)
    means = torch.where(enough, means, mixture.means)
    variances = layout.sums(r[..., None] * (x[..., None, :] - layout.spread(means)) ** 2) / total
    sigmas = torch.where(enough, variances.sqrt().clamp(min=SMALLEST_SIGMA), mixture.sigmas)
    weights = share / layout.lengths.clamp(min=1)[:, None]
    return Mixture(weights.clamp(min=1e-12).log(), means, sigmas)
