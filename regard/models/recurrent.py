"""Recurrent encoder–decoders: translation before *Attention Is All You Need*.

    encoder:            h_1 … h_S, in one direction or both side by side
    begin:              s_0 = tanh(W h_last), for every decoder layer
    attention "none":   s_t = cell(y_{t−1}, s_{t−1})                               (Sutskever et al. 2014)
      with context:     s_t = cell([y_{t−1}; h_last], s_{t−1})                     (Cho et al. 2014)
    "additive":         c_t by s_{t−1};  s_t = cell([y_{t−1}; c_t], s_{t−1})       (Bahdanau et al. 2015)
    "dot", "general", "scaled_dot":
                        s_t = cell(y_{t−1}, s_{t−1});  c_t by s_t                  (Luong et al. 2015)
      input feeding:    s_t = cell([y_{t−1}; o_{t−1}], s_{t−1})
    output:             o_t = tanh(W_o [s_t; c_t; …]),  logits = o_t Eᵀ

The target's y is an embedding without positions: order is in the recurrence. Where a step needs what the step before
gave out (additive attention, input feeding), training walks along the target; everywhere else the whole target is one
call of torch's fused layer, and attention to all of it one product.

Departures from the papers: o_t is one tanh layer for all kinds (Bahdanau et al. have a maxout layer); embeddings and
output share a matrix unless `tie` says otherwise; decoder states, an LSTM's c too, begin from the encoder's last h by a
learned map; the source is not reversed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.config import RecurrentConfig
from regard.models.encoder_decoder import EncoderDecoder, embeddings
from regard.models.stepping import KeptSource, ModelStep
from regard.nn import kernels
from regard.nn.alignment import ALIGNMENTS, Additive, Alignment, Source
from regard.nn.dropout import dropout
from regard.nn.layers import initialise
from regard.nn.layout import Layout
from regard.nn.recurrent import PARTS, Layer, Recurrence, RecurrentEncoder

X = TypeVar("X")


@dataclass(frozen=True)
class Encoded:
    """What an encoder says of its sources, in a rectangle."""

    states: Tensor  # (B, S, d)
    mask: Tensor  # (B, S)
    last: Tensor  # (L, B, d), where each direction of each layer ended


@dataclass(frozen=True)
class Carried:
    """What goes from a decoder's step to its next."""

    state: Tensor  # (L, P, R, H)
    fed: Tensor  # (R, F), what enters beside the token; F = 0 where nothing does


class Bridge(nn.Module):
    """The decoder's first states from the encoder's last."""

    def __init__(self, config: RecurrentConfig, n_layers: int) -> None:
        super().__init__()
        self.n_parts = PARTS[config.cell]
        self.layers = nn.ModuleList(nn.Linear(config.d_memory, self.n_parts * config.d_hidden) for _ in range(n_layers))

    def forward(self, last: Tensor) -> Tensor:
        """last: (L', B, d) → (L, P, B, H). An upper layer without a counterpart begins from the encoder's last."""
        begun = [torch.tanh(layer(last[min(i, len(last) - 1)])) for i, layer in enumerate(self.layers)]
        return torch.stack(begun).unflatten(-1, (self.n_parts, -1)).permute(0, 2, 1, 3)


