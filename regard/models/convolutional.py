"""The convolutional encoder–decoder: *Convolutional Sequence to Sequence Learning* (Gehring et al. 2017).

    encoder:  x ← (x + GLU(x)) √½, layer by layer;   z = W x;   values z + e, of the source's embeddings e
    decoder:  h = GLU(x), causal;   q = (W h + g) √½, of the target's embeddings g
              a = softmax(q zᵀ / √D);   c = √S Σ_s a_s (z_s + e_s) √½
              x ← (x + (h + W c) √½) √½, layer by layer, each with an attention of its own

Embeddings are those of the Transformer, token and position; the paper's positions are learned, and so are they here.
Departures from the paper: scores are divided by √D, because embeddings begin with a variance of 1, not of 0.01; no
weight normalisation, no scaling of the encoder's gradients; embeddings and output share a matrix unless `tie` says
otherwise; one width for all layers; `dilated` is not in the paper (WaveNet, ByteNet).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.config import ConvolutionalConfig
from regard.models.encoder_decoder import EncoderDecoder, embeddings
from regard.models.stepping import KeptSource, ModelStep
from regard.nn.alignment import ScaledDot, Source
from regard.nn.convolution import GatedConvolution
from regard.nn.dropout import dropout
from regard.nn.layers import Embedding, initialise
from regard.nn.layout import Layout
from regard.nn.positions import LearnedPositions, SinusoidalPositions

HALF = math.sqrt(0.5)  # times a sum of two keeps its variance


@dataclass(frozen=True)
class Encoded:
    """What an encoder says of its sources, in a rectangle."""

    keys: Tensor  # (B, S, D)
    values: Tensor  # (B, S, D)
    mask: Tensor  # (B, S)

    @property
    def source(self) -> Source:
        return Source(self.values, self.keys, self.mask[:, None])


class EncoderLayer(nn.Module):
    def __init__(self, config: ConvolutionalConfig, layer: int) -> None:
        super().__init__()
        self.convolution = convolution(config, layer, causal=False)
        self.dropout = config.dropout

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x: (B, S, d)   mask: (B, S) → (B, S, d)"""
        inner = dropout(x, self.dropout) if self.training else x
        return (x + self.convolution(inner.masked_fill(~mask[:, :, None], 0.0))) * HALF


class DecoderLayer(nn.Module):
    def __init__(self, config: ConvolutionalConfig, layer: int) -> None:
        super().__init__()
        self.convolution = convolution(config, layer, causal=True)
        self.query = nn.Linear(config.d_hidden, config.d_model)
        self.cross_attn = ScaledDot(config.d_model, config.d_model, 0)
        self.context = nn.Linear(config.d_model, config.d_hidden)
        self.dropout = config.dropout

    def forward(self, x: Tensor, g: Tensor, source: Source) -> Tensor:
        """x: (B, T, d)   g: (B, T, D), the target's embeddings → (B, T, d)"""
        h = self.convolution(dropout(x, self.dropout) if self.training else x)
        after, weights = self.look(x, h, g, source)
        self.cross_attn.show(weights)
        return after

    def look(self, x: Tensor, h: Tensor, g: Tensor, source: Source) -> tuple[Tensor, Tensor]:
        """Attention, and the sums after it. x, h: (B, T, d)   g: (B, T, D)   → (B, T, d), weights (B, T, S)"""
        context, weights = self.cross_attn((self.query(h) + g) * HALF, source)
        scale = source.mask.sum(dim=-1, keepdim=True).sqrt()  # (B, 1, 1), √S
        attended = self.context((context * scale).to(h.dtype))
        return (x + (h + attended) * HALF) * HALF, weights


