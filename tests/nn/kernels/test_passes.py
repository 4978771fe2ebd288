"""The one-pass kernels around attention equal torch's operations."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.nn import r_drop
from regard.nn.kernels.columns import sum_rows
from regard.nn.kernels.embedding import embed
from regard.nn.kernels.loss import loss_and_gradients, smoothed_rows
from regard.nn.kernels.r_drop import loss_and_gradients as r_drop_by_kernel
from regard.nn.kernels.residual import residual_norm, residual_sum
from regard.nn.loss import CHUNK_BYTES, IGNORED

D = 24  # not a power of two


def leaves(*shapes: tuple[int, ...]) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(*shape, requires_grad=True) for shape in shapes]


def assert_same(ours: Tensor, theirs: Tensor, inputs: list[Tensor]) -> None:
    """Equal in value, and in the gradient along a random direction."""
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    direction = torch.randn_like(ours)
    for a, b in zip(
        torch.autograd.grad(ours, inputs, direction), torch.autograd.grad(theirs, inputs, direction), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_residual_norm_is_layer_norm_of_the_sum() -> None:
    x, y, weight, bias = inputs = leaves((5, 30, D), (5, 30, D), (D,), (D,))
    ours = residual_norm(x, y, weight, bias, 0.0, 1e-6)
    assert_same(ours, F.layer_norm(x + y, (D,), weight, bias, 1e-6), inputs)


@pytest.mark.parametrize("p", [0.0, 0.4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_residual_norm_is_the_same_where_no_gradient_is_asked_for(p: float, dtype: torch.dtype) -> None:
    x, y, weight, bias = leaves((5, 30, D), (5, 30, D), (D,), (D,))
    x, y = x.to(dtype), y.to(dtype)
    torch.manual_seed(5)
    ours = residual_norm(x, y, weight, bias, p, 1e-6)
    before = x.detach().clone(), y.detach().clone()
    torch.manual_seed(5)
    with torch.no_grad():
        assert torch.equal(residual_norm(x, y, weight, bias, p, 1e-6), ours)
    assert torch.equal(x, before[0])
    assert torch.equal(y, before[1])


def test_norm_alone_is_layer_norm() -> None:
    x, weight, bias = inputs = leaves((70, D), (D,), (D,))
    assert_same(residual_norm(x, None, weight, bias, 0.3, 1e-6), F.layer_norm(x, (D,), weight, bias, 1e-6), inputs)


def test_residual_norm_with_dropout_equals_it_with_the_mask_written_out() -> None:
    """The mask depends on the seed alone, and the seed on torch's generator: the same draw shows which terms stayed."""
    x, y, weight, bias = inputs = leaves((40, D), (40, D), (D,), (D,))
    torch.manual_seed(5)
    ours = residual_norm(x, y, weight, bias, 0.4, 1e-6)
    torch.manual_seed(5)
    kept = residual_sum(torch.zeros(40, D), torch.ones(40, D), 0.4).detach()  # 1 / (1 − p) or 0
    assert 0.3 < (kept == 0).float().mean() < 0.5
    assert_same(ours, F.layer_norm(x + y * kept, (D,), weight, bias, 1e-6), inputs)


def test_residual_sum_drops_the_asked_share_and_passes_the_rest_of_the_gradient() -> None:
    torch.manual_seed(0)
    x, y = (torch.ones(300, 64, requires_grad=True) for _ in range(2))
    out = residual_sum(x, y, 0.1)
    gone = out == 1
    assert abs(gone.float().mean().item() - 0.1) < 4 * (0.09 / gone.numel()) ** 0.5
    dx, dy = torch.autograd.grad(out.sum(), (x, y))
    assert torch.equal(dx, torch.ones_like(x))
    torch.testing.assert_close(dy, (out - 1).detach())


def test_masks_of_two_calls_are_unrelated() -> None:
    torch.manual_seed(0)
    zeros, ones = torch.zeros(400, 64), torch.ones(400, 64)
    first, second = (residual_sum(zeros, ones, 0.5) == 0 for _ in range(2))
    assert abs((first == second).float().mean().item() - 0.5) < 4 * 0.5 / first.numel() ** 0.5


