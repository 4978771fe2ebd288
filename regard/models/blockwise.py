"""The Transformer k tokens at a time, as blockwise decoding asks for it (`regard.decode.blockwise.BlockStep`)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.models.stepping import TransformerStep
from regard.models.transformer import Transformer
from regard.nn.blockwise import BlockHeads


class TransformerBlockStep(TransformerStep):
    """Decoding of some of many sources, one hypothesis each. Sources must come longest first."""

    def __init__(self, model: Transformer, heads: BlockHeads, sources: Sequence[Sequence[int]]) -> None:
        super().__init__(model, sources, beam=1)
        self.heads, self.k = heads, heads.k
        self.last = torch.empty(0)  # (B, k, D), what the decoder has said in the last call

    def __call__(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        """tokens: (B, k), at positions[b], positions[b] + 1, …   → (B, k, V), of the next token after each"""
        places = positions[:, None] + torch.arange(self.k, device=positions.device)
        self.last = self.hidden(tokens.flatten(), places, longest).unflatten(0, tokens.shape)
        return self.logits(self.last)

    def propose(self, places: Tensor) -> Tensor:
        """places: (B,), 0 to k − 1   → (B, k − 1, V), of the tokens after the next from there"""
        every = torch.arange(len(places), device=places.device)
        return self.logits(self.heads(self.last[every, places]))
