"""Mixtures of Gaussians with diagonal covariances: *Set Transformer*, §5.3.

    log p(X; θ) = Σ_i log Σ_k π_k N(x_i; μ_k, diag(σ_k²))                          (eq. 15)

One step of expectation maximisation from θ, as in the paper's Table 3:

    r_ik ∝ π_k N(x_i; μ_k, σ_k²)   π_k = Σ_i r_ik / n   μ_k = Σ_i r_ik x_i / Σ_i r_ik
    σ_k² = Σ_i r_ik (x_i − μ_k)² / Σ_i r_ik

Departures from the paper: none. A component that no element belongs to keeps what it was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

SMALLEST_SIGMA = 1e-3
FEWEST = 1e-3  # elements, in sum of r_ik, that make a component


@dataclass(frozen=True)
class Mixture:
    """One mixture for each of B sets."""

    log_weights: Tensor  # (B, K)
    means: Tensor  # (B, K, d)
    sigmas: Tensor  # (B, K, d)

    @classmethod
    def of(cls, output: Tensor) -> Mixture:
        """From what a network gives, (B, K, 1 + 2 d): a logit, a mean and a scale for each component."""
        logits, means, scales = output.split([1, (output.shape[-1] - 1) // 2, (output.shape[-1] - 1) // 2], dim=-1)
        return cls(logits[..., 0].log_softmax(dim=-1), means, F.softplus(scales) + SMALLEST_SIGMA)

    def log_joint(self, x: Tensor) -> Tensor:
        """log π_k N(x_i; …): x (B, N, d) → (B, N, K)."""
        squares = ((x[:, :, None] - self.means[:, None]) / self.sigmas[:, None]).square().sum(dim=-1)  # (B, N, K)
        constant = self.log_weights - self.sigmas.log().sum(dim=-1) - x.shape[-1] / 2 * math.log(2 * math.pi)
        return constant[:, None] - squares / 2

    def log_likelihood(self, x: Tensor, mask: Tensor) -> Tensor:
        """log p(X; θ) / n: x (B, N, d), mask (B, N), True on elements → (B,)."""
        each = self.log_joint(x).logsumexp(dim=-1).masked_fill(~mask, 0.0)
        return each.sum(dim=-1) / mask.sum(dim=-1).clamp(min=1)

    def assign(self, x: Tensor) -> Tensor:
        """The most probable component of each element: x (B, N, d) → (B, N)."""
        return self.log_joint(x).argmax(dim=-1)

    def em_step(self, x: Tensor, mask: Tensor) -> Mixture:
        r = self.log_joint(x).softmax(dim=-1) * mask[..., None]  # (B, N, K)
        share = r.sum(dim=1)  # (B, K)
        enough = (share > FEWEST)[..., None]
        total = share.clamp(min=FEWEST)[..., None]
        means = torch.where(enough, r.transpose(1, 2) @ x / total, self.means)
        centred = (x[:, :, None] - means[:, None]) ** 2  # (B, N, K, d)
        variances = (r[..., None] * centred).sum(dim=1) / total
        sigmas = torch.where(enough, variances.sqrt().clamp(min=SMALLEST_SIGMA), self.sigmas)
        weights = share / mask.sum(dim=-1, keepdim=True).clamp(min=1)
        return Mixture(weights.clamp(min=1e-12).log(), means, sigmas)
