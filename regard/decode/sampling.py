"""Drawing outputs: temperature, the k most probable tokens, the nucleus (Holtzman et al. 2020).

    p_τ(token) ∝ p(token)^(1/τ)      over the k most probable, and of these the fewest that together have probability p

One number from [0, 1) decides each token. A sentence's numbers are drawn from the seed and its own tokens, so a sample
depends on nothing else: neither on the batch nor on what was drawn before.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.decode.state import State


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn."""

    temperature: float = 1.0
    top_k: int = 0  # 0: all tokens
    top_p: float = 1.0
    seed: int = 1


class Drawer:
    """Draws the tokens of some sentences: `regard.decode.step.Sampler`."""

    def __init__(
        self, sampling: Sampling, sources: Sequence[Sequence[int]], limits: Sequence[int], samples: int
    ) -> None:
        self.sampling, self.sources, self.limits, self.samples = sampling, sources, limits, samples
        self.numbers = torch.empty(0)  # (B, W, T)

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        if not len(self.numbers):
            self.numbers = torch.zeros(len(slots), self.samples, max(self.limits), device=slots.device)
        for slot, sentence in zip(slots.tolist(), sentences, strict=True):
            key = zlib.crc32(np.asarray(self.sources[sentence], dtype=np.int64).tobytes())
            numbers = np.random.default_rng([self.sampling.seed, key]).random((self.samples, self.limits[sentence]))
            self.numbers[slot, :, : numbers.shape[1]] = torch.from_numpy(numbers.astype(np.float32)).to(slots.device)

    def draw(self, logits: Tensor, state: State) -> Tensor:
        values, tokens = self.candidates(logits / self.sampling.temperature)
        probabilities = values.softmax(-1)
        if self.sampling.top_p < 1:
            before = probabilities.cumsum(-1) - probabilities
            probabilities = probabilities.masked_fill(before >= self.sampling.top_p, 0.0)
        sums = probabilities.nan_to_num().cumsum(-1)  # not a number: where nothing may follow
        number = self.numbers.gather(2, state.here[:, None, None].expand(-1, self.samples, 1))
        whole = sums[..., -1:]
        number = torch.minimum(
            number * whole, torch.nextafter(whole, torch.zeros_like(whole))
        )  # below, however rounded
        index = torch.searchsorted(sums, number, right=True).clamp(max=values.shape[-1] - 1)
        return index[..., 0] if tokens is None else tokens.gather(2, index)[..., 0]

    def candidates(self, logits: Tensor) -> tuple[Tensor, Tensor | None]:
        """The logits that are drawn from and their tokens, most probable first; or all as they are."""
        if self.sampling.top_k:
            return logits.topk(min(self.sampling.top_k, logits.shape[-1]))
        return logits.sort(-1, descending=True) if self.sampling.top_p < 1 else (logits, None)

    def keep(self, slots: Tensor) -> None:
        self.numbers = self.numbers[slots]
