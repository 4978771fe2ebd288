"""Random sentences: statements, questions, and two clauses joined by a conjunction."""

from regard.data.generated.alignment import SUBJECT, Phrase
from regard.data.generated.clauses import Clause
from regard.data.generated.draw_clauses import MOODS, PERSON, add_time, describe, draw_clause, draw_copula
from regard.data.generated.draw_phrases import BRIEF, PLAIN, Dice, adjectives_for, noun_phrase
from regard.data.generated.draw_phrases import subject as draw_subject
from regard.data.generated.lexicon import HE, MODALS, SHE, THEY, WE, WHO, Tense
from regard.data.generated.nouns import NOUNS
from regard.data.generated.phrases import Nominal, Pronoun
from regard.data.generated.sentences import (
    ALTHOUGH,
    BECAUSE,
    IF,
    THAT,
    TO_WHOM,
    WHAT,
    WHEN,
    WHERE,
    WHERE_TO,
    WHETHER,
    WHOM,
    WHY,
    Sentence,
)
from regard.data.generated.verbs import ASK, BE, BELIEVE, HOPE, KNOW, SAY, THINK, VERBS

ENDURING = tuple(verb for verb in VERBS if "event" not in verb.remarks)  # verbs that have a present
PERSONAL = tuple(verb for verb in ENDURING if "person" in verb.subjects)
ACTIONS = tuple(verb for verb in PERSONAL if not verb.stative)
STATEFUL = tuple(
    noun for noun in NOUNS if "person" not in noun.tags and any(a.passing for a in adjectives_for(noun))
)
REASON_MODALS = MODALS[:3]  # because he can, has to, wants to


def draw_sentence(dice: Dice) -> Sentence:
    which = dice.random()
    if which < 0.46:
        return _statement(dice, draw_clause(dice))
    if which < 0.57:
        return _statement(dice, draw_copula(dice))
    if which < 0.72:
        return _yes_no(dice)
    if which < 0.81:
        return _open_question(dice)
    if which < 0.91:
        return _reported(dice)
    return _conditional(dice) if which < 0.94 else _reasoned(dice)


def _statement(dice: Dice, clause: Clause) -> Sentence:
    add_time(dice, clause, 0.4)
    clause.time_first = clause.time is not None and dice.chance(0.4)
    return Sentence(clause)


def _yes_no(dice: Dice) -> Sentence:
    clause = draw_copula(dice) if dice.chance(0.2) else draw_clause(dice, negatable=False)
    clause.negated = False
    clause.subject = _not_first_person(dice, clause.subject)
    add_time(dice, clause, 0.25)
    return Sentence(clause, "inverted", "?")


def _not_first_person(dice: Dice, subject: Nominal) -> Nominal:
    """Nobody asks what "I" and "we" are doing."""
    return subject if subject.person in ("3sg", "3pl") else Pronoun(SUBJECT, dice.pick((HE, SHE, THEY)))


def _open_question(dice: Dice) -> Sentence:
    clause = draw_copula(dice) if dice.chance(0.15) else draw_clause(dice, negatable=False)
    clause.negated = False
    clause.subject = _not_first_person(dice, clause.subject)
    if clause.tense == "habit":
        add_time(dice, clause, 1.0)
    asks = dice.pick(_questions(clause))
    if asks is None:
        clause.subject = Pronoun(SUBJECT, WHO)
        return Sentence(clause, "statement", "?")
    if asks in (WHAT, WHOM, TO_WHOM):
        clause.object = None
    if asks in (WHERE, WHERE_TO):
        clause.place = None
    return Sentence(clause, "inverted", "?", asks)


def _questions(clause: Clause) -> list[Phrase | None]:
    """What can be asked about a clause; None stands for asking who does it."""
    verb = clause.verb
    if verb is BE:
        return [WHY] if clause.place is None else [WHERE]
    questions: list[Phrase | None] = [WHY]
    if "person" in verb.subjects:
        questions += [None, None]
    if verb.frame in ("transitive", "dative") and "person" in verb.objects:
        questions += [WHOM if verb.frame == "transitive" else TO_WHOM] * 2
    elif verb.frame in ("transitive", "ditransitive") and verb.english != "feed":
        questions += [WHAT, WHAT]
    if verb.frame == "direction" and verb.english != "come":
        questions += [WHERE_TO, WHERE_TO]
    if verb.frame == "intransitive" and verb.places:
        questions += [WHERE, WHERE]
    if clause.tense in ("past", "future") and not verb.stative:
        questions += [WHEN]
    return questions


def _reported(dice: Dice) -> Sentence:
    """What somebody says, knows or asks."""
    main = Clause(draw_subject(dice, PERSON, BRIEF), dice.pick((KNOW, BELIEVE, SAY, HOPE, THINK, ASK, KNOW)))
    main.negated = main.verb in (KNOW, BELIEVE) and dice.chance(0.4)
    second = draw_copula(dice) if dice.chance(0.2) else draw_clause(dice, detail=BRIEF)
    add_time(dice, second, 0.15)
    if second.subject.head == main.subject.head:
        second.subject = _taking_up(main.subject) or second.subject
    open_ended = main.verb is ASK or (main.verb is KNOW and main.negated)
    return _joined(main, WHETHER if open_ended else THAT, second)


def _conditional(dice: Dice) -> Sentence:
    main = draw_clause(dice, ACTIONS, tense="future", detail=BRIEF)
    subject = _taking_up(main.subject)
    if subject is None or dice.chance(0.4):
        second = draw_clause(dice, ACTIONS, tense="habit", detail=BRIEF)
    elif dice.chance(0.6):
        second = describe(dice, subject, MOODS, "now")
    else:
        second = draw_clause(dice, ACTIONS, tense="habit", subject=subject, detail=BRIEF)
    return _joined(main, IF, second, dice.chance(0.5))


def _reasoned(dice: Dice) -> Sentence:
    """Why somebody does something, or in spite of what: mostly a mood, or something to do."""
    main = draw_clause(dice, ACTIONS, detail=BRIEF)
    if main.tense == "habit" or dice.chance(0.1):
        add_time(dice, main, 1.0)
    tense: Tense = "past" if main.tense == "past" else "now"
    subject = _taking_up(main.subject)
    if subject is None or dice.chance(0.2):
        thing = dice.pick(STATEFUL)
        adjectives = tuple(adjective for adjective in adjectives_for(thing) if adjective.passing)
        second = describe(dice, noun_phrase(dice, SUBJECT, (thing,), "definite", "nom", PLAIN), adjectives, tense)
    elif dice.chance(0.6):
        second = describe(dice, subject, MOODS, tense)
    else:
        second = draw_clause(dice, ACTIONS, tense, subject, REASON_MODALS, BRIEF)
    return _joined(main, dice.pick((BECAUSE, ALTHOUGH)), second, dice.chance(0.4))


def _taking_up(subject: Nominal) -> Nominal | None:
    entry = subject.taken_up()
    return None if entry is None else Pronoun(SUBJECT, entry)


def _joined(main: Clause, conjunction: Phrase, second: Clause, second_first: bool = False) -> Sentence:
    if second_first and second.subject.pronominal and _taking_up(main.subject) == second.subject:
        main.subject, second.subject = second.subject, main.subject  # the pronoun comes after what it takes up
    if second.subject.person == "1sg" and "|" in second.verb.german and second.modal is None:
        # (dass ich) anrufe: a form of its own that hardly any sentence would show.
        second.subject = Pronoun(SUBJECT, WE)
    return Sentence(main, conjunction=conjunction, second=second, second_first=second_first)
