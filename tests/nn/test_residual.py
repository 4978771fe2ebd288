"""Residual connections: §3.1, §5.4."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.nn.dropout import dropout
from regard.nn.residual import residual_norm, residual_sum

EPS = 1e-6


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def tensors(*shape: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, y, weight, bias, all of which want gradients."""
    x, y = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for _ in range(2))
    weight, bias = (torch.randn(shape[-1], dtype=torch.float64, requires_grad=True) for _ in range(2))
    return x, y, weight, bias


def gradients(out: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(out, inputs, torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out))


@pytest.mark.parametrize("p", [0.0, 0.1, 0.6, 1.0])
def test_the_sum_is_x_plus_the_dropped_y_in_value_and_gradient(p: float) -> None:
    """The mask is known: `dropout` draws the same one from the same generator state."""
    x, y, _, _ = tensors(5, 7, 8)
    torch.manual_seed(1)
    expected = x + dropout(y, p)
    torch.manual_seed(1)
    out = residual_sum(x, y, p)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(gradients(out, x, y), gradients(expected, x, y))


@pytest.mark.parametrize("p", [0.0, 0.1, 0.6, 1.0])
def test_the_norm_is_layer_norm_of_the_sum_in_value_and_gradient(p: float) -> None:
    x, y, weight, bias = tensors(5, 7, 8)
    torch.manual_seed(1)
    mask = dropout(torch.ones_like(x), p)
    expected = F.layer_norm(x + y * mask, (8,), weight, bias, EPS)
    torch.manual_seed(1)
    out = residual_norm(x, y, weight, bias, p, EPS)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(gradients(out, x, y, weight, bias), gradients(expected, x, y, weight, bias))


def test_gradients_are_those_of_finite_differences() -> None:
    inputs = tensors(3, 4)

    def same_mask(*inputs: Tensor) -> Tensor:
        torch.manual_seed(1)
        return residual_norm(*inputs, 0.3, EPS)

    assert torch.autograd.gradcheck(same_mask, inputs)


def test_x_and_y_are_left_as_they_were() -> None:
    """A sub-layer may return what somebody else still needs, x itself for one."""
    x = torch.randn(4, 6)
    before = x.clone()
    residual_norm(x, x, torch.ones(6), torch.zeros(6), 0.5, EPS)
    residual_sum(x, x, 0.5)
    assert torch.equal(x, before)


def test_a_sublayers_output_in_half_precision_joins_a_wider_sum() -> None:
    x, y = torch.randn(50, 8, requires_grad=True), torch.randn(50, 8, dtype=torch.bfloat16, requires_grad=True)
    out = residual_sum(x, y, 0.1)
    out.sum().backward()
    assert out.dtype == torch.float32
    assert y.grad.dtype == torch.bfloat16
    torch.testing.assert_close(out, x + y * y.grad.float(), rtol=1e-2, atol=1e-2)
