"""Translating what comes while a search is under way: a sentence joins it and leaves it when it is done.

A search of many sentences costs little more than that of one, and a server whose clients come one by one would always
have either a batch that is too small or clients that wait for the next. Here nobody waits for a batch to end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from regard.config import DecodeConfig
from regard.data.tokenizer import BOS, EOS, PAD, UNK
from regard.decode.search import Hypothesis, SearchOptions, search_with_arrivals
from regard.decode.translator import Demand, Translation, Translator
from regard.models.stepping import TransformerStep
from regard.models.transformer import Transformer, a_transformer
from regard.nn.attention import recording


class Queue(Protocol):
    """Where sentences come from, and where their translations go."""

    def waiting(self) -> int:
        """How many could join now."""

    def take(self, most: int) -> Sequence[str]:
        """Those that do, so many at most. They are numbered in the order in which they join, from 0."""

    def give(self, number: int, best: list[Translation]) -> None: ...


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
        texts = self.queue.take(most)
        limits = []
        for text, whole in zip(texts, self.translator.tokenizers.source.encode(texts, threads=1), strict=True):
            number, self.taken = self.taken, self.taken + 1
            tokens = self.translator.fit(whole)
            if len(tokens) == 1:
                self.queue.give(number, [Translation(text, "", 0.0, 0.0, [], [])])
                continue
            self.numbers[len(self.sources)] = number
            self.texts[number] = text, len(whole) - len(tokens)
            self.sources.append(tokens)
            limits.append(self.translator.limit(len(tokens), Demand(), self.config))
        return limits

    def found(self, sentence: int, hypotheses: list[Hypothesis]) -> None:
        number = self.numbers.pop(sentence)
        text, cut = self.texts.pop(number)
        tokens, self.sources[sentence] = self.sources[sentence], []
        texts = self.translator.tokenizers.target.decode_all([one.tokens for one in hypotheses])
        pairs = zip(texts, hypotheses, strict=True)
        self.queue.give(
            number, [Translation(text, said, one.score, one.log_prob, tokens, one.tokens, cut) for said, one in pairs]
        )


@torch.inference_mode()
def translate_as_they_come(translator: Translator, queue: Queue, n_best: int = 1, **options: Any) -> None:
    """Translate what the queue has until it has nothing. Options are the keys of [decode]."""
    config = translator.options(**options)
    beam = max(config.beam_size, n_best)
    search_options = SearchOptions(
        start=translator.start, end=EOS, beam_size=beam, n_best=n_best, length_penalty=config.length_penalty,
        normalization=config.normalization, banned=(PAD, BOS, UNK),
    )  # fmt: skip
    joining = Joining(translator, queue, config)
    (model,) = translator.networks(config.precision)
    step = TransformerStep(a_transformer(model, "Joining a search"), joining.sources, beam)
    constraints = translator.constraints(config, (), None, beam, ())
    with recording(translator.model, None):
        search_with_arrivals(
            step, joining, search_options, translator.device, config.batch_sentences, constraints
        )  # fmt: skip
