"""Optimiser and learning rate: *Attention Is All You Need*, §5.3.

    lrate = d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5)                (eq. 3)

Steps count from 1. Departures from the paper: none; `linear` is the schedule of those who know their last step, up to a
peak and down to nothing.
"""

from __future__ import annotations

import torch
from torch import nn

from regard.config import TrainConfig


def learning_rate(step: int, d_model: int, config: TrainConfig) -> float:
    warmup = config.warmup_steps
    if config.schedule == "linear":
        left = (config.steps + 1 - step) / max(1, config.steps + 1 - warmup)
        return config.peak_lr * min(step / warmup, left)
    return float(config.lr_scale * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))


def adam(model: nn.Module, config: TrainConfig) -> torch.optim.Adam:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.Adam(parameters, lr=0.0, betas=(config.beta1, config.beta2), eps=config.adam_eps, fused=True)
