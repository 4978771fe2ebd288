"""What a call of blockwise decoding does once the most probable tokens are known (`regard.decode.blockwise.advance`).

Torch's way is some forty small operations. Here a program has one slot: it looks how many of the tokens that were fed
are what the model says in their places, writes down those that are certain, and notes what has ended.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.nn.kernels.choosing import COLUMNS, Found, Living


class Calls(NamedTuple):
    """What blockwise decoding knows of its slots beside what greedy search does; the kernel writes to both."""

    fed: Tensor  # (B, k), the last certain token, which the kernel changes, and what was proposed behind it
    made: Tensor  # (B,), how many calls a sentence has taken


@triton.jit
def accept_kernel(
    values, names, totals, tokens, log_probs, length, limit, done, found_tokens, found_length, found_log_probs,
    found_scores, fed, made, norms, accepted, start, end, room, K: tl.constexpr, PK: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """values, names, totals: (B, K)   tokens: (B, 1, room). What was proposed for a place is compared with what the
    model says of it now, which it does one place before."""
    slot = tl.program_id(0).to(tl.int64)
    most, before = tl.load(limit + slot), tl.load(done + slot)
    here = tl.minimum(tl.load(length + slot), most - 1)
    lanes = tl.arange(0, PK)
    inside = lanes < K
    said = tl.load(names + slot * K + lanes, inside, 0)
    log_prob = tl.load(values + slot * K + lanes, inside, 0.0) - tl.load(totals + slot * K + lanes, inside, 0.0)
    proposed = tl.load(fed + slot * K + lanes + 1, lanes < K - 1, -1)
    proposed = tl.where(here == 0, start, proposed)  # nothing has been proposed at the beginning
    right = (proposed == said) & (said != end) & (here + lanes + 1 < most) & (lanes < K - 1)
    last = tl.min(tl.where(right, PK, lanes), axis=0)  # the place of the last token that is certain
    certain = lanes <= last
    newest = tl.sum(tl.where(lanes == last, said, 0), axis=0)
    longer = here + last + 1
    log_prob = tl.load(log_probs + slot) + tl.sum(tl.where(certain, log_prob, 0.0), axis=0)
    over = (newest == end) | (longer >= most)
    ending = over & (before == 0)
    for first in range(0, tl.where(ending, longer, 0), COLUMNS):
        at = first + tl.arange(0, COLUMNS)
        now = tl.sum(tl.where((at - here)[:, None] == lanes[None, :], said[None, :], 0), axis=1)
        kept = tl.where(at < here, tl.load(tokens + slot * room + at, at < here, 0), now)
        tl.store(found_tokens + slot * room + at, kept, at < longer)
    tl.store(tokens + slot * room + here + lanes, said, certain)
    tl.store(log_probs + slot, log_prob)
    tl.store(length + slot, longer)
    tl.store(found_length + slot, longer, ending)
    tl.store(found_log_probs + slot, log_prob, ending)
    tl.store(found_scores + slot, log_prob / tl.load(norms + longer), ending)
    tl.store(made + slot, tl.load(made + slot) + tl.where(before == 0, 1, 0))
    tl.store(done + slot, ((before != 0) | over).to(tl.uint8))
    tl.store(fed + slot * K, newest)
    tl.store(accepted + slot, last.to(tl.int64))


def accept(
    values: Tensor, names: Tensor, totals: Tensor, living: Living, found: Found, calls: Calls, norms: Tensor,
    start: int, end: int,
) -> Tensor:  # fmt: skip
    """Write down what is certain; gives the place of the last such token, (B,).

    values, names: (B, k), the largest logit at each place and its token   totals: (B, k), log Σ exp of all
    norms: what the log-probability of n tokens is divided by, at n
    """
    B, K = values.shape
    accepted = torch.empty(B, dtype=torch.long, device=values.device)
    accept_kernel[(B,)](
        values, names, totals, *living[:4], living.done.view(torch.uint8), *found, *calls, norms, accepted, start, end,
        living.tokens.shape[2], K=K, PK=triton.next_power_of_2(K), COLUMNS=COLUMNS, num_warps=1,
    )  # fmt: skip
    return accepted
