"""Words that know what they mean, so that the links between two sentences come from how they were built.

Every word of either language carries the *units* of meaning it expresses: small numbers, given out below, one
for each place in a clause. Two words are linked when they share a unit. A word may carry several: German "im"
is both the preposition and the article of "in the", and "keinen" both the negation and the article of
"not … a".
"""

from typing import NamedTuple

# Where the units of each constituent start; the ten that follow belong to it.
SUBJECT, OBJECT, RECIPIENT, PLACE, TIME = 0, 10, 20, 30, 40

# Within a noun phrase.
DETERMINER, ADJECTIVE, NOUN, PREPOSITION, OWNER_DETERMINER, OWNER, VERY = range(7)

# The rest of a clause. FINITE is what carries the tense (is, did, hat, wird, kann), VERB what carries the sense.
VERB, FINITE, NEGATION, FREQUENCY, CONJUNCTION, QUESTION, PREDICATE, DEGREE = range(50, 58)

# A second clause has the same units, this much higher.
SECOND_CLAUSE = 100


class Token(NamedTuple):
    text: str
    units: tuple[int, ...]


Tokens = tuple[Token, ...]


class Phrase(NamedTuple):
    """Something that never changes its form, in both languages."""

    english: Tokens
    german: Tokens

    @property
    def nominal(self) -> None:
        """No noun in it is open to choice, as one is in a `Prepositional`."""


def phrase(unit: int, english: str, german: str, links: str = "") -> Phrase:
    """A fixed phrase; `links` are like "0-1 1-0", English word first, and word for word where not given."""
    words, wörter = english.split(), german.split()
    pairs = [(int(i), int(j)) for i, j in (link.split("-") for link in links.split())]
    pairs = pairs or [(i, i) for i in range(len(words))]
    return Phrase(
        tuple(Token(w, tuple(unit + k for k, (i, _) in enumerate(pairs) if i == at)) for at, w in enumerate(words)),
        tuple(Token(w, tuple(unit + k for k, (_, j) in enumerate(pairs) if j == at)) for at, w in enumerate(wörter)),
    )


def second_clause(tokens: list[Token]) -> list[Token]:
    return [Token(text, tuple(unit + SECOND_CLAUSE for unit in units)) for text, units in tokens]


def links(source: list[Token], target: list[Token]) -> tuple[tuple[int, int], ...]:
    """The pairs (source word, target word) that share a unit, in order."""
    where: dict[int, list[int]] = {}
    for j, token in enumerate(target):
        for unit in token.units:
            where.setdefault(unit, []).append(j)
    return tuple(
        sorted({(i, j) for i, token in enumerate(source) for unit in token.units for j in where.get(unit, ())})
    )
