"""Random noun phrases, subjects, objects and places that make sense.

Words are drawn evenly from those that fit (the tags of nouns.py decide), so that no word of the lexicon is rare.
"""

from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Literal, TypeVar

from regard.data.generated import german
from regard.data.generated.adjectives import ADJECTIVES
from regard.data.generated.alignment import PLACE, SUBJECT
from regard.data.generated.german import Case, Gender, Paradigm
from regard.data.generated.lexicon import (
    BARE,
    HE,
    NAMES,
    NOT_A,
    NUMBERS,
    POSSESSIVES,
    PRONOUNS,
    THE,
    THIS,
    WE,
    A,
    Adjective,
    Determiner,
    I,
    Noun,
)
from regard.data.generated.nouns import nouns_of
from regard.data.generated.phrases import (
    Adverbial,
    Named,
    Nominal,
    NounPhrase,
    Owner,
    Prepositional,
    Pronoun,
    name_as_owner,
)
from regard.data.generated.places import Where
from regard.data.generated.verbs import Verb

T = TypeVar("T")

# What a noun phrase is for decides which determiners it may have; "negated" is the object of a negated clause.
Use = Literal["subject", "object", "familiar", "negated", "definite", "place", "negated place"]

# How many nouns have an adjective: in a sentence of one clause, in one of two, and where the predicate is one.
FULL, BRIEF, PLAIN = 0.45, 0.2, 0.0

HUMAN = frozenset({"person", "grown", "kid"})
FIRST_PERSON = ("I", "we")
NAME_LIST = tuple(NAMES)
OWNERS = nouns_of(frozenset({"person"}))


class Dice:
    """A source of chance; `Random.choice` takes several times as long as `pick`."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed).random

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self.random() * len(items))]

    def chance(self, probability: float) -> bool:
        return self.random() < probability


@cache
def determiners(noun: Noun, plural: bool, use: Use) -> tuple[Determiner, ...]:
    """The determiners that fit, each as often as its share."""
    own = POSSESSIVES if "own" in noun.tags and "public" not in noun.tags else ()
    definite = (THE, *own, *own) if "kin" in noun.tags else (THE, THE, THE, THIS, *own)
    if use in ("definite", "negated place"):
        return definite
    if use == "familiar":
        return (*definite, *[BARE] * 4) if noun.mass else definite
    if use == "place":
        return (*[THE] * 6, *own) if own else (*[THE] * 6, A)
    if use == "negated":
        return definite if "kin" in noun.tags else (*definite, *[NOT_A] * len(definite))
    if noun.mass:
        return definite if use == "subject" else (*definite, *[BARE] * 6)
    if plural:
        # No sentence begins with a bare plural: each, with an adjective or without, would be a rare first word.
        bare = () if use == "subject" or "kin" in noun.tags else (BARE, BARE, BARE)
        return (*definite, *NUMBERS, *bare)
    return definite if "kin" in noun.tags else (*definite, A, A, A)


@cache
def fitting(adjective: Adjective) -> tuple[Noun, ...]:
    """The nouns that an adjective can describe."""
    return nouns_of(adjective.tags)


@cache
def adjectives_for(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives for a noun; those that fit few nouns come several times, or they would be rare everywhere."""
    fit = [adjective for adjective in ADJECTIVES if noun in fitting(adjective)]
    return tuple(adjective for adjective in fit for _ in range(3 if len(fitting(adjective)) < 16 else 1))


@cache
def attributes(noun: Noun, paradigm: Paradigm, plural: bool, case: Case) -> tuple[Adjective, ...]:
    """The adjectives to stand before a noun, without the inflected forms that hardly any sentence would show."""
    gender: Gender = "p" if plural else noun.gender
    ending = german.adjective("", paradigm, gender, case)
    if ending in ("e", "en"):
        return adjectives_for(noun)
    if ending == "er" and noun.gender == "m" and "person" in noun.tags:
        return tuple(adjective for adjective in adjectives_for(noun) if adjective.english != "small")
    if ending == "es":
        return tuple(a for a in adjectives_for(noun) if sum(other.gender == "n" for other in fitting(a)) > 4)
    return ()


