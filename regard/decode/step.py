"""One step of a search: a token more for every hypothesis.

The best 2·W continuations are looked at: those that end a sentence and rank among the first W become hypotheses, the
best W others live on. A sentence is finished when no living hypothesis can still reach the score of the n best found,
whatever it goes on with: log-probabilities only fall, so a bound is the present one under the most favourable length.
Greedy search is a beam of one.

What else is asked of the outputs comes as constraints (`Constraint`; `regard.decode.constraints` has them), and tokens
may be drawn instead of ranked (`regard.decode.sampling`).

Departures from the paper: its "terminate early when possible" is made exact by that bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

import torch
from torch import Tensor

from regard.decode.state import SearchOptions, State
from regard.nn import kernels

if TYPE_CHECKING:
    from regard.nn.kernels.choosing import Found, Living

BLOCK = 128  # numbers of which the largest stands for all, where the best of many are looked for


class Step(Protocol):
    """A model in the middle of producing sequences, W hypotheses for the sentence of each of B slots."""

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        """Put these sentences, by number, into these slots, with nothing produced yet. The first call says how many
        slots there are."""

    def __call__(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        """Logits of the next token, (B, W, V), or any log-probabilities up to a constant for each hypothesis, in any
        floating type.

        tokens: (B, W), the last of each   positions: (B,), how many came before it   longest: above all positions
        """

    def reorder(self, parents: Tensor, longest: int) -> None:
        """Hypothesis w of slot b goes on from what hypothesis `parents[b, w]` was. parents: (B, W)"""

    def keep(self, slots: Tensor) -> None:
        """Go on with these slots alone, in this order."""


class Constraint:
    """Something asked of the outputs beside their probability. A kind of constraint has those of these methods that it
    needs; several work together.

    What is barred leaves the probabilities of everything else as they are. Where hypotheses of a slot are in several
    banks (some have said what must be said, others not yet), the best of each bank live on, then the second best …
    """

    lasting: ClassVar[bool] = False  # whether it can outlast a search: what it keeps are tensors of one shape

    def renew(self, other: Self) -> None:
        """Ask of the next search's sentences what `other` would, where it is lasting."""

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        """These sentences, by number, begin in these slots. The first call says how many slots there are."""

    def bar(self, logits: Tensor, state: State) -> None:
        """Set to −∞ what must not come next. logits: (B, W, V)"""

    def propose(self) -> Tensor | None:
        """Tokens to be looked at however improbable they are, (B, W, P); −1 for none."""

    def bank(self, parents: Tensor, tokens: Tensor) -> Tensor | None:
        """The bank of each hypothesis `parents` followed by `tokens`; all are (B, C)."""

    def bonus(self) -> Tensor | None:
        """What is added to the score of a hypothesis that ends now, never positive: (B, W)."""

    def follow(self, parents: Tensor, tokens: Tensor) -> None:
        """Hypothesis w of slot b is now `parents[b, w]` followed by `tokens[b, w]`."""

    def keep(self, slots: Tensor) -> None:
        """Go on with these slots alone, in this order."""


class Sampler(Protocol):
    """Draws the next token of each hypothesis instead of ranking all."""

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None: ...
    def draw(self, logits: Tensor, state: State) -> Tensor:
        """logits: (B, W, V) → tokens (B, W)"""

    def keep(self, slots: Tensor) -> None: ...


