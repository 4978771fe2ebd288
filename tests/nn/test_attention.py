"""Attention: the formula, its fused form, masks, several heads, capture."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from regard.models.transformer import Transformer
from regard.nn.attention import MultiHeadAttention, attention, attention_weights, capture, fused_attention
from regard.nn.layout import Packed, Padded
from regard.nn.masks import causal_mask, key_mask, length_mask

MASKS: dict[str, Callable[[], tuple[Tensor | None, bool]]] = {
    "no mask": lambda: (None, False),
    "causal": lambda: (None, True),
    "keys": lambda: (key_mask(length_mask(torch.tensor([5, 2]), 5)), False),
    "keys and causal": lambda: (key_mask(length_mask(torch.tensor([5, 2]), 5)), True),
    "an empty sequence": lambda: (key_mask(length_mask(torch.tensor([5, 0]), 5)), False),
    "scattered": lambda: (torch.tensor([1, 0, 1, 1, 0], dtype=torch.bool).expand(2, 1, 5, 5), False),
}


def draw(d_k: int = 4, d_v: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    shapes = (d_k, d_k, d_v)
    return tuple(torch.randn(2, 3, 5, d, requires_grad=True) for d in shapes)  # type: ignore[return-value]


def test_attention_is_the_papers_formula_on_a_hand_sized_example() -> None:
    q = torch.tensor([[[[1.0, 0.0]]]])
    k = torch.tensor([[[[2.0, 0.0], [0.0, 2.0]]]])
    v = torch.tensor([[[[1.0], [0.0]]]])
    share = math.exp(2 / math.sqrt(2)) / (math.exp(2 / math.sqrt(2)) + 1)
    assert attention(q, k, v).item() == pytest.approx(share, abs=1e-6)


@pytest.mark.parametrize("short", [0, 64], ids=["torch's kernel", "batched products"])
@pytest.mark.parametrize("d_v", [4, 7])
@pytest.mark.parametrize("name", MASKS)
def test_written_out_and_fused_agree_in_value_and_gradient(
    name: str, d_v: int, short: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.nn.attention.SHORT", short)
    mask, causal = MASKS[name]()
    results = []
    for function in (attention, fused_attention):
        inputs = draw(d_v=d_v)
        output = function(*inputs, mask, causal)
        torch.manual_seed(2)
        output.backward(torch.randn_like(output))
        results.append((output, *(tensor.grad for tensor in inputs)))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("short", [0, 64], ids=["torch's kernel", "batched products"])
@pytest.mark.parametrize("function", [attention, fused_attention])
def test_a_fully_masked_row_gives_zeros_in_value_and_gradient(
    function: Callable[..., Tensor], short: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.nn.attention.SHORT", short)
    q, k, v = draw()
    mask = torch.ones(2, 1, 5, 5, dtype=torch.bool)
    mask[0, :, 2] = False  # one query of the first sentence
    mask[1] = False  # all of the second
    output = function(q, k, v, mask)
    assert (output[0, :, 2] == 0).all()
    assert (output[1] == 0).all()
    assert (output[0, :, 0] != 0).any()
    output.square().sum().backward()
    for tensor in (q, k, v):
        assert tensor.grad is not None
        assert torch.isfinite(tensor.grad).all()
        assert (tensor.grad[1] == 0).all()
    assert q.grad is not None
    assert (q.grad[0, :, 2] == 0).all()


def test_causal_mask_blocks_the_future_and_nothing_else() -> None:
    assert causal_mask(3, 3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_the_last_query_stands_at_the_last_key() -> None:
    assert causal_mask(1, 4).all()
    assert causal_mask(2, 4).tolist() == [[True, True, True, False], [True, True, True, True]]


def test_weights_of_each_query_sum_to_one_over_what_it_may_attend() -> None:
    q, k, _ = draw()
    mask = key_mask(length_mask(torch.tensor([5, 2]), 5))
    weights = attention_weights(q, k, mask)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5))
    assert (weights[1, :, :, 2:] == 0).all()


def test_heads_may_have_any_d_k_and_d_v() -> None:
    block = MultiHeadAttention(d_model=8, n_heads=2, d_k=3, d_v=5)
    assert {name: tuple(p.shape) for name, p in block.named_parameters()} == {
        "w_q.weight": (6, 8), "w_k.weight": (6, 8), "w_v.weight": (10, 8), "w_o.weight": (8, 10),
    }  # fmt: skip
    assert block(torch.randn(2, 4, 8), Padded.of([4, 3])).shape == (2, 4, 8)


def test_one_head_of_full_width_is_attention_between_projections() -> None:
    torch.manual_seed(0)
    block = MultiHeadAttention(d_model=6, n_heads=1)
    x = torch.randn(1, 4, 6)
    expected = block.w_o(attention(block.w_q(x), block.w_k(x), block.w_v(x)))
    torch.testing.assert_close(block(x, Padded.of([4])), expected)


def test_packed_attention_equals_padded_attention() -> None:
    torch.manual_seed(0)
    block = MultiHeadAttention(d_model=8, n_heads=2, bias=True)
    lengths, memory_lengths = [3, 5, 0, 1], [4, 2, 3, 0]
    padded, packed = Padded.of(lengths), Packed.of(lengths)
    memory_padded, memory_packed = Padded.of(memory_lengths), Packed.of(memory_lengths)
    x, memory = torch.randn(4, 5, 8), torch.randn(4, 4, 8)
    for causal in (False, True):
        ours = block(packed.unpad(x), packed, causal=causal)
        torch.testing.assert_close(ours, padded.real(block(x, padded, causal=causal)))
    ours = block(packed.unpad(x), packed, memory_packed.unpad(memory), memory_packed)
    torch.testing.assert_close(ours, padded.real(block(x, padded, memory, memory_padded)))


def test_capture_gives_every_head_by_module_path_and_leaves_no_trace(tiny: Callable[..., Transformer]) -> None:
    model = tiny()
    src, tgt = torch.randint(4, 20, (2, 5)), torch.randint(4, 20, (2, 3))
    layouts = Padded.of([5, 4]), Padded.of([3, 3])
    fused = model(src, layouts[0], tgt, layouts[1])
    with capture(model) as maps:
        written_out = model(src, layouts[0], tgt, layouts[1])
    torch.testing.assert_close(written_out, fused)
    kinds = ["encoder.layers.{}.self_attn", "decoder.layers.{}.self_attn", "decoder.layers.{}.cross_attn"]
    assert set(maps) == {kind.format(i) for kind in kinds for i in (0, 1)}
    assert maps["decoder.layers.1.cross_attn"].shape == (2, 4, 3, 5)
    assert (maps["decoder.layers.1.cross_attn"][1, :, :, 4] == 0).all()  # padding of the second source
    assert all(module.record is None for module in model.modules() if isinstance(module, MultiHeadAttention))


def test_two_models_are_captured_apart(tiny: Callable[..., Transformer]) -> None:
    one, other = tiny(), tiny()
    src, layout = torch.randint(4, 20, (1, 4)), Padded.of([4])
    with capture(one) as maps:
        other(src, layout, src, layout)
        assert maps == {}
        one(src, layout, src, layout)
        assert len(maps) == 6
