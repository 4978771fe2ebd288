"""The Transformer one token at a time, as a search asks for it (`regard.decode.search.Step`)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.models.transformer import DecoderLayer, Transformer
from regard.nn.cache import Memory, Past, future
from regard.nn.layout import Packed, Padded
from regard.nn.linear import linear


class TransformerStep:
    """Decoding of some of many sources, `beam` hypotheses each. It is quickest where sources come longest first.

    `watched`: a decoder layer, from 0, whose attention to the source is added up, the mean of its heads.
    """

    def __init__(
        self, model: Transformer, sources: Sequence[Sequence[int]], beam: int, watched: int | None = None
    ) -> None:
        self.model, self.sources, self.beam, self.watched = model, sources, beam, watched
        self.layers: list[tuple[DecoderLayer, Past, Memory]] = []
        self.barred = torch.empty(0)  # (B, 1, S), −∞ where a slot's source has no position
        self.attended = torch.empty(0)  # (B, W, S), the attention each position has had; 1 where there is none

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

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        sources = [self.sources[sentence] for sentence in sentences]
        lengths = [len(source) for source in sources]
        layout = Padded.of(lengths).to(slots.device)
        src = Packed.of(lengths).pad(torch.tensor([token for source in sources for token in source]))
        memory = self.model.encode(src.to(slots.device), layout)
        if not self.layers:
            self.reserve(len(slots), layout.size)
        elif layout.size > self.barred.shape[2]:
            self.lengthen(layout.size)
        self.barred[slots] = -torch.inf
        self.barred[slots, :, : layout.size] = self.barred.new_zeros(layout.mask.shape).masked_fill_(
            ~layout.mask, -torch.inf
        )[:, None]
        self.attended[slots] = (self.barred[slots] == -torch.inf).to(self.attended.dtype)
        for _, _, kept in self.layers:
            kept.enter(slots, memory)

    def grow(self, slots: int) -> None:
        """Make place for so many slots in all; none of what was kept where there are to be none."""
        if not slots:
            self.layers = []
        elif self.layers:
            more = slots - len(self.barred)
            self.barred = F.pad(self.barred, (0, 0, 0, 0, 0, more))
            self.attended = F.pad(self.attended, (0, 0, 0, 0, 0, more))
            for _, past, memory in self.layers:
                past.grow(more * self.beam)
                memory.grow(more, self.barred.shape[2])

    def lengthen(self, source_room: int) -> None:
        """Make place for longer sources."""
        more = source_room - self.barred.shape[2]
        self.barred = F.pad(self.barred, (0, more), value=-torch.inf)
        self.attended = F.pad(self.attended, (0, more), value=1.0)
        for _, _, memory in self.layers:
            memory.grow(0, source_room)

    def __call__(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        """tokens: (B, W)   positions: (B,)   → (B, W, V)"""
        rows = positions.repeat_interleave(self.beam)[:, None]  # (R, 1)
        return self.logits(self.hidden(tokens.flatten(), rows, longest)).unflatten(0, tokens.shape)

    def logits(self, hidden: Tensor) -> Tensor:
        """(…, D) → (…, V)"""
        return linear(hidden, self.model.output.weight, self.model.output.bias).float()

    def hidden(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        """What the decoder says at Q positions more. tokens: (R·Q,)   positions: (R, Q), below `longest` → (R·Q, D)"""
        embedding, model = self.model.target_embedding, self.model
        seen = min(longest, model.longest)  # beyond the last position of a table, its last: nobody asks what is there
        places = positions.flatten().clamp(max=seen - 1)
        x = embedding.tokens(tokens) * embedding.scale + embedding.positions(places, seen)  # (R·Q, D)
        barred = future(positions, longest, model.config.n_heads).to(x.dtype)
        for layer, past, memory in self.layers:
            x = layer.self_attn_residual(x, lambda y, past=past: past(y, positions, barred))
            x = layer.cross_attn_residual(x, lambda y, memory=memory: memory(y, self.barred))
            x = layer.feed_forward_residual(x, layer.feed_forward)
        if self.watched is not None:
            self.attended = self.attended + self.layers[self.watched][2].weights.mean(dim=1)
        return model.decoder.norm(x)

    def reorder(self, parents: Tensor, longest: int) -> None:
        B, W = parents.shape
        rows = (parents + W * torch.arange(B, device=parents.device)[:, None]).flatten()
        if W == 1 or (not rows.is_cuda and bool((rows == torch.arange(B * W)).all())):
            return
        if self.watched is not None:
            self.attended = self.attended.gather(1, parents[:, :, None].expand_as(self.attended))
        for _, past, _ in self.layers:
            past.move(rows, longest)

    def keep(self, slots: Tensor) -> None:
        rows = (slots[:, None] * self.beam + torch.arange(self.beam, device=slots.device)).flatten()
        self.barred, self.attended = self.barred[slots], self.attended[slots]
        for _, past, memory in self.layers:
            past.keep(rows)
            memory.keep(slots)
