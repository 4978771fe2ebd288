"""Drawing outputs: temperature, the k most probable tokens, the nucleus (Holtzman et al. 2020).

    p_τ(token) ∝ p(token)^(1/τ)      over the k most probable, and of these the fewest that together have probability p

Every token waits for a time of its own, exponentially distributed with rate p, and the first to come is drawn, which is
each with its probability. The times are a function of the seed, the sentence, the sample, the step and the token, so a
sample depends on nothing else: neither on the batch nor on what was drawn before. One number for all tokens, looked up
in the sums of their probabilities, would be cheaper; but rounding, which differs by batch, moves these sums and swaps
tokens that are nearly as probable as one another, and of thousands of tokens some are always concerned (docs/log.md).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.decode.state import State

MOSTLY = 256  # tokens among which nearly every nucleus is: finding them takes a twentieth of sorting 32,000
GOLDEN = 0x9E3779B1 - 2**32  # an odd number whose multiples lie far apart, as int32


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn."""

    temperature: float = 1.0
    top_k: int = 0  # 0: all tokens
    top_p: float = 1.0
    seed: int = 1


class Drawer:
    """Draws the tokens of some sentences: `regard.decode.step.Sampler`."""

    def __init__(self, sampling: Sampling, sources: Sequence[Sequence[int]], samples: int) -> None:
        self.sampling, self.sources, self.samples = sampling, sources, samples
        self.keys = torch.empty(0, dtype=torch.int32)  # (B, W), what the times of each sample depend on

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        if not len(self.keys):
            self.keys = torch.zeros(len(slots), self.samples, dtype=torch.int32, device=slots.device)
        keys = np.stack([self.keys_of(self.sources[sentence]) for sentence in sentences])
        self.keys[slots] = torch.from_numpy(keys).to(slots.device)

    def keys_of(self, source: Sequence[int]) -> np.ndarray:
        """(W,), by the seed and the tokens of a source."""
        itself = zlib.crc32(np.asarray(source, dtype=np.int64).tobytes())
        bounds = np.iinfo(np.int32)
        chance = np.random.default_rng([self.sampling.seed, itself])
        return chance.integers(bounds.min, bounds.max, self.samples, np.int32, endpoint=True)

    def draw(self, logits: Tensor, state: State) -> Tensor:
        probabilities, tokens = self.candidates(logits / self.sampling.temperature)
        if self.sampling.top_p < 1:
            before = probabilities.cumsum(-1) - probabilities
            probabilities = probabilities.masked_fill(before >= self.sampling.top_p, 0.0)
        speeds = probabilities.nan_to_num() / self.times(tokens, state.here)  # not a number: where nothing may follow
        return tokens.expand_as(speeds).gather(2, speeds.argmax(-1, keepdim=True))[..., 0]

    def candidates(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """The probabilities that are drawn from and their tokens, most probable first; or all as they are."""
        V, p = logits.shape[-1], self.sampling.top_p
        if self.sampling.top_k:
            values, tokens = logits.topk(min(self.sampling.top_k, V))
            return values.softmax(-1), tokens
        probabilities = logits.softmax(-1)
        if p == 1:
            return probabilities, torch.arange(V, device=logits.device)[None, None]
        if MOSTLY < V and not logits.is_cuda:  # a GPU sorts them sooner than it answers the question
            most, tokens = probabilities.topk(MOSTLY)
            if not (most.sum(-1) < p).any():
                return most, tokens
        return probabilities.sort(-1, descending=True)

    def times(self, tokens: Tensor, here: Tensor) -> Tensor:
        """How long tokens wait, but for their probability: exponentially distributed with mean 1.

        tokens: (B, W, C), or (1, 1, C) for all samples   here: (B,), the step of each slot   → (B, W, C)
        """
        steps = scattered(self.keys + here[:, None].int() * GOLDEN)
        bits = scattered(tokens.int() * GOLDEN + steps[..., None]).bitwise_and_(2**31 - 1)
        # Floats are densest near 0, where the shortest times are, which decide. A share of 1 would never come.
        shares = bits.float().add_(0.5).mul_(2.0**-31).clamp_(max=1 - 2.0**-24)
        return shares.neg_().log1p_().neg_()

    def keep(self, slots: Tensor) -> None:
        self.keys = self.keys[slots]


def scattered(numbers: Tensor) -> Tensor:
    """32 bits that depend on all bits of a number, two rounds of multiply and xorshift; in place, one to one.

    int32 → int32, whose shift to the right brings in copies of the sign, which are taken away
    """
    numbers ^= (numbers >> 16).bitwise_and_(0xFFFF)
    numbers *= 0x7FEB352D
    numbers ^= (numbers >> 15).bitwise_and_(0x1FFFF)
    numbers *= 0x846CA68B - 2**32
    numbers ^= (numbers >> 16).bitwise_and_(0xFFFF)
    return numbers
