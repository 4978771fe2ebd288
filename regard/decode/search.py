"""Greedy and beam search over a step function, for any number of sentences.

So many slots have a sentence each, and every step (`regard.decode.step`) makes all of them a token longer. All that is
asked of the device is which slots are done, and not even that of a sentence that has made as many steps as it may have
tokens: each gives one at least. A finished sentence leaves its slot to the next that waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from regard.decode.state import Hypothesis, Leaving, SearchOptions, State
from regard.decode.step import Constraint, Sampler, Step, advance
from regard.nn.layout import send

PIECE = 128  # sentences whose results are read while the device makes a step

Take = Callable[[Sequence[int], Sequence[list[Hypothesis]]], None]
"""Gets sentences, by number, and what was found for them, as soon as it is there."""


def search(
    step: Step,
    limits: Sequence[int],
    options: SearchOptions,
    device: torch.device,
    slots: int = 0,
    progress: Callable[[int], None] | None = None,
    constraints: Sequence[Constraint] = (),
    sampler: Sampler | None = None,
    take: Take | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` best hypotheses of each sentence, best first; none where the constraints leave none.

    `limits`: the most tokens each sentence may get. At most `slots` sentences are at work at a time (0: all of them);
    `progress` is told how many are done. With a `sampler` each hypothesis is drawn on its own.
    """
    if not limits:
        return []
    n = min(slots or len(limits), len(limits))
    bench = Fresh(step, n, max(limits), options, device, constraints, sampler)
    parts: list[Part] = [step, *constraints, *([sampler] if sampler else [])]
    return work(bench, parts, limits, device, progress, take, alive=options.beam_size if sampler else 1)


class Part(Protocol):
    """What has something for each slot, as the state has."""

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None: ...
    def keep(self, slots: Tensor) -> None: ...


class Bench(Protocol):
    """Where sentences are at work: so many slots, their state, and what a step does to it. `Fresh` is made for one
    search; on a GPU slots outlast it, since that would rather repeat what it did before (`regard.decode.recorded`)."""

    late: int  # how many steps ago `done` was true

    def begin(self) -> State:
        """The state of all slots, nobody in them."""

    def advance(self, steps: int) -> None:
        """One step more in every slot. steps: the most, with this one, that a sentence has made in its slot"""

    def done(self) -> list[bool]:
        """Which slots were done, so many steps ago."""

    def keep(self, slots: Sequence[int]) -> State | None:
        """Go on with these slots alone, in this order, where they need not stay."""


class Fresh:
    """Slots made for one search, given up when nobody waits for them."""

    late = 0

    def __init__(
        self,
        step: Step,
        slots: int,
        room: int,
        options: SearchOptions,
        device: torch.device,
        constraints: Sequence[Constraint] = (),
        sampler: Sampler | None = None,
    ) -> None:
        self.step, self.options, self.constraints, self.sampler, self.room = step, options, constraints, sampler, room
        self.state = State.empty(slots, room, options, device)

    def begin(self) -> State:
        return self.state

    def advance(self, steps: int) -> None:
        advance(self.step, self.state, self.options, min(steps, self.room), self.constraints, self.sampler)

    def done(self) -> list[bool]:
        flags: list[bool] = self.state.done.tolist()
        return flags

    def keep(self, slots: Sequence[int]) -> State:
        self.state = self.state.keep(torch.tensor(slots, device=self.state.done.device))
        return self.state


def work(
    bench: Bench,
    parts: Sequence[Part],
    limits: Sequence[int],
    device: torch.device,
    progress: Callable[[int], None] | None = None,
    take: Take | None = None,
    alive: int = 1,
) -> list[list[Hypothesis]]:
    """Bring every sentence through a slot of the bench. `alive`: with how many hypotheses it begins."""
    found: list[list[Hypothesis]] = [[] for _ in limits]
    state = bench.begin()
    n = len(state.done)
    inside: list[int | None] = [None] * n  # which sentence each slot has
    waiting = list(range(len(limits)))[::-1]
    steps, most = [0] * n, [1] * n  # how many the sentence of each slot, or the last that was there, has made and may
    leaving: deque[tuple[list[int], Leaving, int]] = deque()  # sentences that are done and have not been read yet

    def read(count: int) -> None:
        sentences, results, first = leaving.popleft()
        if len(sentences) > count:
            leaving.appendleft((sentences[count:], results, first + count))
            sentences = sentences[:count]
        new = results.hypotheses(first, first + len(sentences))
        for sentence, hypotheses in zip(sentences, new, strict=True):
            found[sentence] = hypotheses
        if take:
            take(sentences, new)

    def fill() -> None:
        """Give the free slots to sentences that wait."""
        free = [slot for slot, sentence in enumerate(inside) if sentence is None][: len(waiting)]
        if not free:
            return
        sentences = [waiting.pop() for _ in free]
        for slot, sentence in zip(free, sentences, strict=True):
            inside[slot], steps[slot], most[slot] = sentence, 0, limits[sentence]
        places = send(torch.tensor(free), device)
        state.enter(places, send(torch.tensor([limits[sentence] for sentence in sentences]), device), alive)
        for part in parts:
            part.enter(places, sentences)

    fill()
    while (working := sum(sentence is not None for sentence in inside)) > 0:
        steps = [min(count + 1, limit) for count, limit in zip(steps, most, strict=True)]
        bench.advance(max(steps))
        if leaving:  # the device has something to do meanwhile
            read(PIECE)
        over = bench.done()  # of a sentence that has just entered nothing is known yet, where that comes late
        done = [
            slot for slot, sentence in enumerate(inside)
            if sentence is not None and ((steps[slot] > bench.late and over[slot]) or steps[slot] == most[slot])
        ]  # fmt: skip
        if waiting and 4 * len(done) < working:  # a few new sentences at a time are not worth a pass of the encoder
            continue
        if done:
            leaving.append(([s for slot in done if (s := inside[slot]) is not None], state.leave(done), 0))
        for slot in done:
            inside[slot] = None
        if progress and done:
            progress(len(limits) - len(waiting) - (working - len(done)))
        fill()
        left = [slot for slot, sentence in enumerate(inside) if sentence is not None]
        if 0 < len(left) < n and (smaller := bench.keep(left)) is not None:
            state, n = smaller, len(left)
            inside = [inside[slot] for slot in left]
            steps, most = ([numbers[slot] for slot in left] for numbers in (steps, most))
            for part in parts:
                part.keep(torch.tensor(left, device=device))
    while leaving:
        read(len(limits))
    return found
