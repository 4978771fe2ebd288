"""One call of `Translator.search`: sentences become tokens, tokens outputs, and outputs text, in the order of the call.

A GPU would wait for the tokens of many sentences, so its search begins with the longest (`regard.decode.ahead`). Where
what is asked differs by sentence, or too little is known of their lengths, all are tokenised first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from regard.config import DecodeConfig
from regard.data.batching import in_order_of_length
from regard.decode.ahead import Unexpected, ahead, size
from regard.decode.state import Hypothesis
from regard.decode.wishes import Demand, equally_wide
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.decode.translator import Translator

AT_A_TIME = 16  # batches of sentences of similar length that one search has before it


class Translation(NamedTuple):
    """One translation of one sentence. A tuple, as hypotheses are."""

    source: str
    text: str
    score: float
    log_prob: float
    source_tokens: list[int]
    target_tokens: list[int]
    cut: int = 0  # source tokens beyond the model's positions, which it has not seen
    calls: int = 0  # of the decoder, where they are not one for each token


@dataclass
class Request:
    """Sentences, what is asked of their translations, and what has been found."""

    translator: Translator
    sentences: Sequence[str]
    n_best: int
    config: DecodeConfig
    progress: Callable[[int], None] | None
    demands: Sequence[Demand]  # one for each sentence, or none at all
    barred: np.ndarray | None
    found: list[list[Translation]] = field(default_factory=list)  # of each sentence, the best first
    cuts: dict[int, int] = field(default_factory=dict)  # tokens that did not fit

    def answer(self) -> list[list[Translation]]:
        self.found = [[] for _ in self.sentences]
        try:
            if self.may_begin_early:
                self.begin_early()
            else:
                self.tokenise_first()
        except Unexpected:
            self.tokenise_first()
        return self.found

    @property
    def may_begin_early(self) -> bool:
        translator, config = self.translator, self.config
        alike = not self.demands and self.barred is None and not (config.sample or translator.partners)
        many = len(self.sentences) > 2 * config.batch_sentences
        return alike and many and not translator.engine and translator.begins_early and translator.stays(config)

    def begin_early(self) -> None:
        sentences, done = self.sentences, 0
        for numbers in in_order_of_length([size(sentence) for sentence in sentences], self.at_a_time):
            texts = [sentences[i] for i in numbers]
            with ahead(self.translator.tokenizers.source, texts, self.config.batch_sentences) as sources:
                self.decode(numbers, sources, done)
            done += len(numbers)

    def tokenise_first(self) -> None:
        translator = self.translator
        encoded, longest = translator.tokenizers.source.encode(self.sentences), translator.longest
        for i, tokens in enumerate(encoded):
            if len(tokens) > longest:
                encoded[i] = translator.fit(tokens)
                self.cuts[i] = len(tokens) - len(encoded[i])
            elif len(tokens) == 1:
                self.found[i] = [untranslated(self.sentences[i])]
        filled = [i for i, tokens in enumerate(encoded) if len(tokens) > 1]
        done = len(encoded) - len(filled)
        at_a_time = max(1, len(filled)) if translator.engine else self.at_a_time
        for alike in equally_wide(filled, self.demands) if self.demands else [filled]:
            for group in in_order_of_length([len(encoded[i]) for i in alike], at_a_time):
                numbers = [alike[i] for i in group]
                self.decode(numbers, [encoded[i] for i in numbers], done)
                done += len(numbers)

    @property
    def at_a_time(self) -> int:
        return AT_A_TIME * self.config.batch_sentences

    def decode(self, numbers: Sequence[int], sources: Sequence[list[int]], done: int) -> None:
        """Search for the outputs of some sentences, by number, after so many others."""
        demands = [self.demands[i] for i in numbers] if self.demands else None
        tell, take = partial(self.tell, done), partial(self.take, numbers, sources)
        self.translator.decode(sources, self.n_best, self.config, tell, demands, self.barred, take)

    def tell(self, done: int, more: int) -> None:
        if self.progress:
            self.progress(done + more)

    def take(
        self,
        numbers: Sequence[int],
        sources: Sequence[list[int]],
        places: Sequence[int],
        outputs: Sequence[list[Hypothesis]],
    ) -> None:
        """What was found for the sources at these places becomes text."""
        decode_all = self.translator.tokenizers.target.decode_all
        texts = iter(decode_all([one.tokens for best in outputs for one in best]))
        for place, best in zip(places, outputs, strict=True):
            i, tokens = numbers[place], sources[place]
            sentence, cut = self.sentences[i], self.cuts.get(i, 0)
            if not best:
                raise RegardError(
                    f"No translation of {sentence!r} is all that is asked of it: prefix, phrases, lengths and repeats "
                    "contradict one another."
                )
            new = [
                Translation(sentence, next(texts), one.score, one.log_prob, tokens, one.tokens, cut, one.calls)
                for one in best
            ]
            self.found[i] = new if len(tokens) > 1 else [untranslated(sentence)]


def untranslated(sentence: str) -> Translation:
    """Of a sentence with nothing in it there is nothing to say."""
    return Translation(sentence, "", 0.0, 0.0, [], [])