class ConvolutionalSeq2Seq(EncoderDecoder):
    """Encoder and decoder with their embeddings and the output projection."""

    config: ConvolutionalConfig
    in_rectangles = True

    def __init__(self, config: ConvolutionalConfig, source_vocab: int, target_vocab: int | None = None) -> None:
        super().__init__()
        self.config, self.block_heads = config, None
        target_vocab = source_vocab if target_vocab is None else target_vocab
        source, target = embeddings(config.d_model, source_vocab, target_vocab, config.tie)
        self.source_embedding = Embedding(source, position_table(config), config.dropout)
        self.target_embedding = Embedding(target, position_table(config), config.dropout)
        self.encoder = stack(EncoderLayer, config, config.n_layers)
        self.decoder = stack(DecoderLayer, config, config.n_decoder_layers or config.n_layers)
        self.output = nn.Linear(config.d_model, target_vocab, bias=config.output_bias)
        initialise(self)
        for module in self.modules():
            if isinstance(module, GatedConvolution):
                module.initialise(config.dropout)
        if config.tie == "none":
            nn.init.normal_(self.output.weight, std=config.d_model**-0.5)
        else:
            self.output.weight = target.weight

    @property
    def longest(self) -> int:
        return self.config.max_positions if self.config.positions == "learned" else sys.maxsize

    @property
    def cross_attentions(self) -> list[str]:
        return [f"decoder.layers.{i}.cross_attn" for i in range(len(self.decoder.layers))]

    def hidden(self, src: Tensor, src_layout: Layout, tgt: Tensor, tgt_layout: Layout) -> Tensor:
        source = self.encode(src, src_layout).source
        g = tgt_layout.pad(self.target_embedding(tgt, tgt_layout))  # (B, T, D)
        x = self.decoder.widen(g)
        for layer in self.decoder.layers:
            x = layer(x, g, source)
        hidden = self.decoder.narrow(x)
        return tgt_layout.unpad(dropout(hidden, self.config.dropout) if self.training else hidden)

    def encode(self, src: Tensor, layout: Layout) -> Encoded:
        """src: (B, S) → keys and values (B, S, D), in a rectangle whatever the layout."""
        e, mask = layout.pad(self.source_embedding(src, layout)), layout.mask  # (B, S, D), (B, S)
        x = self.encoder.widen(e)
        for layer in self.encoder.layers:
            x = layer(x, mask)
        z = self.encoder.narrow(x)
        return Encoded(z, (z + e) * HALF, mask)


class Stack(nn.Module):
    """Layers of one width between two linear maps from and to the width of embeddings."""

    def __init__(self, layers: list[nn.Module], d_model: int, d_hidden: int) -> None:
        super().__init__()
        self.widen, self.narrow = nn.Linear(d_model, d_hidden), nn.Linear(d_hidden, d_model)
        self.layers = nn.ModuleList(layers)


def stack(kind: type[EncoderLayer] | type[DecoderLayer], config: ConvolutionalConfig, n_layers: int) -> Stack:
    return Stack([kind(config, i) for i in range(n_layers)], config.d_model, config.d_hidden)


def convolution(config: ConvolutionalConfig, layer: int, causal: bool) -> GatedConvolution:
    return GatedConvolution(config.d_hidden, config.width, 2**layer if config.dilated else 1, causal)


def position_table(config: ConvolutionalConfig) -> SinusoidalPositions | LearnedPositions:
    if config.positions == "learned":
        return LearnedPositions(config.d_model, config.max_positions)
    return SinusoidalPositions(config.d_model)


class ConvolutionalStep(ModelStep):
    """Of each hypothesis the last inputs of every layer are kept, as many as it sees."""

    def __init__(
        self, model: ConvolutionalSeq2Seq, sources: Sequence[Sequence[int]], beam: int, watched: int | None = None
    ) -> None:
        super().__init__(model, sources, beam, watched)
        self.model = model
        self.layers: list[tuple[DecoderLayer, Tensor]] = []  # with what is kept for each, (R, reach, d)
        self.source = KeptSource(torch.empty(0), torch.empty(0))  # (B, S, D) each

    def make_room(self, slots: int, source_room: int, room: int) -> None:
        config, like = self.model.config, self.model.output.weight
        for layer in self.model.decoder.layers:
            assert isinstance(layer, DecoderLayer)
            kept = like.new_zeros(slots * self.beam, layer.convolution.reach, config.d_hidden)
            self.layers.append((layer, kept))
        self.source = KeptSource(*(like.new_zeros(slots, source_room, config.d_model) for _ in range(2)))

    def put(self, slots: Tensor, memory: Encoded, layout: Layout) -> None:
        rows = self.rows(slots)
        for _, kept in self.layers:
            kept.index_fill_(0, rows, 0.0)
        self.source.put(slots, memory.values, memory.keys)

    def hidden(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        embedding, seen = self.model.target_embedding, min(longest, self.model.longest)
        places = positions.flatten().clamp(max=seen - 1)
        g = embedding.tokens(tokens) * embedding.scale + embedding.positions(places, seen)  # (R, D)
        source, x = self.source.seen(self.barred), self.model.decoder.widen(g)  # (R, d)
        each = len(self.barred), self.beam
        for i, (layer, kept) in enumerate(self.layers):
            kept.copy_(torch.cat([kept[:, 1:], x[:, None].to(kept.dtype)], dim=1))
            h = layer.convolution.step(kept)
            after, weights = layer.look(x.unflatten(0, each), h.unflatten(0, each), g.unflatten(0, each), source)
            x = after.flatten(0, 1)
            if i == self.watched:
                self.attended = self.attended + weights
        return self.model.decoder.narrow(x)

    def move(self, rows: Tensor, longest: int) -> None:
        for _, kept in self.layers:
            kept.copy_(kept[rows])

    def leave(self, slots: Tensor, rows: Tensor) -> None:
        self.layers = [(layer, kept[rows]) for layer, kept in self.layers]
        self.source.keep(slots)
