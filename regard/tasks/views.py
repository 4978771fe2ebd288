"""Many looks at points in a plane, and the likeliest of what is seen.

A network that clusters answers otherwise when the plane is turned or mirrored, though the clusters stay what they are.
So it is asked from several sides, each answer is improved by some steps of expectation maximisation, and the likeliest
is taken. Clusters of one data set are equally broad, which the network has learned: σ is the median of all that it
said of the set, and no step changes it. A σ that may change makes the likeliest answer of so many one that put a
component on a few points that happen to lie close together.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from regard.nn.em import em_step, mean_log_likelihood
from regard.nn.layout import Padded
from regard.nn.mixture import Mixture

STEPS = 10  # of expectation maximisation; with three the answers are nearly as good


def likeliest_of_views(network: Callable[[Tensor, Padded], Mixture], x: Tensor, layout: Padded, views: int) -> Mixture:
    """x: (B, N, 2)"""
    seen = [turned_back(network(x @ side.T, layout), side) for side in sides(views, x)]  # of every side B mixtures
    broad = torch.cat([answer.sigmas.flatten(1) for answer in seen], dim=1).median(dim=1).values  # (B,)
    answers = [climbed(x, layout, answer, broad[:, None, None].expand_as(answer.sigmas)) for answer in seen]
    likelihoods = torch.stack([mean_log_likelihood(x, layout, answer) for answer in answers])  # (sides, B)
    best = likelihoods.argmax(dim=0), torch.arange(len(x), device=x.device)
    return Mixture(*(torch.stack(parts)[best] for parts in zip(*answers, strict=True)))


def climbed(x: Tensor, layout: Padded, mixture: Mixture, sigmas: Tensor) -> Mixture:
    """A mixture whose σ are given, after some steps of expectation maximisation for its weights and centres."""
    for _ in range(STEPS):
        mixture = em_step(x, layout, mixture._replace(sigmas=sigmas))
    return mixture._replace(sigmas=sigmas)


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
