"""The paper's schedule and optimiser: §5.3."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.config import TrainConfig
from regard.training.optim import Adam, learning_rate


@pytest.mark.parametrize(
    ("d_model", "warmup", "peak"), [(512, 4000, 6.99e-4), (1024, 4000, 4.94e-4), (512, 8000, 4.94e-4)]
)
def test_the_rate_peaks_at_the_end_of_warmup(d_model: int, warmup: int, peak: float) -> None:
    config = TrainConfig(warmup_steps=warmup)
    rates = [learning_rate(step, d_model, config) for step in range(1, 3 * warmup)]
    assert max(rates) == rates[warmup - 1] == pytest.approx(peak, rel=1e-3)
    assert rates[0] == pytest.approx(rates[warmup - 1] / warmup)  # linear before
    assert rates[2 * warmup - 1] == pytest.approx(rates[warmup - 1] / 2**0.5)  # inverse square root after


def test_the_linear_schedule_rises_to_its_peak_and_falls_to_almost_nothing_at_the_last_step() -> None:
    config = TrainConfig(schedule="linear", steps=1_000, warmup_steps=100, peak_lr=2e-3)
    rates = [learning_rate(step, 512, config) for step in range(1, 1_001)]
    assert max(rates) == rates[99] == pytest.approx(2e-3)
    assert rates[49] == pytest.approx(1e-3)
    assert rates[99] - rates[100] == pytest.approx(rates[-1]) == pytest.approx(2e-3 / 901)


def test_the_stepped_schedule_goes_down_by_a_factor() -> None:
    config = TrainConfig(schedule="stepped", warmup_steps=1, peak_lr=1e-3, decay=0.1, decay_every=35)
    rates = [learning_rate(step, 512, config) for step in range(1, 51)]
    assert rates == pytest.approx([1e-3] * 35 + [1e-4] * 15)


def test_weight_decay_is_torchs() -> None:
    ours, theirs = nn.Linear(3, 2), nn.Linear(3, 2)
    theirs.load_state_dict(ours.state_dict())
    adam = Adam(ours.parameters(), TrainConfig(weight_decay=0.1))
    other = torch.optim.Adam(theirs.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.1)
    adam.lr = 0.01
    for step in range(3):
        x = torch.randn(4, 3, generator=torch.Generator().manual_seed(step))
        for model, optimiser in ((ours, adam), (theirs, other)):
            optimiser.zero_grad()
            model(x).square().sum().backward()
            optimiser.step()
    torch.testing.assert_close(ours.weight, theirs.weight)


def test_adam_has_the_papers_values_and_takes_the_same_steps_as_torchs() -> None:
    torch.manual_seed(0)
    ours, theirs = nn.Linear(5, 3), nn.Linear(5, 3)
    theirs.load_state_dict(ours.state_dict())
    adam = Adam(ours.parameters(), TrainConfig())
    reference = torch.optim.Adam(theirs.parameters(), betas=(0.9, 0.98), eps=1e-9)
    for step in range(1, 6):
        x = torch.randn(7, 5)
        for layer in (ours, theirs):
            layer.zero_grad()
            layer(x).square().sum().backward()
        if step == 3:  # a parameter without gradient stays, and so does its count of steps
            ours.bias.grad = theirs.bias.grad = None
        adam.lr = reference.param_groups[0]["lr"] = 0.1 / step
        adam.step()
        reference.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)
    assert [int(adam.state[parameter]["step"]) for parameter in adam.parameters] == [5, 4]


def test_the_gradients_are_forgotten_not_zeroed() -> None:
    layer = nn.Linear(2, 2)
    layer(torch.ones(2)).sum().backward()
    Adam(layer.parameters(), TrainConfig()).zero_grad()
    assert all(parameter.grad is None for parameter in layer.parameters())


def test_a_moving_average_of_the_weights_is_kept_beside_the_moments() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(4, 4, bias=False)
    adam, mean = Adam(layer.parameters(), TrainConfig(ema=0.8)), layer.weight.detach().clone()
    for t in range(1, 40):
        layer(torch.randn(2, 4)).sum().backward()
        adam.lr = 0.1
        adam.step()
        decay = min(0.8, (1 + t) / (10 + t))  # from t = 35 on it is 0.8
        mean = decay * mean + (1 - decay) * layer.weight.detach()
    torch.testing.assert_close(adam.state[layer.weight]["ema"], mean)
