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
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from regard.decode.search import Hypothesis, SearchOptions


class BlockStep(Protocol):
    """A model in the middle of producing sequences, one for the sentence of each of B slots."""

    k: int  # the tokens it predicts at each position

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        """Put these sentences, by number, into these slots, with nothing produced yet. The first call says how many
        slots there are."""

    def __call__(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        """Logits (B, Q, k, V) of the k tokens that follow each of the last Q ones.

        tokens: (B, Q)   positions: (B,), how many tokens came before the first of them   longest: above all positions
        """

    def keep(self, slots: Tensor) -> None:
        """Go on with these slots alone, in this order."""


@dataclass
class Growing:
    """A sentence in its slot."""

    number: int
    limit: int  # the most tokens it may get
    fed: list[int]  # (k,), what goes into the model next: the last certain token, then proposals
    tokens: list[int] = field(default_factory=list)  # certain
    log_prob: float = 0.0
    calls: int = 0

    def accept(self, said: list[list[int]], log_probs: list[float], end: int) -> bool:
        """Take what is certain of what a call has said; gives whether the sentence is finished.

        said: (k, k), the most probable tokens after each one fed   log_probs: (k,), of the first of them
        """
        self.calls += 1
        proposals = [*self.fed[1:], None]  # nothing was proposed after the last
        for following, log_prob, proposal in zip(said, log_probs, proposals, strict=True):
            self.tokens.append(following[0])
            self.log_prob += log_prob
            if following[0] == end or len(self.tokens) == self.limit:
                return True
            if following[0] != proposal:
                self.fed = following
                break
        return False


def decode_blocks(
    step: BlockStep,
    limits: Sequence[int],
    options: SearchOptions,
    device: torch.device,
    slots: int = 0,
    progress: Callable[[int], None] | None = None,
) -> list[Hypothesis]:
    """What greedy search gives for each sentence, in fewer calls.

    `limits`: the most tokens each sentence may get. At most `slots` sentences are at work at a time (0: all of them);
    `progress` is told how many are done.
    """
    found: dict[int, Growing] = {}
    waiting = [Growing(number, limit, [options.start] * step.k) for number, limit in enumerate(limits)][::-1]
    inside: list[Growing | None] = [None] * min(slots or len(limits), len(limits))
    while inside := settle(step, inside, waiting, device):
        finished = advance(step, inside, options, device)
        for slot in finished:
            if (sentence := inside[slot]) is not None:
                found[sentence.number], inside[slot] = sentence, None
        if progress and finished:
            progress(len(found))
    every = [found[number] for number in range(len(limits))]
    log_probs, lengths = torch.tensor([s.log_prob for s in every]), torch.tensor([len(s.tokens) for s in every])
    scores = options.normalise(log_probs, lengths).tolist()
    return [Hypothesis(s.tokens, s.log_prob, score, s.calls) for s, score in zip(every, scores, strict=True)]


def settle(
    step: BlockStep, inside: list[Growing | None], waiting: list[Growing], device: torch.device
) -> list[Growing | None]:
    """Give the free slots to sentences that wait, or give them up where none does."""
    free = [slot for slot, sentence in enumerate(inside) if sentence is None]
    if not waiting:
        kept = [slot for slot, sentence in enumerate(inside) if sentence is not None]
        if free and kept:
            step.keep(torch.tensor(kept, device=device))
        return [inside[slot] for slot in kept]
    if 4 * len(free) < len(inside):  # a few new sentences at a time are not worth a pass of the encoder
        return inside
    free = free[: len(waiting)]
    entering = [waiting.pop() for _ in free]
    for slot, sentence in zip(free, entering, strict=True):
        inside[slot] = sentence
    step.enter(torch.tensor(free, device=device), [sentence.number for sentence in entering])
    return inside


def advance(
    step: BlockStep, inside: Sequence[Growing | None], options: SearchOptions, device: torch.device
) -> list[int]:
    """One call, and the slots whose sentences it has finished. In free slots something goes on too."""
    fed = [sentence.fed if sentence else [options.start] * step.k for sentence in inside]
    positions = [len(sentence.tokens) if sentence else 0 for sentence in inside]
    logits = step(
        torch.tensor(fed, device=device), torch.tensor(positions, device=device), max(positions) + step.k
    )  # (B, k, k, V)
    total = logits[:, :, 0].logsumexp(-1)  # before anything is barred: what is left keeps its probability
    if options.banned:
        logits[..., list(options.banned)] = -torch.inf
    values, tokens = logits.max(-1)
    said, log_probs = tokens.tolist(), (values[:, :, 0] - total).tolist()
    return [
        slot
        for slot, sentence in enumerate(inside)
        if sentence and sentence.accept(said[slot], log_probs[slot], options.end)
    ]
