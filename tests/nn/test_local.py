"""Restricted self-attention: the mask, the band, and that neither sees farther than the other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from regard.nn.attention import attention, capture
from regard.nn.layout import Packed, Padded
from regard.nn.local import RestrictedAttention, banded_attention, reach, restricted_attention
from regard.nn.masks import key_mask, length_mask, neighbourhood_mask

LENGTHS = [11, 3, 0, 7]


def draw(n: int = 11) -> list[Tensor]:
    torch.manual_seed(1)
    return [torch.randn(4, 2, n, d, dtype=torch.float64, requires_grad=True) for d in (4, 4, 5)]


@pytest.mark.parametrize("r", [1, 2, 3, 4, 5, 11, 30])
def test_a_neighbourhood_has_r_positions(r: int) -> None:
    for causal in (False, True):
        before, after = reach(r, causal)
        assert before + 1 + after == r
        assert neighbourhood_mask(80, before, after)[40].sum() == r


def test_the_mask_is_the_neighbourhood_written_out() -> None:
    q, k, v = draw()
    found = restricted_attention(q, k, v, 4)
    for i in range(11):
        near = slice(max(i - 2, 0), i + 2)
        alone = attention(q[:, :, i : i + 1], k[:, :, near], v[:, :, near])
        torch.testing.assert_close(found[:, :, i : i + 1], alone)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("r", [1, 2, 3, 4, 5, 7, 11, 12, 40])
def test_band_and_mask_agree_in_value_and_gradient(r: int, padded: bool, causal: bool) -> None:
    results = []
    for function in (restricted_attention, banded_attention):
        q, k, v = draw()
        mask = key_mask(length_mask(torch.tensor(LENGTHS), 11)) if padded else None
        output = function(q, k, v, r, mask, causal)
        torch.manual_seed(2)
        output.backward(torch.randn_like(output))
        results.append((output, q.grad, k.grad, v.grad))
    for ours, theirs in zip(*results, strict=True):
        assert ours is not None
        assert ours.isfinite().all()
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("function", [restricted_attention, banded_attention])
@pytest.mark.parametrize("causal", [False, True])
def test_nothing_beyond_the_neighbourhood_is_seen(function: object, causal: bool) -> None:
    assert callable(function)
    before, after = reach(4, causal)
    for i in range(11):
        q, k, v = draw()
        function(q, k, v, 4, None, causal)[:, :, i].sum().backward()
        near = list(range(max(i - before, 0), min(i + after + 1, 11)))
        assert v.grad is not None
        assert v.grad.abs().sum(dim=(0, 1, 3)).nonzero().flatten().tolist() == near
        assert k.grad is not None
        if len(near) > 1:  # a single key has weight one, whatever it is
            assert k.grad.abs().sum(dim=(0, 1, 3)).nonzero().flatten().tolist() == near


def test_the_bands_operations_grow_with_r_times_n() -> None:
    def operations(n: int, r: int) -> int:
        q = torch.randn(1, 2, n, 8, device="meta")
        with FlopCounterMode(display=False) as counter:
            banded_attention(q, q, q, r)
        return counter.get_total_flops()

    # Two products of n queries of width 2 · 8 with 2r − 1 keys each, a multiplication and an addition.
    for n, r in ((64, 4), (128, 4), (64, 8)):
        assert operations(n, r) == 2 * 2 * n * (2 * r - 1) * 16


@pytest.mark.parametrize("causal", [False, True])
def test_the_module_gives_the_same_padded_packed_banded_and_captured(causal: bool) -> None:
    torch.manual_seed(0)
    module = RestrictedAttention(8, 2, 3).eval()
    padded, packed = Padded.of(LENGTHS), Packed.of(LENGTHS)
    x = torch.randn(sum(LENGTHS), 8)
    banded = module(x, packed, causal=causal)
    torch.testing.assert_close(padded.real(module(packed.pad(x), padded, causal=causal)), banded)
    with capture(module) as maps:
        torch.testing.assert_close(module(x, packed, causal=causal), banded)
    before, after = reach(3, causal)
    near = neighbourhood_mask(11, before, after)
    assert not maps[""][:, :, ~near].any()
    torch.testing.assert_close(maps[""][0].sum(-1), torch.ones(2, 11))
    module.banded = False
    torch.testing.assert_close(module(x, packed, causal=causal), banded)
    alone = module(x[: LENGTHS[0]], Packed.of(LENGTHS[:1]), causal=causal)
    torch.testing.assert_close(alone, banded[: LENGTHS[0]])
