"""Attention over packed short sequences equals the formula."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.nn.attention import attention
from regard.nn.kernels.attention import Heads, Settings, short_attention, tile
from regard.nn.layout import Packed
from regard.nn.masks import key_mask

QUERIES = [3, 1, 0, 7, 4]
KEYS = [2, 5, 3, 0, 6]  # the fourth sequence has queries and no keys, the third keys and no queries
HEADS = Heads(2, 8, 4)


def projections(causal: bool) -> tuple[list[Tensor], Packed, Packed]:
    """Leaf tensors of a self-attention or of an attention to a memory, and their layouts."""
    torch.manual_seed(0)
    q, k, v = HEADS.n * HEADS.d_k, HEADS.n * HEADS.d_k, HEADS.n * HEADS.d_v
    queries, keys = Packed.of(QUERIES), Packed.of(QUERIES if causal else KEYS)
    widths = [(sum(QUERIES), q + k + v)] if causal else [(sum(QUERIES), q), (sum(KEYS), k + v)]
    return [torch.randn(*width, requires_grad=True) for width in widths], queries, keys


def formula(x: list[Tensor], queries: Packed, keys: Packed, causal: bool) -> Tensor:
    """The same by the written-out attention on padded heads."""
    q, k, v = HEADS.split(x[0], x[1] if len(x) > 1 else None)

    def heads(part: Tensor, layout: Packed) -> Tensor:
        return layout.pad(part.unflatten(-1, (HEADS.n, -1))).transpose(1, 2)

    context = attention(heads(q, queries), heads(k, keys), heads(v, keys), key_mask(keys.mask), causal)
    return queries.unpad(context.transpose(1, 2)).flatten(-2)


@pytest.mark.parametrize("causal", [False, True], ids=["cross", "causal self"])
def test_value_and_gradients_equal_the_formula(causal: bool) -> None:
    x, queries, keys = projections(causal)
    out = short_attention(x[0], x[1] if len(x) > 1 else None, HEADS, Settings(queries.offsets, keys.offsets, 7, causal))
    expected = formula(x, queries, keys, causal)
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-6)
    direction = torch.randn_like(out)
    for ours, theirs in zip(
        torch.autograd.grad(out, x, direction), torch.autograd.grad(expected, x, direction), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_larger_tile_than_needed_changes_nothing() -> None:
    x, queries, keys = projections(causal=True)
    snug, roomy = (
        short_attention(x[0], None, HEADS, Settings(queries.offsets, keys.offsets, longest, True))
        for longest in (7, 32)
    )
    torch.testing.assert_close(snug, roomy, rtol=0, atol=1e-6)


def test_dropout_drops_the_asked_share_of_weights_and_keeps_their_mean() -> None:
    """With values that are the identity, what comes out is the dropped weights themselves."""
    torch.manual_seed(1)
    lengths, p = [16] * 40, 0.25
    heads, layout = Heads(1, 4, 16), Packed.of(lengths)
    x = torch.cat([torch.randn(640, 8), torch.eye(16).repeat(40, 1)], dim=1)
    settings = Settings(layout.offsets, layout.offsets, 16)
    plain = short_attention(x, None, heads, settings)
    dropped = short_attention(x, None, heads, settings._replace(dropout=p))
    gone = dropped == 0
    assert abs(gone.float().mean().item() - p) < 4 * (p * (1 - p) / gone.numel()) ** 0.5
    torch.testing.assert_close(dropped[~gone], plain[~gone] / (1 - p), rtol=1e-5, atol=1e-7)


def test_the_backward_pass_drops_the_same_weights() -> None:
    """The output is linear in v, so ⟨direction, output⟩ = ⟨dv, v⟩, but only if both used the same mask."""
    torch.manual_seed(2)
    layout = Packed.of([9, 5, 16])
    heads, settings = Heads(2, 8, 8), Settings(layout.offsets, layout.offsets, 16, False, 0.5)
    x = torch.randn(30, 48, requires_grad=True)
    out = short_attention(x, None, heads, settings)
    direction = torch.randn_like(out)
    (gradient,) = torch.autograd.grad(out, x, direction)
    v, dv = heads.split(x, None)[2], heads.split(gradient, None)[2]
    torch.testing.assert_close((direction * out).sum(), (dv * v).sum(), rtol=1e-4, atol=1e-4)


def test_tiles_are_powers_of_two_that_hold_the_longest() -> None:
    assert [tile(n) for n in (1, 16, 17, 26, 64, 65, 128)] == [16, 16, 32, 32, 64, 128, 128]
