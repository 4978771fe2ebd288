"""Built-in corpora that need no download: English and German from a small grammar, and symbol sequences.

`generate("en-de", "train", 40_000)` gives sentence pairs with their word alignments. The grammar is written so that
every sentence has exactly one translation in each direction, so an exact match means something. The rules that see
to it are listed at the top of the file they live in:

    lexicon.py, nouns.py, verbs.py, adjectives.py, places.py   one word for one word in each place of a sentence
    english.py                                                 tenses, "not", a and an
    german.py                                                  endings, contractions, Perfekt or Präteritum
    clauses.py, sentences.py                                   word order, nicht and kein, commas
    phrases.py                                                 owners and pronouns
    draw_*.py                                                  what goes with what

A sentence belongs to one split for ever: a checksum of its source decides. The split `combinations` has the sentences
that contain a pairing of words (adjective and noun, or verb and object) which occurs in none of the other splits, while
each of the two words does.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random
from zlib import crc32

from regard.data.generated.alignment import Token, links
from regard.data.generated.draw_phrases import Dice
from regard.data.generated.draw_sentences import draw_sentence
from regard.data.generated.sentences import Sentence, text
from regard.data.generated.symbols import draw_symbols, transformed

CORPORA = ("en-de", "de-en", "copy", "reverse")
SPLITS = ("train", "valid", "test", "combinations")

# Far below what the grammar can say, so that drawing until there are enough always comes to an end.
LARGEST = {"train": 1_000_000, "valid": 50_000, "test": 50_000, "combinations": 50_000}

SHORTEST, LONGEST = 3, 14  # words of an English sentence


@dataclass(frozen=True, slots=True)
class Pair:
    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]  # (source word, target word), counted from 0; words are `text.split()`


def generate(corpus: str, split: str, n: int, seed: int = 1) -> list[Pair]:
    """The first `n` distinct pairs of a split; the same arguments always give the same pairs."""
    if corpus not in CORPORA:
        raise ValueError(f"There is no built-in corpus {corpus!r}; there are {', '.join(CORPORA)}.")
    if split not in SPLITS:
        raise ValueError(f"There is no split {split!r}; there are {', '.join(SPLITS)}.")
    if not 1 <= n <= LARGEST[split]:
        raise ValueError(f"The split {split!r} has 1 to {LARGEST[split]} pairs to give, not {n}.")
    if split not in splits(corpus):
        raise ValueError(f"The corpus {corpus!r} has no combinations of words to hold out; use 'test'.")
    if corpus in ("copy", "reverse"):
        return _symbol_pairs(corpus, split, n, seed)
    pairs = _sentence_pairs(split, n, seed)
    return pairs if corpus == "en-de" else [_swapped(pair) for pair in pairs]


def splits(corpus: str) -> tuple[str, ...]:
    """What a corpus has: symbols have no combinations of words to hold out."""
    return SPLITS[:-1] if corpus in ("copy", "reverse") else SPLITS


def sides(corpus: str) -> tuple[str, str]:
    """What its two sides are called: en and de, or source and target."""
    source, _, target = corpus.partition("-")
    return (source, target) if target else ("source", "target")


def split_of(source: str) -> str:
    """Where a sentence without a held-out combination belongs."""
    bucket = crc32(source.encode()) % 100
    return "valid" if bucket < 4 else "test" if bucket < 8 else "train"


def _sentence_pairs(split: str, n: int, seed: int) -> list[Pair]:
    pairs = []
    for sentence, english in islice(distinct_sentences(split, seed), n):
        german = sentence.german()
        pairs.append(Pair(text(english), text(german), links(english, german)))
    return pairs


def distinct_sentences(split: str, seed: int) -> Iterator[tuple[Sentence, list[Token]]]:
    """Sentences of a split without end, with their English words."""
    seen: set[str] = set()
    dice = Dice(f"sentences {split} {seed}")
    while True:
        sentence = draw_sentence(dice)
        held_out = sentence.held_out()
        if held_out != (split == "combinations"):
            continue
        english = sentence.english()
        source = text(english)
        if SHORTEST <= len(english) <= LONGEST and source not in seen and (held_out or split_of(source) == split):
            seen.add(source)
            yield sentence, english


def _symbol_pairs(corpus: str, split: str, n: int, seed: int) -> list[Pair]:
    pairs: dict[str, Pair] = {}
    random = Random(f"symbols {split} {seed}")
    while len(pairs) < n:
        symbols = draw_symbols(random)
        source = " ".join(symbols)
        if source not in pairs and split_of(source) == split:
            target, alignment = transformed(corpus, symbols)
            pairs[source] = Pair(source, " ".join(target), alignment)
    return list(pairs.values())


def _swapped(pair: Pair) -> Pair:
    return Pair(pair.target, pair.source, tuple(sorted((j, i) for i, j in pair.alignment)))
