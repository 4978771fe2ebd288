"""Random clauses that make sense.

What may stand together in time is decided here: habits have "often" or "every day", what is going on has neither,
and lasting states ("knows", "is old") have no time at all.
"""

from functools import cache
from typing import Literal

from regard.data.generated.adjectives import PASSING
from regard.data.generated.alignment import OBJECT, PLACE, RECIPIENT, SUBJECT
from regard.data.generated.clauses import TOO, VERY, Clause
from regard.data.generated.draw_phrases import BRIEF, FULL, PLAIN, Dice, Use, adjectives_for, governed, noun_phrase
from regard.data.generated.draw_phrases import place as draw_place
from regard.data.generated.draw_phrases import subject as draw_subject
from regard.data.generated.lexicon import FREQUENCIES, IT, MODALS, TIMES, Adjective, Modal, Tense, Time
from regard.data.generated.nouns import NOUNS, nouns_of
from regard.data.generated.phrases import Nominal, Prepositional, Pronoun
from regard.data.generated.places import directions, locations
from regard.data.generated.verbs import BE, VERBS, WEATHER, Verb

PERSON, OUTDOORS = frozenset({"person"}), frozenset({"outdoors"})
ANYWHERE, CONTAINERS = frozenset({"any"}), frozenset({"container"})
ANIMALS = frozenset(noun.english for noun in nouns_of(frozenset({"animal"})))
PAST_MODALS = tuple(modal for modal in MODALS if modal.english_past)
MOODS = tuple(adjective for adjective in PASSING if "person" in adjective.tags)
WEATHER_ADJECTIVES = tuple(adjective for adjective in PASSING if adjective.english in ("cold", "warm", "dark"))
PERSONALITY = adjectives_for(nouns_of(PERSON)[0])

# How often each tense is drawn for actions, for events, and for the kinds of states.
Choice = Tense | Literal["modal"]
ACTION: tuple[Choice, ...] = ("now", "now", "now", "past", "past", "past", "habit", "habit", "future", "modal")
PROJECT: tuple[Choice, ...] = ("now", "now", "now", "past", "past", "future", "modal")
EVENT: tuple[Choice, ...] = ("past", "past", "past", "future", "modal")
STATE: tuple[Choice, ...] = ("now", "now", "past", "future", "modal")
LASTING: tuple[Tense, ...] = ("now", "now", "past")
PASSING_STATE: tuple[Tense, ...] = ("now", "now", "past", "future")


@cache
def tenses(verb: Verb) -> tuple[Choice, ...]:
    choices = EVENT if "event" in verb.remarks else PROJECT if "project" in verb.remarks else ACTION
    if "state" in verb.remarks:
        choices = STATE if "future" in verb.remarks else ("now",) if "present" in verb.remarks else LASTING
    return tuple(choice for choice in choices if choice != "modal" or "unwilled" not in verb.remarks)


@cache
def times(tense: Tense) -> tuple[Time, ...]:
    return tuple(time for time in TIMES if tense in time.tenses)


DAILY = tuple(time for time in times("habit") if time.words.english[-1].text in ("day", "morning", "evening"))


def draw_clause(
    dice: Dice,
    verbs: tuple[Verb, ...] = VERBS,
    tense: Tense | None = None,
    subject: Nominal | None = None,
    modals: tuple[Modal, ...] = (),
    detail: float = FULL,
    negatable: bool = True,
) -> Clause:
    """A clause without a time. A given tense, subject or choice of modals must suit all the verbs."""
    verb, modal = dice.pick(verbs), None
    negated = negatable and dice.chance(0.15)
    if modals:
        modal = dice.pick(modals)
    if tense is None:
        drawn = dice.pick(tenses(verb))
        if drawn != "modal":
            tense = drawn
            negated = negated and tense != "habit"  # "does not always" is another matter than "never"
        elif dice.chance(0.25):
            tense, modal = "past", dice.pick(PAST_MODALS)
        else:
            tense, modal = "now", dice.pick(MODALS)
    if subject is None:
        subject = draw_subject(dice, verb.subjects, detail, "definite" if verb.stative else "subject")
    clause = Clause(subject, verb, tense, modal, negated)
    _add_objects(dice, clause, detail)
    _add_place(dice, clause, detail)
    return clause


