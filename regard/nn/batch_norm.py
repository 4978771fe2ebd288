"""Batch normalisation (Ioffe & Szegedy, 2015) whose running statistics travel with the weights.

They are parameters that nobody trains, so checkpoints, averages and other runs that start from these weights have them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class BatchNorm(nn.Module):
    """For (B, C, …), over everything but the channels C."""

    def __init__(self, channels: int, momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.running_mean = nn.Parameter(torch.zeros(channels), requires_grad=False)
        self.running_variance = nn.Parameter(torch.ones(channels), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(
            x, self.running_mean, self.running_variance, self.weight, self.bias, self.training, self.momentum, self.eps
        )