def advance(
    step: Step,
    state: State,
    options: SearchOptions,
    longest: int,
    constraints: Sequence[Constraint] = (),
    sampler: Sampler | None = None,
) -> None:
    """One token more for every living hypothesis. In slots that are done something goes on too, at their last place."""
    _, W, _ = state.tokens.shape
    here = state.here
    last = state.tokens.gather(2, (here - 1).clamp(min=0)[:, None, None].expand(-1, W, 1))[:, :, 0]
    last = last.masked_fill((here == 0)[:, None], options.start)
    logits = step(last, here, longest)
    if not sampler and one_kernel_chooses(logits, options, constraints):
        step.reorder(chosen_by_kernel(logits, options, state), longest)
        return
    if sampler:
        steps = allowed(logits, options, state, constraints)
        tokens = sampler.draw(steps, state)
        parents = torch.arange(W, device=tokens.device).expand_as(tokens)
        log_probs = state.log_probs + steps.gather(2, tokens[:, :, None])[:, :, 0]
        ranked = W
    else:
        log_probs, parents, tokens, ranked = continuations(logits, options, state, constraints)
    length = here + 1
    sequences = state.tokens.gather(1, parents[:, :, None].expand(-1, -1, state.tokens.shape[2]))  # (B, C, T)
    sequences = sequences.scatter(2, here[:, None, None].expand(-1, sequences.shape[1], 1), tokens[:, :, None])
    at_limit = length >= state.limit
    ending = tokens == options.end
    bonuses = [bonus for constraint in constraints if (bonus := constraint.bonus()) is not None]
    bonus = torch.stack(bonuses).sum(0).gather(1, parents) if bonuses else torch.zeros_like(log_probs)
    over = ending | at_limit[:, None]
    close(state, options, sequences[:, :ranked], log_probs[:, :ranked], bonus[:, :ranked], over[:, :ranked], length)
    log_probs = log_probs.masked_fill(ending, -torch.inf)
    chosen = (log_probs == -torch.inf).int().argsort(dim=1, stable=True)[:, :W]  # the first that live
    state.tokens = sequences.gather(1, chosen[:, :, None].expand(-1, -1, sequences.shape[2]))
    state.log_probs, state.length = log_probs.gather(1, chosen), length
    state.done |= at_limit | finished(state, options)
    parents, tokens = parents.gather(1, chosen), tokens.gather(1, chosen)
    step.reorder(parents, longest)
    for constraint in constraints:
        constraint.follow(parents, tokens)


def one_kernel_chooses(logits: Tensor, options: SearchOptions, constraints: Sequence[Constraint] = ()) -> bool:
    """Whether this is the plain case, in which a GPU does all that follows at once."""
    if not kernels.usable(logits) or constraints or options.n_best > 1:
        return False
    from regard.nn.kernels.choosing import WIDEST
    from regard.nn.kernels.ranking import MOST_BANNED

    return (
        options.beam_size <= WIDEST and len(options.banned) <= MOST_BANNED and 2 * options.beam_size <= logits.shape[-1]
    )


def chosen_by_kernel(logits: Tensor, options: SearchOptions, state: State) -> Tensor:
    """Move the state on; gives the parent of each hypothesis, (B, W)."""
    from regard.nn.kernels.choosing import choose
    from regard.nn.kernels.ranking import ranked

    ranks = ranked(logits, options.banned, 2 * options.beam_size)
    table = options.norms(state.tokens.shape[2], logits.device)
    return choose(*ranks, *for_kernels(state), table, options.end)


def for_kernels(state: State) -> tuple[Living, Found]:
    """What a kernel writes to."""
    from regard.nn.kernels.choosing import Found, Living

    living = Living(state.tokens, state.log_probs, state.length, state.limit, state.done)
    return living, Found(state.found_tokens, state.found_length, state.found_log_probs, state.found_scores)


def allowed(logits: Tensor, options: SearchOptions, state: State, constraints: Sequence[Constraint]) -> Tensor:
    """Log-probabilities of the next token in float32, −∞ where it may not come: what is left keeps its probability."""
    log_probs = without(logits.log_softmax(-1, dtype=torch.float32), options.banned)
    for constraint in constraints:
        constraint.bar(log_probs, state)
    return log_probs


