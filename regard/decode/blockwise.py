"""Greedy search in fewer calls: *Blockwise Parallel Decoding for Deep Autoregressive Models* (Stern et al. 2018), §4.

A model with k heads says at each position which token comes next (p₁) and which i − 1 tokens later (p_i). One call is
fed the last token that is certain and the k − 1 that the heads have proposed after it:

    verify    while the proposal for a place is what p₁ now says of that place, it is accepted
    accept    then all that p₁ says up to and with the first place not accepted is what greedy search would have said
    predict   the heads at the last accepted place propose what may come next

So every call gives 1 to k tokens, and the output is that of greedy search, whatever the heads propose. What the
call has kept of proposals that were not accepted is replaced by the next call.

Departures from the paper: none. Acceptance is exact; its looser criteria (§5), which change the output, are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from regard.decode.search import Take, work
from regard.decode.state import Hypothesis, SearchOptions, State
from regard.decode.step import for_kernels, most_probable, one_kernel_chooses, without


class BlockStep(Protocol):
    """A model in the middle of producing sequences, one for the sentence of each of B slots."""

    k: int  # the tokens it predicts at each position

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        """Put these sentences, by number, into these slots, with nothing produced yet. The first call says how many
        slots there are."""

    def __call__(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        """Logits (B, k, V) of the token that comes next after each of the last k.

        tokens: (B, k)   positions: (B,), how many tokens came before the first of them   longest: above all positions
        """

    def propose(self, places: Tensor) -> Tensor:
        """Logits (B, k − 1, V) of the tokens that come after the next, from places[b] of the last call's k on."""

    def keep(self, slots: Tensor) -> None:
        """Go on with these slots alone, in this order."""


@dataclass
class BlockState(State):
    """What is known of the sentences in the slots, one hypothesis each."""

    fed: Tensor  # (B, k), what goes into the model next: the last certain token, then proposals
    calls: Tensor  # (B,)

    @classmethod
    def of(cls, slots: int, room: int, k: int, options: SearchOptions, device: torch.device) -> BlockState:
        """Room for so many tokens of each, and for the proposals behind the last."""
        plain = State.empty(slots, room + k, options, device)
        return cls(**vars(plain), fed=plain.length.new_zeros(slots, k), calls=torch.zeros_like(plain.length))

    def enter(self, slots: Tensor, limits: Tensor, alive: int) -> None:
        super().enter(slots, limits, alive)
        self.calls.index_fill_(0, slots, 0)

    @property
    def calls_made(self) -> Tensor:
        return self.calls


class Blocks:
    """Slots made for one search, given up when nobody waits for them: a `regard.decode.search.Bench`."""

    late = 0

    def __init__(self, step: BlockStep, slots: int, room: int, options: SearchOptions, device: torch.device) -> None:
        self.step, self.options = step, options
        self.state = BlockState.of(slots, room, step.k, options, device)

    def begin(self) -> BlockState:
        return self.state

    def advance(self, steps: int) -> None:
        advance(self.step, self.state, self.options, int(self.state.here.max()) + self.step.k)

    def done(self) -> np.ndarray:
        return self.state.done.cpu().numpy()

    def keep(self, slots: Tensor) -> BlockState:
        self.state = self.state.keep(slots)
        return self.state


def decode_blocks(
    step: BlockStep,
    limits: Sequence[int],
    options: SearchOptions,
    device: torch.device,
    slots: int = 0,
    progress: Callable[[int], None] | None = None,
    take: Take | None = None,
) -> list[Hypothesis]:
    """What greedy search gives for each sentence, in fewer calls.

    `limits`: the most tokens each sentence may get. At most `slots` sentences are at work at a time (0: all of them);
    `progress` is told how many are done.
    """
    if options.beam_size != 1:
        raise ValueError(f"blocks are accepted as greedy search would say them, not by a beam of {options.beam_size}")
    if not limits:
        return []
    bench = Blocks(step, min(slots or len(limits), len(limits)), max(limits), options, device)
    return [best for (best,) in work(bench, [step], limits, device, progress, take)]


def advance(step: BlockStep, state: BlockState, options: SearchOptions, longest: int) -> None:
    """One call: 1 to k tokens more in every slot. In slots that are done something goes on too, at their last place."""
    here = state.here
    fed = state.fed.masked_fill((here == 0)[:, None], options.start)
    logits = step(fed, here, longest)
    if one_kernel_chooses(logits, options):
        advance_by_kernel(step, logits, options, state)
        return
    last = accepted(fed, here, *most_probable(logits.float(), options.banned), options, state)
    proposed = without(step.propose(last).float(), options.banned).argmax(-1)
    state.fed = torch.cat([state.tokens[:, 0].gather(1, (here + last)[:, None]), proposed], 1)


def accepted(
    fed: Tensor, here: Tensor, log_probs: Tensor, said: Tensor, options: SearchOptions, state: BlockState
) -> Tensor:
    """Write down what is certain; gives the place of the last such token, (B,). fed, log_probs, said: (B, k)"""
    places = torch.arange(fed.shape[1], device=fed.device)
    room_left = here[:, None] + places[1:] < state.limit[:, None]
    right = (fed[:, 1:] == said[:, :-1]) & (said[:, :-1] != options.end) & room_left
    last = right.cumprod(1).sum(1)
    certain = places <= last[:, None]
    at = here[:, None] + places
    tokens = state.tokens[:, 0].scatter(1, at, torch.where(certain, said, state.tokens[:, 0].gather(1, at)))
    state.tokens, state.length = tokens[:, None], here + last + 1
    state.log_probs = state.log_probs + (log_probs * certain).sum(1, keepdim=True)
    over = (said.gather(1, last[:, None])[:, 0] == options.end) | (state.length >= state.limit)
    state.calls = state.calls + ~state.done
    ending = (over & ~state.done)[:, None]
    scores = options.normalise(state.log_probs, state.length[:, None])
    state.found_scores = torch.where(ending, scores, state.found_scores)
    state.found_log_probs = torch.where(ending, state.log_probs, state.found_log_probs)
    state.found_length = torch.where(ending, state.length[:, None], state.found_length)
    state.found_tokens = torch.where(ending[:, :, None], state.tokens, state.found_tokens)
    state.done = state.done | over
    return last


def advance_by_kernel(step: BlockStep, logits: Tensor, options: SearchOptions, state: BlockState) -> None:
    from regard.nn.kernels.accepting import Calls, accept
    from regard.nn.kernels.ranking import ranked

    values, tokens, totals = ranked(logits, options.banned, 1)
    table = options.norms(state.tokens.shape[2], logits.device)
    last = accept(
        values[:, :, 0], tokens[:, :, 0], totals, *for_kernels(state), Calls(state.fed, state.calls), table,
        options.start, options.end,
    )  # fmt: skip
    state.fed[:, 1:] = ranked(step.propose(last), options.banned, 1)[1][:, :, 0]
