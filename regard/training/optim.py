"""Optimiser and learning rate: *Attention Is All You Need*, §5.3.

    lrate = d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5)                (eq. 3)

Steps count from 1. Departures from the paper: none.
"""

from __future__ import annotations

import torch
from torch import nn

from regard.config import TrainConfig


def learning_rate(step: int, d_model: int, warmup_steps: int, scale: float = 1.0) -> float:
    return float(scale * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))


def adam(model: nn.Module, config: TrainConfig) -> torch.optim.Adam:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.Adam(parameters, lr=0.0, betas=(config.beta1, config.beta2), eps=config.adam_eps, fused=True)
