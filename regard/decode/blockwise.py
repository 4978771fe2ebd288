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
        """Logits (B, k, V) of the token that comes next after each of the last k.

        tokens: (B, k)   positions: (B,), how many tokens came before the first of them   longest: above all positions
        """

    def propose(self, places: Tensor) -> Tensor:
        """Logits (B, k − 1, V) of the tokens that come after the next, from places[b] of the last call's k on."""

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
    finished: bool = False

    def accept(self, said: list[int], log_probs: list[float], end: int) -> int:
        """Take what is certain of what a call has said; gives the place from which to go on.

        said: (k,), the most probable token after each one fed   log_probs: (k,)
        """
        self.calls += 1
        place = 0
        while True:
            self.tokens.append(said[place])
            self.log_prob += log_probs[place]
            self.finished = said[place] == end or len(self.tokens) == self.limit
            if self.finished or place + 1 == len(said) or self.fed[place + 1] != said[place]:
                return place
            place += 1


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
        advance(step, inside, options, device)
        for slot, sentence in enumerate(inside):
            if sentence and sentence.finished:
                found[sentence.number], inside[slot] = sentence, None
        if progress and None in inside:
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


def advance(step: BlockStep, inside: Sequence[Growing | None], options: SearchOptions, device: torch.device) -> None:
    """One call: 1 to k tokens more for every sentence. In free slots something goes on too."""
    fed = [sentence.fed if sentence else [options.start] * step.k for sentence in inside]
    positions = [len(sentence.tokens) if sentence else 0 for sentence in inside]
    logits = step(torch.tensor(fed, device=device), torch.tensor(positions, device=device), max(positions) + step.k)
    total = logits.logsumexp(-1)  # before anything is barred: what is left keeps its probability
    banned = torch.tensor(options.banned, dtype=torch.long, device=device)
    values, tokens = logits.index_fill_(-1, banned, -torch.inf).max(-1)
    said, log_probs = tokens.tolist(), (values - total).tolist()
    places = [
        sentence.accept(said[slot], log_probs[slot], options.end) if sentence else 0
        for slot, sentence in enumerate(inside)
    ]
    if all(sentence is None or sentence.finished for sentence in inside):
        return
    proposed = step.propose(torch.tensor(places, device=device)).index_fill_(-1, banned, -torch.inf).argmax(-1)
    for sentence, proposals in zip(inside, proposed.tolist(), strict=True):
        if sentence:
            sentence.fed = [sentence.tokens[-1], *proposals]
