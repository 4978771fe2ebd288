"""Greedy and beam search over a step function: *Attention Is All You Need*, §6.1.

    score(Y | X) = log P(Y | X) / lp(Y)
    gnmt:   lp(Y) = ((5 + |Y|) / 6)^α          (Wu et al. 2016, what the paper uses)
    power:  lp(Y) = |Y|^α                      (Marian, CTranslate2, fairseq)

|Y| counts the generated tokens, the end symbol included. At each step the best 2·W continuations are looked at: those
that end a sentence and rank among the first W become hypotheses, the best W others live on. A sentence is finished when
no living hypothesis can still reach the score of the n best found, whatever it goes on with: log-probabilities only
fall, so a bound is the present one under the most favourable length. Greedy search is a beam of one.

Everything is in tensors of one shape on the device: B slots with a sentence each, W hypotheses a slot. All that is
asked of the device, now and then, is which slots are done. A finished sentence leaves its slot to the next that waits.

Departures from the paper: its "terminate early when possible" is made exact by that bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import torch
from torch import Tensor

BLOCK = 128  # numbers of which the largest stands for all, where the best of many are looked for


class Step(Protocol):
    """A model in the middle of producing sequences, W hypotheses for the sentence of each of B slots."""

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        """Put these sentences, by number, into these slots, with nothing produced yet. The first call says how many
        slots there are."""

    def __call__(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        """Logits of the next token, (B, W, V), or any log-probabilities up to a constant for each hypothesis.

        tokens: (B, W), the last of each   positions: (B,), how many came before it   longest: above all positions
        """

    def reorder(self, parents: Tensor, longest: int) -> None:
        """Hypothesis w of slot b goes on from what hypothesis `parents[b, w]` was. parents: (B, W)"""

    def keep(self, slots: Tensor) -> None:
        """Go on with these slots alone, in this order."""


@dataclass(frozen=True)
class Hypothesis:
    tokens: list[int]  # without the start symbol; the end symbol is last unless the length limit came first
    log_prob: float
    score: float  # log_prob over the length normalisation
    calls: int = 0  # of the model, where several tokens may come of one (`decode.blockwise`)


def gnmt(length: Tensor, alpha: float) -> Tensor:
    return ((5 + length) / 6) ** alpha


def power(length: Tensor, alpha: float) -> Tensor:
    return length**alpha


NORMALIZATIONS: dict[str, Callable[[Tensor, float], Tensor]] = {"gnmt": gnmt, "power": power}


@dataclass(frozen=True)
class SearchOptions:
    start: int
    end: int
    beam_size: int = 4
    n_best: int = 1
    length_penalty: float = 0.6
    normalization: str = "gnmt"
    banned: tuple[int, ...] = ()  # tokens that never come out

    def normalise(self, log_probs: Tensor, length: Tensor) -> Tensor:
        return log_probs / NORMALIZATIONS[self.normalization](length.to(log_probs.dtype), self.length_penalty)


@dataclass
class State:
    """What a search knows of the sentences in its slots."""

    tokens: Tensor  # (B, W, L), what each living hypothesis has produced; nothing from `length` on
    log_probs: Tensor  # (B, W), −∞ where no hypothesis lives
    length: Tensor  # (B,)
    limit: Tensor  # (B,), the most tokens the sentence may get
    done: Tensor  # (B,)
    found_tokens: Tensor  # (B, N, L), the best finished hypotheses, best first
    found_length: Tensor  # (B, N)
    found_log_probs: Tensor  # (B, N)
    found_scores: Tensor  # (B, N), −∞ where there is none yet

    @classmethod
    def empty(cls, slots: int, room: int, options: SearchOptions, device: torch.device) -> State:
        W, N = options.beam_size, options.n_best

        def whole(*shape: int, value: int = 0) -> Tensor:
            return torch.full(shape, value, device=device)

        def real(*shape: int) -> Tensor:
            return torch.full(shape, -torch.inf, device=device)

        return cls(
            whole(slots, W, room), real(slots, W), whole(slots), whole(slots), whole(slots) == 0,
            whole(slots, N, room), whole(slots, N), real(slots, N), real(slots, N),
        )  # fmt: skip

    def enter(self, slots: Tensor, limits: Tensor) -> None:
        """Begin new sentences in these slots: one hypothesis lives, and has produced nothing."""
        self.log_probs[slots] = -torch.inf
        self.log_probs[slots, 0] = 0.0
        self.length[slots], self.limit[slots], self.done[slots] = 0, limits, False
        self.found_scores[slots] = -torch.inf

    def keep(self, slots: Tensor) -> State:
        return State(*(getattr(self, item.name)[slots] for item in fields(self)))

    def hypotheses(self, slots: Sequence[int]) -> list[list[Hypothesis]]:
        """What was found in these slots."""
        parts = (self.found_scores, self.found_log_probs, self.found_length, self.found_tokens)
        rows = (part[list(slots)].tolist() for part in parts)
        return [
            [
                Hypothesis(tokens[:length], log_prob, score)
                for score, log_prob, length, tokens in zip(*slot, strict=True)
                if score > -torch.inf
            ]
            for slot in zip(*rows, strict=True)
        ]


def search(
    step: Step,
    limits: Sequence[int],
    options: SearchOptions,
    device: torch.device,
    slots: int = 0,
    ask_every: int = 1,
    progress: Callable[[int], None] | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` best hypotheses of each sentence, best first.

    `limits`: the most tokens each sentence may get. At most `slots` sentences are at work at a time (0: all of them),
    and every `ask_every` steps the device is asked which of them are done; `progress` is told how many are.
    """
    found: list[list[Hypothesis]] = [[] for _ in limits]
    n = min(slots or len(limits), len(limits))
    if not n:
        return found
    state = State.empty(n, max(limits), options, device)
    inside: list[int | None] = [None] * n  # which sentence each slot has
    waiting, steps = list(range(len(limits)))[::-1], [0] * n
    fill(step, state, inside, steps, waiting, limits)
    while inside:
        for _ in range(ask_every):
            steps = [count + 1 for count in steps]
            advance(step, state, options, min(max(steps), max(limits)))
        done = [slot for slot, over in enumerate(state.done.tolist()) if over]
        if waiting and 4 * len(done) < len(inside):  # a few new sentences at a time are not worth a pass of the encoder
            continue
        for slot, hypotheses in zip(done, state.hypotheses(done), strict=True):
            if (sentence := inside[slot]) is not None:
                found[sentence], inside[slot] = hypotheses, None
        if progress and done:
            progress(len(limits) - len(waiting) - sum(sentence is not None for sentence in inside))
        fill(step, state, inside, steps, waiting, limits)
        left = [slot for slot, sentence in enumerate(inside) if sentence is not None]
        if len(left) < len(inside):
            kept = torch.tensor(left, device=device, dtype=torch.long)
            state = state.keep(kept)
            inside, steps = [inside[slot] for slot in left], [steps[slot] for slot in left]
            if left:
                step.keep(kept)
    return found


