"""Word alignments, read off attention weights between tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def word_weights(weights: Tensor, rows: list[int], columns: list[int]) -> Tensor:
    """Token weights (T, S) → word weights (target words, source words): the sum over the tokens of a source word, the
    mean over those of a target word.

    rows, columns: the word of each target and source token, -1 for none
    """
    to_rows, to_columns = membership(rows, weights.device), membership(columns, weights.device)
    return to_rows.T @ weights @ to_columns / to_rows.sum(dim=0)[:, None]


def membership(words: list[int], device: torch.device) -> Tensor:
    """The word of each token, -1 for none → (tokens, words), one where a token belongs to a word."""
    numbers = torch.tensor(words, dtype=torch.long, device=device)
    return (numbers[:, None] == torch.arange(max(words, default=-1) + 1, device=device)).float()


def links_of(weights: Tensor) -> list[tuple[int, int]]:
    """(target words, source words) → each target word with the source word it attends to most."""
    return [(int(row.argmax()), t) for t, row in enumerate(weights)] if weights.numel() else []


def pharaoh(links: Sequence[tuple[int, int]]) -> str:
    """Alignment links as `0-0 1-2`, source word first."""
    return " ".join(f"{s}-{t}" for s, t in sorted(links))
