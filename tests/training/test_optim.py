"""The paper's schedule and optimiser: §5.3."""

from __future__ import annotations

import pytest
from torch import nn

from regard.config import TrainConfig
from regard.training.optim import adam, learning_rate


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


def test_adam_is_the_papers() -> None:
    defaults = adam(nn.Linear(2, 2), TrainConfig()).defaults
    assert (defaults["betas"], defaults["eps"], defaults["weight_decay"]) == ((0.9, 0.98), 1e-9, 0)
