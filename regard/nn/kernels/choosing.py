"""What a step of beam search does once the best tokens of each hypothesis are ranked (`regard.decode.step.advance`).

Torch's way is some sixty small operations on tensors of a few numbers a slot, each of which a GPU takes longer to start
than to do. Here a program has one slot and does all of it: of the W · 2W continuations it takes the 2W best one after
another; one that ends, among the first W, is kept where it beats what was found before; the first W others live on, and
their tokens move to where they go on.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

WIDEST = 8  # hypotheses of a slot
COLUMNS = 128  # tokens that move together


class Living(NamedTuple):
    """What a search knows of its slots, as `State` has it; the kernel writes to all but `limit`."""

    tokens: Tensor  # (B, W, T)
    log_probs: Tensor  # (B, W)
    length: Tensor  # (B,)
    limit: Tensor  # (B,)
    done: Tensor  # (B,)


class Found(NamedTuple):
    """The best hypothesis that has ended in each slot; the kernel writes to all of it."""

    tokens: Tensor  # (B, 1, T)
    length: Tensor  # (B, 1)
    log_probs: Tensor  # (B, 1)
    scores: Tensor  # (B, 1)


@triton.jit
def choice_kernel(
    values, names, totals, tokens, log_probs, length, limit, done, found_tokens, found_length, found_log_probs,
    found_scores, norms, parents, end, room, W: tl.constexpr, K: tl.constexpr, PC: tl.constexpr, PW: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    slot = tl.program_id(0).to(tl.int64)
    most, before = tl.load(limit + slot), tl.load(done + slot)
    here = tl.minimum(tl.load(length + slot), most - 1)
    longer = here + 1
    places = tl.arange(0, PC)
    inside, origin = places < W * K, places // K
    left = tl.load(values + slot * W * K + places, inside, -float("inf"))
    left -= tl.load(totals + slot * W + origin, inside, 0.0)
    left += tl.load(log_probs + slot * W + origin, inside, -float("inf"))
    token_of = tl.load(names + slot * W * K + places, inside, 0)
    lanes = tl.arange(0, PW)
    new_log_probs = tl.full([PW], -float("inf"), tl.float32)
    new_parents, new_tokens = lanes.to(tl.int64), lanes.to(tl.int64) * 0  # of those that do not live, anything
    alive, better = tl.program_id(0) * 0, here * 0
    score, log_prob = tl.load(found_scores + slot), tl.load(found_log_probs + slot)
    parent, token = here * 0, here * 0
    norm = tl.load(norms + longer)
    for i in tl.static_range(2 * W):
        value, place = tl.max(left, axis=0), tl.argmax(left, axis=0)
        name = tl.sum(tl.where(places == place, token_of, 0), axis=0)
        left = tl.where(places == place, -float("inf"), left)
        lives, ends = value > -float("inf"), name == end
        if i < W:
            over = lives & (ends | (longer >= most)) & (before == 0)
            wins = over & (value / norm > score)
            score, log_prob = tl.where(wins, value / norm, score), tl.where(wins, value, log_prob)
            parent, token = tl.where(wins, place // K, parent), tl.where(wins, name, token)
            better = tl.where(wins, 1, better)
        goes_on = lives & (name != end) & (alive < W)
        mine = lanes == tl.where(goes_on, alive, PW)
        new_log_probs = tl.where(mine, value, new_log_probs)
        new_parents, new_tokens = tl.where(mine, place // K, new_parents), tl.where(mine, name, new_tokens)
        alive += tl.where(goes_on, 1, 0)
    top = tl.max(new_log_probs, axis=0)
    bound = tl.maximum(top / tl.load(norms + longer + 1), top / tl.load(norms + most))
    over = (top == -float("inf")) | (score >= bound) | (longer >= most) | (before != 0)
    if W == 1:
        over |= score > -float("inf")
    real = lanes < W
    rows = slot * W + lanes
    for first in range(0, longer, COLUMNS):
        at = first + tl.arange(0, COLUMNS)
        moved = tl.load(
            tokens + (slot * W + new_parents)[:, None] * room + at[None, :], real[:, None] & (at < here)[None, :], 0
        )
        moved = tl.where((at == here)[None, :], new_tokens[:, None], moved)
        kept = tl.load(tokens + (slot * W + parent) * room + at, at < here, 0)
        kept = tl.where(at == here, token, kept)
        tl.debug_barrier()  # all is read before anything is overwritten
        tl.store(tokens + rows[:, None] * room + at[None, :], moved, real[:, None] & (at < longer)[None, :])
        tl.store(found_tokens + slot * room + at, kept, at < tl.where(better > 0, longer, 0))
    tl.store(log_probs + rows, new_log_probs, real)
    tl.store(parents + rows, new_parents, real)
    tl.store(length + slot, longer)
    tl.store(done + slot, over.to(tl.uint8))
    tl.store(found_length + slot, tl.where(better > 0, longer, tl.load(found_length + slot)))
    tl.store(found_log_probs + slot, log_prob)
    tl.store(found_scores + slot, score)


def choose(
    values: Tensor, names: Tensor, totals: Tensor, living: Living, found: Found, norms: Tensor, end: int
) -> Tensor:
    """Go on with the best continuations; gives the parent of each hypothesis, (B, W).

    values, names: (B, W, 2·W), the largest logits of each hypothesis and their tokens   totals: (B, W), log Σ exp of
    all its logits   norms: what the log-probability of n tokens is divided by, at n
    """
    B, W, K = values.shape
    parents = torch.empty(B, W, dtype=torch.long, device=values.device)
    choice_kernel[(B,)](
        values, names, totals, *living[:4], living.done.view(torch.uint8), *found, norms, parents, end,
        living.tokens.shape[2], W=W, K=K, PC=triton.next_power_of_2(W * K), PW=triton.next_power_of_2(W),
        COLUMNS=COLUMNS, num_warps=1,
    )  # fmt: skip
    return parents