def most_probable(logits: Tensor, banned: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The log-probability of the most probable token that may come, and the token. (…, V) → (…), (…)"""
    best, tokens = without(logits.log_softmax(-1), banned).max(-1)  # what is left keeps its probability
    return best, tokens


def without(x: Tensor, banned: Sequence[int]) -> Tensor:
    """The same tensor with −∞ for these tokens. x: (…, V)"""
    for token in banned:
        x[..., token] = -torch.inf
    return x


def best_of_each(
    logits: Tensor, options: SearchOptions, state: State, constraints: Sequence[Constraint], k: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The k best tokens of every hypothesis: their log-probabilities and themselves, (B, W, k), and what they are
    chosen from, which constraints may propose more of."""
    if kernels.usable(logits) and not constraints:
        from regard.nn.kernels.ranking import MOST, MOST_BANNED, ranked

        if k <= MOST and len(options.banned) <= MOST_BANNED:
            values, tokens, total = ranked(logits, options.banned, k)
            return values - total[:, :, None], tokens, logits
    log_probs = allowed(logits, options, state, constraints)
    return *largest(log_probs, k), log_probs


def continuations(
    logits: Tensor, options: SearchOptions, state: State, constraints: Sequence[Constraint]
) -> tuple[Tensor, Tensor, Tensor, int]:
    """The 2·W best of the W × V continuations: log-probabilities, parents and tokens, (B, 2·W), best first, so that W
    survive even if every hypothesis could end; and how many of them, from the first, may end."""
    _, W, V = logits.shape
    values, tokens, steps = best_of_each(logits, options, state, constraints, min(2 * W, V))
    for proposed in (constraint.propose() for constraint in constraints):
        if proposed is not None:
            more = steps.gather(2, proposed.clamp(min=0))
            known = (proposed[..., None] == tokens[:, :, None]).any(-1) | (proposed < 0)
            values = torch.cat([values, more.masked_fill(known, -torch.inf)], -1)
            tokens = torch.cat([tokens, proposed.clamp(min=0)], -1)
    each = values.shape[2]
    values = (values + state.log_probs[:, :, None]).flatten(1)
    missing = max(0, 2 * W - W * each)
    best, index = torch.nn.functional.pad(values, (0, missing), value=-torch.inf).sort(dim=1, descending=True)
    index = index.clamp(max=W * each - 1)
    parents, tokens = index // each, tokens.flatten(1).gather(1, index)
    banks = [bank for constraint in constraints if (bank := constraint.bank(parents, tokens)) is not None]
    if not banks:
        return best[:, : 2 * W], parents[:, : 2 * W], tokens[:, : 2 * W], W
    order = in_turns(torch.stack(banks).sum(0), best > -torch.inf)[:, : 2 * W]
    return best.gather(1, order), parents.gather(1, order), tokens.gather(1, order), 2 * W


def in_turns(bank: Tensor, alive: Tensor) -> Tensor:
    """The order in which the first of each bank come first, then the second of each …, and the dead last: (B, M)."""
    M = bank.shape[1]
    places = torch.arange(M, device=bank.device).expand_as(bank)
    by_bank, order = bank.sort(dim=1, stable=True)
    turn = torch.empty_like(order).scatter_(1, order, places - torch.searchsorted(by_bank, by_bank))
    return (turn * M + places).masked_fill(~alive, M * M).argsort(dim=1)


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
    state: State,
    options: SearchOptions,
    sequences: Tensor,
    log_probs: Tensor,
    bonus: Tensor,
    ending: Tensor,
    length: Tensor,
) -> None:
    """Let hypotheses that end, or reach their limit, compete with those found before."""
    ending = ending & (log_probs > -torch.inf) & ~state.done[:, None]
    scores = (options.normalise(log_probs, length[:, None]) + bonus).masked_fill(~ending, -torch.inf)
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
    best, nth = state.log_probs.amax(1), state.found_scores[:, -1]
    bounds = (options.normalise(best, length) for length in (state.length + 1, state.limit))
    over = (best == -torch.inf) | (nth >= torch.maximum(*bounds))
    if options.beam_size == 1:
        over |= state.found_scores[:, 0] > -torch.inf  # the one hypothesis has ended, and a runner-up never lived
    return over