def fill(
    step: Step, state: State, inside: list[int | None], steps: list[int], waiting: list[int], limits: Sequence[int]
) -> None:
    """Give the free slots to sentences that wait."""
    free = [slot for slot, sentence in enumerate(inside) if sentence is None][: len(waiting)]
    if not free:
        return
    for slot in free:
        inside[slot], steps[slot] = waiting.pop(), 0
    sentences = [sentence for slot in free if (sentence := inside[slot]) is not None]
    slots = torch.tensor(free, device=state.done.device)
    state.enter(slots, torch.tensor([limits[sentence] for sentence in sentences], device=slots.device))
    step.enter(slots, sentences)


def advance(step: Step, state: State, options: SearchOptions, longest: int) -> None:
    """One token more for every living hypothesis. In slots that are done something goes on too, at their last place."""
    _, W, _ = state.tokens.shape
    here = torch.minimum(state.length, state.limit - 1)  # (B,)
    last = state.tokens.gather(2, (here - 1).clamp(min=0)[:, None, None].expand(-1, W, 1))[:, :, 0]
    last = last.masked_fill((here == 0)[:, None], options.start)
    log_probs, parents, tokens = continuations(step(last, here, longest), state, options)
    length = here + 1
    sequences = state.tokens.gather(1, parents[:, :, None].expand(-1, -1, state.tokens.shape[2]))  # (B, C, L)
    sequences = sequences.scatter(2, here[:, None, None].expand(-1, sequences.shape[1], 1), tokens[:, :, None])
    at_limit = length >= state.limit
    close(
        state, options, sequences[:, :W], log_probs[:, :W], (tokens[:, :W] == options.end) | at_limit[:, None], length
    )
    going_on = log_probs.masked_fill(tokens == options.end, -torch.inf)
    best, chosen = going_on.topk(W)
    state.tokens = sequences.gather(1, chosen[:, :, None].expand(-1, -1, sequences.shape[2]))
    state.log_probs, state.length = best, length
    state.done |= at_limit | finished(state, options)
    step.reorder(parents.gather(1, chosen), longest)


