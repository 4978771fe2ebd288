"""One update as everybody writes it: forward in the run's precision, backward, the optimiser's step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import torch
from torch import Tensor

from regard.training.optim import Adam

Tensors = TypeVar("Tensors")


def updater(
    loss: Callable[[Tensors], Tensor], optimiser: torch.optim.Optimizer | Adam, device: torch.device
) -> Callable[[Tensors], Tensor]:
    def update(batch: Tensors) -> Tensor:
        with precision(device):
            value = loss(batch)
        value.backward()
        optimiser.step()
        optimiser.zero_grad()
        return value.detach()

    return update


def precision(device: torch.device) -> AbstractContextManager[object]:
    """bfloat16 where the operation bears it on a GPU; float32 on a CPU."""
    return nullcontext() if device.type == "cpu" else torch.autocast(device.type, torch.bfloat16)
