"""The Transformer one token at a time, as a search asks for it (`regard.decode.search.Step`)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.models.transformer import DecoderLayer, Transformer
from regard.nn.cache import Memory, Past, future
from regard.nn.layout import Packed, Padded
from regard.nn.linear import linear


class TransformerStep:
    """Decoding of some of many sources, `beam` hypotheses each. Sources must come longest first."""

    def __init__(self, model: Transformer, sources: Sequence[Sequence[int]], beam: int) -> None:
        self.model, self.sources, self.beam = model, sources, beam
        self.layers: list[tuple[DecoderLayer, Past, Memory]] = []
        self.barred = torch.empty(0)  # (B, 1, S), −∞ where a slot's source has no position

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        sources = [self.sources[sentence] for sentence in sentences]
        lengths = [len(source) for source in sources]
        layout = Padded.of(lengths).to(slots.device)
        src = Packed.of(lengths).pad(torch.tensor([token for source in sources for token in source]))
        memory = self.model.encode(src.to(slots.device), layout)
        if not self.layers:
            for layer in self.model.decoder.layers:
                assert isinstance(layer, DecoderLayer)
                past = Past(layer.self_attn, len(slots), self.beam)
                self.layers.append((layer, past, Memory(layer.cross_attn, len(slots), layout.size)))
            self.barred = memory.new_zeros(len(slots), 1, layout.size)
        self.barred[slots] = -torch.inf
        self.barred[slots, :, : layout.size] = memory.new_zeros(layout.mask.shape).masked_fill_(
            ~layout.mask, -torch.inf
        )[:, None]
        for _, _, kept in self.layers:
            kept.enter(slots, memory)

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
        return model.decoder.norm(x)

    def reorder(self, parents: Tensor, longest: int) -> None:
        B, W = parents.shape
        rows = (parents + W * torch.arange(B, device=parents.device)[:, None]).flatten()
        if W == 1 or (not rows.is_cuda and bool((rows == torch.arange(B * W)).all())):
            return
        for _, past, _ in self.layers:
            past.move(rows, longest)

    def keep(self, slots: Tensor) -> None:
        rows = (slots[:, None] * self.beam + torch.arange(self.beam, device=slots.device)).flatten()
        self.barred = self.barred[slots]
        for _, past, memory in self.layers:
            past.keep(rows)
            memory.keep(slots)
