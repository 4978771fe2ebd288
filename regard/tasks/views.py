"""Many looks at points in a plane, and the answer that most is to be expected of.

A network that clusters answers otherwise when the plane is turned or mirrored, though the clusters stay what they are.
So it is asked from several sides. Each answer is improved by a step of expectation maximisation, and the one is taken
whose clusters are expected to be most like the true ones, where each of the answers may be the truth:

    argmax_i Σ_j w_j R(i, j)    w_j ∝ p(X; θ_j)^τ    R: the adjusted Rand index of two answers

By likelihood alone (τ → ∞) the winner is often an answer that put a component on a few points that happen to lie close
together, which it gives from one side only; by agreement alone (τ = 0) it is what the network errs to from most sides.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from regard.evaluate.clustering import agreement
from regard.nn.em import assign, em_step, mean_log_likelihood
from regard.nn.layout import Padded
from regard.nn.mixture import Mixture

TEMPER = 0.3  # τ; by validation sets, where anything from 0.1 to 1 is nearly as good (docs/log.md)


def agreed(network: Callable[[Tensor, Padded], Mixture], x: Tensor, layout: Padded, views: int) -> Mixture:
    """x: (B, N, 2)"""
    seen = (turned_back(network(x @ side.T, layout), side) for side in sides(views, x))
    answers = [em_step(x, layout, mixture) for mixture in seen]  # V mixtures, of B sets each
    likelihoods = torch.stack([mean_log_likelihood(x, layout, answer) for answer in answers])  # (V, B)
    labels = torch.stack([assign(x, layout, answer) for answer in answers])  # (V, B, N)
    alike = torch.from_numpy(agreement(labels, layout.mask, answers[0].log_weights.shape[1])).to(likelihoods)
    best = most_expected(alike, likelihoods * layout.lengths), torch.arange(len(x), device=x.device)
    return Mixture(*(torch.stack(parts)[best] for parts in zip(*answers, strict=True)))


def most_expected(alike: Tensor, log_likelihoods: Tensor) -> Tensor:
    """Which answer is expected to be most like the truth: alike (B, V, V), log_likelihoods (V, B) → (B,)."""
    weights = (TEMPER * log_likelihoods).softmax(dim=0)
    return torch.einsum("bij,jb->ib", alike, weights).argmax(dim=0)


def sides(count: int, like: Tensor) -> list[Tensor]:
    """So many ways to turn the plane, every second of them in a mirror: (2, 2) each."""
    found = []
    for number in range(count):
        angle = 2 * math.pi * (number // 2) / -(-count // 2)
        along, mirror = (math.cos(angle), math.sin(angle)), -1.0 if number % 2 else 1.0
        found.append(like.new_tensor([[along[0], -mirror * along[1]], [along[1], mirror * along[0]]]))
    return found


def turned_back(mixture: Mixture, side: Tensor) -> Mixture:
    """σ comes back along the axes; what lies across them is left out."""
    weights, means, sigmas = mixture
    return Mixture(weights, means @ side, (sigmas.square() @ side.square()).sqrt())
