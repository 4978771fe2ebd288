"""Optimiser and learning rate: *Attention Is All You Need*, §5.3.

    lrate = d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5)                (eq. 3)

Steps count from 1. Departures from the paper: none; `linear` is the schedule of those who know their last step, up to a
peak and down to nothing; `constant` goes up and stays; `stepped` goes up and from time to time down by a factor.

    m ← β₁ m + (1 − β₁) g      v ← β₂ v + (1 − β₂) g²      θ ← θ − lrate · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)

Adam is torch's fused kernel, one pass over all parameters, without `torch.optim` around it: the first optimiser made
there imports the compiler, which takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from regard.config import TrainConfig

MOMENTS = ("exp_avg", "exp_avg_sq")  # m and v


def learning_rate(step: int, d_model: int, config: TrainConfig) -> float:
    warmup = config.warmup_steps
    if config.schedule == "constant":
        return config.peak_lr * min(1.0, step / warmup)
    if config.schedule == "stepped":
        return config.peak_lr * min(1.0, step / warmup) * config.decay ** ((step - 1) // config.decay_every)
    if config.schedule == "linear":
        left = (config.steps + 1 - step) / max(1, config.steps + 1 - warmup)
        return config.peak_lr * min(step / warmup, left)
    return float(config.lr_scale * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))


class Adam:
    """Kingma & Ba, 2015. A parameter's `state` begins with its first gradient.

    With `train.ema` a moving average of the parameter is kept there too, ema ← ema + (1 − d) (θ − ema). Its decay d
    begins low, d = min(train.ema, (1 + t) / (10 + t)) at step t, so that the first weights are soon forgotten.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], config: TrainConfig) -> None:
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self.beta1, self.beta2, self.eps, self.lr = config.beta1, config.beta2, config.adam_eps, 0.0
        self.ema, self.weight_decay = config.ema, config.weight_decay
        self.state: dict[nn.Parameter, dict[str, Tensor]] = {}

    @torch.no_grad()
    def step(self) -> None:
        moved: list[Tensor] = []
        gradients: list[Tensor] = []
        states: list[dict[str, Tensor]] = []
        for parameter in self.parameters:
            if parameter.grad is not None:
                moved.append(parameter)
                gradients.append(parameter.grad)
                states.append(self.state.get(parameter) or self.begin(parameter))
        if not moved:
            return
        steps, m, v = ([state[key] for state in states] for key in ("step", *MOMENTS))
        torch._foreach_add_(steps, 1.0)
        torch._fused_adam_(
            moved, gradients, m, v, [], steps,
            lr=self.lr, beta1=self.beta1, beta2=self.beta2, eps=self.eps,
            weight_decay=self.weight_decay, amsgrad=False, maximize=False,
        )  # fmt: skip
        torch.autograd.graph.increment_version(moved)  # which the kernel forgets, and `nn.linear.derived` goes by
        if self.ema:
            decays = [((1 + step) / (10 + step)).clamp(max=self.ema) for step in steps]
            for state, weight, decay in zip(states, moved, decays, strict=True):
                state["ema"].lerp_(weight, 1 - decay)

    def begin(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        """A parameter's state before its first step."""
        self.state[parameter] = {moment: torch.zeros_like(parameter) for moment in MOMENTS}
        self.state[parameter]["step"] = torch.zeros((), device=parameter.device)
        if self.ema:
            self.state[parameter]["ema"] = parameter.detach().clone()
        return self.state[parameter]

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None
