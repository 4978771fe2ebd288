"""The other parts of a layer: *Attention Is All You Need*, §3.1, §3.3, §3.4 and §5.4.

    FFN(x) = max(0, x W_1 + b_1) W_2 + b_2                                         (§3.3, eq. 2)
    post-norm:  LayerNorm(x + Dropout(Sublayer(x)))                                (§3.1, §5.4)
    pre-norm:   x + Dropout(Sublayer(LayerNorm(x)))
    embedding:  E[token] · √d_model + position                                     (§3.4, §3.5)

Departures from the paper: none in the defaults. The initialisation, which the paper leaves out, is that of
the code published with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn import kernels
from regard.nn.attention import MultiHeadAttention
from regard.nn.dropout import dropout
from regard.nn.layout import Layout
from regard.nn.linear import linear, linear_relu, product_type
from regard.nn.positions import LearnedPositions, SinusoidalPositions
from regard.nn.residual import LayerNorm, residual_norm, residual_sum

# The first linear map of a feed-forward layer with what follows it: (x, W_1, b_1) → (…, F).
ACTIVATIONS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "relu": linear_relu,
    "swish": lambda x, weight, bias: F.silu(linear(x, weight, bias)),
    "gelu": lambda x, weight, bias: F.gelu(linear(x, weight, bias)),
}


class FeedForward(nn.Module):
    """Two linear maps with a non-linearity between, the same at every position."""

    def __init__(
        self, d_model: int, d_ff: int, activation: str = "relu", ff_dropout: float = 0.0, d_out: int = 0
    ) -> None:
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_out or d_model)
        self.activation = ACTIVATIONS[activation]
        self.ff_dropout = ff_dropout

    def forward(self, x: Tensor) -> Tensor:
        """x: (…, D) → (…, D), or (…, d_out)."""
        inner = self.activation(x, self.w_1.weight, self.w_1.bias)  # (…, F)
        if self.training:
            inner = dropout(inner, self.ff_dropout)
        return linear(inner, self.w_2.weight, self.w_2.bias)


class PostNorm(nn.Module):
    """The paper's residual connection: normalise the sum."""

    def __init__(self, d_model: int, dropout: float, eps: float) -> None:
        super().__init__()
        self.norm = LayerNorm(d_model, eps=eps)
        self.dropout = dropout

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """x: (…, D) → (…, D)."""
        return residual_norm(x, sublayer(x), self.norm.weight, self.norm.bias, self.p, self.norm.eps)

    @property
    def p(self) -> float:
        """The probability of dropping a number, now."""
        return self.dropout if self.training else 0.0


class PreNorm(PostNorm):
    """Normalise the sub-layer's input and leave the sum alone; the stack then ends with a norm of its own."""

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """x: (…, D) → (…, D)."""
        return residual_sum(x, sublayer(self.norm(x)), self.p)


RESIDUALS: dict[str, type[PostNorm]] = {"post": PostNorm, "pre": PreNorm}


class Embedding(nn.Module):
    """Token vectors times √d_model, plus positions, then dropout."""

    def __init__(self, tokens: nn.Embedding, positions: SinusoidalPositions | LearnedPositions, dropout: float) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.dropout = dropout
        self.scale = math.sqrt(tokens.embedding_dim)

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        """tokens: (…) in `layout` → (…, D)."""
        p = self.dropout if self.training else 0.0
        if self.in_one_pass(tokens, layout):
            from regard.nn.kernels.embedding import embed

            table = self.positions.rows(layout.size)
            return embed(tokens, self.tokens.weight, layout.positions, table, self.scale, p, product_type(table))
        positions = self.positions(layout.positions, layout.size)
        return dropout(torch.add(positions, self.tokens(tokens), alpha=self.scale), p)

    def in_one_pass(self, tokens: Tensor, layout: Layout) -> bool:
        """Whether the kernel will do: it has no gradient for positions, and adds up the tokens' in no fixed order."""
        exact = torch.are_deterministic_algorithms_enabled()
        return layout.offsets is not None and self.positions.fixed and kernels.usable(tokens) and not exact


def initialise(model: nn.Module) -> None:
    """The published code's initialisation: Glorot-uniform matrices, zero biases, N(0, d_model^-½) tables.

    That code drew Q, K and V of self-attention as one matrix; see `glorot_fused`.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, (nn.Embedding, LearnedPositions)):
            nn.init.normal_(module.weight, std=module.weight.shape[-1] ** -0.5)
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            glorot_fused(module.w_q, module.w_k, module.w_v)


def glorot_fused(*projections: nn.Linear) -> None:
    """Draw projections with the variance they would have as one matrix side by side.

    Glorot's limit is √(6 / (d_in + d_out)); n parts of width d from d are one matrix with d_out = n·d.
    """
    for projection in projections:
        nn.init.xavier_uniform_(projection.weight, gain=math.sqrt(2 / (1 + len(projections))))
