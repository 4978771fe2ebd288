"""Translating what comes while a search is under way: a sentence joins it and leaves it when it is done.

A search of many sentences costs little more than that of one, and a server whose clients come one by one would always
have either a batch that is too small or clients that wait for the next. Here nobody waits for a batch to end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch

from regard.config import DecodeConfig
from regard.decode.request import Translation, untranslated
from regard.decode.state import Hypothesis, SearchOptions, State
from regard.decode.step import Constraint, Step, advance
from regard.decode.translator import Translator
from regard.decode.wishes import Demand
from regard.models.stepping import TransformerStep
from regard.models.transformer import Transformer, a_transformer
from regard.nn.attention import recording

JOIN = 8  # steps after which a newcomer need not wait for company


class Arrivals(Protocol):
    """Sentences that come while a search goes on, and where those go that are found."""

    def waiting(self) -> int:
        """How many could join now."""

    def join(self, most: int) -> list[int]:
        """The limits of those that do, so many at most; their numbers go on from the last. The step knows them."""

    def found(self, finished: list[tuple[int, list[Hypothesis]]]) -> None:
        """Sentences that one step has finished, with what was found for them."""


class Growing(Step, Protocol):
    """A step that sentences may join."""

    def grow(self, slots: int) -> None:
        """Make place for so many slots in all."""


def search_with_arrivals(
    step: Growing,
    arrivals: Arrivals,
    options: SearchOptions,
    device: torch.device,
    slots: int,
    constraints: Sequence[Constraint] = (),
) -> None:
    """A search for sentences that come as they please: they join while others are under way, and leave when they are
    done. It ends when nobody is left. Constraints must keep nothing of their own for a slot.

    A pass of the encoder costs about what a step does for few, so newcomers wait until they are a quarter of those at
    work, or for JOIN steps.
    """
    state = State.empty(0, 0, options, device)
    inside: list[int | None] = []  # which sentence each slot has
    steps: list[int] = []
    limits: dict[int, int] = {}  # of the sentences at work
    came, since, patience = 0, 0, 1
    while True:
        working = len(limits)
        free, since = slots - working, since + 1
        coming = min(arrivals.waiting(), free) if free else 0
        if coming and since >= (patience if 4 * coming >= working else JOIN):
            new, since = arrivals.join(free), 0
            patience = 1 if new else JOIN  # there was no room for them
            if new:
                state = enter_new(step, state, options, inside, steps, new, came)
                limits |= dict(enumerate(new, start=came))
                came += len(new)
        if not limits:
            if not arrivals.waiting():
                return
            patience = 0
            continue
        steps[:] = [count + 1 for count in steps]
        at_work = [count for count, sentence in zip(steps, inside, strict=True) if sentence is not None]
        longest = min(max(at_work), state.tokens.shape[2])
        advance(step, state, options, longest, constraints)
        over = state.done.tolist()
        done = [slot for slot, sentence in enumerate(inside) if over[slot] and sentence is not None]
        if done:
            finished = [sentence for slot in done if (sentence := inside[slot]) is not None]
            arrivals.found(list(zip(finished, state.leave(torch.tensor(done)).hypotheses(), strict=True)))
            for slot, sentence in zip(done, finished, strict=True):
                inside[slot] = None
                del limits[sentence]
            state.length[done], state.limit[done] = 0, 1  # what goes on in an empty slot goes on at its beginning
        if done and 2 * len(limits) <= len(inside):  # half of the slots are empty
            left = [slot for slot, sentence in enumerate(inside) if sentence is not None]
            kept = torch.tensor(left, device=device, dtype=torch.long)
            state = state.keep(kept)
            inside[:], steps[:] = [inside[slot] for slot in left], [steps[slot] for slot in left]
            if left:
                step.keep(kept)
            else:
                step.grow(0)


def enter_new(
    step: Growing,
    state: State,
    options: SearchOptions,
    inside: list[int | None],
    steps: list[int],
    limits: Sequence[int],
    first: int,
) -> State:
    """Give sentences, numbered from `first`, slots: those that are free, then new ones."""
    empty = [slot for slot, sentence in enumerate(inside) if sentence is None]
    more = max(0, len(limits) - len(empty))
    if more or max(limits) > state.tokens.shape[2]:
        state = state.grown(len(inside) + more, max(limits), options)
        step.grow(len(inside) + more)
    places = [*empty, *range(len(inside), len(inside) + more)][: len(limits)]
    inside += [None] * more
    steps += [0] * more
    for slot, sentence in zip(places, range(first, first + len(limits)), strict=True):
        inside[slot], steps[slot] = sentence, 0
    device = state.done.device
    state.enter(torch.tensor(places, device=device), torch.tensor(limits, device=device), alive=1)
    step.enter(torch.tensor(places, device=device), range(first, first + len(limits)))
    return state


class Queue(Protocol):
    """Where sentences come from, and where their translations go."""

    def waiting(self) -> int:
        """How many could join now."""

    def take(self, most: int) -> Sequence[tuple[str, list[int]]]:
        """Those that do, so many at most, with their tokens. They are numbered in the order in which they join, from
        0."""

    def give(self, found: list[tuple[int, list[Translation]]]) -> None:
        """Translations of some, by number."""


def may_join(translator: Translator, config: DecodeConfig) -> bool:
    """Whether sentences can join a search of this kind: not one of another engine, drawn, by blocks, or of several
    models."""
    other = translator.engine or translator.partners or config.sample or config.blockwise or config.coverage_penalty
    return translator.task == "translation" and isinstance(translator.model, Transformer) and not other


class Joining:
    """A queue of texts as the search sees it: limits and hypotheses."""

    def __init__(self, translator: Translator, queue: Queue, config: DecodeConfig) -> None:
        self.translator, self.queue, self.config = translator, queue, config
        self.sources: list[list[int]] = []  # of all that have joined; of those that have left, nothing
        self.texts: dict[int, tuple[str, int]] = {}  # text and tokens cut, of those at work
        self.taken = 0
        self.numbers: dict[int, int] = {}  # the search's number → the queue's; empty sentences are not searched for

    def waiting(self) -> int:
        return self.queue.waiting()

    def join(self, most: int) -> list[int]:
        limits = []
        for text, whole in self.queue.take(most):
            number, self.taken = self.taken, self.taken + 1
            tokens = self.translator.fit(whole, self.config)
            if len(tokens) == 1:
                self.queue.give([(number, [untranslated(text)])])
                continue
            self.numbers[len(self.sources)] = number
            self.texts[number] = text, len(whole) - len(tokens)
            self.sources.append(tokens)
            limits.append(self.translator.limit(len(tokens), Demand(), self.config))
        return limits

    def found(self, finished: list[tuple[int, list[Hypothesis]]]) -> None:
        tokens = [one.tokens for _, hypotheses in finished for one in hypotheses]
        said = iter(self.translator.tokenizers.target.decode_all(tokens))
        self.queue.give([self.translated(sentence, hypotheses, said) for sentence, hypotheses in finished])

    def translated(
        self, sentence: int, hypotheses: list[Hypothesis], said: Iterator[str]
    ) -> tuple[int, list[Translation]]:
        """The queue's number of a sentence that leaves, and its translations, whose texts come next."""
        number = self.numbers.pop(sentence)
        text, cut = self.texts.pop(number)
        tokens, self.sources[sentence] = self.sources[sentence], []
        return number, [
            Translation(text, next(said), one.score, one.log_prob, tokens, one.tokens, cut) for one in hypotheses
        ]


@torch.inference_mode()
def translate_as_they_come(translator: Translator, queue: Queue, n_best: int = 1, **options: Any) -> None:
    """Translate what the queue has until it has nothing. Options are the keys of [decode]."""
    config = translator.options(**options)
    beam = max(config.beam_size, n_best)
    joining = Joining(translator, queue, config)
    (model,) = translator.networks(config.precision)
    step = TransformerStep(a_transformer(model, "Joining a search"), joining.sources, beam)
    constraints = translator.constraints(config, (), None, beam, ())
    with recording(translator.model, None):
        search_with_arrivals(
            step, joining, translator.search_options(config, beam, n_best), translator.device, config.batch_sentences,
            constraints,
        )  # fmt: skip
