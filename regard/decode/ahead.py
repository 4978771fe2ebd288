"""Sources of a search that begins when the first of them are tokenised.

A GPU would wait for the tokens of all sentences, which take a tenth of a bulk search. Longer sentences enter it first,
and their bytes tell well enough which those are. The encoder is started for a piece of them, while a thread tokenises
as many more as fill the slots, in one call; once these have entered and steps are made, the rest in pieces. While
SentencePiece tokenises, Python is free for the search; while its numbers become Python's, it is not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import overload

from regard.data.tokenizer import Tokenizer

TEXTS = 512  # of a piece: the first, and those made beside steps, which wait while its tokens become Python's


class Unexpected(Exception):
    """A source has more tokens than those of more bytes led to expect: there is no room for it."""


class Ahead(Sequence[list[int]]):
    """The tokens of texts, of which the first piece is there at once.

    Those of the other texts of the first slots come as one: whenever tokens become lists, the encoder's kernels wait to
    be started. The rest come in pieces, once somebody asks how many are `ready`.
    """

    def __init__(self, tokenizer: Tokenizer, texts: Sequence[str], slots: int, pool: ThreadPoolExecutor) -> None:
        self.tokenizer, self.texts, self.pool = tokenizer, texts, pool
        self.piece = min(TEXTS, slots)
        self.tokens = tokenizer.encode(texts[: self.piece])
        self.longest = max(map(len, self.tokens))  # of the first
        self.asked = len(self.tokens)  # texts whose tokens are there or are coming
        self.coming: deque[Future[list[list[int]]]] = deque()  # the next pieces, which the thread makes
        self.ask(slots)

    def ask(self, count: int) -> None:
        """Have the thread make the tokens of the next texts, so many of the first in all."""
        count = min(count, len(self.texts))
        if count > self.asked:
            self.coming.append(self.pool.submit(self.tokenizer.encode, self.texts[self.asked : count]))
            self.asked = count

    def ask_for_all(self) -> None:
        for count in range(self.asked, len(self.texts), self.piece):
            self.ask(count + self.piece)

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, index: int) -> list[int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[int]]: ...
    def __getitem__(self, index: int | slice) -> list[int] | list[list[int]]:
        chosen = range(len(self))[index]
        if isinstance(chosen, int):
            self.wait(chosen + 1)
            return self.tokens[chosen]
        self.wait(max(chosen, default=-1) + 1)
        return [self.tokens[place] for place in chosen]

    def wait(self, count: int) -> None:
        if count > self.asked:
            self.ask_for_all()
        while len(self.tokens) < count:
            self.take_next()

    def take_next(self) -> None:
        self.tokens += self.coming[0].result()
        self.coming.popleft()

    def ready(self) -> int:
        """How many of the first are there. Who asks has the thread go on to the last."""
        self.ask_for_all()
        while self.coming and self.coming[0].done():
            self.take_next()
        return len(self.tokens)


@contextmanager
def ahead(tokenizer: Tokenizer, texts: Sequence[str], slots: int) -> Iterator[Ahead]:
    """For a search of so many slots. What has not been tokenised in the end never is."""
    pool = ThreadPoolExecutor(1)
    try:
        yield Ahead(tokenizer, texts, slots, pool)
    finally:
        pool.shutdown(cancel_futures=True)


class LimitsAhead(Sequence[int]):
    """The most tokens that the output of each source may have, which its length tells.

    source_room, room: tokens of a source and of an output that there is place for
    """

    def __init__(self, sources: Ahead, limit: Callable[[int], int], source_room: int, room: int) -> None:
        self.sources, self.limit, self.source_room, self.room = sources, limit, source_room, room

    def __len__(self) -> int:
        return len(self.sources)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            lengths = list(map(len, self.sources[index]))
            known = {length: self.of(length) for length in set(lengths)}
            return [known[length] for length in lengths]
        return self.of(len(self.sources[index]))

    def of(self, length: int) -> int:
        if length > self.source_room or (limit := self.limit(length)) > self.room:
            raise Unexpected
        return limit


def n_bytes(text: str) -> int:
    """Characters would not do: a Chinese one is worth several of English."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
