"""Greedy and beam search over a step function: *Attention Is All You Need*, §6.1.

    score(Y | X) = log P(Y | X) / lp(Y)
    gnmt:   lp(Y) = ((5 + |Y|) / 6)^α          (Wu et al. 2016, what the paper uses)
    power:  lp(Y) = |Y|^α                      (Marian, CTranslate2, fairseq)

|Y| counts the generated tokens, the end symbol included. At each step the best 2·W continuations are
looked at: those that end a sentence and rank among the first W become hypotheses, the best W others live
on. A sentence is finished when no living hypothesis can still reach the score of the n best found, whatever
it goes on with: log-probabilities only fall, so a bound is the present one under the most favourable length.

Departures from the paper: its "terminate early when possible" is made exact by that bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Step(Protocol):
    """A model in the middle of producing sequences, one row each."""

    def __call__(self, tokens: Tensor) -> Tensor:
        """The last token of each row, (R,) → log-probabilities of the next, (R, V)."""

    def reorder(self, rows: Tensor) -> None:
        """Go on with the rows `rows`, in that order; a row may occur several times or not at all."""


@dataclass(frozen=True)
class Hypothesis:
    tokens: list[int]  # without the start symbol; the end symbol is last unless the length limit came first
    log_prob: float
    score: float  # log_prob over the length normalisation


def gnmt(length: float, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def power(length: float, alpha: float) -> float:
    return length**alpha


NORMALIZATIONS: dict[str, Callable[[float, float], float]] = {"gnmt": gnmt, "power": power}


@dataclass(frozen=True)
class SearchOptions:
    start: int
    end: int
    beam_size: int = 4
    n_best: int = 1
    length_penalty: float = 0.6
    normalization: str = "gnmt"
    banned: tuple[int, ...] = ()  # tokens that never come out

    def normalise(self, log_prob: float, length: int) -> float:
        return log_prob / NORMALIZATIONS[self.normalization](length, self.length_penalty)


def greedy_search(step: Step, limits: Sequence[int], options: SearchOptions, device: torch.device) -> list[Hypothesis]:
    """The most probable token at each step. `limits`: the most tokens each sentence may get."""
    found: list[Hypothesis | None] = [None] * len(limits)
    sentences = list(range(len(limits)))  # which sentence each living row belongs to
    tokens = torch.full((len(limits), 1), options.start, device=device)  # (R, t)
    log_probs = torch.zeros(len(limits), device=device)
    while sentences:
        best, chosen = ban(step(tokens[:, -1]), options.banned).max(dim=-1)
        log_probs = log_probs + best
        tokens = torch.cat([tokens, chosen[:, None]], dim=1)
        length = tokens.shape[1] - 1
        going = []
        for row, (token, sentence) in enumerate(zip(chosen.tolist(), sentences, strict=True)):
            if token == options.end or length == limits[sentence]:
                total = float(log_probs[row])
                found[sentence] = Hypothesis(tokens[row, 1:].tolist(), total, options.normalise(total, length))
            else:
                going.append(row)
        if len(going) < len(sentences):
            rows = torch.tensor(going, device=device, dtype=torch.long)
            tokens, log_probs, sentences = tokens[rows], log_probs[rows], [sentences[row] for row in going]
            if going:
                step.reorder(rows)
    return [hypothesis for hypothesis in found if hypothesis is not None]


@dataclass
class Beams:
    """The living hypotheses of the sentences that are not finished."""

    sentences: list[int]  # (B,) which sentence each row of the tensors belongs to
    tokens: Tensor  # (B, W, t), the start symbol first
    log_probs: Tensor  # (B, W), best first


@dataclass
class Candidates:
    """The best continuations of the living hypotheses, best first."""

    log_probs: Tensor  # (B, C)
    parents: Tensor  # (B, C), which hypothesis each continues
    tokens: Tensor  # (B, C), with which token


def beam_search(
    step: Step, limits: Sequence[int], options: SearchOptions, device: torch.device
) -> list[list[Hypothesis]]:
    """The `n_best` best hypotheses of each sentence, best first. `limits` as in `greedy_search`."""
    found: list[list[Hypothesis]] = [[] for _ in limits]
    start = torch.full((len(limits), 1, 1), options.start, device=device)
    beams = Beams(list(range(len(limits))), start, torch.zeros(len(limits), 1, device=device))
    while beams.sentences:
        candidates = continuations(step, beams, options)
        length = beams.tokens.shape[2]  # tokens generated once a candidate is taken
        at_limit = torch.tensor([limits[sentence] == length for sentence in beams.sentences], device=device)
        close(beams, candidates, at_limit, found, options)
        beams = survivors(step, beams, candidates, limits, found, options)
    return [sorted(hypotheses, key=lambda h: -h.score)[: options.n_best] for hypotheses in found]


def continuations(step: Step, beams: Beams, options: SearchOptions) -> Candidates:
    """The best 2·W of the W × V continuations: W survive even if every hypothesis could end."""
    B, W, _ = beams.tokens.shape
    log_probs = ban(step(beams.tokens[:, :, -1].flatten()), options.banned)  # (B·W, V)
    V = log_probs.shape[-1]
    totals = (beams.log_probs[:, :, None] + log_probs.view(B, W, V)).flatten(1)  # (B, W·V)
    best, index = totals.topk(min(2 * options.beam_size, W * V))
    return Candidates(best, index // V, index % V)


def close(
    beams: Beams,
    candidates: Candidates,
    at_limit: Tensor,
    found: list[list[Hypothesis]],
    options: SearchOptions,
) -> None:
    """Turn candidates that end their sentence, or reach its limit, into hypotheses."""
    ending = (candidates.tokens == options.end) | at_limit[:, None]  # (B, C)
    ending &= candidates.log_probs > -torch.inf
    for b, c in ending[:, : options.beam_size].nonzero().tolist():
        prefix = beams.tokens[b, candidates.parents[b, c], 1:].tolist()
        tokens = [*prefix, int(candidates.tokens[b, c])]
        log_prob = float(candidates.log_probs[b, c])
        found[beams.sentences[b]].append(Hypothesis(tokens, log_prob, options.normalise(log_prob, len(tokens))))


def survivors(
    step: Step,
    beams: Beams,
    candidates: Candidates,
    limits: Sequence[int],
    found: list[list[Hypothesis]],
    options: SearchOptions,
) -> Beams:
    """The best W candidates that go on, of the sentences that are not finished."""
    _, W, length = beams.tokens.shape
    going_on = candidates.log_probs.masked_fill(candidates.tokens == options.end, -torch.inf)
    log_probs, chosen = going_on.topk(min(options.beam_size, going_on.shape[1]))  # (B, W')
    best = log_probs[:, 0].tolist()
    keep = [
        b
        for b, sentence in enumerate(beams.sentences)
        if not finished(best[b], length, limits[sentence], found[sentence], options)
    ]
    rows = torch.tensor(keep, device=log_probs.device, dtype=torch.long)
    log_probs, chosen = log_probs[rows], chosen[rows]
    parents = candidates.parents[rows].gather(1, chosen)  # (B', W')
    if keep:
        step.reorder((rows[:, None] * W + parents).flatten())
    prefixes = beams.tokens[rows[:, None], parents]  # (B', W', t)
    tokens = torch.cat([prefixes, candidates.tokens[rows].gather(1, chosen)[:, :, None]], dim=2)
    return Beams([beams.sentences[b] for b in keep], tokens, log_probs)


def finished(best: float, length: int, limit: int, found: list[Hypothesis], options: SearchOptions) -> bool:
    """Whether no continuation of a hypothesis with log-probability `best` can enter the n best.

    lp is monotone in the length, so of all lengths to come either the next or the last is most favourable.
    """
    if length >= limit or best == -torch.inf:
        return True
    if found and options.beam_size == 1:
        return True  # greedy search: the one hypothesis has ended, and a runner-up never lived
    if len(found) < options.n_best:
        return False
    bound = max(options.normalise(best, length + 1), options.normalise(best, limit))
    return sorted(h.score for h in found)[-options.n_best] >= bound


def ban(log_probs: Tensor, tokens: tuple[int, ...]) -> Tensor:
    if tokens:
        log_probs[:, list(tokens)] = -torch.inf
    return log_probs