class Decoder(nn.Module, ABC):
    """The kinds of decoder are its subclasses: how a step goes, and whether all steps can be one call."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.d_fed, d_read = self.widths(config)
        n_layers = config.n_decoder_layers or config.n_layers
        self.bridge = Bridge(config, n_layers)
        self.cells = Recurrence(config.cell, config.d_model + self.d_fed, config.d_hidden, n_layers, config.dropout)
        self.readout = nn.Linear(config.d_hidden + d_read, config.d_model)
        self.cross_attn = self.attention(config)

    def widths(self, config: RecurrentConfig) -> tuple[int, int]:
        """Of what enters a step beside its token, and of what its output is made of beside the state."""
        return 0, 0

    def attention(self, config: RecurrentConfig) -> Alignment | None:
        return ALIGNMENTS[config.attention](config.d_hidden, config.d_memory, config.d_align or config.d_hidden)

    def begin(self, encoded: Encoded) -> Carried:
        return Carried(self.bridge(encoded.last), self.first_fed(encoded))

    def first_fed(self, encoded: Encoded) -> Tensor:
        """(B, F)"""
        return encoded.states.new_zeros(len(encoded.mask), self.d_fed)

    def source(self, encoded: Encoded) -> Source | None:
        """What the steps attend to."""
        return self.cross_attn.source(encoded.states, encoded.mask) if self.cross_attn is not None else None

    def forward(self, y: Tensor, encoded: Encoded) -> Tensor:
        """y: (B, T, D), the target's embeddings, each to be followed   → outputs (B, T, D)"""
        return torch.stack(self.walk(y, encoded, self.step), dim=1)

    def walk(
        self, y: Tensor, encoded: Encoded, step: Callable[[Tensor, Carried, Source | None], tuple[X, Carried, Tensor]]
    ) -> list[X]:
        """What one step after another along the target gives out. y: (B, T, D)"""
        carried, source = self.begin(encoded), self.source(encoded)
        given, seen = [], []
        for y_t in y.unbind(dim=1):
            out, carried, weights = step(y_t, carried, source)
            given.append(out)
            if self.cross_attn is not None and self.cross_attn.record is not None:
                seen.append(weights)
        if self.cross_attn is not None and seen:
            self.cross_attn.show(torch.cat(seen, dim=1))
        return given

    @abstractmethod
    def step(self, y: Tensor, carried: Carried, source: Source | None) -> tuple[Tensor, Carried, Tensor]:
        """y: (R, D), R = B·W   → output (R, D), what is carried on, attention weights (B, W, S)"""

    def look(self, query: Tensor, source: Source | None) -> tuple[Tensor, Tensor]:
        """query: (R, H) → context (R, d), weights (B, W, S)"""
        assert self.cross_attn is not None
        assert source is not None
        context, weights = self.cross_attn(query.unflatten(0, (len(source.values), -1)), source)
        return context.flatten(0, 1), weights

    def output(self, *parts: Tensor) -> Tensor:
        """What is made of a state, and perhaps a context. Each (…, ·) → (…, D)"""
        return torch.tanh(self.readout(torch.cat(parts, dim=-1)))


class PlainDecoder(Decoder):
    """Without attention: all it knows of the source is the state it begins with."""

    def attention(self, config: RecurrentConfig) -> None:
        return None

    def forward(self, y: Tensor, encoded: Encoded) -> Tensor:
        carried = self.begin(encoded)
        fed = carried.fed[:, None].expand(-1, y.shape[1], -1)
        return self.output(self.cells(torch.cat([y, fed], dim=-1), carried.state), fed)

    def step(self, y: Tensor, carried: Carried, source: Source | None) -> tuple[Tensor, Carried, Tensor]:
        top, state = self.cells.step(torch.cat([y, carried.fed], dim=-1), carried.state)
        return self.output(top, carried.fed), Carried(state, carried.fed), y.new_zeros(0)


class ContextDecoder(PlainDecoder):
    """The encoder's last state enters every step and every output."""

    def widths(self, config: RecurrentConfig) -> tuple[int, int]:
        return config.d_memory, config.d_memory

    def first_fed(self, encoded: Encoded) -> Tensor:
        return encoded.last[-1]


