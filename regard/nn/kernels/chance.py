"""Random bits for dropout that can be drawn twice: in the forward pass, and again in the backward pass.

A mask is a function of a 64-bit seed and the element's number, so nothing of it is stored. The seed comes from torch's
generator on the device: a checkpoint restores it, and a captured graph draws a new one at each replay.

The function is three rounds of a multiply–xorshift hash: a dozen operations where Philox takes ten rounds of its own,
which would be a good part of the time of every kernel that drops.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def draw_seed(device: torch.device) -> Tensor:
    return torch.empty((), dtype=torch.int64, device=device).random_()


def threshold(p: float) -> int:
    """An element is dropped where its 31 random bits are below this."""
    return round(p * 2**31)


@triton.jit
def keep(seed, element, threshold):
    """True where an element stays. seed: int64 scalar   element: its number, any integer tensor."""
    low = (seed & 0xFFFFFFFF).to(tl.uint32)
    high = ((seed >> 32) & 0xFFFFFFFF).to(tl.uint32)
    bits = element.to(tl.uint32) * 0x9E3779B1 + low
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    bits = (bits ^ (bits >> 15)) * 0x846CA68B
    bits = (bits ^ (bits >> 16)) + high
    bits = (bits ^ (bits >> 15)) * 0x2C1B3C6D
    bits = bits ^ (bits >> 12)
    return (bits >> 1).to(tl.int32) >= threshold
