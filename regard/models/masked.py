"""The conditional masked language model: *Mask-Predict* (Ghazvininejad et al. 2019), §2.

    P(Y_mask | X, Y_obs) = Π over y in Y_mask of P(y | X, Y_obs)                                        (§2.1)
    P(N | X) = softmax(e_LENGTH · E_lengths),  N = |Y|                                                  (§2.3)

The Transformer with two changes. Its decoder has no causal mask: every position sees the whole target, of which some
tokens are hidden behind the mask symbol, and predicts what is hidden. And the encoder reads a symbol LENGTH before the
source, at whose place the length of the target is predicted, the end symbol included.

The vocabulary has no symbol for a mask. The padding symbol serves as one: where padding lies the layout says, so its
vector is free. LENGTH is row 0 of the table of lengths, a length that no target has, as in the released code; the
decoder does not see its place.

Departures from the released code: LENGTH is scaled like every embedding, and is not dropped. The layers are those of
*Attention Is All You Need*, where that code has BERT's (learned positions, GELU, its initialisation).
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.config import TransformerConfig
from regard.models.transformer import Transformer
from regard.nn.layout import Layout


class MaskedTransformer(Transformer):
    """Predicts masked target tokens from the source and from the target's other tokens."""

    causal: ClassVar[bool] = False

    def __init__(self, config: TransformerConfig, source_vocab: int, target_vocab: int | None = None) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.lengths = nn.Embedding(config.max_positions, config.d_model)
        nn.init.normal_(self.lengths.weight, std=config.d_model**-0.5)

    @property
    def longest(self) -> int:
        """The greatest length it can predict."""
        return self.config.max_positions - 1

    def encode(self, src: Tensor, layout: Layout) -> Tensor:
        """src: (B, S) → memory (B, S, D)."""
        return self.encode_and_measure(src, layout)[0]

    def encode_and_measure(self, src: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """src: (B, S) → memory (B, S, D), and the logits of every target length from 0 on, (B, max_positions)."""
        embedding = self.source_embedding
        led = layout.lead(self.lengths.weight[0] * embedding.scale, embedding(src, layout))  # (B, 1 + S, D)
        first, memory = layout.unlead(self.encoder(led, layout.led()))
        logits = torch.nn.functional.linear(first, self.lengths.weight).float()
        impossible = torch.arange(logits.shape[-1], device=logits.device) == 0
        return memory, logits.masked_fill(impossible, -torch.inf)
