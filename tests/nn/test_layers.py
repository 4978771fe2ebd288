"""Feed-forward, residual connections, embeddings, initialisation: §3.1, §3.3, §3.4, §5.4."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from regard.config import TransformerConfig
from regard.models.transformer import Transformer
from regard.nn.layers import Embedding, FeedForward, PostNorm, PreNorm
from regard.nn.layout import Padded
from regard.nn.positions import SinusoidalPositions, sinusoids


def normalised(x: Tensor, eps: float) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()


def test_feed_forward_is_two_linear_maps_with_a_relu_between() -> None:
    torch.manual_seed(0)
    block, x = FeedForward(4, 8), torch.randn(3, 4)
    inner = (x @ block.w_1.weight.T + block.w_1.bias).clamp(min=0)
    torch.testing.assert_close(block(x), inner @ block.w_2.weight.T + block.w_2.bias)


@pytest.mark.parametrize(("name", "function"), [("relu", torch.relu), ("swish", nn.SiLU()), ("gelu", nn.GELU())])
def test_activations(name: str, function: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    block, x = FeedForward(4, 8, activation=name), torch.randn(3, 4)
    torch.testing.assert_close(block(x), block.w_2(function(block.w_1(x))))


def test_post_norm_normalises_the_sum() -> None:
    x = torch.randn(3, 6)
    torch.testing.assert_close(PostNorm(6, 0.0, 1e-6)(x, torch.sin), normalised(x + x.sin(), 1e-6))


def test_pre_norm_normalises_the_input_and_leaves_the_sum() -> None:
    x = torch.randn(3, 6)
    torch.testing.assert_close(PreNorm(6, 0.0, 1e-6)(x, torch.sin), x + normalised(x, 1e-6).sin())


@pytest.mark.parametrize("kind", [PostNorm, PreNorm])
def test_dropout_falls_on_the_sublayers_output_before_the_sum(kind: type[PostNorm]) -> None:
    """With everything dropped only x is left, normalised or not."""
    x = torch.randn(3, 6)
    out = kind(6, 1.0, 1e-6).train()(x, torch.sin)
    torch.testing.assert_close(out, normalised(x, 1e-6) if kind is PostNorm else x)


def test_norm_epsilon_is_what_the_recipe_says() -> None:
    x = torch.full((1, 4), 1e-3) * torch.tensor([1.0, -1.0, 1.0, -1.0])
    torch.testing.assert_close(PostNorm(4, 0.0, 1e-2)(x, torch.zeros_like), normalised(x, 1e-2))


def test_embeddings_are_scaled_and_positions_added() -> None:
    torch.manual_seed(0)
    table = nn.Embedding(10, 16)
    block = Embedding(table, SinusoidalPositions(16), dropout=0.0)
    tokens = torch.tensor([[3, 5, 7]])
    expected = table.weight[tokens] * 4 + sinusoids(torch.arange(3), 16)
    torch.testing.assert_close(block(tokens, Padded.of([3])), expected)


def test_dropout_falls_on_the_sum_of_embedding_and_position() -> None:
    block = Embedding(nn.Embedding(10, 16), SinusoidalPositions(16), dropout=1.0).train()
    assert (block(torch.tensor([[3, 5]]), Padded.of([2])) == 0).all()


def test_initialisation_is_the_published_one() -> None:
    """Glorot uniform everywhere; Q, K, V with the variance of one d × 3d matrix, in cross-attention K, V with
    that of a d × 2d one; tables N(0, d^-½)."""
    torch.manual_seed(0)
    d, f = 256, 1024
    model = Transformer(TransformerConfig(n_layers=1, d_model=d, d_ff=f, n_heads=4, attention_bias=True), 500)
    layer = model.decoder.layers[0]
    limits = {
        layer.cross_attn.w_q: math.sqrt(6 / (d + d)),
        layer.cross_attn.w_k: math.sqrt(6 / (d + 2 * d)),
        layer.self_attn.w_q: math.sqrt(6 / (d + 3 * d)),
        layer.self_attn.w_v: math.sqrt(6 / (d + 3 * d)),
        layer.self_attn.w_o: math.sqrt(6 / (d + d)),
        layer.feed_forward.w_1: math.sqrt(6 / (d + f)),
    }
    for linear, limit in limits.items():
        assert linear.weight.abs().max() <= limit
        assert linear.weight.std().item() == pytest.approx(limit / math.sqrt(3), rel=0.02)
        assert (linear.bias == 0).all()
    assert model.output.weight.std().item() == pytest.approx(d**-0.5, rel=0.02)
    assert model.output.weight is model.source_embedding.tokens.weight
