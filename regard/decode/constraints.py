"""What can be asked of outputs beside their probability: `regard.decode.step.Constraint`, one class for each wish.

    min_length      the end symbol waits until there are enough tokens
    prefix          the output begins with given tokens
    no repeats      no n tokens in a row come twice
    forbidden       phrases that do not come out as whole words, in whatever pieces they are spelled
    required        phrases that do come out as whole words
    coverage        cp(X, Y) = β Σ_i log min(Σ_j p_ij, 1), added to the score (Wu et al. 2016, eq. 14), where p_ij is
                    the attention of target position j to source position i

Required phrases follow Post and Vilar 2018: hypotheses that have said equally many tokens of what they must say are a
bank, and the beam is shared out among the banks. Departures: the places of the beam go round the banks in turn instead
of in equal shares; and a hypothesis with just room enough for what it still has to say says that, so no phrase is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from regard.decode.phrases import DEAD
from regard.decode.state import State
from regard.decode.step import Constraint

LEAST_COVERAGE = 1e-6  # of a source position, lest one that nobody has looked at makes a score infinite


class MinLength(Constraint):
    """At least so many tokens, the end symbol among them."""

    def __init__(self, length: int, end: int) -> None:
        self.length, self.end = length, end

    def bar(self, logits: Tensor, state: State) -> None:
        early = torch.minimum(state.limit, state.limit.new_tensor(self.length)) - 1 > state.here  # (B,)
        logits[:, :, self.end].masked_fill_(early[:, None], -torch.inf)


class Prefix(Constraint):
    """Each sentence begins with its own tokens."""

    def __init__(self, prefixes: Sequence[Sequence[int]]) -> None:
        self.prefixes, self.longest = prefixes, max(map(len, prefixes))
        self.tokens = torch.empty(0)  # (B, P), −1 beyond a prefix

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        rows = [[*self.prefixes[i], *[-1] * (self.longest + 1 - len(self.prefixes[i]))] for i in sentences]
        self.tokens = placed(self.tokens, slots, torch.tensor(rows, device=slots.device))

    def bar(self, logits: Tensor, state: State) -> None:
        token = self.tokens.gather(1, state.here.clamp(max=self.longest)[:, None])  # (B, 1)
        others = torch.arange(logits.shape[2], device=logits.device) != token  # (B, V)
        logits.masked_fill_((others & (token >= 0))[:, None], -torch.inf)

    def keep(self, slots: Tensor) -> None:
        self.tokens = self.tokens[slots]


class NoRepeats(Constraint):
    """No n tokens in a row come twice in one output."""

    def __init__(self, n: int) -> None:
        self.n = n

    def bar(self, logits: Tensor, state: State) -> None:
        B, W, T = state.tokens.shape
        n, here = self.n, state.here
        if n > T:
            return
        before = (here[:, None] - n + 1 + torch.arange(n - 1, device=here.device)).clamp(min=0)  # (B, n − 1)
        last = state.tokens.gather(2, before[:, None].expand(B, W, n - 1))
        following = state.tokens[:, :, n - 1 :]  # (B, W, T − n + 1)
        same = torch.ones_like(following, dtype=torch.bool)
        for i in range(n - 1):
            same &= state.tokens[:, :, i : T - n + 1 + i] == last[:, :, i : i + 1]
        same &= (torch.arange(n - 1, T, device=here.device) < here[:, None])[:, None]
        logits.scatter_add_(
            2, following, torch.zeros_like(following, dtype=logits.dtype).masked_fill_(same, -torch.inf)
        )


class Forbidden(Constraint):
    """An automaton over tokens (`regard.decode.phrases.automaton`) that must not die."""

    def __init__(self, table: np.ndarray, end: int, beam: int) -> None:
        """table: (states, V), the state after each token. An output may not stop where the end symbol is deadly."""
        self.next = torch.from_numpy(table).long()
        deadly_at_last = self.next[:, end][self.next.clamp(min=0)] == DEAD
        deadly_at_last[:, end] = False  # it has ended already
        self.barred = torch.stack([self.next == DEAD, (self.next == DEAD) | deadly_at_last])  # (2, states, V)
        self.beam = beam
        self.state = torch.empty(0)  # (B, W)

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        self.next, self.barred = self.next.to(slots.device), self.barred.to(slots.device)
        self.state = placed(
            self.state, slots, torch.zeros(len(slots), self.beam, dtype=torch.long, device=slots.device)
        )

    def bar(self, logits: Tensor, state: State) -> None:
        last = (state.here == state.limit - 1).long()[:, None]
        logits.masked_fill_(self.barred[last, self.state], -torch.inf)

    def follow(self, parents: Tensor, tokens: Tensor) -> None:
        self.state = self.next[self.state.gather(1, parents), tokens].clamp(min=0)

    def keep(self, slots: Tensor) -> None:
        self.state = self.state[slots]


class Required(Constraint):
    """Phrases, given as tokens, each of which comes out, and as a whole: no piece that goes on with the word follows.

    A phrase of n tokens that is begun at any place is followed by bits, one for each of its tokens (shift-and): bit i
    says that the last i + 1 tokens are the phrase's first.
    """

    def __init__(self, phrases: Sequence[Sequence[Sequence[int]]], going_on: Tensor, end: int, beam: int) -> None:
        """phrases: those of each sentence   going_on: (V,), whether a piece goes on with a word"""
        self.phrases, self.end, self.beam, self.going_on = phrases, end, beam, going_on
        self.most = max(len(some) for some in phrases)
        self.longest = max((len(phrase) for some in phrases for phrase in some), default=0)
        self.tokens = self.lengths = self.bits = self.said = self.whole = torch.empty(0)

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        device, K, W = slots.device, self.most, self.beam
        tokens = torch.full((len(slots), K, self.longest), -1)
        for row, sentence in enumerate(sentences):
            for k, phrase in enumerate(self.phrases[sentence]):
                tokens[row, k, : len(phrase)] = torch.tensor(phrase)
        lengths = (tokens >= 0).sum(2)
        self.going_on = self.going_on.to(device)
        self.tokens = placed(self.tokens, slots, tokens.to(device))  # (B, K, P)
        self.lengths = placed(self.lengths, slots, lengths.to(device))  # (B, K)
        self.bits = placed(self.bits, slots, torch.zeros(len(slots), W, K, dtype=torch.long, device=device))
        said = (lengths == 0)[:, None].expand(-1, W, -1)
        self.said = placed(self.said, slots, said.to(device))  # (B, W, K), whether a phrase has come out
        self.whole = placed(self.whole, slots, torch.zeros(len(slots), W, dtype=torch.bool, device=device))

    def begun(self, bits: Tensor) -> Tensor:
        """How many tokens of a phrase the last tokens are. bits: (B, C, K)"""
        places = torch.arange(self.longest, device=bits.device)
        return ((bits[..., None] >> places & 1) * (places + 1)).amax(-1)

    def wanted(self) -> Tensor:
        """The token each hypothesis needs next for each phrase that it lacks, −1 for others: (B, W, K)."""
        at = self.begun(self.bits).clamp(max=self.longest - 1)
        token = self.tokens[:, None].expand(-1, self.beam, -1, -1).gather(3, at[..., None])[..., 0]
        return token.masked_fill(self.said, -1)

    def bar(self, logits: Tensor, state: State) -> None:
        missing = (self.lengths[:, None] * ~self.said).sum(2)  # (B, W), tokens, if all were begun anew
        logits[:, :, self.end].masked_fill_(missing > 0, -torch.inf)
        logits.masked_fill_(self.whole[:, :, None] & self.going_on, -torch.inf)
        pressed = (missing > 0) & (state.limit[:, None] - 1 - state.here[:, None] <= missing)
        wanted = self.wanted()
        furthest = self.begun(self.bits).masked_fill(self.said, -1)
        wanted = wanted.masked_fill(furthest < furthest.amax(2, keepdim=True), -1)  # what is begun is finished first
        allowed = torch.zeros(logits.shape, dtype=torch.bool, device=logits.device)
        allowed.scatter_(2, wanted.clamp(min=0), wanted >= 0)
        logits.masked_fill_(pressed[:, :, None] & ~allowed, -torch.inf)

    def propose(self) -> Tensor | None:
        wanted = self.wanted()
        K = wanted.shape[2]
        twice = (wanted[..., None] == wanted[:, :, None]) & torch.ones(K, K, device=wanted.device).tril(-1).bool()
        return wanted.masked_fill(twice.any(-1), -1)

    def after(self, parents: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Bits, what is said, and what has just been said, of hypotheses followed by tokens: (B, C, K)."""
        every = parents[..., None].expand(-1, -1, self.most)
        places = torch.arange(self.longest, device=tokens.device)
        same = ((self.tokens[:, None] == tokens[:, :, None, None]).long() << places).sum(3)  # (B, C, K)
        bits = (self.bits.gather(1, every) << 1 | 1) & same
        complete = (bits >> (self.lengths[:, None] - 1).clamp(min=0) & 1).bool() & (self.lengths[:, None] > 0)
        said = self.said.gather(1, every)
        return bits, said | complete, complete & ~said

    def bank(self, parents: Tensor, tokens: Tensor) -> Tensor | None:
        bits, said, _ = self.after(parents, tokens)
        return torch.where(said, self.lengths[:, None], self.begun(bits)).sum(2)

    def follow(self, parents: Tensor, tokens: Tensor) -> None:
        self.bits, self.said, new = self.after(parents, tokens)
        self.whole = new.any(2)

    def keep(self, slots: Tensor) -> None:
        self.tokens, self.lengths, self.bits = self.tokens[slots], self.lengths[slots], self.bits[slots]
        self.said, self.whole = self.said[slots], self.whole[slots]


class Attending(Protocol):
    """A step that keeps what its hypotheses have attended to."""

    @property
    def attended(self) -> Tensor:
        """The attention given to each source position so far, (B, W, S); 1 where there is none."""


class Coverage(Constraint):
    """Scores fall with what of the source nobody has looked at."""

    def __init__(self, step: Attending, beta: float) -> None:
        self.step, self.beta = step, beta

    def bonus(self) -> Tensor | None:
        return self.beta * self.step.attended.clamp(LEAST_COVERAGE, 1.0).log().sum(2)


def placed(old: Tensor, slots: Tensor, new: Tensor) -> Tensor:
    """What slots have, with new values in some; the first values are for all slots."""
    if not len(old):
        return new.clone()
    old[slots] = new
    return old
