"""R-Drop's loss and gradients equal the formula."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.nn import loss as plain
from regard.nn.loss import IGNORED, smoothed_cross_entropy
from regard.nn.r_drop import r_drop_loss


def example(bias: bool) -> tuple[list[Tensor], Tensor]:
    torch.manual_seed(0)
    shapes = [(7, 6), (7, 6), (11, 6), *([(11,)] if bias else [])]
    targets = torch.tensor([3, 0, 10, IGNORED, 5, 5, IGNORED])
    return [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes], targets


def formula(
    first: Tensor, second: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, alpha: float
) -> Tensor:
    real = targets != IGNORED
    z = [F.linear(hidden[real], weight, bias) for hidden in (first, second)]
    log_p = [logits.log_softmax(-1) for logits in z]
    entropies = [F.cross_entropy(logits, targets[real], label_smoothing=0.1, reduction="sum") for logits in z]
    divergences = [
        F.kl_div(log_p[1 - i], log_p[i], reduction="sum", log_target=True)  # KL(p_i ‖ p_other)
        for i in range(2)
    ]
    return sum(entropies) / 2 + alpha / 4 * sum(divergences)  # type: ignore[return-value]


@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("chunk", [2**20, 1_000], ids=["one chunk", "several"])
def test_value_and_gradients_equal_the_formula(bias: bool, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(plain.CHUNK_BYTES, "cpu", chunk)
    x, targets = example(bias)
    arguments = (*x[:3], x[3] if bias else None, targets)
    ours, theirs = r_drop_loss(*arguments, 0.1, 5.0), formula(*arguments, 5.0)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    for a, b in zip(torch.autograd.grad(3 * ours, x), torch.autograd.grad(3 * theirs, x), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_without_alpha_and_dropout_it_is_the_plain_loss() -> None:
    (hidden, _, weight), targets = example(bias=False)
    alone = smoothed_cross_entropy(hidden, weight, None, targets, 0.1)
    torch.testing.assert_close(r_drop_loss(hidden, hidden, weight, None, targets, 0.1, 0.0), alone)
