"""Subword regularisation: the same words in other pieces each time they are seen.

BPE-dropout (Provilkov et al., 2020) leaves out each merge with probability p; a unigram model (Kudo, 2018) draws from
the segmentations it thinks likely. Subwords never cross a word's border, so a corpus is kept as numbers of words, every
word has a table of segmentations drawn once, and a training example draws one for each of its words.

The draw follows from the seed and the example's number alone, which goes on through the epochs (`BatchOrder`): a
resumed run sees what an undisturbed one would have seen, on any number of ranks.

Departure from both papers: a segmentation is one of `VARIANTS` drawn beforehand, not a fresh one. SentencePiece can
draw too, but not the same again in another process, so drawing is done here.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from regard.data.tokenizer import BOS, PAD, UNK, Ragged, Tokenizer

VARIANTS = 16
MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True)
class SampledRagged:
    """Sequences that are drawn when they are taken. Sequence number i + e·n is sequence i as epoch e sees it."""

    words: Ragged  # of each sequence
    variants: Ragged  # `n_variants` segmentations of word 0, then those of word 1, …; the first is the tokenizer's own
    n_variants: int
    seed: int
    longest: int  # a sequence that would be longer is left as the tokenizer has it

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def lengths(self) -> np.ndarray:
        """What to expect of each sequence, rounded up."""
        by_word = self.variants.lengths.reshape(-1, self.n_variants).mean(axis=1)
        totals = np.concatenate([[0.0], np.cumsum(by_word[self.words.values])])
        return np.ceil(np.diff(totals[self.words.offsets])).astype(np.int64)

    def take(self, numbers: np.ndarray) -> Ragged:
        words = self.words.take(numbers % len(self))
        segmentations = words.values.astype(np.int64) * self.n_variants
        chosen = segmentations + self.draw(numbers, words)
        totals = np.concatenate([[0], np.cumsum(self.variants.lengths[chosen])])
        too_long = np.diff(totals[words.offsets]) > self.longest
        if too_long.any():
            chosen = np.where(np.repeat(too_long, words.lengths), segmentations, chosen)
        drawn = self.variants.take(chosen)
        return Ragged(drawn.values, drawn.offsets[words.offsets])

    def draw(self, numbers: np.ndarray, words: Ragged) -> np.ndarray:
        """Which segmentation each word gets."""
        places = np.arange(len(words.values)) - np.repeat(words.offsets[:-1], words.lengths)
        drawn = chance(self.seed, np.repeat(numbers, words.lengths), places)
        return (drawn % np.uint64(self.n_variants)).astype(np.int64)


def chance(seed: int, numbers: np.ndarray, places: np.ndarray) -> np.ndarray:
    """64 random bits for each place in each example, always the same: a hash (splitmix64) of seed, number and place."""
    with np.errstate(over="ignore"):
        x = numbers.astype(np.uint64) * MIX[0] + np.uint64(seed)
        x = (x + places.astype(np.uint64)) * MIX[0]
        x = (x ^ (x >> np.uint64(30))) * MIX[1]
        x = (x ^ (x >> np.uint64(27))) * MIX[2]
        return x ^ (x >> np.uint64(31))


def sampled(tokenizer: Tokenizer, kind: str, tokens: Ragged, alpha: float, seed: int, longest: int) -> SampledRagged:
    """The corpus `tokens` with segmentations to draw from; alpha is BPE-dropout's p or the unigram model's exponent."""
    spans = word_spans(tokenizer, tokens)
    numbers, examples = distinct(tokens.values, spans)
    words = Ragged(numbers, np.searchsorted(spans[:-1], tokens.offsets))
    own = [tokens.values[spans[i] : spans[i + 1]].tolist() for i in examples]
    return SampledRagged(words, segmentations(tokenizer, kind, own, alpha, seed), VARIANTS, seed, longest)


def as_it_is(tokenizer: Tokenizer, tokens: Ragged, longest: int) -> SampledRagged:
    """The corpus `tokens` with nothing to draw: each token has one segmentation, itself."""
    own = Ragged.of([[token] for token in range(tokenizer.vocab_size)])
    return SampledRagged(tokens, own, 1, 0, longest)


def word_spans(tokenizer: Tokenizer, tokens: Ragged) -> np.ndarray:
    """Where each word begins in the flat tokens, and their end. The end symbol is a word of its own."""
    begins = tokenizer.begins()
    begins[[PAD, BOS]] = True
    starts = begins[tokens.values]
    starts[tokens.offsets[:-1][tokens.lengths > 0]] = True
    return np.append(np.flatnonzero(starts), len(tokens.values))


def distinct(values: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number of each span's content among the different ones, and a span that has it."""
    lengths = np.diff(spans)
    places = np.arange(len(values)) - np.repeat(spans[:-1], lengths)
    with np.errstate(over="ignore"):  # a polynomial hash of 64 bits
        powers = MIX[1] ** np.arange(1, int(lengths.max(initial=0)) + 1, dtype=np.uint64)
        terms = (values.astype(np.uint64) + np.uint64(1)) * powers[places]
        hashes = np.add.reduceat(terms, spans[:-1]) if len(lengths) else np.empty(0, np.uint64)
    _, examples, numbers = np.unique(hashes, return_index=True, return_inverse=True)
    return numbers.astype(np.int32), examples


