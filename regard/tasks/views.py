"""Many looks at points in a plane, and the answer that fits them and that the others share.

A network that clusters answers otherwise when the plane is turned or mirrored, though the clusters stay what they are.
So it is asked from several sides, each answer is improved by a few steps of expectation maximisation, and one is taken:

    argmax_i  1/V Σ_j R(i, j) + β log p(X; θ_i) / n        R: the adjusted Rand index of two answers

By likelihood alone the winner is often an answer that put a component on a few points that happen to lie close
together, which it gives from one side only; by agreement alone it is what the network errs to from most sides.
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

BETA = 3.0  # by validation sets, where anything from 1 to 10 is nearly as good (docs/log.md)
STEPS = 3  # of expectation maximisation


def agreed(network: Callable[[Tensor, Padded], Mixture], x: Tensor, layout: Padded, views: int) -> Mixture:
    """x: (B, N, 2)"""
    seen = (turned_back(network(x @ side.T, layout), side) for side in sides(views, x))
    answers = [climbed(x, layout, mixture) for mixture in seen]  # V mixtures, of B sets each
    likelihoods = torch.stack([mean_log_likelihood(x, layout, answer) for answer in answers])  # (V, B)
    labels = torch.stack([assign(x, layout, answer) for answer in answers])  # (V, B, N)
    alike = torch.from_numpy(agreement(labels, layout.mask, answers[0].log_weights.shape[1])).to(likelihoods)
    best = preferred(alike, likelihoods), torch.arange(len(x), device=x.device)
    return Mixture(*(torch.stack(parts)[best] for parts in zip(*answers, strict=True)))


def climbed(x: Tensor, layout: Padded, mixture: Mixture) -> Mixture:
    for _ in range(STEPS):
        mixture = em_step(x, layout, mixture)
    return mixture


def preferred(alike: Tensor, likelihoods: Tensor) -> Tensor:
    """Which answer is taken for each set: alike (B, V, V), likelihoods (V, B), of a point → (B,)."""
    return (alike.mean(dim=2).T + BETA * likelihoods).argmax(dim=0)


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
