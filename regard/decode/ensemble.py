"""Several models that produce one output together: the mean of their probabilities at every token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from regard.models.stepping import ModelStep


class Ensemble:
    """Steps of several models with one vocabulary, as one step."""

    def __init__(self, steps: Sequence[ModelStep]) -> None:
        self.steps = steps

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        for step in self.steps:
            step.enter(slots, sentences)

    def __call__(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        log_probs = [step(tokens, positions, longest).float().log_softmax(-1) for step in self.steps]
        return reduce(torch.logaddexp, log_probs) - math.log(len(self.steps))

    def reorder(self, parents: Tensor, longest: int) -> None:
        for step in self.steps:
            step.reorder(parents, longest)

    def keep(self, slots: Tensor) -> None:
        for step in self.steps:
            step.keep(slots)

    @property
    def attended(self) -> Tensor:
        return torch.stack([step.attended for step in self.steps]).mean(0)
