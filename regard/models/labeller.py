"""Networks that label a text or each of its words: one body of four families, and a linear map to the labels.

    bag          words one by one, a text is their mean: the baseline that knows no order
    cnn          convolutions of several widths, relu; a text is the maximum over time         (Kim 2014)
    recurrent    RNN, GRU or LSTM; a text is the last state, of each direction
    transformer  *Attention Is All You Need*, §3.1, the encoder alone; a text is the mean of its positions

Departures from Kim: convolutions are centred and reach beyond the ends, where there are zeros, so that a text may be
shorter than a filter; no bound on the norm of the output's rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import BagConfig, ReaderConfig, TextCnnConfig, TransformerConfig
from regard.models.transformer import Encoder, position_table
from regard.nn.convolution import neighbours
from regard.nn.dropout import dropout
from regard.nn.layers import Embedding, FeedForward, initialise
from regard.nn.layout import Layout
from regard.nn.recurrent import RecurrentEncoder
from regard.nn.sets import mean_pool

BodyConfig = TransformerConfig | BagConfig | TextCnnConfig | ReaderConfig


class Body(nn.Module, ABC):
    """What sees the words of a text; `d_out` is the width of what it gives."""

    d_out: int

    @abstractmethod
    def forward(self, x: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """x: (…, D) in `layout` → something at each position (…, d_out), and for each text (B, d_out)"""


class Bag(Body):
    def __init__(self, config: BagConfig) -> None:
        super().__init__()
        self.feed_forward = FeedForward(config.d_model, config.d_ff, d_out=config.d_ff)
        self.d_out = config.d_ff

    def forward(self, x: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        return self.feed_forward(x).relu(), self.feed_forward(mean_pool(x, layout)).relu()


class TextCnn(Body):
    def __init__(self, config: TextCnnConfig) -> None:
        super().__init__()
        widths = range(config.min_width, config.max_width + 1)
        self.widths = list(widths)
        self.filters = nn.ModuleList(nn.Linear(width * config.d_model, config.filters) for width in widths)
        self.d_out = config.filters * len(widths)

    def forward(self, x: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        mask = layout.mask[:, :, None]
        padded = layout.pad(x).masked_fill(~mask, 0.0)  # (B, N, D)
        around = zip(self.widths, self.filters, strict=True)
        found = torch.cat([filters(neighbours(padded, width, 1, causal=False)) for width, filters in around], dim=-1)
        features = found.relu().masked_fill(~mask, 0.0)  # none is below zero, so padding never is the maximum
        return layout.unpad(features), features.amax(dim=1)


class Reader(Body):
    def __init__(self, config: ReaderConfig) -> None:
        super().__init__()
        args = config.cell, config.d_model, config.d_hidden, config.n_layers, config.bidirectional, config.dropout
        self.encoder = RecurrentEncoder(*args)
        self.d_out = self.encoder.d_out

    def forward(self, x: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        states, last = self.encoder(x, layout)
        return states, last[-1]


class AttentionBody(Body):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.d_out = config.d_model

    def forward(self, x: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        states = self.encoder(x, layout)
        return states, mean_pool(states, layout)


class WordVectors(nn.Module):
    """A vector for each word, with entries of variance one, wherever it stands; then dropout."""

    def __init__(self, table: nn.Embedding, dropout: float) -> None:
        super().__init__()
        self.table, self.dropout = table, dropout

    def forward(self, words: Tensor, layout: Layout) -> Tensor:
        """words: (…) → (…, D)"""
        x = self.table(words) * math.sqrt(self.table.embedding_dim)
        return dropout(x, self.dropout if self.training else 0.0)


BODIES: dict[str, Callable[[Any], Body]] = {
    "bag": Bag, "cnn": TextCnn, "recurrent": Reader, "transformer": AttentionBody
}  # fmt: skip


class Labeller(nn.Module):
    """Words to logits, for each text or for each word."""

    def __init__(self, config: BodyConfig, n_words: int, n_labels: int, each_word: bool) -> None:
        super().__init__()
        self.each_word, self.dropout = each_word, config.dropout
        table = nn.Embedding(n_words, config.d_model)
        self.embedding = (
            Embedding(table, position_table(config), config.dropout)
            if config.family == "transformer"
            else WordVectors(table, config.dropout)
        )
        self.body = BODIES[config.family](config)
        self.output = nn.Linear(self.body.d_out, n_labels)
        initialise(self)
        if config.family == "cnn":  # its maxima are all above zero: with any weights it begins sure, and wrong
            nn.init.zeros_(self.output.weight)

    def forward(self, words: Tensor, layout: Layout) -> Tensor:
        """words: (…) in `layout` → logits of each text (B, n_labels), or of each real word (total, n_labels)"""
        states, whole = self.body(self.embedding(words, layout), layout)
        pooled = layout.real(states) if self.each_word else whole
        return self.output(dropout(pooled, self.dropout if self.training else 0.0))
