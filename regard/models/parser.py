"""The Transformer that writes trees, told which word it has come to.

A linear tree has one leaf symbol for each word of the sentence, so every output so far says exactly how many words have
been read. The decoder's input is

    E[y] · √d_model + position + W · [m_last ; m_next]

where m_last and m_next are the encoder's outputs for the last word read and for the next one, by their first subwords;
after the last word the end symbol is next. This is the deterministic attention of Ma et al. 2017 ("Deterministic
Attention for Sequence-to-Sequence Constituent Parsing"), added to the Transformer's own, which stays as it is: with a
few thousand trees cross-attention alone does not learn to count. Departure from *Attention Is All You Need*, §6.3, and
off by default (`model.next_word`).

The encoder's outputs are put in another order to make that a lookup: the first subwords of all words come first, in
the order of the words, then the end symbol, then the other subwords. To attention order is nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.config import ParserModelConfig
from regard.models.stepping import TransformerStep
from regard.models.transformer import Transformer
from regard.nn.layout import Layout, Packed, gathered
from regard.nn.linear import linear


class ParserTransformer(Transformer):
    """From sentences to linear trees."""

    begins: Tensor
    leaves: Tensor

    def __init__(self, config: ParserModelConfig, begins: Tensor, leaves: Tensor, unknown: int) -> None:
        """begins: (V_source,) bool, subwords that begin a word, and the end symbol   leaves: (V_target,) bool, symbols
        that stand for a word   unknown: the number of the unknown subword, in which word dropout ends"""
        super().__init__(config, len(begins), len(leaves))
        self.next_word, self.word_dropout, self.unknown = config.next_word, config.word_dropout, unknown
        self.register_buffer("begins", begins, persistent=False)
        self.register_buffer("leaves", leaves, persistent=False)
        if config.next_word:  # last: the other weights are drawn as if there were none
            self.w_words = nn.Linear(2 * config.d_model, config.d_model, bias=False)
            nn.init.xavier_uniform_(self.w_words.weight)

    def encode(self, src: Tensor, layout: Layout) -> Tensor:
        """src: (B, S) → memory (B, S, D), where `next_word` is set in the order said above."""
        seen = src
        if self.training and self.word_dropout:
            seen = src.masked_fill(torch.rand(src.shape, device=src.device) < self.word_dropout, self.unknown)
        memory = super().encode(seen, layout)
        if not self.next_word:
            return memory
        return layout.pick(memory, self.words_first(src, layout), layout)

    def words_first(self, src: Tensor, layout: Layout) -> Tensor:
        """Where in its sentence each place of the memory comes from, in the shape of `src`."""
        later = (~self.begins[src]).long()
        if isinstance(layout, Packed):
            return (2 * layout.rows + later).argsort(stable=True) - layout.spread(layout.offsets[:-1])
        return later.argsort(dim=1, stable=True)

    def decode(self, tgt: Tensor, layout: Layout, memory: Tensor, memory_layout: Layout) -> Tensor:
        """tgt: (B, T)   memory: (B, S, D)   → (B, T, D), before the output projection."""
        x = self.target_embedding(tgt, layout)
        if self.next_word:
            x = x + self.words_around(tgt, layout, memory, memory_layout).to(x.dtype)
        return self.decoder(x, layout, memory, memory_layout)

    def words_around(self, tgt: Tensor, layout: Layout, memory: Tensor, memory_layout: Layout) -> Tensor:
        """W · [m_last ; m_next] at every target position. tgt: (B, T)   memory: (B, S, D)   → (B, T, D)"""
        places = word_places(layout.running(self.leaves[tgt].long()), layout.spread(memory_layout.lengths))
        return self.join(*(memory_layout.pick(memory, place, layout) for place in places))

    def join(self, last: Tensor, following: Tensor) -> Tensor:
        """(…, D) twice → (…, D)"""
        return linear(torch.cat([last, following], dim=-1), self.w_words.weight, None)


def word_places(read: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Where the memory has the last word read and the next one. read: (B, N) words   lengths: (B, 1), of the sources"""
    following = torch.minimum(read, lengths - 1)
    return torch.minimum((read - 1).clamp(min=0), lengths - 1), following


class ParserStep(TransformerStep):
    """One symbol at a time. Each hypothesis has read words of its own."""

    model: ParserTransformer

    def __init__(
        self, model: ParserTransformer, sources: Sequence[Sequence[int]], beam: int, watched: int | None = None
    ) -> None:
        super().__init__(model, sources, beam, watched)
        self.memory = self.read = torch.empty(0)  # (B, S, D), (B, W)

    def make_room(self, slots: int, source_room: int, room: int) -> None:
        super().make_room(slots, source_room, room)
        self.memory = self.barred.new_zeros(slots, source_room, self.model.config.d_model)
        self.read = torch.zeros(slots, self.beam, dtype=torch.long, device=self.device)
        self.lengths.fill_(1)  # where nobody is, something is looked up too

    def put(self, slots: Tensor, memory: Tensor, layout: Layout) -> None:
        super().put(slots, memory, layout)
        self.memory[slots, : layout.size] = layout.pad(memory)
        self.read.index_fill_(0, slots, 0)

    def embed(self, tokens: Tensor, places: Tensor, seen: int) -> Tensor:
        x = super().embed(tokens, places, seen)
        if not self.model.next_word:
            return x
        self.read += self.model.leaves[tokens].view_as(self.read)
        last, following = word_places(self.read, self.lengths[:, None])
        words = self.model.join(gathered(self.memory, last), gathered(self.memory, following))  # (B, W, D)
        return x + words.flatten(0, 1)

    def move(self, rows: Tensor, longest: int) -> None:
        super().move(rows, longest)
        self.read.copy_(self.read.flatten()[rows].view_as(self.read))

    def leave(self, slots: Tensor, rows: Tensor) -> None:
        super().leave(slots, rows)
        self.memory, self.read = self.memory[slots], self.read[slots]