def _add_objects(dice: Dice, clause: Clause, detail: float) -> None:
    verb, agent = clause.verb, clause.subject
    use: Use = "negated" if clause.negated else "object"
    if "familiar" in verb.remarks:
        use = "definite" if clause.negated else "familiar"
    if verb.frame == "transitive":
        clause.object = governed(dice, verb, OBJECT, "acc", agent, use, detail)
    elif verb.frame == "dative":
        # kein belongs to accusatives here, and one helps, thanks and follows somebody in particular.
        clause.object = governed(dice, verb, OBJECT, "dat", agent, "definite", detail)
    elif verb.frame == "ditransitive":
        clause.recipient = governed(dice, verb, RECIPIENT, "dat", agent, "definite", BRIEF)
        clause.object = governed(dice, verb, OBJECT, "acc", agent, use, detail)
    elif verb.preposition is not None:
        english, german, case = verb.preposition
        use = "definite" if clause.negated or case == "dat" else "object"
        clause.place = Prepositional(english, german, case, governed(dice, verb, PLACE, case, agent, use, detail))


def _add_place(dice: Dice, clause: Clause, detail: float) -> None:
    verb = clause.verb
    if verb.frame == "direction":
        clause.place = draw_place(dice, directions(verb.places), clause.negated, detail)
    elif verb.places and ("placed" in verb.remarks or dice.chance(0.55 if detail == FULL else 0.2)):
        animal = clause.subject.head in ANIMALS and "swim" not in verb.places
        where = locations(OUTDOORS if animal else verb.places)
        clause.place = draw_place(dice, where, clause.negated, detail)


def add_time(dice: Dice, clause: Clause, probability: float) -> None:
    """When or how often, where that makes sense; a habit always says so."""
    tense, timed = clause.tense, "timed" in clause.verb.remarks
    if tense == "habit":
        if timed or dice.chance(0.4):
            clause.time = dice.pick(DAILY if timed else times("habit"))
            return
        clause.frequency = dice.pick(FREQUENCIES)
        if clause.object is not None and not clause.object.definite:
            clause.place = None  # German has nie between im Hotel and Reis, but oft before both: better have no place
    elif not _can_be_dated(clause) or not dice.chance(probability):
        return
    elif clause.predicate is not None and tense == "now" and not clause.negated and dice.chance(0.6):
        clause.frequency = dice.pick(FREQUENCIES)
    else:
        clause.time = dice.pick(times("future" if clause.modal is not None and tense == "now" else tense))


def _can_be_dated(clause: Clause) -> bool:
    if clause.predicate is not None:
        return clause.predicate.passing
    return not clause.verb.stative or ("future" in clause.verb.remarks and clause.tense != "now")


def draw_copula(dice: Dice) -> Clause:
    """What somebody or something is like, or where."""
    if dice.chance(0.4):
        person = draw_subject(dice, PERSON, BRIEF, "definite")
        if dice.chance(0.3):
            return _located(dice, person, ANYWHERE)
        return describe(dice, person, PERSONALITY)
    noun = dice.pick(NOUNS)
    thing = noun_phrase(dice, SUBJECT, (noun,), "definite", "nom", PLAIN)
    if "portable" in noun.tags and dice.chance(0.5):
        return _located(dice, thing, CONTAINERS)
    return describe(dice, thing, adjectives_for(noun))


def draw_weather(dice: Dice, tense: Tense) -> Clause:
    it = Pronoun(SUBJECT, IT)
    if dice.chance(0.4):
        return describe(dice, it, WEATHER_ADJECTIVES, tense)
    return Clause(it, dice.pick(WEATHER), tense, negated=dice.chance(0.15))


def _located(dice: Dice, subject: Nominal, tags: frozenset[str]) -> Clause:
    negated = dice.chance(0.15)
    where = draw_place(dice, locations(tags), negated)
    return Clause(subject, BE, dice.pick(LASTING), negated=negated, place=where)


def describe(dice: Dice, subject: Nominal, adjectives: tuple[Adjective, ...], tense: Tense | None = None) -> Clause:
    adjective = dice.pick(adjectives)
    any_tense = dice.pick(PASSING_STATE if adjective.passing else LASTING)
    clause = Clause(subject, BE, tense or any_tense, predicate=adjective, negated=dice.chance(0.15))
    if adjective.very and dice.chance(0.3):
        clause.degree = TOO if adjective.too and dice.chance(0.5) else VERY
    return clause