def continuations(logits: Tensor, state: State, options: SearchOptions) -> tuple[Tensor, Tensor, Tensor]:
    """The best 2·W of the W × V continuations: log-probabilities, parents and tokens, (B, 2·W), best first. W survive
    even if every hypothesis could end."""
    _, W, V = logits.shape
    total = logits.logsumexp(-1)  # before anything is barred: what is left keeps its probability
    if options.banned:
        logits[:, :, list(options.banned)] = -torch.inf
    each = min(2 * W, V)
    values, tokens = largest(logits, each)  # of every hypothesis
    values = values + (state.log_probs - total)[:, :, None]
    missing = max(0, 2 * W - W * each)
    best, index = torch.nn.functional.pad(values.flatten(1), (0, missing), value=-torch.inf).topk(2 * W)
    index = index.clamp(max=W * each - 1)
    return best, index // each, tokens.flatten(1).gather(1, index)


def largest(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """`x.topk(k)`, by way of the largest of each block where that is less work: the k largest lie in the k blocks with
    the largest maxima."""
    V = x.shape[-1]
    blocks = V // BLOCK
    if x.is_cuda or blocks <= 4 * k:
        return x.topk(k)
    body = x[..., : blocks * BLOCK].unflatten(-1, (blocks, BLOCK))
    chosen = body.amax(-1).topk(k).indices  # (…, k)
    inside = body.gather(-2, chosen[..., None].expand(*chosen.shape, BLOCK)).flatten(-2)
    places = (chosen[..., None] * BLOCK + torch.arange(BLOCK, device=x.device)).flatten(-2)
    rest = torch.arange(blocks * BLOCK, V, device=x.device).expand(*x.shape[:-1], -1)
    values, index = torch.cat([inside, x[..., blocks * BLOCK :]], dim=-1).topk(k)
    return values, torch.cat([places, rest], dim=-1).gather(-1, index)


def close(
    state: State, options: SearchOptions, sequences: Tensor, log_probs: Tensor, ending: Tensor, length: Tensor
) -> None:
    """Let hypotheses that end, or reach their limit, compete with those found before."""
    ending = ending & (log_probs > -torch.inf) & ~state.done[:, None]
    scores = options.normalise(log_probs, length[:, None]).masked_fill(~ending, -torch.inf)
    state.found_scores, order = torch.cat([state.found_scores, scores], dim=1).topk(options.n_best)
    lengths = torch.cat([state.found_length, length[:, None].expand_as(log_probs)], dim=1)
    state.found_length = lengths.gather(1, order)
    state.found_log_probs = torch.cat([state.found_log_probs, log_probs], dim=1).gather(1, order)
    everything = torch.cat([state.found_tokens, sequences], dim=1)
    state.found_tokens = everything.gather(1, order[:, :, None].expand(-1, -1, everything.shape[2]))


def finished(state: State, options: SearchOptions) -> Tensor:
    """Whether no continuation of a living hypothesis can enter the n best. (B,)

    lp is monotone in the length, so of all lengths to come either the next or the last is most favourable.
    """
    best, nth = state.log_probs[:, 0], state.found_scores[:, -1]
    bounds = (options.normalise(best, length) for length in (state.length + 1, state.limit))
    over = (best == -torch.inf) | (nth >= torch.maximum(*bounds))
    if options.beam_size == 1:
        over |= state.found_scores[:, 0] > -torch.inf  # the one hypothesis has ended, and a runner-up never lived
    return over