def segmentations(tokenizer: Tokenizer, kind: str, words: list[list[int]], alpha: float, seed: int) -> Ragged:
    """`VARIANTS` for each word: its own, then drawn ones. A word with a character that is unknown, or spelled in bytes,
    stays as it is."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    spelling = {i for i in range(tokenizer.vocab_size) if i <= UNK or tokenizer.processor.is_byte(i)}
    numbers = {piece: i for i, piece in enumerate(pieces) if i not in spelling}
    scores = {piece: tokenizer.processor.get_score(tokenizer.processor.piece_to_id(piece)) for piece in numbers}
    draw = bpe_dropout if kind == "bpe" else unigram_sampling
    chance, drawn = random.Random(seed), list[list[int]]()
    for word in words:
        drawn.append(word)
        others = [word] * (VARIANTS - 1)
        if spelling.isdisjoint(word):
            text = "".join(pieces[i] for i in word)
            others = [[numbers[piece] for piece in some] for some in draw(text, scores, alpha, chance, VARIANTS - 1)]
        drawn.extend(others)
    return Ragged.of(drawn)


def bpe_dropout(text: str, scores: dict[str, float], p: float, chance: random.Random, n: int) -> Iterator[list[str]]:
    """Merge by merge, the best of those that are not dropped this time, until none is left."""
    for _ in range(n):
        symbols = list(text)
        while True:
            merged = [left + right for left, right in pairwise(symbols)]
            left = [(scores[s], -i) for i, s in enumerate(merged) if s in scores and chance.random() >= p]
            if not left:
                break
            i = -max(left)[1]
            symbols[i : i + 2] = [merged[i]]
        yield symbols


def unigram_sampling(
    text: str, scores: dict[str, float], alpha: float, chance: random.Random, n: int
) -> Iterator[list[str]]:
    """Segmentations with probability ∝ (Π p(piece))^α: weights of all beginnings forwards, then drawn backwards."""
    ways: list[list[tuple[int, float]]] = [[]]  # for each end, the starts of its last piece and their weights
    totals = [1.0]
    for end in range(1, len(text) + 1):
        starts = [start for start in range(end) if text[start:end] in scores and totals[start]]
        ways.append([(start, totals[start] * math.exp(alpha * scores[text[start:end]])) for start in starts])
        totals.append(sum(weight for _, weight in ways[end]))
    for _ in range(n):
        end, pieces = len(text), list[str]()
        while end:
            (start, _), *_ = chance.choices(ways[end], [weight for _, weight in ways[end]])
            pieces.append(text[start:end])
            end = start
        yield pieces[::-1]
