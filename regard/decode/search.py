"""Greedy and beam search over a step function, for any number of sentences.

So many slots have a sentence each, and every step (`regard.decode.step`) makes all of them a token longer. All that is
asked of the device is which slots are done, and not even that of a sentence that has made as many steps as it may have
tokens: each gives one at least. A finished sentence leaves its slot to the next that waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from regard.decode.state import Hypothesis, Leaving, SearchOptions, State
from regard.decode.step import Constraint, Sampler, Step, advance
from regard.nn.layout import send

PIECE = 64  # sentences whose results are read while the device makes a step, at least
STEPS = 32  # in which all are read that left together
NOBODY = -1

Take = Callable[[Sequence[int], Sequence[list[Hypothesis]]], None]
"""Gets sentences, by number, and what was found for them, as soon as it is there; the search then keeps none of it."""


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

    def done(self) -> np.ndarray:
        """Which slots were done, so many steps ago. Good until it is asked again."""

    def keep(self, slots: Tensor) -> State | None:
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

    def done(self) -> np.ndarray:
        return self.state.done.cpu().numpy()

    def keep(self, slots: Tensor) -> State:
        self.state = self.state.keep(slots)
        return self.state


def work(
    bench: Bench,
    parts: Sequence[Part],
    limits: Sequence[int],
    device: torch.device,
    progress: Callable[[int], None] | None = None,
    take: Take | None = None,
    alive: int = 1,
    expect: Callable[[range], None] | None = None,
    portion: int = 0,
) -> list[list[Hypothesis]]:
    """Bring every sentence through a slot of the bench. `alive`: with how many hypotheses it begins. `expect` is told
    at every step, while the device works, which sentences will enter next. A limit is asked for when its sentence
    enters. Of the first sentences a `portion` enters before the others (0: none)."""
    found: list[list[Hypothesis]] = [] if take else [[] for _ in range(len(limits))]
    waiting = 0  # the first sentence that waits
    state = bench.begin()
    inside = np.full(len(state.done), NOBODY)  # which sentence each slot has
    steps, most = np.zeros_like(inside), np.ones_like(inside)  # of that, or the last that was there: made, and to make
    leaving: deque[tuple[list[int], Leaving, int]] = deque()  # sentences that are done and have not been read yet

    def read(count: int) -> None:
        sentences, results, first = leaving.popleft()
        if len(sentences) > count:
            leaving.appendleft((sentences[count:], results, first + count))
            sentences = sentences[:count]
        new = results.hypotheses(first, first + len(sentences))
        if take:
            take(sentences, new)
            return
        for sentence, hypotheses in zip(sentences, new, strict=True):
            found[sentence] = hypotheses

    def fill() -> None:
        """Give the free slots to sentences that wait."""
        nonlocal waiting
        every = np.flatnonzero(inside == NOBODY)[: len(limits) - waiting]
        first = 0 if waiting else portion
        for free in (every[:first], every[first:]):
            if not len(free):
                continue
            sentences = np.arange(waiting, waiting + len(free))
            waiting += len(free)
            inside[free], steps[free], most[free] = sentences, 0, limits[waiting - len(free) : waiting]
            places = send(torch.from_numpy(free), device)
            state.enter(places, send(torch.from_numpy(most[free]), device), alive)
            for part in parts:
                part.enter(places, sentences.tolist())

    fill()
    while (working := int(np.count_nonzero(inside != NOBODY))) > 0:
        np.minimum(steps + 1, most, out=steps)
        bench.advance(int(steps.max()))
        # The device has something to do meanwhile.
        following = range(waiting, min(waiting + len(inside), len(limits)))
        if expect and following:
            expect(following)
        if leaving:
            read(max(PIECE, len(inside) // STEPS))
        over = bench.done() & (steps > bench.late)  # where that comes late, nothing is known of who has just entered
        done = np.flatnonzero((inside != NOBODY) & (over | (steps == most)))
        if not len(done) or (waiting < len(limits) and 4 * len(done) < working):
            continue  # a few new sentences at a time are not worth a pass of the encoder
        leaving.append((inside[done].tolist(), state.leave(torch.from_numpy(done)), 0))
        inside[done] = NOBODY
        if progress:
            progress(waiting - (working - len(done)))
        fill()
        left = np.flatnonzero(inside != NOBODY)
        if 0 < len(left) < len(inside):
            places = send(torch.from_numpy(left), device)
            if (smaller := bench.keep(places)) is not None:
                state, inside, steps, most = smaller, inside[left], steps[left], most[left]
                for part in parts:
                    part.keep(places)
    while leaving:
        read(len(limits))
    return found
