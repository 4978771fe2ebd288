"""One call of `Translator.search`: sentences become tokens, tokens outputs, and outputs text, in the order of the call.

A GPU would wait for the tokens of many sentences, so its search begins with the longest (`regard.decode.ahead`). Where
what is asked differs by sentence, or too little is known of their lengths, all are tokenised first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from regard.config import DecodeConfig
from regard.data.batching import in_order_of_length
from regard.decode.ahead import Unexpected, ahead, n_bytes
from regard.decode.state import Hypothesis
from regard.decode.wishes import Demand, equally_wide
from regard.errors import RegardError
from regard.wording import counted

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
    cut: int = 0  # source tokens beyond the longest source, which the model has not seen
    calls: int = 0  # of the decoder, where they are not one for each token


class Unmet(RegardError):
    """Sentences of which no translation is all that is asked.

    why: of each, by its place in the call   found: what there is for all sentences, nothing for these
    """

    def __init__(self, why: dict[int, str], found: list[list[Any]]) -> None:
        more = f" {counted(len(why) - 1, 'other sentence')} cannot be as asked either." if len(why) > 1 else ""
        super().__init__(next(iter(why.values())) + more)
        self.why, self.found = why, found


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
    keep: Callable[[Translation], Any]  # what is kept of a translation
    found: list[list[Any]] = field(default_factory=list)  # of each sentence, the best first
    cuts: dict[int, int] = field(default_factory=dict)  # tokens that did not fit
    done: int = 0  # sentences of searches that are over
    told: int = 0

    def answer(self) -> list[list[Any]]:
        self.found = [[] for _ in self.sentences]
        many = len(self.sentences) > 2 * self.config.batch_sentences
        if many and not self.demands and self.barred is None and self.translator.begins_early(self.config):
            for numbers in in_order_of_length([n_bytes(sentence) for sentence in self.sentences], self.at_a_time):
                if not self.begin_early(numbers):
                    self.tokenise_first(numbers)
        else:
            self.tokenise_first(range(len(self.sentences)))
        if why := {i: self.why_not(i) for i, best in enumerate(self.found) if not best}:
            raise Unmet(why, self.found)
        return self.found

    def why_not(self, number: int) -> str:
        """Why no translation of a sentence is all that is asked of it."""
        if self.demands and (fault := self.demands[number].fault):
            return fault
        return (
            f"No translation of {self.sentences[number]!r} is all that is asked of it: prefix, phrases, lengths (with "
            "the end symbol) and repeats contradict one another."
        )

    def hopeless(self, number: int) -> bool:
        """Whether no search can find what is asked of a sentence."""
        if not self.demands:
            return False
        demand = self.demands[number]
        return bool(demand.fault) or demand.least > self.translator.longest_output(self.config)

    @property
    def at_a_time(self) -> int:
        return AT_A_TIME * self.config.batch_sentences

    def begin_early(self, numbers: Sequence[int]) -> bool:
        """Search for the outputs of these sentences; False where one turned out to be longer than there is room for."""
        tokenizer, texts = self.translator.tokenizers.source, [self.sentences[i] for i in numbers]
        try:
            with ahead(tokenizer, texts, self.config.batch_sentences) as sources:
                self.translator.begin(
                    sources, self.n_best, self.config, self.tell, partial(self.take, numbers, sources)
                )
        except Unexpected:
            return False
        self.done += len(numbers)
        return True

    def tokenise_first(self, numbers: Sequence[int]) -> None:
        translator = self.translator
        made = translator.tokenizers.source.encode([self.sentences[i] for i in numbers])
        encoded = dict(zip(numbers, made, strict=True))
        for i, tokens in encoded.items():
            encoded[i] = translator.fit(tokens, self.config)
            if cut := len(tokens) - len(encoded[i]):
                self.cuts[i] = cut
            elif len(tokens) == 1:
                self.found[i] = [self.keep(untranslated(self.sentences[i]))]
        filled = [i for i, tokens in encoded.items() if len(tokens) > 1 and not self.hopeless(i)]
        self.done += len(encoded) - len(filled)
        at_a_time = max(1, len(filled)) if translator.engine else self.at_a_time
        for alike in equally_wide(filled, self.demands) if self.demands else [filled]:
            for group in in_order_of_length([len(encoded[i]) for i in alike], at_a_time):
                some = [alike[i] for i in group]
                sources = [encoded[i] for i in some]
                demands = [self.demands[i] for i in some] if self.demands else None
                take = partial(self.take, some, sources)
                translator.decode(sources, self.n_best, self.config, self.tell, demands, self.barred, take)
                self.done += len(some)

    def tell(self, more: int) -> None:
        """So many of the sentences that are at work are done. What is done again is not told again."""
        if self.progress and self.done + more > self.told:
            self.told = self.done + more
            self.progress(self.told)

    def take(
        self,
        numbers: Sequence[int],
        sources: Sequence[list[int]],
        places: Sequence[int],
        outputs: Sequence[list[Hypothesis]],
    ) -> None:
        """What was found for the sources at these places becomes text."""
        decode_all, keep = self.translator.tokenizers.target.decode_all, self.keep
        texts = iter(decode_all([one.tokens for best in outputs for one in best]))
        for place, best in zip(places, outputs, strict=True):
            i, tokens = numbers[place], sources[place]
            sentence, cut = self.sentences[i], self.cuts.get(i, 0)
            self.found[i] = [
                keep(Translation(sentence, next(texts), one.score, one.log_prob, tokens, one.tokens, cut, one.calls))
                for one in best
            ]
            if len(tokens) == 1:
                self.found[i] = [self.keep(untranslated(sentence))]


def whole(translation: Translation) -> Translation:
    """For those who keep all of it."""
    return translation


def untranslated(sentence: str) -> Translation:
    """Of a sentence with nothing in it there is nothing to say."""
    return Translation(sentence, "", 0.0, 0.0, [], [])
