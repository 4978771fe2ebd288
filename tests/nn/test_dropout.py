"""Dropout: §5.4."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.nn.dropout import STEPS, draw, dropout
from regard.nn.layers import FeedForward, PostNorm


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def of_ones(*shape: int, p: float) -> Tensor:
    return dropout(torch.ones(*shape, dtype=torch.float64), p)


@pytest.mark.parametrize("p", [0.001, 0.1, 0.3, 0.5, 0.9])
def test_dropout_drops_with_its_probability(p: float) -> None:
    n = 1_000_000
    dropped = int((of_ones(n, p=p) == 0).sum())
    assert abs(dropped - n * p) < 5 * (n * p * (1 - p)) ** 0.5


@pytest.mark.parametrize("p", [0.1, 1 / 3, 0.77])
def test_what_stays_is_scaled_so_that_the_mean_is_kept(p: float) -> None:
    """By the probability that is drawn with, p to the nearest of the steps."""
    kept = of_ones(1000, p=p).max().item()
    assert 1 / kept == pytest.approx(1 - round(p * STEPS) / STEPS, rel=1e-12)
    assert 1 / kept == pytest.approx(1 - p, abs=0.5 / STEPS)


def test_everything_or_nothing_may_be_dropped() -> None:
    x = torch.randn(7, 5)
    assert (dropout(x, 1.0) == 0).all()
    assert dropout(x, 0.0) is x


def test_neighbours_are_dropped_independently() -> None:
    """In rows, in columns, and in the next mask: both of a pair as often as p² says."""
    p, n = 0.3, 1000
    first, second = (draw(torch.Size((n, n)), p)[0] == 0 for _ in range(2))
    for a, b in (
        (first[:, 1:], first[:, :-1]),
        (first[1:], first[:-1]),
        (first, second),
        (first[:, 4:], first[:, :-4]),
    ):
        both, expected = (a & b).double().mean().item(), p * p
        assert abs(both - expected) < 6 * (expected * (1 - expected) / a.numel()) ** 0.5


def test_the_same_generator_state_gives_the_same_mask() -> None:
    x = torch.randn(9, 5)
    state = torch.get_rng_state()
    masks = [dropout(x, 0.5) for _ in range(3)]
    assert not torch.equal(masks[0], masks[1])
    torch.set_rng_state(state)
    for mask in masks:
        assert torch.equal(dropout(x, 0.5), mask)


def test_the_number_of_threads_changes_nothing() -> None:
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            torch.manual_seed(3)
            results.append(of_ones(300, 1000, p=0.1))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(result, results[0]) for result in results)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 7), (0, 4)])
def test_any_shape_can_be_dropped_from(shape: tuple[int, ...]) -> None:
    assert dropout(torch.ones(shape), 0.5).shape == shape


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_gradient_passes_where_the_value_did(dtype: torch.dtype) -> None:
    x = torch.randn(30, 40, dtype=dtype, requires_grad=True)
    out = dropout(x, 0.4)
    out.sum().backward()
    assert out.dtype == dtype
    assert ((x.grad != 0) == (out != 0)).all()
    torch.testing.assert_close(x.grad * x, out)


def test_a_transposed_tensor_is_dropped_from_like_any_other() -> None:
    x = torch.randn(6, 8, requires_grad=True)
    out = dropout(x.t(), 0.5)
    out.backward(torch.ones(8, 6))
    torch.testing.assert_close(x.grad.t() * x.t(), out)


def test_nothing_is_dropped_outside_training() -> None:
    x = torch.randn(3, 4)
    block, residual = FeedForward(4, 8, ff_dropout=0.9).eval(), PostNorm(4, 0.9, 1e-6).eval()
    assert torch.equal(block(x), block(x))
    assert torch.equal(residual(x, torch.sin), residual(x, torch.sin))


def test_the_inner_dropout_of_a_feed_forward_block_is_its_own() -> None:
    block = FeedForward(4, 8, ff_dropout=1.0).train()
    torch.testing.assert_close(block(torch.randn(3, 4)), block.w_2.bias.expand(3, 4))
