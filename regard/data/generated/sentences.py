"""A sentence: one clause or two, said in English and in German.

A subordinate clause has "that", "whether", "because", "although" or "if" in front, and its verb last in German.
Where it comes first it is followed by a comma in both languages, and the German main clause begins with its verb.
Where it comes last only German has the comma.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from zlib import crc32

from regard.data.generated.alignment import CONJUNCTION, QUESTION, Phrase, Token, phrase, second_clause
from regard.data.generated.clauses import Clause, Order, english_words, german_words
from regard.data.generated.nouns import NOUN

THAT = phrase(CONJUNCTION, "that", "dass")
WHETHER = phrase(CONJUNCTION, "whether", "ob")
BECAUSE = phrase(CONJUNCTION, "because", "weil")
ALTHOUGH = phrase(CONJUNCTION, "although", "obwohl")
IF = phrase(CONJUNCTION, "if", "wenn")

# Subject questions ("Who is sleeping?") are statements about "who"; these ask for all the rest.
WHAT = phrase(QUESTION, "what", "was")
WHOM = phrase(QUESTION, "who", "wen")
TO_WHOM = phrase(QUESTION, "who", "wem")
WHERE = phrase(QUESTION, "where", "wo")
WHERE_TO = phrase(QUESTION, "where", "wohin")
WHEN = phrase(QUESTION, "when", "wann")
WHY = phrase(QUESTION, "why", "warum")


@dataclass(slots=True)
class Sentence:
    main: Clause
    order: Order = "statement"
    mark: str = "."
    asks: Phrase | None = None
    conjunction: Phrase | None = None
    second: Clause | None = None
    second_first: bool = False

    def english(self) -> list[Token]:
        words = english_words(self.main, self.order)
        if self.asks is not None:
            words = [*self.asks.english, *words]
        if self.second is not None and self.conjunction is not None:
            second = [*self.conjunction.english, *second_clause(english_words(self.second, "subordinate"))]
            words = [*_closed(second, ","), *words] if self.second_first else words + second
        return _closed(words, self.mark)

    def german(self) -> list[Token]:
        words = german_words(self.main, "inverted" if self.second_first else self.order)
        if self.asks is not None:
            words = [*self.asks.german, *words]
        if self.second is not None and self.conjunction is not None:
            second = [*self.conjunction.german, *second_clause(german_words(self.second, "subordinate"))]
            words = [*_closed(second, ","), *words] if self.second_first else [*_closed(words, ","), *second]
        return _closed(words, self.mark)

    def pairings(self) -> Iterator[tuple[str, str]]:
        """The adjectives with their nouns and the verbs with their object nouns, as English words."""
        yield from _pairings(self.main)
        if self.second is not None:
            yield from _pairings(self.second)

    def held_out(self) -> bool:
        """Whether a pairing in it is kept from training, to be tested in `combinations`."""
        return any(is_held_out(*pairing) for pairing in self.pairings())


@cache
def is_held_out(first: str, noun: str) -> bool:
    """One in forty pairings of an adjective or a verb with a noun, the same ones for ever."""
    return crc32(f"{first} {noun}".encode()) % 40 == 0


def text(tokens: list[Token]) -> str:
    line = " ".join(token.text for token in tokens)
    return line[0].upper() + line[1:]


def _closed(words: list[Token], mark: str) -> list[Token]:
    last = words[-1]
    return [*words[:-1], Token(last.text + mark, last.units)]


def _pairings(clause: Clause) -> Iterator[tuple[str, str]]:
    place = None if clause.place is None else clause.place.nominal
    for nominal in (clause.subject, clause.object, clause.recipient, place):
        if nominal is not None and nominal.pairing is not None:
            yield nominal.pairing
    if clause.predicate is not None and clause.subject.head in NOUN:
        yield clause.predicate.english, clause.subject.head
    governed = place if clause.verb.frame == "preposition" else clause.object
    if governed is not None and governed.head in NOUN:
        yield clause.verb.english, governed.head
