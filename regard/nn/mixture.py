"""Mixtures of Gaussians with diagonal covariances, one for each set: *Set Transformer* (Lee et al. 2019), §5.3.

    log p(x) = log Σ_k π_k N(x; μ_k, diag(σ_k²))

A network gives 1 + 2·d numbers for each component: π before a softmax over the components, μ, and σ before a softplus
(supplement D.3). Departures from the paper: σ may be kept above a floor, so that a cluster of equal points has a finite
likelihood.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

from regard.nn.layout import Layout


class Mixture(NamedTuple):
    log_weights: Tensor  # (B, K), log π
    means: Tensor  # (B, K, d)
    sigmas: Tensor  # (B, K, d)


def mixture_of(outputs: Tensor, floor: float = 0.0) -> Mixture:
    """outputs: (B, K, 1 + 2·d), in float32 where they are narrower."""
    d = (outputs.shape[-1] - 1) // 2
    weights, means, sigmas = outputs.float().split([1, d, d], dim=-1)
    return Mixture(weights[..., 0].log_softmax(dim=-1), means, F.softplus(sigmas) + floor)


def log_joint(x: Tensor, layout: Layout, mixture: Mixture) -> Tensor:
    """log π_k + log N(x; μ_k, σ_k) of every point and component.   x: (…, d) in `layout` → (…, K)"""
    means, sigmas = layout.spread(mixture.means), layout.spread(mixture.sigmas)  # (…, K, d)
    distance = ((x[..., None, :] - means) / sigmas).square().sum(dim=-1)  # (…, K)
    volume = layout.spread(mixture.log_weights - mixture.sigmas.log().sum(dim=-1))  # (…, K)
    return volume - 0.5 * (distance + x.shape[-1] * math.log(2 * math.pi))


def log_likelihood(x: Tensor, layout: Layout, mixture: Mixture) -> Tensor:
    """log p(x) of every point, arbitrary at padding.   x: (…, d) in `layout` → (…)"""
    return log_joint(x, layout, mixture).logsumexp(dim=-1)