class PreviousStateDecoder(Decoder):
    """The state before a step decides what the step sees of the source; its token and context enter its output too.
    No step waits for an output, so all outputs are one call."""

    def widths(self, config: RecurrentConfig) -> tuple[int, int]:
        return config.d_memory, config.d_memory + config.d_model

    def forward(self, y: Tensor, encoded: Encoded) -> Tensor:
        if self.few_kernels(y):
            return self.output(*self.run(y, encoded), y)
        tops, contexts = zip(*self.walk(y, encoded, self.move), strict=True)
        return self.output(torch.stack(tops, dim=1), torch.stack(contexts, dim=1), y)

    def few_kernels(self, y: Tensor) -> bool:
        """Whether `regard.nn.kernels.walking` has this kind of cells, and nobody asks for the weights of attention."""
        plain = len(self.cells.layers) == 1 and self.cell.kind == "gru" and self.cell.weights.w.dtype == torch.float32
        watched = self.cross_attn is not None and self.cross_attn.record is not None
        return plain and not watched and kernels.usable(y)

    @property
    def cell(self) -> Layer:
        """The lowest."""
        layer = self.cells.layers[0]
        assert isinstance(layer, Layer)
        return layer

    def run(self, y: Tensor, encoded: Encoded) -> tuple[Tensor, Tensor]:
        """The whole walk, its states (B, T, H) and contexts (B, T, d), a few kernels a step. y: (B, T, D)"""
        from regard.nn.kernels.walking import walk

        carried, source, attention = self.begin(encoded), self.source(encoded), self.cross_attn
        assert source is not None
        assert isinstance(attention, Additive)
        cell = self.cell.weights
        with torch.autocast(y.device.type, enabled=False):
            w_y, w_c = cell.w.split([y.shape[2], source.values.shape[2]], dim=1)
            given = F.linear(y.to(cell.w.dtype), w_y, cell.b_w).transpose(0, 1)
            tops, contexts = walk(
                given, carried.state[0, 0], source.keys, source.values, source.mask[:, 0], attention.w.weight,
                attention.v.weight[0], w_c, cell.u, cell.b_u,
            )  # fmt: skip
        return tops.transpose(0, 1), contexts.transpose(0, 1)

    def step(self, y: Tensor, carried: Carried, source: Source | None) -> tuple[Tensor, Carried, Tensor]:
        (top, context), carried, weights = self.move(y, carried, source)
        return self.output(top, context, y), carried, weights

    def move(self, y: Tensor, carried: Carried, source: Source | None) -> tuple[tuple[Tensor, Tensor], Carried, Tensor]:
        """The same with the state (R, H) and the context (R, d) that an output is made of."""
        context, weights = self.look(carried.state[-1, 0], source)
        top, state = self.cells.step(torch.cat([y, context], dim=-1), carried.state)
        return (top, context), Carried(state, carried.fed), weights


class CurrentStateDecoder(Decoder):
    """The state after a step decides what its output sees of the source. All steps are one call."""

    def widths(self, config: RecurrentConfig) -> tuple[int, int]:
        return 0, config.d_memory

    def forward(self, y: Tensor, encoded: Encoded) -> Tensor:
        source, tops = self.source(encoded), self.cells(y, self.begin(encoded).state)
        assert self.cross_attn is not None
        assert source is not None
        context, weights = self.cross_attn(tops, source)
        self.cross_attn.show(weights)
        return self.output(tops, context)

    def step(self, y: Tensor, carried: Carried, source: Source | None) -> tuple[Tensor, Carried, Tensor]:
        top, state = self.cells.step(y, carried.state)
        context, weights = self.look(top, source)
        return self.output(top, context), Carried(state, carried.fed), weights


class InputFeedingDecoder(Decoder):
    """The state after a step decides too, but each output enters the next step, which therefore has to wait for it."""

    def widths(self, config: RecurrentConfig) -> tuple[int, int]:
        return config.d_model, config.d_memory

    def step(self, y: Tensor, carried: Carried, source: Source | None) -> tuple[Tensor, Carried, Tensor]:
        top, state = self.cells.step(torch.cat([y, carried.fed.to(y.dtype)], dim=-1), carried.state)
        context, weights = self.look(top, source)
        output = self.output(top, context)
        return output, Carried(state, output), weights


def decoder_kind(config: RecurrentConfig) -> type[Decoder]:
    if config.attention == "none":
        return ContextDecoder if config.context else PlainDecoder
    if config.attention == "additive":
        return PreviousStateDecoder
    return InputFeedingDecoder if config.input_feeding else CurrentStateDecoder


