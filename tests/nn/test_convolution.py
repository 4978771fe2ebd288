"""Gated convolutions: torch's own convolution by another way, and nothing beyond their field, shown by gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.nn.convolution import GatedConvolution, receptive_field


@pytest.mark.parametrize(("width", "dilation"), [(1, 1), (3, 1), (3, 2), (5, 4)])
@pytest.mark.parametrize("causal", [False, True])
def test_it_is_torchs_convolution_and_a_gate(width: int, dilation: int, causal: bool) -> None:
    torch.manual_seed(0)
    layer, x = GatedConvolution(4, width, dilation, causal).double(), torch.randn(2, 9, 4).double()
    kernel = layer.both.weight.unflatten(1, (width, 4)).transpose(1, 2)  # (2·d, d, width), as torch has it
    reach = (width - 1) * dilation
    left = reach if causal else reach // 2
    padded = F.pad(x.transpose(1, 2), (left, reach - left))
    expected = F.glu(F.conv1d(padded, kernel, layer.both.bias, dilation=dilation).transpose(1, 2), dim=-1)
    torch.testing.assert_close(layer(x), expected)


def seen_by(layers: list[GatedConvolution], place: int, n: int) -> list[int]:
    """The positions whose gradient an output has."""
    x = torch.randn(1, n, 3, requires_grad=True)
    y: Tensor = x
    for layer in layers:
        y = layer(y)
    y[0, place].sum().backward()
    assert x.grad is not None
    return torch.nonzero(x.grad[0].abs().sum(-1))[:, 0].tolist()


@pytest.mark.parametrize("dilated", [False, True])
@pytest.mark.parametrize("width", [3, 5])
def test_layers_see_their_field_and_nothing_else(width: int, dilated: bool) -> None:
    torch.manual_seed(0)
    n, place = 41, 20
    for causal in (False, True):
        layers = [GatedConvolution(3, width, 2**i if dilated else 1, causal) for i in range(2)]
        field = receptive_field(width, 2, dilated)
        first = place - (field - 1 if causal else field // 2)
        assert seen_by(layers, place, n) == list(range(first, first + field))


def test_a_step_is_the_last_position() -> None:
    torch.manual_seed(0)
    layer, x = GatedConvolution(4, 3, 2, causal=True), torch.randn(2, 9, 4)
    torch.testing.assert_close(layer.step(x[:, -layer.reach :]), layer(x)[:, -1])