@pytest.mark.parametrize("extra", [0, 28], ids=["as wide as the vocabulary", "wider"])
def test_smoothed_rows_are_the_loss_and_its_gradient(extra: int) -> None:
    (logits,) = leaves((6, 100))
    targets = torch.tensor([1, 5, -100, 7, 99, 0])
    expected = F.cross_entropy(logits, targets, label_smoothing=0.1, reduction="none")
    (gradient,) = torch.autograd.grad(expected.sum(), logits)
    rows, losses = F.pad(logits.detach(), (0, extra), value=50.0), torch.empty(6)
    smoothed_rows(rows, 100, targets, losses, 0.1, gradient=True)
    torch.testing.assert_close(losses, expected.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(rows, F.pad(gradient, (0, extra)), rtol=1e-5, atol=1e-6)


def test_smoothed_rows_leave_logits_alone_when_no_gradient_is_wanted() -> None:
    logits = torch.randn(3, 50)
    before = logits.clone()
    smoothed_rows(logits, 50, torch.tensor([1, 2, 3]), torch.empty(3), 0.1, gradient=False)
    assert torch.equal(logits, before)


@pytest.mark.parametrize("has_bias", [False, True])
def test_loss_and_gradients_through_the_projection(has_bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHUNK_BYTES, "cpu", 3 * 128 * 4)  # three rows at a time
    inputs = leaves((7, 8), (100, 8), (100,))[: 3 if has_bias else 2]
    hidden, weight, bias = (*inputs, None)[:3]
    targets = torch.tensor([3, 0, 99, -100, 50, 7, 7])
    logits = F.linear(hidden, weight, bias)
    expected = F.cross_entropy(logits, targets, label_smoothing=0.1, reduction="sum")
    with torch.no_grad():
        loss, *gradients = loss_and_gradients(hidden, weight, bias, targets, 0.1, [True, True, has_bias])
    torch.testing.assert_close(loss, expected.detach())
    for ours, theirs in zip(gradients, torch.autograd.grad(expected, inputs), strict=False):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_sum_rows_adds_what_relu_let_through() -> None:
    torch.manual_seed(0)
    g, h = torch.randn(50, 40), torch.randn(50, 40).relu()
    let_through = g * (h > 0)
    torch.testing.assert_close(sum_rows(g.clone()), g.sum(0), rtol=1e-5, atol=1e-5)
    in_place = g.clone()
    torch.testing.assert_close(sum_rows(in_place, h), let_through.sum(0), rtol=1e-5, atol=1e-5)
    assert torch.equal(in_place, let_through)


def test_embed_looks_up_scales_and_adds_positions() -> None:
    (table,) = leaves((11, D))
    tokens, places, positions = torch.randint(0, 11, (30,)), torch.arange(30) % 7, torch.randn(7, D)
    ours = embed(tokens, table, places, positions, 2.0, 0.0, torch.float32)
    assert_same(ours, table[tokens] * 2.0 + positions[places], [table])


def test_embed_drops_in_the_backward_pass_what_it_dropped_in_the_forward_pass() -> None:
    torch.manual_seed(0)
    table = torch.ones(30, D, requires_grad=True)
    tokens = torch.arange(30)
    out = embed(tokens, table, tokens, torch.zeros(30, D), 1.0, 0.5, torch.float32)
    (gradient,) = torch.autograd.grad(out.sum(), table)
    assert 0.3 < (out == 0).float().mean() < 0.7
    torch.testing.assert_close(gradient, out.detach())


@pytest.mark.parametrize("has_bias", [False, True], ids=["no bias", "bias"])
def test_r_drop_is_the_plain_one(has_bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHUNK_BYTES, "cpu", 4_000)  # several chunks
    both, weight, bias = (leaf.detach() for leaf in leaves((2, 9, D), (70, D), (70,)))
    targets = torch.tensor([3, 69, IGNORED, 0, 5, 5, 12, IGNORED, 40])
    arguments = both, weight, bias if has_bias else None, targets, 0.1, 5.0
    for ours, plain in zip(r_drop_by_kernel(*arguments), r_drop.loss_and_gradients(*arguments), strict=True):
        assert (ours is None) == (plain is None)
        if plain is not None:
            torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-4)
