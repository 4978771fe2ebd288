"""Who and what: noun phrases, names, pronouns and phrases with a preposition, in both languages.

Every class here says itself in English and in German, in any case it is asked for, with the units that link the
words of the one to the words of the other. Choices fixed here:
- a name in front ("Anna's dog", Annas Hund) owns a singular only, since Annas Lehrer could be one or many;
- any other owner is a genitive, which follows in German ("my brother's dog", der Hund meines Bruders);
- names of people never take an article, and "Anna and Paul" are plural.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Protocol

from regard.data.generated import english, german
from regard.data.generated.alignment import ADJECTIVE as ADJECTIVE_UNIT
from regard.data.generated.alignment import (
    DETERMINER,
    NEGATION,
    NOUN,
    OWNER,
    OWNER_DETERMINER,
    PLACE,
    PREPOSITION,
    VERY,
    Token,
)
from regard.data.generated.german import CONTRACTIONS, Case, Gender, Person
from regard.data.generated.lexicon import (
    HE,
    NAMES,
    NOT_A,
    SHE,
    THE,
    THEY,
    Adjective,
    Determiner,
    Noun,
    PronounEntry,
)


class Nominal(ABC):
    """What can be a subject or an object."""

    __slots__ = ()

    @property
    @abstractmethod
    def person(self) -> Person: ...

    @property
    def definite(self) -> bool:
        return True

    @property
    def pronominal(self) -> bool:
        return False

    @property
    def negative(self) -> bool:
        """Whether it carries the negation of its clause: keinen Hund."""
        return False

    @property
    @abstractmethod
    def head(self) -> str:
        """The English word it is about."""

    @property
    def pairing(self) -> tuple[str, str] | None:
        """The adjective and noun that stand together here, if they do."""
        return None

    @abstractmethod
    def english(self, case: Case) -> Sequence[Token]: ...

    @abstractmethod
    def german(self, case: Case) -> Sequence[Token]: ...

    @abstractmethod
    def taken_up(self) -> PronounEntry | None:
        """The pronoun that can stand for it in a second clause, if one can in both languages."""


class Adverbial(Protocol):
    """Where, when or how often: a `Phrase`, or a `Prepositional`."""

    @property
    def english(self) -> Sequence[Token]: ...

    @property
    def german(self) -> Sequence[Token]: ...

    @property
    def nominal(self) -> Nominal | None: ...


class Owner(NamedTuple):
    """Whose: "my brother's", meines Bruders."""

    determiner: Determiner
    noun: Noun


@dataclass(frozen=True, slots=True)
class NounPhrase(Nominal):
    unit: int
    noun: Noun
    determiner: Determiner
    plural: bool = False
    adjective: Adjective | None = None
    very: bool = False
    owner: Owner | None = None  # in place of the determiner

    @property
    def person(self) -> Person:
        return "3pl" if self.plural else "3sg"

    @property
    def definite(self) -> bool:
        return self.owner is not None or self.determiner.definite

    @property
    def negative(self) -> bool:
        return self.determiner is NOT_A

    def english(self, case: Case) -> list[Token]:
        unit, tokens = self.unit, []
        if self.adjective is not None:
            if self.very:
                tokens.append(Token("very", (unit + VERY,)))
            tokens.append(Token(self.adjective.english, (unit + ADJECTIVE_UNIT,)))
        word = english.plural(self.noun.english) if self.plural else self.noun.english
        tokens.append(Token(word, (unit + NOUN,)))
        if self.owner is not None:
            whose = Token(self.owner.noun.english + "'s", (unit + OWNER, unit + DETERMINER))
            return [Token(self.owner.determiner.english, (unit + OWNER_DETERMINER,)), whose, *tokens]
        several = self.plural or (self.noun.mass and self.negative)
        first = self.determiner.english_plural if several else self.determiner.english
        if first == "a":
            first = english.article(tokens[0].text)
        return [Token(first, (unit + DETERMINER,)), *tokens] if first else tokens

    def german(self, case: Case) -> list[Token]:
        unit, noun, tokens = self.unit, self.noun, []
        gender: Gender = "p" if self.plural else noun.gender
        determiner = self.determiner if self.owner is None else THE
        if first := german.determiner(determiner.german, gender, case):
            units = (unit + DETERMINER, NEGATION) if self.negative else (unit + DETERMINER,)
            tokens.append(Token(first, units))
        if self.adjective is not None:
            if self.very:
                tokens.append(Token("sehr", (unit + VERY,)))
            inflected = german.adjective(self.adjective.german, determiner.paradigm, gender, case)
            tokens.append(Token(inflected, (unit + ADJECTIVE_UNIT,)))
        tokens.append(Token(german.noun(noun.german, noun.plural, gender, noun.weak, case), (unit + NOUN,)))
        if self.owner is not None:
            whose, of = self.owner.noun, self.owner.determiner
            tokens.append(Token(german.determiner(of.german, whose.gender, "gen"), (unit + OWNER_DETERMINER,)))
            genitive = german.noun(whose.german, whose.plural, whose.gender, whose.weak, "gen")
            tokens.append(Token(genitive, (unit + OWNER,)))
        return tokens

    @property
    def pairing(self) -> tuple[str, str] | None:
        return None if self.adjective is None else (self.adjective.english, self.noun.english)

    @property
    def head(self) -> str:
        return self.noun.english

    def taken_up(self) -> PronounEntry | None:
        if "person" not in self.noun.tags:
            return None
        if self.plural:
            return THEY
        return {"he": HE, "she": SHE}.get(self.noun.sex)


@dataclass(frozen=True, slots=True)
class Named(Nominal):
    """One person, or two."""

    unit: int
    first: str
    second: str = ""

    @property
    def person(self) -> Person:
        return "3pl" if self.second else "3sg"

    def english(self, case: Case) -> list[Token]:
        return self._with("and")

    def german(self, case: Case) -> list[Token]:
        return self._with("und")

    def _with(self, conjunction: str) -> list[Token]:
        tokens = [Token(self.first, (self.unit + NOUN,))]
        if self.second:
            tokens += (Token(conjunction, (self.unit + PREPOSITION,)), Token(self.second, (self.unit + OWNER,)))
        return tokens

    @property
    def head(self) -> str:
        return self.first

    def taken_up(self) -> PronounEntry | None:
        return THEY if self.second else HE if NAMES[self.first] == "he" else SHE


@dataclass(frozen=True, slots=True)
class Pronoun(Nominal):
    unit: int
    entry: PronounEntry

    @property
    def person(self) -> Person:
        return self.entry.person

    @property
    def pronominal(self) -> bool:
        return True

    def english(self, case: Case) -> list[Token]:
        return [Token(self.entry.english if case == "nom" else self.entry.english_object, (self.unit + NOUN,))]

    def german(self, case: Case) -> list[Token]:
        entry = self.entry
        form = {"nom": entry.nominative, "acc": entry.accusative}.get(case, entry.dative)
        return [Token(form, (self.unit + NOUN,))]

    @property
    def head(self) -> str:
        return self.entry.english

    def taken_up(self) -> PronounEntry | None:
        return self.entry


@dataclass(frozen=True, slots=True)
class Prepositional:
    """A preposition and what follows it; the German article contracts with it where it can."""

    english_preposition: str
    german_preposition: str
    case: Case
    nominal: Nominal

    @property
    def english(self) -> list[Token]:
        # "acc" for any case but the nominative: English only tells "I" from "me".
        words = self.english_preposition.split()
        return [*(Token(word, PREPOSITION_UNITS) for word in words), *self.nominal.english("acc")]

    @property
    def german(self) -> list[Token]:
        first, *rest = self.nominal.german(self.case)
        if contracted := CONTRACTIONS.get((self.german_preposition, first.text)):
            return [Token(contracted, PREPOSITION_UNITS + first.units), *rest]
        return [Token(self.german_preposition, PREPOSITION_UNITS), first, *rest]


PREPOSITION_UNITS = (PLACE + PREPOSITION,)


@cache
def name_as_owner(name: str) -> Determiner:
    """Anna's, Annas: a determiner that nothing can change, so an adjective after it is strong."""
    return Determiner(name + "'s", "", name + "s", "strong", True)
