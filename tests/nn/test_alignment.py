"""The scores of attention to encoder states against loops by hand; weights are a distribution over what is real."""

from __future__ import annotations

import math

import pytest
import torch

from regard.nn.alignment import ALIGNMENTS, Alignment
from regard.nn.attention import capture
from regard.nn.masks import length_mask

B, Q, S, D = 2, 3, 4, 5
MASK = length_mask(torch.tensor([4, 2]), S)


def made(kind: str) -> tuple[Alignment, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    attention = ALIGNMENTS[kind](D, D, 6)
    return attention.double(), torch.randn(B, Q, D).double(), torch.randn(B, S, D).double()


def by_hand(kind: str, attention: Alignment, q: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """The score of one query and one state, in plain sums."""
    dot = sum(q[i] * h[i] for i in range(D))
    if kind == "dot":
        return dot
    if kind == "scaled_dot":
        return dot / math.sqrt(D)
    weights = dict(attention.named_parameters())
    if kind == "general":
        return sum(q[i] * weights["w.weight"][i, j] * h[j] for i in range(D) for j in range(D))
    total = torch.zeros(())
    for a in range(6):
        inner = weights["u.bias"][a]
        for i in range(D):
            inner = inner + weights["w.weight"][a, i] * q[i] + weights["u.weight"][a, i] * h[i]
        total = total + weights["v.weight"][0, a] * torch.tanh(inner)
    return total


@pytest.mark.parametrize("kind", ALIGNMENTS)
@torch.no_grad()
def test_attention_is_the_loop_over_positions(kind: str) -> None:
    attention, query, memory = made(kind)
    context, weights = attention(query, attention.source(memory, MASK))
    for b in range(B):
        n = int(MASK[b].sum())
        for t in range(Q):
            powers = [torch.exp(by_hand(kind, attention, query[b, t], memory[b, s])) for s in range(n)]
            expected = torch.stack(powers) / sum(powers)
            torch.testing.assert_close(weights[b, t, :n], expected, atol=1e-9, rtol=0, check_dtype=False)
            total = sum(expected[s] * memory[b, s] for s in range(n))
            torch.testing.assert_close(context[b, t], total, atol=1e-9, rtol=0, check_dtype=False)


@pytest.mark.parametrize("kind", ALIGNMENTS)
def test_weights_sum_to_one_over_real_positions_alone(kind: str) -> None:
    attention, query, memory = made(kind)
    _, weights = attention(query, attention.source(memory, MASK))
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, Q).double())
    assert not weights[1, :, 2:].any()


@pytest.mark.parametrize("kind", ALIGNMENTS)
def test_a_source_of_nothing_gives_zeros_and_finite_gradients(kind: str) -> None:
    attention, query, memory = made(kind)
    query.requires_grad_()
    context, weights = attention(query, attention.source(memory, torch.zeros(B, S, dtype=torch.bool)))
    assert not context.any()
    assert not weights.any()
    (gradient,) = torch.autograd.grad(context.sum(), query, allow_unused=True)
    assert gradient is None or not gradient.any()


def test_weights_are_captured_as_one_head() -> None:
    attention, query, memory = made("dot")
    with capture(attention) as maps:
        _, weights = attention(query, attention.source(memory, MASK))
        attention.show(weights)
    torch.testing.assert_close(maps[""], weights[:, None].detach())
