"""A request's texts on their way through the batcher: cut, checked, translated by a deadline, and put together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from regard.data.scripts import unspaced
from regard.decode.phrases import Glossary
from regard.decode.wishes import Wish
from regard.errors import RegardError
from regard.serve.batcher import Answer, Batcher, Kind
from regard.serve.limits import Limits, Refusal
from regard.serve.models import Served
from regard.serve.sentences import Text, split
from regard.wording import counted


def whole(text: str) -> str:
    """Text as it is, unless JSON has brought half of a character, which no tokenizer can read."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("has half of a surrogate pair, which is no character: leave it out") from None
    return text


MOST = 1_000_000  # of any number in a request, whatever a server allows: Python does not write out numbers without end

Words = Annotated[str, AfterValidator(whole)]
Count = Annotated[int, Field(ge=1, le=MOST)]


@dataclass(frozen=True)
class Task:
    """What is asked, whichever interface it came by."""

    served: Served
    texts: Sequence[str]
    beam: int | None = None
    n_best: int = 1
    prefix: str = ""
    glossary: Mapping[str, str] | None = None
    align: bool = False
    attend: bool = False
    by: str = "sentences"
    seconds: float | None = None
    view: bool = False
    said: str | None = None

    @property
    def terms(self) -> Mapping[str, str]:
        return self.glossary or {}

    @cached_property
    def width(self) -> int:
        return max(self.beam or self.served.translator.config.beam_size, self.n_best)

    def check(self, limits: Limits) -> None:
        characters = sum(map(len, self.texts))
        at_most(413, "texts", len(self.texts), limits.items, "send fewer at a time")
        at_most(413, "characters in all", characters, limits.characters, "send less at a time")
        if self.beam is not None:
            at_most(400, "hypotheses in the beam", self.beam, limits.beam, "ask for fewer")
        at_most(400, "translations of a sentence", self.n_best, limits.n_best, "ask for fewer")
        at_most(413, "terms in the glossary", len(self.terms), limits.glossary_terms, "leave some out")
        for term in (*self.terms, *self.terms.values()):
            at_most(413, "characters in a term of the glossary", len(term), limits.term_characters, "shorten it")
            if not term.strip():
                raise Refusal(422, "A term of the glossary is empty: leave it out.")
        at_most(413, "characters in the prefix", len(self.prefix), 10 * limits.term_characters, "shorten it")
        if self.attend or self.view:
            at_most(
                413, "characters whose attention is asked for", characters, limits.attention_characters, "send less"
            )
        most = 2 * limits.attention_characters
        at_most(413, "characters in the translation that is looked into", len(self.said or ""), most, "shorten it")
        if (self.align or self.attend or self.view) and not self.served.sees:
            raise Refusal(422, f"{self.served.name} is an export, which gives no alignments and no attention.")
        if (self.prefix.strip() or self.terms) and not self.served.sees:
            raise Refusal(422, f"{self.served.name} is an export, which takes no prefix and no glossary.")

    def kind(self) -> Kind:
        options = () if self.beam is None else (("beam_size", self.beam),)
        wishes = bool(self.prefix.strip() or self.terms)
        return Kind(
            self.served.name, self.width, self.n_best, options, wishes, self.align, self.attend, self.view, self.said
        )


def at_most(status: int, what: str, count: int, limit: int, change: str) -> None:
    if count > limit:
        raise Refusal(status, f"{count:,} {what} are more than the {limit:,} allowed here: {change}.")


@dataclass(frozen=True)
class Work:
    """A task cut into sentences."""

    task: Task
    texts: list[Text]
    waiting: list[list[asyncio.Future[Answer]]]  # of the sentences of each text
    deadline: float

    async def answer(self, future: asyncio.Future[Answer]) -> Answer:
        try:
            async with asyncio.timeout(max(0.0, self.deadline - time.monotonic())):
                return await future
        except TimeoutError:
            raise Refusal(
                504, "The translation was not ready by the deadline: send less, ask for a smaller beam, or try later."
            ) from None

    async def whole(self) -> list[list[Answer]]:
        """The answers for the sentences of each text."""
        return [[await self.answer(future) for future in futures] for futures in self.waiting]

    def joined(self, number: int, answers: Sequence[Answer], rank: int = 0) -> str:
        """Text `number` with the translations of this rank; a sentence that has fewer gives its last."""
        best = [answer.translations[min(rank, len(answer.translations) - 1)].text for answer in answers]
        return self.texts[number].filled(best, self.glue)

    def alternatives(self, number: int, answers: Sequence[Answer]) -> list[str]:
        """Text `number` made of each sentence's second best translation, of each one's third best, and so on."""
        most = max((len(answer.translations) for answer in answers), default=1)
        return [self.joined(number, answers, rank) for rank in range(1, most)]

    @property
    def glue(self) -> str:
        served = self.task.served
        return " " if unspaced(served.source) and not unspaced(served.target) else ""


@asynccontextmanager
async def begun(task: Task, batcher: Batcher, limits: Limits) -> AsyncIterator[Work]:
    """Queue what is asked, or refuse it at once; forget what is left of it at the end."""
    task.check(limits)
    texts = [split(text, task.by, limits.sentence_characters) for text in task.texts]
    glossary = Glossary(tuple(task.terms.items()))
    sentences, wishes = [], []
    for text in texts:
        for number, sentence in enumerate(text.sentences):
            prefix = task.prefix if number == 0 else ""
            sentences.append(sentence)
            wishes.append(Wish(prefix, glossary.required(sentence)))
    at_most(413, "sentences", len(sentences), limits.queue, "send less at a time")
    seconds = min(task.seconds or limits.seconds, limits.seconds)
    deadline = time.monotonic() + seconds
    try:
        order = batcher.submit(task.kind(), sentences, wishes, seconds) if sentences else None
    except RegardError as error:
        raise Refusal(422, str(error)) from None
    futures = [batcher.mail.awaited(future) for future in order.futures] if order else []
    rest = iter(futures)
    try:
        yield Work(task, texts, [[next(rest) for _ in text.sentences] for text in texts], deadline)
    finally:
        if order:
            batcher.cancel(order)
        for future in futures:
            if not future.cancel() and not future.cancelled():
                future.exception()  # looked at, lest asyncio logs it, and somebody's text with it


def note(state: Any, task: Task, text: bool) -> None:
    """What the log says of a request; its text only where that is wanted."""
    texts, characters = counted(len(task.texts), "text"), counted(sum(map(len, task.texts)), "character")
    said = f", {task.served.name}, {texts}, {characters}"
    state.note = said + (f": {list(task.texts)!r}" if text else "")
