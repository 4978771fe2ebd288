"""Sentences of many clients translated together, by one thread that has the models.

A request brings sentences of one kind: one model, one set of options. The thread takes the request that must be
answered first, and with it sentences of its kind from all requests that wait, one from each in turn, until they fill
the budget:

    (sentences) · (tokens of the longest) · (beam)  ≤  batch_tokens

Others of the kind join the search while it goes on (`regard.decode.joining`), unless one of another kind is more
urgent; where the search cannot be joined (another engine, alignments, wishes) they are the next batch, which gathers
meanwhile. A long text so delays a short one by a little, whoever sent it. A request that ends, because its deadline is
past or its client gone, cancels what of it is not begun.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from regard.decode.joining import may_join, translate_as_they_come
from regard.decode.request import Translation, Unmet
from regard.decode.wishes import Wish
from regard.errors import RegardError
from regard.serve.limits import Limits, Refusal
from regard.serve.metrics import Metrics
from regard.serve.models import Served
from regard.tasks.attention import attention_view
from regard.view import AttentionView

MOST_JOINING = 4096  # sentences in one search, before a new one begins: it keeps a little of each
QUIET = 0.002  # seconds in which nothing comes: then nobody else is about to
COMPANY = 0.1  # of the time that the last batch took, at most, may the next one wait for more
Maps = dict[str, Any]  # module path → weights (H, Q, K)


@dataclass(frozen=True)
class Kind:
    """What sentences must have in common to be translated together."""

    model: str
    beam: int
    n_best: int = 1
    options: tuple[tuple[str, Any], ...] = ()  # of [decode]
    wishes: bool = False  # some engines know none
    align: bool = False
    attend: bool = False
    view: bool = False
    said: str | None = None  # the translation that is looked into; none: what is found


@dataclass(frozen=True)
class Answer:
    """What came of one sentence."""

    translations: list[Translation]
    looks: list[Tensor] = field(default_factory=list)  # of each translation, if asked for: target words by source words
    maps: list[Maps] = field(default_factory=list)
    view: AttentionView | None = None  # of the first


@dataclass
class Piece:
    """A sentence that waits."""

    text: str
    wish: Wish
    tokens: list[int]  # of the source
    came: float
    began: float = 0.0
    future: Future[Answer] = field(default_factory=Future)


@dataclass(order=True)
class Order:
    """The sentences of a request."""

    deadline: float  # by time.monotonic()
    number: int
    kind: Kind = field(compare=False)
    pieces: deque[Piece] = field(compare=False)  # those that are not yet taken
    futures: list[Future[Answer]] = field(compare=False)  # of all of them


class Batcher:
    """The queue and the thread. `take` and `translate` are its two halves; everything else is about starting, stopping
    and being full."""

    def __init__(
        self,
        models: dict[str, Served],
        limits: Limits,
        metrics: Metrics,
        batch_tokens: int = 16_384,
        complain: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True),
    ) -> None:
        self.models, self.limits, self.metrics = models, limits, metrics
        self.batch_tokens, self.complain = batch_tokens, complain
        self.orders: list[Order] = []  # the most urgent first; a change makes a new list, so that one may look unlocked
        self.waiting = self.counted = self.accepted = 0
        self.busy = self.stopped = self.draining = self.abandoned = False
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self.work, name="regard-batcher", daemon=True)
        self.mail = Mail(self.thread)

    def start(self) -> None:
        self.thread.start()

    def stop(self, abandon: bool = False) -> None:
        """Finish what waits, then end; or abandon it, and wait for nothing, whoever stops it already."""
        with self.changed:
            self.stopped = self.draining = True
            self.abandoned |= abandon
            if self.abandoned:
                self.orders = []
            self.changed.notify_all()
        while self.thread.is_alive() and not self.abandoned:
            self.thread.join(0.1)

    def drain(self) -> None:
        """Take nothing more."""
        with self.changed:
            self.draining = True

    @property
    def idle(self) -> bool:
        with self.changed:
            return not self.orders and not self.busy

    def submit(
        self, kind: Kind, texts: Sequence[str], wishes: Sequence[Wish], seconds: float, urgent: bool = False
    ) -> Order:
        """Queue sentences, all or none. An urgent order, of which there are few, goes before all others and is taken
        even where the queue is full."""
        served, now = self.models[kind.model], time.monotonic()
        encoded = served.translator.tokenizers.source.encode(texts, threads=1)
        pieces = deque(Piece(*each, now) for each in zip(texts, wishes, encoded, strict=True))
        with self.changed:
            if self.draining:
                raise Refusal(503, "The server is going down: send this again in a moment, to whoever answers then.", 5)
            if not self.thread.is_alive():
                raise Refusal(503, "The server has lost its translator and must be restarted.")
            if not urgent and self.waiting + len(pieces) > self.limits.queue:
                raise Refusal(
                    429,
                    f"{self.waiting:,} sentences wait already, of at most {self.limits.queue:,}: try again soon.",
                    1,
                )
            self.counted += 1
            self.accepted += not urgent
            futures = [piece.future for piece in pieces]
            order = Order(now if urgent else now + seconds, self.counted, kind, pieces, futures)
            orders = list(self.orders)
            insort(orders, order)
            self.orders = orders
            self.waiting += len(pieces)
            self.metrics.queue.set(self.waiting)
            self.changed.notify_all()
        return order

    def cancel(self, order: Order) -> None:
        """Forget what nobody waits for any more."""
        with self.changed:
            self.waiting -= len(order.pieces)
            order.pieces.clear()
            self.orders = [other for other in self.orders if other is not order]
            self.metrics.queue.set(self.waiting)

    def work(self) -> None:
        """The thread."""
        took = 0.0
        while True:
            with self.changed:
                self.busy = False
                self.changed.wait_for(lambda: self.orders or self.stopped)
                if self.orders and not self.joined(self.orders[0].kind):
                    self.wait_for_company(max(QUIET, COMPANY * took))
                if not self.orders:
                    if self.stopped:
                        return
                    continue
                self.busy = True
                kind = self.orders[0].kind
            began = time.monotonic()
            if self.joined(kind):
                self.flow(kind)
            else:
                with self.changed:
                    batch = self.take(kind)
                self.translate(kind, batch)
            took = time.monotonic() - began

    def joined(self, kind: Kind) -> bool:
        """Whether sentences of this kind join the search of others."""
        translator = self.models[kind.model].translator
        try:
            config = translator.options(**dict(kind.options))
        except RegardError:  # which the request will be told
            return False
        return may_join(translator, config) and not (kind.wishes or kind.align or kind.attend or kind.view)

    def wait_for_company(self, longest: float) -> None:
        """Let sentences gather while they keep coming: those whose answers were just sent come back at once, with what
        their clients ask next."""
        until, before = time.monotonic() + longest, -1
        while before != self.waiting and not self.full() and time.monotonic() < until:
            before = self.waiting
            self.changed.wait_for(lambda: self.waiting != before or self.stopped, QUIET)  # noqa: B023

    def full(self) -> bool:
        """Whether the most urgent kind has enough for a batch."""
        if self.stopped or not self.orders:
            return True
        kind = self.orders[0].kind
        pieces = [piece for order in self.orders if order.kind == kind for piece in order.pieces]
        most = self.models[kind.model].translator.config.batch_sentences
        return len(pieces) >= most or sum(len(piece.tokens) for piece in pieces) * kind.beam >= self.batch_tokens

    def take(self, kind: Kind, most: int = 0, beside: Sequence[Piece] = ()) -> list[Piece]:
        """What of this kind is searched next, so many at most, together with what is searched already. What is longer
        than the longest so far makes all as long."""
        most = most or self.models[kind.model].translator.config.batch_sentences
        batch: list[Piece] = []
        longest, room = max((len(piece.tokens) for piece in beside), default=0), True
        while room:
            room = False
            for order in [order for order in self.orders if order.kind == kind and order.pieces]:
                count, longer = len(beside) + len(batch), max(longest, len(order.pieces[0].tokens))
                if len(batch) == most or (count and (count + 1) * longer * kind.beam > self.batch_tokens):
                    break
                longest, room = longer, True
                batch.append(order.pieces.popleft())
        self.orders = [order for order in self.orders if order.pieces]
        self.waiting -= len(batch)
        self.metrics.queue.set(self.waiting)
        if batch:
            self.metrics.batch.labels(kind.model).observe(len(beside) + len(batch))
        now = time.monotonic()
        for piece in batch:
            piece.began = now
            self.metrics.wait.observe(now - piece.came)
        return batch

    def flow(self, kind: Kind) -> None:
        """Search for what there is of a kind, and for what comes meanwhile. Where it fails, what is left of it is
        searched as a batch."""
        stream = Stream(self, kind)
        translator = self.models[kind.model].translator
        try:
            translate_as_they_come(translator, stream, kind.n_best, **dict(kind.options))
        except Exception as error:
            if not isinstance(error, RegardError):  # which the sentence that it is about will be told
                self.failed(error)
            with self.changed:
                left = list(stream.active.values()) or self.take(kind)
            self.translate(kind, left)

    def translate(self, kind: Kind, batch: list[Piece]) -> None:
        """Answer a batch, which may be empty. Sentences whose wishes cannot be met are told so, and the others are
        searched once more; where a batch fails otherwise each sentence is tried alone."""
        try:
            answers = self.search(kind, batch)
        except Unmet as unmet:
            for number, why in unmet.why.items():
                settle(batch[number].future, Refusal(422, why))
            self.mail.send()
            self.translate(kind, [piece for number, piece in enumerate(batch) if number not in unmet.why])
            return
        except Exception as error:
            if len(batch) != 1:
                for piece in batch:
                    self.translate(kind, [piece])
                return
            settle(batch[0].future, self.refusal(error))
            self.mail.send()
            return
        self.answer(kind, list(zip(batch, answers, strict=True)))

    def answer(self, kind: Kind, answers: list[tuple[Piece, Answer]]) -> None:
        best = [answer.translations[0] for _, answer in answers]
        self.metrics.sentences.labels(kind.model).inc(len(best))
        self.metrics.tokens.labels(kind.model, "source").inc(sum(len(one.source_tokens) for one in best))
        self.metrics.tokens.labels(kind.model, "target").inc(sum(len(one.target_tokens) for one in best))
        self.metrics.characters.labels(kind.model).inc(sum(len(piece.text) for piece, _ in answers))
        took, now = self.metrics.search.labels(kind.model), time.monotonic()
        for piece, answer in answers:
            took.observe(now - piece.began)
            settle(piece.future, answer)
        self.mail.send()

    def refusal(self, error: Exception) -> Refusal:
        """What is said of a sentence whose search failed."""
        if isinstance(error, RegardError):
            return Refusal(422, str(error))
        self.failed(error)
        return Refusal(500, f"The translation failed with {type(error).__name__}.")

    def failed(self, error: Exception) -> None:
        self.metrics.failures.inc()
        frames = "".join(traceback.format_tb(error.__traceback__)[-4:])
        self.complain(f"A translation failed with {type(error).__name__}:\n{frames}")  # the rest may have text

    def search(self, kind: Kind, batch: list[Piece]) -> list[Answer]:
        served = self.models[kind.model]
        translator = served.plain if kind.wishes else served.translator
        wishes = [piece.wish for piece in batch] if kind.wishes else None
        if kind.said is not None:
            found = [[served.plain.given(piece.text, kind.said)] for piece in batch]
        else:
            found = translator.search([piece.text for piece in batch], kind.n_best, wishes=wishes, **dict(kind.options))
        looks: list[Tensor] = []
        if kind.align:
            looks = [look.float().cpu() for look in served.plain.word_looks([one for best in found for one in best])]
        answers = []
        for best in found:
            mine, looks = looks[: len(best)], looks[len(best) :]
            maps = [served.plain.attend(one) if one.target_tokens else {} for one in best] if kind.attend else []
            view = attention_view(served.plain, best[0]) if kind.view and best[0].target_tokens else None
            answers.append(Answer(best, mine, maps, view))
        return answers


class Stream:
    """The sentences of one kind, as `translate_as_they_come` takes them."""

    def __init__(self, batcher: Batcher, kind: Kind) -> None:
        self.batcher, self.kind = batcher, kind
        self.active: dict[int, Piece] = {}
        self.taken = 0

    def waiting(self) -> int:
        """How many may join: none where another kind is more urgent. Nothing is locked for a number that only says
        whether to look closer: the list is one that nobody changes."""
        orders = self.batcher.orders
        if not orders or orders[0].kind != self.kind or self.taken >= MOST_JOINING:
            return 0
        return sum(len(order.pieces) for order in orders if order.kind == self.kind)

    def take(self, most: int) -> list[tuple[str, list[int]]]:
        with self.batcher.changed:
            batch = self.batcher.take(self.kind, most, list(self.active.values()))
        self.active |= dict(enumerate(batch, start=self.taken))
        self.taken += len(batch)
        return [(piece.text, piece.tokens) for piece in batch]

    def give(self, found: list[tuple[int, list[Translation]]]) -> None:
        pairs = [(self.active.pop(number), best) for number, best in found]
        self.batcher.answer(self.kind, [(piece, Answer(best)) for piece, best in pairs if best])
        for piece in (piece for piece, best in pairs if not best):
            # What is asked of outputs contradicts itself, which is said where they are searched for alone.
            self.batcher.translate(self.kind, [piece])


class Mail:
    """Answers on their way to the event loop in which requests wait for them.

    What is ready together wakes the loop once: two threads of Python take turns, and while the loop is at work the
    search, which it wakes up in, mostly is not.
    """

    def __init__(self, thread: threading.Thread) -> None:
        self.thread = thread  # the one that answers
        self.ready: list[tuple[asyncio.Future[Answer], Future[Answer]]] = []

    def awaited(self, future: Future[Answer]) -> asyncio.Future[Answer]:
        """What a request in this event loop awaits for an answer."""
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def done(future: Future[Answer]) -> None:
            if threading.current_thread() is self.thread:
                self.ready.append((waiting, future))
            else:  # it was there already, or somebody cancels it
                deliver([(waiting, future)])

        future.add_done_callback(done)
        return waiting

    def send(self) -> None:
        if self.ready:
            ready, self.ready = self.ready, []
            with suppress(RuntimeError):  # the loop has ended, and everybody in it
                ready[0][0].get_loop().call_soon_threadsafe(deliver, ready)


def deliver(ready: list[tuple[asyncio.Future[Answer], Future[Answer]]]) -> None:
    for waiting, future in ready:
        if waiting.done():
            continue
        if future.cancelled():
            waiting.cancel()
        elif error := future.exception():
            waiting.set_exception(error)
        else:
            waiting.set_result(future.result())


def settle(future: Future[Answer], result: Answer | Exception) -> None:
    """Give a future its result, unless nobody waits for it any more."""
    if not future.set_running_or_notify_cancel():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
