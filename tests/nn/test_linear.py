"""Linear maps for training equal torch's, in value and gradient."""

from __future__ import annotations

import gc

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import ProfilerActivity, profile

from regard.config import TrainConfig
from regard.nn.linear import (
    DERIVED,
    FEW,
    FEW_ON_GPU,
    FEWEST,
    derived,
    few_rows,
    linear,
    linear_relu,
    onednn_takes,
    reordered,
    side_by_side,
)  # fmt: skip
from regard.training.optim import Adam


@pytest.mark.parametrize("shape", [(7, 6), (2, 3, 6)], ids=["rows", "a rectangle"])
@pytest.mark.parametrize("relu", [False, True])
def test_products_by_onednn_equal_torchs(shape: tuple[int, ...], relu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.nn.linear.LARGE", 0)
    torch.manual_seed(0)
    inputs = [torch.randn(*size, requires_grad=True) for size in (shape, (5, 6), (5,))]
    assert onednn_takes(inputs[0])
    ours = (linear_relu if relu else linear)(*inputs)
    theirs = F.linear(*inputs).relu() if relu else F.linear(*inputs)
    torch.testing.assert_close(ours, theirs)
    direction = torch.randn_like(ours)
    for a, b in zip(
        torch.autograd.grad(ours, inputs, direction), torch.autograd.grad(theirs, inputs, direction), strict=True
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("shape", [(FEW_ON_GPU + 1, 6), (2, FEW_ON_GPU, 6), (0, 6)], ids=str)  # fewer have a kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_relu_joins_a_gpus_product_where_no_gradient_is_asked_for(
    shape: tuple[int, ...], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.nn.kernels.usable", lambda x: True)
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(*size).to(dtype).requires_grad_() for size in (shape, (5, 6), (5,)))
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU]) as launched:
        joined = linear_relu(x, weight, bias)
    names = {event.name for event in launched.events()}
    assert "aten::_addmm_activation" in names
    torch.testing.assert_close(joined, F.linear(x, weight, bias).relu())
    apart = linear_relu(x, weight, bias)
    assert apart.requires_grad
    torch.testing.assert_close(apart.detach(), joined)


def test_only_the_gradients_that_are_needed_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.nn.linear.LARGE", 0)
    x, weight = torch.randn(4, 3), torch.randn(2, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(linear(x, weight).sum(), weight)
    torch.testing.assert_close(gradient, x.sum(0).expand(2, 3))


@pytest.mark.parametrize("bias", [False, True])
def test_maps_side_by_side_are_the_maps_one_by_one(bias: bool) -> None:
    torch.manual_seed(0)
    parts, x = [nn.Linear(6, width, bias=bias) for width in (4, 3, 5)], torch.randn(2, 7, 6)
    torch.testing.assert_close(side_by_side(x, *parts), torch.cat([part(x) for part in parts], dim=-1))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "shape", [(1, 6), (2, 6), (2, 3, 6), (FEWEST, 6), (FEWEST + 1, 6), (3, FEWEST, 6), (FEW, 6), (FEW + 1, 6)], ids=str
)
@torch.inference_mode()
def test_products_of_few_rows_in_decoding_equal_torchs(
    shape: tuple[int, ...], bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.nn.linear.WIDE", 0)
    torch.manual_seed(0)
    with torch.inference_mode(False):
        layer = nn.Linear(6, 5)
    x, b = torch.randn(*shape, 6), layer.bias if bias else None
    assert few_rows(x, layer.weight) == (x.numel() // 6 <= FEW)
    torch.testing.assert_close(linear(x, layer.weight, b), F.linear(x, layer.weight, b))
    torch.testing.assert_close(linear_relu(x, layer.weight, layer.bias), F.linear(x, layer.weight, layer.bias).relu())


def test_what_is_kept_of_a_weight_follows_it_and_goes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.nn.linear.WIDE", 0)
    layer, x, before = nn.Linear(6, 5), torch.randn(3, 6), len(DERIVED)
    optimiser = Adam(layer.parameters(), TrainConfig())
    optimiser.lr = 0.1

    def agrees(layer: nn.Linear) -> None:
        with torch.inference_mode():
            torch.testing.assert_close(linear(x, layer.weight, layer.bias), F.linear(x, layer.weight, layer.bias))

    agrees(layer)
    assert derived(reordered, layer.weight) is derived(reordered, layer.weight)
    layer(x).sum().backward()
    optimiser.step()
    agrees(layer)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(5, 6))
    agrees(layer)
    layer.weight.data = torch.randn(5, 6)
    agrees(layer)
    assert len(DERIVED) == before + 1
    del layer, optimiser
    gc.collect()
    assert len(DERIVED) == before
