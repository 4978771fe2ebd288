"""A model whose outputs can all be listed, for tests of the search."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Chain:
    """The next token depends on the sentence, the place and the last token, and on nothing else; no two outputs are
    equally probable."""

    def __init__(self, sentences: int, limit: int, vocab: int, seed: int) -> None:
        drawn = torch.randn(sentences, limit, vocab, vocab, generator=torch.Generator().manual_seed(seed))
        self.tables = (2 * drawn).log_softmax(-1)
        self.sentences = torch.zeros(0, dtype=torch.long)

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        new = torch.tensor(sentences)
        self.sentences = new if not len(self.sentences) else self.sentences.index_put((slots,), new)

    def __call__(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        return self.tables[self.sentences[:, None], positions[:, None], tokens].clone()

    def reorder(self, parents: Tensor, longest: int) -> None: ...

    def keep(self, slots: Tensor) -> None:
        self.sentences = self.sentences[slots]
