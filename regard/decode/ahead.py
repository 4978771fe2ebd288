"""Sources of a search that begins when the first of them are tokenised.

A GPU would wait for the tokens of all sentences, which take a tenth of a bulk search. Sentences enter it longest first,
which their bytes tell well enough; the others' tokens are made meanwhile, by a thread that SentencePiece keeps Python
free of.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import overload

from regard.data.tokenizer import Tokenizer

PIECE = 1_024  # texts that are tokenised at a time: Python waits while their tokens become its own


class Unexpected(Exception):
    """A source has more tokens than those that have more bytes led to expect."""


class Ahead(Sequence[list[int]]):
    """The tokens of texts, of which the first so many are there at once."""

    def __init__(self, tokenizer: Tokenizer, texts: Sequence[str], first: int, pool: ThreadPoolExecutor) -> None:
        self.texts, self.tokens = texts, tokenizer.encode(texts[:first])
        starts = range(first, len(texts), PIECE)
        self.coming = [pool.submit(tokenizer.encode, texts[start : start + PIECE]) for start in starts]

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, index: int) -> list[int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[int]]: ...
    def __getitem__(self, index: int | slice) -> list[int] | list[list[int]]:
        end = index.indices(len(self))[1] if isinstance(index, slice) else index + 1
        while len(self.tokens) < end and self.coming:
            self.tokens += self.coming.pop(0).result()
        return self.tokens[index]


@contextmanager
def ahead(tokenizer: Tokenizer, texts: Sequence[str], first: int) -> Iterator[Ahead]:
    """What has not been tokenised in the end never is."""
    pool = ThreadPoolExecutor(1)
    try:
        yield Ahead(tokenizer, texts, first, pool)
    finally:
        pool.shutdown(cancel_futures=True)


class Limits(Sequence[int]):
    """The most tokens that the output of each source may have: of its length."""

    def __init__(self, sources: Ahead, of: Callable[[int], int]) -> None:
        self.sources, self.of = sources, of
        self.room = sys.maxsize  # tokens of a source that there is place for

    def __len__(self) -> int:
        return len(self.sources)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return [self.limit(len(source)) for source in self.sources[index]]
        return self.limit(len(self.sources[index]))

    def limit(self, length: int) -> int:
        if length > self.room:
            raise Unexpected
        return self.of(length)


def size(text: str) -> int:
    """In bytes: of two languages the one with the longer words need not have the shorter sentences."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
