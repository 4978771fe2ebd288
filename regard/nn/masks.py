"""Attention masks, all of them made here.

A mask is boolean and `True` means *may attend*, as in `scaled_dot_product_attention`. It broadcasts to
(B, H, Q, K). A row with nothing to attend to gives zeros in value and in gradient (see `nn.attention`).
"""

from __future__ import annotations

import torch
from torch import Tensor


def length_mask(lengths: Tensor, size: int) -> Tensor:
    """(B,) lengths → (B, size), True on the first `lengths[b]` positions of row b."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def key_mask(real: Tensor) -> Tensor:
    """(B, K) real positions → (B, 1, 1, K): every query may attend to every real key."""
    return real[:, None, None, :]


def causal_mask(n_queries: int, n_keys: int, device: torch.device | None = None) -> Tensor:
    """(Q, K), True where a key is not in a query's future.

    The last query stands at the last key, so one new query against a cache of n_keys sees all of them.
    """
    full = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return full.tril(diagonal=n_keys - n_queries)


def neighbourhood_mask(size: int, before: int, after: int, device: torch.device | None = None) -> Tensor:
    """(N, N), True where a key is at most `before` positions before its query or `after` behind it."""
    full = torch.ones(size, size, dtype=torch.bool, device=device)
    return full.tril(diagonal=after).triu(diagonal=-before)
