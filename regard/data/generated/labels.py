"""Texts with labels that need no download.

`polarity`: a sentence praises or blames, and a word such as "not" or "hardly" turns the next judgement round, so that
the same words in another order mean the opposite. `word-classes`: words such as "paint" and "light" are nouns, verbs or
adjectives by their neighbours alone.
"""

from __future__ import annotations

import zlib
from random import Random

Labelled = tuple[tuple[str, ...], tuple[str, ...]]  # words, and one label or one for each of them

THINGS = ("film", "plot", "music", "acting", "ending", "story", "cast", "book", "play", "song")
PRAISE = ("good", "fine", "clever", "lovely", "bright", "strong")
BLAME = ("bad", "dull", "weak", "silly", "boring", "poor")
TURNING = ("not", "hardly", "never")
PLAIN = ("really", "very", "quite")
BOTH = ("paint", "light", "water", "change", "open", "clean")  # nouns, verbs and adjectives
NOUNS, VERBS, ADJECTIVES = ("dog", "house", "child"), ("see", "help", "carry"), ("old", "green", "small")


def generate(corpus: str, split: str, size: int) -> list[Labelled]:
    """Drawn with a seed for each split; an example of another split may occur again."""
    chance = Random(zlib.crc32(f"{corpus} {split}".encode()))
    return [polarity(chance) if corpus == "polarity" else word_classes(chance) for _ in range(size)]


def polarity(chance: Random) -> Labelled:
    """Two judgements, the second of which decides; each may be turned round by the word before it."""
    words: list[str] = []
    verdict = True
    for i in range(2):
        good, turned = chance.random() < 0.5, chance.random() < 0.5
        verdict = good != turned
        judgement = chance.choice(PRAISE if good else BLAME)
        adverb = chance.choice(TURNING if turned else PLAIN)
        words += [*(["but"] if i else []), "the", chance.choice(THINGS), "is", adverb, judgement]
    return tuple(words), ("positive" if verdict else "negative",)


def word_classes(chance: Random) -> Labelled:
    """We VERB the (ADJECTIVE) NOUN, with words of which half could be any of them."""

    def one(choices: tuple[str, ...], tag: str) -> tuple[str, str]:
        return chance.choice(chance.choice((choices, BOTH))), tag

    pairs = [("we", "PRON"), one(VERBS, "VERB")]
    for _ in range(chance.randint(1, 2)):
        adjective = [one(ADJECTIVES, "ADJ")] if chance.random() < 0.5 else []
        pairs += [("the", "DET"), *adjective, one(NOUNS, "NOUN"), ("and", "CONJ"), one(VERBS, "VERB")]
    pairs += [("the", "DET"), one(NOUNS, "NOUN")]
    return tuple(word for word, _ in pairs), tuple(tag for _, tag in pairs)