def noun_phrase(dice: Dice, unit: int, nouns: Sequence[Noun], use: Use, case: Case, detail: float = FULL) -> NounPhrase:
    noun = dice.pick(nouns)
    # Things and animals have no dative plural here: "with the balls" would be its only use.
    can_be_plural = noun.plural and "place" not in use and (case != "dat" or "person" in noun.tags)
    plural = bool(can_be_plural) and dice.chance(0.25)
    determiner, owner = dice.pick(determiners(noun, plural, use)), None
    if not plural and determiner in POSSESSIVES and dice.chance(0.4):
        if dice.chance(0.5):
            determiner = name_as_owner(dice.pick(NAME_LIST))
        else:
            owner = _owner(dice, noun)
    adjective = None
    paradigm: Paradigm = determiner.paradigm if owner is None else "weak"
    choice = attributes(noun, paradigm, plural, case)
    neuter = noun.gender == "n" and not plural and paradigm != "weak"  # has the rarest ending, -es
    if choice and dice.chance(detail * 1.7 if neuter else detail):
        adjective = dice.pick(choice)
    very = adjective is not None and adjective.very and dice.chance(0.06)
    return NounPhrase(unit, noun, determiner, plural, adjective, very, owner)


def _owner(dice: Dice, owned: Noun) -> Owner:
    noun = dice.pick(OWNERS)
    while noun is owned or ("kid" in noun.tags and "kin" in owned.tags):  # children have no daughters
        noun = dice.pick(OWNERS)
    return Owner(dice.pick((THE, *POSSESSIVES) if "own" in noun.tags else (THE,)), noun)


def subject(dice: Dice, tags: frozenset[str], detail: float = FULL, use: Use = "subject") -> Nominal:
    if tags & HUMAN:
        which = dice.random()
        if which < 0.4:
            return Pronoun(SUBJECT, dice.pick((I, I, I, *PRONOUNS)))
        if which < 0.6:
            return name(dice, SUBJECT, pairs=True)
    return noun_phrase(dice, SUBJECT, nouns_of(tags), use, "nom", detail)


def name(dice: Dice, unit: int, pairs: bool = False) -> Named:
    first = dice.pick(NAME_LIST)
    second = dice.pick(NAME_LIST) if pairs and dice.chance(0.15) else ""
    return Named(unit, first, "" if second == first else second)


def governed(dice: Dice, verb: Verb, unit: int, case: Case, agent: Nominal, use: Use, detail: float) -> Nominal:
    """What the verb has for an object of this case: a person other than the subject, or a thing."""
    tags = frozenset({"person"}) if verb.frame == "ditransitive" and case == "dat" else verb.objects
    if "person" in tags:
        which = dice.random()
        if which < 0.15:
            entry = dice.pick((I, HE, WE) if case == "acc" else PRONOUNS)
            if not (entry.english in FIRST_PERSON and agent.head in FIRST_PERSON):
                return Pronoun(unit, entry)
        elif which < 0.3:
            named = name(dice, unit)
            if named.head != agent.head:
                return named
    if "project" in verb.remarks:
        detail = PLAIN
    while True:
        phrase = noun_phrase(dice, unit, nouns_of(tags), use, case, detail)
        cleaned_clean = phrase.adjective is not None and phrase.adjective.english == verb.english
        owns_it = phrase.owner is not None and phrase.owner.noun.english == agent.head
        if phrase.head != agent.head and not owns_it and not cleaned_clean:
            return phrase


def place(dice: Dice, where: Where, negated: bool, detail: float = FULL) -> Adverbial:
    which = int(dice.random() * (len(where.spots) + len(where.fixed)))
    if which >= len(where.spots):
        return where.fixed[which - len(where.spots)]
    spot = where.spots[which]
    use: Use = "negated place" if negated else "place"
    phrase = noun_phrase(dice, PLACE, (spot.noun,), use, spot.case, detail)
    return Prepositional(spot.english, spot.german, spot.case, phrase)
