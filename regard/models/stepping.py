"""The Transformer one token at a time, as a search asks for it (`regard.decode.search.Step`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.models.transformer import DecoderLayer, Transformer
from regard.nn import kernels
from regard.nn.cache import Memory, Past, future
from regard.nn.layout import Packed, Padded
from regard.nn.linear import linear


class TransformerStep:
    """Decoding of some of many sources, `beam` hypotheses each. Sources must come longest first.

    `watched`: a decoder layer, from 0, whose attention to the source is added up, the mean of its heads.
    """

    def __init__(
        self, model: Transformer, sources: Sequence[Sequence[int]], beam: int, watched: int | None = None
    ) -> None:
        self.model, self.sources, self.beam, self.watched = model, sources, beam, watched
        self.layers: list[tuple[DecoderLayer, Past, Memory]] = []
        self.barred = torch.empty(0)  # (B, 1, S), −∞ where a slot's source has no position
        self.attended = torch.empty(0)  # (B, W, S), the attention each position has had; 1 where there is none
        self.lengths = torch.empty(0)  # (B,), of the sources
        self.ancestors: Tensor | None = None  # (R, room), which hypothesis of its slot wrote what is kept; by kernels

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def reserve(self, slots: int, source_room: int, room: int = 0) -> None:
        """Make place for so many sources of at most `source_room` tokens, and for so many tokens of each output; more
        comes when it is needed."""
        for layer in self.model.decoder.layers:
            assert isinstance(layer, DecoderLayer)
            past = Past(layer.self_attn, slots, self.beam, room)
            self.layers.append((layer, past, Memory(layer.cross_attn, slots, source_room)))
        self.barred = next(self.model.decoder.parameters()).new_zeros(slots, 1, source_room)
        self.attended = self.barred.new_zeros(slots, self.beam, source_room)
        self.lengths = torch.zeros(slots, dtype=torch.long, device=self.barred.device)
        if kernels.usable_in_steps(self.barred):
            room = self.layers[0][1].k.shape[2]
            self.ancestors = self.lengths.new_zeros(slots * self.beam, room, dtype=torch.int32)

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        sources = [self.sources[sentence] for sentence in sentences]
        lengths = [len(source) for source in sources]
        layout = Padded.of(lengths).to(slots.device)
        src = Packed.of(lengths).pad(torch.tensor([token for source in sources for token in source]))
        memory = self.model.encode(src.to(slots.device), layout)
        if not self.layers:
            self.reserve(len(slots), layout.size)
        self.lengths[slots] = torch.tensor(lengths, device=slots.device)
        self.barred[slots] = -torch.inf
        self.barred[slots, :, : layout.size] = self.barred.new_zeros(layout.mask.shape).masked_fill_(
            ~layout.mask, -torch.inf
        )[:, None]
        self.attended[slots] = (self.barred[slots] == -torch.inf).to(self.attended.dtype)
        for _, _, kept in self.layers:
            kept.enter(slots, memory)

    def __call__(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        """tokens: (B, W)   positions: (B,)   → (B, W, V)"""
        rows = positions.repeat_interleave(self.beam)[:, None]  # (R, 1)
        return self.logits(self.hidden(tokens.flatten(), rows, longest)).unflatten(0, tokens.shape)

    def logits(self, hidden: Tensor) -> Tensor:
        """(…, D) → (…, V), in the type of the products"""
        return linear(hidden, self.model.output.weight, self.model.output.bias)

    def hidden(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        """What the decoder says at Q positions more. tokens: (R·Q,)   positions: (R, Q), below `longest` → (R·Q, D)"""
        embedding, model = self.model.target_embedding, self.model
        seen = min(longest, model.longest)  # beyond the last position of a table, its last: nobody asks what is there
        places = positions.flatten().clamp(max=seen - 1)
        x = embedding.tokens(tokens) * embedding.scale + embedding.positions(places, seen)  # (R·Q, D)
        ahead = self.see_past(positions, longest)
        for i, (layer, past, memory) in enumerate(self.layers):
            x = layer.self_attn_residual(x, partial(ahead, past))
            x = layer.cross_attn_residual(x, partial(self.see_source, memory, watched=i == self.watched))
            x = layer.feed_forward_residual(x, layer.feed_forward)
        if self.watched is not None:
            self.attended = self.attended + self.layers[self.watched][2].weights.mean(dim=1)
        return model.decoder.norm(x)

    def see_past(self, positions: Tensor, longest: int) -> Callable[[Past, Tensor], Tensor]:
        """How a layer attends to what has been produced: by kernel, where one position comes at a time."""
        if self.ancestors is None or positions.shape[1] > 1:
            barred = future(positions, longest, self.model.config.n_heads).to(self.barred.dtype)
            return lambda past, x: past(x, positions, barred)
        for _, past, _ in self.layers:
            past.reach(longest)
        if more := self.layers[0][1].k.shape[2] - self.ancestors.shape[1]:
            self.ancestors = F.pad(self.ancestors, (0, more))
        table = self.ancestors
        if self.beam > 1:  # each writes this position itself
            itself = torch.arange(len(table), dtype=table.dtype, device=table.device) % self.beam
            table.scatter_(1, positions, itself[:, None])
        return lambda past, x: past.by_kernel(x, positions[:, 0], table, self.beam)

    def see_source(self, memory: Memory, x: Tensor, watched: bool = False) -> Tensor:
        """How a layer attends to the source; where it is watched, in a way that leaves its weights behind."""
        by_kernel = self.ancestors is not None and not watched and len(x) == len(self.lengths) * self.beam
        return memory.by_kernel(x, self.lengths) if by_kernel else memory(x, self.barred)

    def reorder(self, parents: Tensor, longest: int) -> None:
        B, W = parents.shape
        rows = (parents + W * torch.arange(B, device=parents.device)[:, None]).flatten()
        if W == 1 or (not rows.is_cuda and bool((rows == torch.arange(B * W)).all())):
            return
        if self.watched is not None:
            self.attended = self.attended.gather(1, parents[:, :, None].expand_as(self.attended))
        if self.ancestors is not None:
            self.ancestors.copy_(self.ancestors[rows])
            return
        for _, past, _ in self.layers:
            past.move(rows, longest)

    def keep(self, slots: Tensor) -> None:
        rows = (slots[:, None] * self.beam + torch.arange(self.beam, device=slots.device)).flatten()
        self.barred, self.attended, self.lengths = self.barred[slots], self.attended[slots], self.lengths[slots]
        if self.ancestors is not None:
            self.ancestors = self.ancestors[rows]
        for _, past, memory in self.layers:
            past.keep(rows)
            memory.keep(slots)
