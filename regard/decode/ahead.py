"""Sources of a search that begins when the first of them are tokenised.

A GPU would wait for the tokens of all sentences, which take a tenth of a bulk search. Longer sentences enter it first,
and their bytes tell well enough which those are; the encoder takes a piece of them, then as many as fill the slots, and
a thread makes the tokens of the others meanwhile. While SentencePiece tokenises, Python is free for the search.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import overload

from regard.data.tokenizer import Tokenizer

TEXTS = 512  # that the thread tokenises at a time, at most: the search has to wait while their tokens become Python's


class Unexpected(Exception):
    """A source has more tokens than those of more bytes led to expect: there is no room for it."""


class Ahead(Sequence[list[int]]):
    """The tokens of texts, of which the first piece is there at once.

    What is asked for before the first step is tokenised then and there: a thread that makes lists of numbers holds
    Python, and whoever starts the encoder would wait for it. The thread begins when somebody asks what there is.
    """

    def __init__(self, tokenizer: Tokenizer, texts: Sequence[str], piece: int, pool: ThreadPoolExecutor) -> None:
        self.tokenizer, self.texts, self.piece, self.pool = tokenizer, texts, piece, pool
        self.tokens = tokenizer.encode(texts[: self.piece])
        self.longest = max(map(len, self.tokens))  # of the first
        self.coming: deque[Future[list[list[int]]]] | None = None  # pieces, once the thread has begun

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, index: int) -> list[int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[int]]: ...
    def __getitem__(self, index: int | slice) -> list[int] | list[list[int]]:
        if isinstance(index, slice):
            places = range(len(self))[index]
            self.wait(max(places, default=-1) + 1)
            return [self.tokens[place] for place in places]
        place = range(len(self))[index]
        self.wait(place + 1)
        return self.tokens[place]

    def wait(self, count: int) -> None:
        while len(self.tokens) < count:
            if self.coming is None:
                self.tokens += self.tokenizer.encode(self.texts[len(self.tokens) : count])
            else:
                self.tokens += self.coming.popleft().result()

    def has(self, count: int) -> bool:
        """Whether the first so many are there. Who asks first makes the thread begin."""
        if self.coming is None:
            starts, encode = range(len(self.tokens), len(self.texts), self.piece), self.tokenizer.encode
            self.coming = deque(self.pool.submit(encode, self.texts[start : start + self.piece]) for start in starts)
        missing = -(-max(0, count - len(self.tokens)) // self.piece)
        return all(piece.done() for piece in islice(self.coming, missing))


@contextmanager
def ahead(tokenizer: Tokenizer, texts: Sequence[str], slots: int) -> Iterator[Ahead]:
    """For a search of so many slots. What has not been tokenised in the end never is."""
    pool = ThreadPoolExecutor(1)
    try:
        yield Ahead(tokenizer, texts, min(TEXTS, slots), pool)
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
