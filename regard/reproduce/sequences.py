"""Ways of processing a sequence, the rows of *Attention Is All You Need*, Table 1: each maps n vectors of width d to n.

Self-attention stands here as in the table: queries, keys and values are the input itself, in heads of width 64. The
projections around it (§3.2.2) cost 4·n·d² with or without restriction, as a feed-forward layer does, and are left out.
Recurrence is the plain tanh cell, convolution the gated one of width k that ends at its own position.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.nn.attention import fused_attention
from regard.nn.convolution import GatedConvolution
from regard.nn.local import banded_attention, reach
from regard.nn.recurrent import CELLS, Layer, unrolled
from regard.reproduce.paths import Applications

HEAD = 64  # width of a head: d grows by more heads, so that what a head costs beside its products grows with d too


class Way(nn.Module, ABC):
    """One layer."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """x: (B, n, d) → (B, n, d)"""

    def counted(self, x: Tensor) -> Tensor:
        """The same in operations that can be counted without being done."""
        return self(x)

    def applied(self, xs: list[Tensor], applications: Applications) -> list[Tensor]:
        """The same position by position, every application of the layer or of its cell noted. n tensors (1, d) → n"""

        def whole(xs: list[Tensor]) -> list[Tensor]:
            return list(self(torch.stack(xs, dim=1)).unbind(dim=1))

        return applications(whole, xs)


class SelfAttention(Way):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.n_heads = max(d // HEAD, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, n, d) → (B, n, d)"""
        heads = x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, H, n, d / H)
        return self.attend(heads).transpose(1, 2).flatten(-2)

    def attend(self, heads: Tensor) -> Tensor:
        return fused_attention(heads, heads, heads)


class Restricted(SelfAttention):
    def __init__(self, d: int, r: int) -> None:
        super().__init__(d)
        self.r = r

    def attend(self, heads: Tensor) -> Tensor:
        return banded_attention(heads, heads, heads, self.r)


class Recurrent(Way):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.layer = Layer("rnn", d, d)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, n, d) → (B, n, d)"""
        return self.layer(x)

    def counted(self, x: Tensor) -> Tensor:
        return unrolled("rnn", x, (x.new_zeros(len(x), x.shape[-1]),), self.layer.weights)

    def applied(self, xs: list[Tensor], applications: Applications) -> list[Tensor]:
        def cell(inputs: list[Tensor]) -> list[Tensor]:
            x, h = inputs
            return list(CELLS["rnn"](x, (h,), self.layer.weights))

        hs = [torch.zeros_like(xs[0]).requires_grad_()]
        for x in xs:
            hs += applications(cell, [x, hs[-1]])
        return hs[1:]


class Convolution(Way):
    def __init__(self, d: int, k: int, dilation: int = 1) -> None:
        super().__init__()
        self.convolution = GatedConvolution(d, k, dilation, causal=True)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, n, d) → (B, n, d)"""
        return self.convolution(x)


@dataclass(frozen=True)
class Row:
    """A row of the table: the layer, and what the paper says of it."""

    name: str
    layer: Callable[[int, int], Way]  # of width d, the l-th of a stack from 0
    operations: Callable[[int, int], int]  # of n and d: multiplications and additions forward, as we compute it
    path: Callable[[int], int]  # of n: layers, or cells, between the farthest positions
    complexity: str  # the paper's
    in_n: int  # exponents of its complexity
    in_d: int
    sequential: str
    path_order: str
    costs: bool = True  # whether its cost is a row of its own


def rows(k: int, r: int) -> list[Row]:
    """Convolutions are k wide, neighbourhoods have r positions. Formulas are here to be compared with what is counted.

    The band computes 2r − 1 scores for each query in blocks of r (see `nn.local`); a gated convolution has 2d outputs.
    """

    def power(n: int) -> int:  # the least L with k^L ≥ n, without logarithms that round
        levels = 0
        while k**levels < n:
            levels += 1
        return levels

    band = 2 * r - 1
    return [
        Row("self-attention", lambda d, _: SelfAttention(d), lambda n, d: 4 * n * n * d, lambda n: 1,
            "O(n²·d)", 2, 1, "O(1)", "O(1)"),
        Row("recurrent", lambda d, _: Recurrent(d), lambda n, d: 4 * n * d * d, lambda n: n,
            "O(n·d²)", 1, 2, "O(n)", "O(n)"),
        Row(f"convolution, k = {k}", lambda d, _: Convolution(d, k), lambda n, d: 4 * k * n * d * d,
            lambda n: math.ceil((n - 1) / (k - 1)), "O(k·n·d²)", 1, 2, "O(1)", "O(n/k)"),
        Row(f"convolution, k = {k}, dilated", lambda d, level: Convolution(d, k, k**level),
            lambda n, d: 4 * k * n * d * d, power, "O(k·n·d²)", 1, 2, "O(1)", "O(log_k n)", costs=False),
        Row(f"self-attention, r = {r}", lambda d, _: Restricted(d, r), lambda n, d: 4 * -(-n // r) * r * band * d,
            lambda n: math.ceil((n - 1) / reach(r, causal=False)[0]), "O(r·n·d)", 1, 1, "O(1)", "O(n/r)"),
    ]  # fmt: skip
