"""Gradients by recordings: who owns them, and when they are added.

Recording itself needs a GPU (`benchmarks/kernels.py` compares it with the same work done by hand). Here a recording is
its own replay: it computes the gradient anew and writes it over the old one, as a graph does, and over what others have
left in the memory that all share.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.training.captured import Captured, Recording


@dataclass(frozen=True)
class Numbers:
    """A batch of inputs to a linear map."""

    x: Tensor
    shape: tuple[int, ...]
    n_tokens: int = 1
    numbers: np.ndarray | None = None


class Replay:
    """Stands for a CUDA graph: the same work on the same memory."""

    def __init__(self, captured: OnCpu, batch: Numbers, loss: Tensor, gradients: tuple[Tensor, ...]) -> None:
        self.captured, self.batch, self.loss, self.gradients = captured, batch, loss, gradients

    def replay(self) -> None:
        for recording in self.captured.recordings.values():
            for left in (recording.loss, *recording.gradients):
                assert left is not None
                left.fill_(torch.nan)
        loss, gradients = self.captured.compute(self.batch)
        self.loss.copy_(loss)
        for place, gradient in zip(self.gradients, gradients, strict=True):
            place.copy_(gradient)


class OnCpu(Captured[Numbers]):
    recorded = 0

    def record(self, batch: Numbers) -> Recording[Numbers]:
        self.recorded += 1
        here = Numbers(batch.x.clone(), batch.shape)
        loss, gradients = torch.zeros(()), tuple(torch.zeros_like(p) for p in self.parameters)
        return Recording(Replay(self, here, loss, gradients), here, loss, gradients, [])  # type: ignore[arg-type]


@pytest.fixture
def model() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def batch(rows: int, seed: int) -> Numbers:
    return Numbers(torch.randn(rows, 3, generator=torch.Generator().manual_seed(seed)), (rows,))


def captured(model: nn.Linear) -> OnCpu:
    return OnCpu(lambda batch: model(batch.x).square().sum(), model, nullcontext)


def by_hand(model: nn.Linear, *batches: Numbers) -> list[Tensor]:
    loss = sum((model(batch.x).square().sum() for batch in batches), torch.zeros(())) / 7
    return list(torch.autograd.grad(loss, list(model.parameters())))


def forget(model: nn.Linear) -> None:
    model.zero_grad(set_to_none=True)


@pytest.mark.parametrize(
    "batches",
    [[batch(4, 1)], [batch(4, 1), batch(4, 2)], [batch(4, 1), batch(5, 2), batch(4, 3)], [batch(4, 1)] * 3],
    ids=["one", "two of a shape", "two shapes", "the same thrice"],
)
def test_gradients_of_several_batches_are_added(model: nn.Linear, batches: list[Numbers]) -> None:
    engine = captured(model)
    for _ in range(2):  # the second time all recordings are there
        forget(model)
        for one in batches:
            engine.gradient(one, 7)
        for parameter, expected in zip(model.parameters(), by_hand(model, *batches), strict=True):
            torch.testing.assert_close(parameter.grad, expected)
    assert engine.recorded == len({one.shape for one in batches})


def test_a_gradient_computed_by_hand_in_between_is_kept(model: nn.Linear) -> None:
    engine, odd = captured(model), batch(6, 9)
    engine.gradient(batch(4, 1), 7)
    (model(odd.x).square().sum() / 7).backward()
    engine.gradient(batch(4, 2), 7)
    for parameter, expected in zip(model.parameters(), by_hand(model, batch(4, 1), odd, batch(4, 2)), strict=True):
        torch.testing.assert_close(parameter.grad, expected)


def test_what_is_forgotten_is_not_added(model: nn.Linear) -> None:
    engine = captured(model)
    engine.gradient(batch(4, 1), 7)
    forget(model)
    engine.gradient(batch(4, 2), 7)
    for parameter, expected in zip(model.parameters(), by_hand(model, batch(4, 2)), strict=True):
        torch.testing.assert_close(parameter.grad, expected)


def test_cleared_recordings_are_made_again(model: nn.Linear) -> None:
    engine = captured(model)
    engine.gradient(batch(4, 1), 7)
    engine.clear()
    forget(model)
    engine.gradient(batch(4, 1), 7)
    assert engine.recorded == 2
