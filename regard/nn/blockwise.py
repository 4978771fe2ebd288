"""Several tokens a position: *Blockwise Parallel Decoding for Deep Autoregressive Models* (Stern et al. 2018), §4, §6.

    h         what the decoder says at a position, from which the shared output projection predicts the next token
    h_i     = h + (max(0, h W_1 + b_1) W_2 + b_2)_i,   i = 2 … k         predicts the i-th token from there
    hidden width k · d_ff, output width (k − 1) · d_model

Departures from the paper: its layer has an output for the next token too; here that is h itself. So a model that has
been trained stays what it is when heads are added to it, and with its weights frozen so does every output. Its training
draws one of the k losses for each minibatch, for want of memory; here it is the mean of all (`tasks.translation`), so
that it does not depend on how an update is cut into batches.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.nn.layers import FeedForward, initialise
from regard.nn.loss import IGNORED


class BlockHeads(nn.Module):
    """One feed-forward layer with a residual connection to each of the k − 1 tokens after the next."""

    def __init__(self, d_model: int, d_ff: int, k: int, activation: str = "relu", ff_dropout: float = 0.0) -> None:
        super().__init__()
        self.k = k
        self.feed_forward = FeedForward(d_model, d_ff, activation, ff_dropout, d_out=(k - 1) * d_model)
        initialise(self)

    def forward(self, h: Tensor) -> Tensor:
        """h: (…, D) → (…, k − 1, D)."""
        return h.unsqueeze(-2) + self.feed_forward(h).unflatten(-1, (self.k - 1, -1))


def targets_ahead(expected: Tensor, places: Tensor, k: int) -> Tensor:
    """The k tokens from each position on; `IGNORED` where its sequence has ended.

    expected: (n,), next tokens of sequences end to end   places: (n,), of each in its own sequence   → (n, k)
    """
    ahead = [expected.roll(-i).where(places.roll(-i) == places + i, IGNORED) for i in range(1, k)]
    return torch.stack([expected, *ahead], dim=1)
