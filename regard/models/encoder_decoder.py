"""What training, decoding and looking inside ask of a model that turns one sequence into another."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from torch import Tensor, nn

from regard.errors import RegardError
from regard.nn.blockwise import BlockHeads
from regard.nn.layout import Layout


class EncoderDecoder(nn.Module, ABC):
    """An encoder, a decoder, and the projection to the vocabulary.

    Its kinds say what `encode` gives, how `hidden` follows from it, and beside them, in `models.families`, how they
    produce one token after another.
    """

    causal: ClassVar[bool] = True  # whether the decoder reads from left to right
    bears_half: ClassVar[bool] = True  # whether decoding in bfloat16 costs next to nothing
    in_rectangles: ClassVar[bool] = False  # whether it works on padding too, whatever the layout
    config: Any  # the recipe's [model]
    output: nn.Linear  # hidden → logits
    block_heads: BlockHeads | None  # predictions of tokens after the next

    def forward(self, src: Tensor, src_layout: Layout, tgt: Tensor, tgt_layout: Layout) -> Tensor:
        """src: (B, S)   tgt: (B, T), beginning with the start symbol   → logits (B, T, V)."""
        return self.output(self.hidden(src, src_layout, tgt, tgt_layout))

    @abstractmethod
    def hidden(self, src: Tensor, src_layout: Layout, tgt: Tensor, tgt_layout: Layout) -> Tensor:
        """src: (B, S)   tgt: (B, T)   → (B, T, D), before the output projection."""

    @abstractmethod
    def encode(self, src: Tensor, layout: Layout) -> Any:
        """src: (B, S) → all that the decoder knows of it."""

    @property
    def longest(self) -> int:
        """The longest sequence the model has positions for."""
        return sys.maxsize

    @property
    def cross_attentions(self) -> list[str]:
        """The paths of the decoder's attentions to the source, from the first layer on; none where there are none."""
        return []

    def recompute_layers(self) -> None:
        """Have the backward pass compute each layer again instead of keeping it, where the kind of model can."""
        raise RegardError(f'train.recompute knows no model.family = "{self.config.family}": leave it out.')


def embeddings(d_model: int, source_vocab: int, target_vocab: int, tie: str) -> tuple[nn.Embedding, nn.Embedding]:
    """Source and target tables, one and the same where all is tied."""
    target = nn.Embedding(target_vocab, d_model)
    return (target if tie == "all" else nn.Embedding(source_vocab, d_model)), target
