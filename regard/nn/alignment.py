"""Attention of a decoder state to encoder states, one head: what came before *Attention Is All You Need*.

    α_ts = softmax over s of score(q_t, h_s),   context c_t = Σ_s α_ts h_s
    additive:    vᵀ tanh(W q + U h)                  (Bahdanau et al. 2015, §A.1.2)
    dot:         qᵀ h                                (Luong et al. 2015, §3.1)
    general:     qᵀ W h                              (ibid.)
    scaled dot:  qᵀ h / √d                           (Vaswani et al. 2017, §3.2.1)

What depends on the source alone (`keys`) is computed once for a sentence. A query that may attend to nothing gets
zeros. Departures from the papers: none.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.nn.attention import Attending, masked_softmax


@dataclass(frozen=True)
class Source:
    """What a decoder attends to."""

    values: Tensor  # (B, S, d)
    keys: Tensor  # (B, S, …), what the scores make of it
    mask: Tensor  # (B, 1, S), True on real positions


class Alignment(Attending, ABC):
    """The kinds of score are its subclasses."""

    def keys(self, memory: Tensor) -> Tensor:
        """memory: (B, S, d) → (B, S, …)"""
        return memory

    @abstractmethod
    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """query: (B, Q, d_q)   keys: (B, S, …)   → (B, Q, S)"""

    def source(self, memory: Tensor, mask: Tensor) -> Source:
        """memory: (B, S, d)   mask: (B, S)"""
        return Source(memory, self.keys(memory), mask[:, None])

    def forward(self, query: Tensor, source: Source) -> tuple[Tensor, Tensor]:
        """query: (B, Q, d_q) → context (B, Q, d), weights (B, Q, S)"""
        scores = self.scores(query, source.keys)
        weights = masked_softmax(scores.to(torch.promote_types(scores.dtype, torch.float32)), source.mask)
        return torch.bmm(weights.to(source.values.dtype), source.values), weights

    def show(self, weights: Tensor) -> None:
        """Hand the weights (B, T, S) of all steps to whoever captures them."""
        if self.record is not None:
            self.record(weights[:, None].detach())


class Additive(Alignment):
    def __init__(self, d_query: int, d_memory: int, d_align: int) -> None:
        super().__init__()
        self.w = nn.Linear(d_query, d_align, bias=False)
        self.u = nn.Linear(d_memory, d_align)
        self.v = nn.Linear(d_align, 1, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return self.u(memory)  # (B, S, A)

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.v(torch.tanh(self.w(query)[:, :, None] + keys[:, None]))[..., 0]  # (B, Q, S, A) → (B, Q, S)


class Dot(Alignment):
    def __init__(self, d_query: int, d_memory: int, d_align: int) -> None:
        super().__init__()

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.bmm(query.to(keys.dtype), keys.transpose(1, 2))


class General(Dot):
    def __init__(self, d_query: int, d_memory: int, d_align: int) -> None:
        super().__init__(d_query, d_memory, d_align)
        self.w = nn.Linear(d_memory, d_query, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return self.w(memory)  # (B, S, d_q)


class ScaledDot(Dot):
    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        return super().scores(query / math.sqrt(query.shape[-1]), keys)


ALIGNMENTS: dict[str, type[Additive] | type[Dot]] = {
    "additive": Additive, "dot": Dot, "general": General, "scaled_dot": ScaledDot
}  # fmt: skip