class RecurrentSeq2Seq(EncoderDecoder):
    """Encoder and decoder with their embeddings and the output projection."""

    bears_half = False  # a state adds up what bfloat16 leaves out, step by step
    in_rectangles = True
    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig, source_vocab: int, target_vocab: int | None = None) -> None:
        super().__init__()
        self.config, self.block_heads = config, None
        target_vocab = source_vocab if target_vocab is None else target_vocab
        source, target = embeddings(config.d_model, source_vocab, target_vocab, config.tie)
        self.source_embedding, self.target_embedding = source, target
        self.encoder = RecurrentEncoder(
            config.cell, config.d_model, config.d_direction, config.n_layers, config.bidirectional, config.dropout
        )
        self.decoder = decoder_kind(config)(config)
        self.output = nn.Linear(config.d_model, target_vocab, bias=config.output_bias)
        initialise(self)  # cells have drawn theirs: `initialise_cell`
        if config.tie == "none":
            nn.init.normal_(self.output.weight, std=config.d_model**-0.5)
        else:
            self.output.weight = target.weight

    @property
    def cross_attentions(self) -> list[str]:
        return [] if self.decoder.cross_attn is None else ["decoder.cross_attn"]

    def hidden(self, src: Tensor, src_layout: Layout, tgt: Tensor, tgt_layout: Layout) -> Tensor:
        y = self.dropped(tgt_layout.pad(self.target_embedding(tgt)))  # (B, T, D)
        outputs = self.decoder(y, self.encode(src, src_layout))
        return tgt_layout.unpad(self.dropped(outputs))

    def encode(self, src: Tensor, layout: Layout) -> Encoded:
        """src: (B, S) → states (B, S, d), in a rectangle whatever the layout."""
        states, last = self.encoder(self.dropped(self.source_embedding(src)), layout)
        return Encoded(layout.pad(states), layout.mask, last)

    def dropped(self, x: Tensor) -> Tensor:
        return dropout(x, self.config.dropout) if self.training else x


class RecurrentStep(ModelStep):
    """Of each hypothesis its state alone is kept: a step costs the same however long the output is."""

    def __init__(
        self, model: RecurrentSeq2Seq, sources: Sequence[Sequence[int]], beam: int, watched: int | None = None
    ) -> None:
        super().__init__(model, sources, beam, watched)
        self.model = model
        self.state, self.fed = torch.empty(0), torch.empty(0)
        self.source: KeptSource | None = None

    def make_room(self, slots: int, source_room: int, room: int) -> None:
        model, R = self.model, slots * self.beam
        cells, like = model.decoder.cells, model.output.weight
        self.state = like.new_zeros(len(cells.layers), cells.n_parts, R, cells.d_hidden)
        self.fed = like.new_zeros(R, model.decoder.d_fed)
        if model.decoder.cross_attn is not None:
            values = like.new_zeros(slots, source_room, model.config.d_memory)
            self.source = KeptSource(values, torch.zeros_like(model.decoder.cross_attn.keys(values)))

    def put(self, slots: Tensor, memory: Encoded, layout: Layout) -> None:
        rows, begun = self.rows(slots), self.model.decoder.begin(memory)
        self.state[:, :, rows] = begun.state.repeat_interleave(self.beam, dim=2).to(self.state.dtype)
        if begun.fed.shape[1]:
            self.fed[rows] = begun.fed.repeat_interleave(self.beam, dim=0).to(self.fed.dtype)
        source = self.model.decoder.source(memory)
        if source is not None and self.source is not None:
            self.source.put(slots, source.values, source.keys)

    def hidden(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        source = self.source.seen(self.barred) if self.source is not None else None
        carried, y = Carried(self.state, self.fed), self.model.target_embedding(tokens)
        output, carried, weights = self.model.decoder.step(y, carried, source)
        self.state.copy_(carried.state)
        self.fed.copy_(carried.fed)
        if self.watched is not None:
            self.attended = self.attended + weights
        return output

    def move(self, rows: Tensor, longest: int) -> None:
        self.state.copy_(self.state[:, :, rows])
        self.fed.copy_(self.fed[rows])

    def leave(self, slots: Tensor, rows: Tensor) -> None:
        self.state, self.fed = self.state[:, :, rows], self.fed[rows]
        if self.source is not None:
            self.source.keep(slots)
