"""What a search knows of its sentences, and how it scores what it finds: *Attention Is All You Need*, §6.1.

    score(Y | X) = log P(Y | X) / lp(Y)
    gnmt:   lp(Y) = ((5 + |Y|) / 6)^α          (Wu et al. 2016, what the paper uses)
    power:  lp(Y) = |Y|^α                      (Marian, CTranslate2, fairseq)

|Y| counts the generated tokens, the end symbol included. Everything is in tensors of one shape on the device: B slots
with a sentence each, W hypotheses a slot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple, Self

import torch
from torch import Tensor

from regard.nn.layout import send


class Hypothesis(NamedTuple):
    """A finished output. A tuple: many thousand are made at a time."""

    tokens: list[int]  # without the start symbol; the end symbol is last unless the length limit came first
    log_prob: float
    score: float  # log_prob over the length normalisation
    calls: int = 0  # of the decoder, where they are not one for each token


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
    tables: dict[tuple[int, torch.device], Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)

    def normalise(self, log_probs: Tensor, length: Tensor) -> Tensor:
        return log_probs / NORMALIZATIONS[self.normalization](length.to(log_probs.dtype), self.length_penalty)

    def norms(self, longest: int, device: torch.device) -> Tensor:
        """What log-probabilities are divided by, (longest + 2,), at every length up to one more than the longest.

        The table lives as long as these options do: recordings go on reading it.
        """
        if (longest, device) not in self.tables:
            lengths = torch.arange(longest + 2, dtype=torch.float32, device=device)
            self.tables[longest, device] = NORMALIZATIONS[self.normalization](lengths, self.length_penalty)
        return self.tables[longest, device]


@dataclass
class State:
    """What a search knows of the sentences in its slots."""

    tokens: Tensor  # (B, W, T), what each living hypothesis has produced; nothing from `length` on
    log_probs: Tensor  # (B, W), −∞ where no hypothesis lives
    length: Tensor  # (B,)
    limit: Tensor  # (B,), the most tokens the sentence may get
    done: Tensor  # (B,)
    found_tokens: Tensor  # (B, n_best, T), the best finished hypotheses, best first
    found_length: Tensor  # (B, n_best)
    found_log_probs: Tensor  # (B, n_best)
    found_scores: Tensor  # (B, n_best), −∞ where there is none yet

    @property
    def here(self) -> Tensor:
        """The place of the next token, (B,). A slot that is done stays at its last place."""
        return torch.minimum(self.length, self.limit - 1)

    @classmethod
    def empty(cls, slots: int, room: int, options: SearchOptions, device: torch.device) -> State:
        W, n_best = options.beam_size, options.n_best

        def whole(*shape: int, value: int = 0) -> Tensor:
            return torch.full(shape, value, device=device)

        def real(*shape: int) -> Tensor:
            return torch.full(shape, -torch.inf, device=device)

        return cls(
            whole(slots, W, room), real(slots, W), whole(slots), whole(slots), whole(slots) == 0,
            whole(slots, n_best, room), whole(slots, n_best), real(slots, n_best), real(slots, n_best),
        )  # fmt: skip

    def enter(self, slots: Tensor, limits: Tensor, alive: int) -> None:
        """Begin new sentences in these slots: so many hypotheses live, and have produced nothing."""
        self.log_probs.index_fill_(0, slots, -torch.inf)
        self.log_probs[:, :alive].index_fill_(0, slots, 0.0)
        self.length.index_fill_(0, slots, 0)
        self.limit.index_copy_(0, slots, limits)
        self.done.index_fill_(0, slots, False)
        self.found_scores.index_fill_(0, slots, -torch.inf)

    def keep(self, slots: Tensor) -> Self:
        return type(self)(*(getattr(self, item.name)[slots] for item in fields(self)))

    def grown(self, slots: int, room: int, options: SearchOptions) -> State:
        """The same with so many slots in all, the new ones empty, and so much room for tokens."""
        B, _, T = self.tokens.shape
        new = State.empty(max(slots, B), max(room, T), options, self.done.device)
        for item in fields(self):
            old = getattr(self, item.name)
            getattr(new, item.name)[tuple(slice(size) for size in old.shape)] = old
        return new

    @property
    def calls_made(self) -> Tensor:
        """(B,), of the decoder, where they are not one for each token."""
        return torch.zeros_like(self.length)

    def leave(self, slots: Tensor) -> Leaving:
        """What was found in these slots, on its way to the host."""
        at = send(slots, self.done.device)
        parts = (self.found_scores, self.found_log_probs, self.found_length, self.found_tokens, self.calls_made)
        return Leaving([part[at] for part in parts])


class Leaving:
    """What was found in some slots: scores, log-probabilities, lengths, tokens and calls. It leaves the device's memory
    while the device goes on."""

    def __init__(self, parts: Sequence[Tensor]) -> None:
        self.parts = [part.to("cpu", non_blocking=True) for part in parts]
        self.copied = torch.cuda.Event() if parts[0].is_cuda else None
        if self.copied:
            self.copied.record()

    def hypotheses(self, first: int = 0, last: int | None = None) -> list[list[Hypothesis]]:
        """Those of the slots from `first` to before `last`."""
        if self.copied:
            self.copied.synchronize()
        scores, log_probs, lengths, tokens, calls = (part[first:last] for part in self.parts)
        n_best, longest = scores.shape[1], int(lengths.max())
        columns = (tokens[:, :, :longest].flatten(0, 1), *(part.flatten() for part in (lengths, log_probs, scores)))
        # All slots in one pass: slot by slot takes half as long again.
        rows = zip(*(column.tolist() for column in (*columns, calls.repeat_interleave(n_best))), strict=True)
        every = [Hypothesis(sequence[:n], log_prob, score, made) for sequence, n, log_prob, score, made in rows]
        slots = (every[i : i + n_best] for i in range(0, len(every), n_best))
        return [[one for one in slot if one.score > -torch.inf] for slot in slots]
