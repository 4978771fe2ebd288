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

    def __call__(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        """tokens: (B, Q), at positions[b], positions[b] + 1, …   → (B, Q, k, V), of the k tokens from each on"""
        B, Q = tokens.shape
        places = positions[:, None] + torch.arange(Q, device=positions.device)
        h = self.hidden(tokens.flatten(), places, longest)  # (B·Q, D)
        every = torch.cat([h[:, None], self.heads(h)], dim=1)  # (B·Q, k, D)
        return self.model.output(every).float().unflatten(0, (B, Q))
