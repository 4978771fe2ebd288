"""Random sentences: statements, questions, and two clauses joined by a conjunction."""

from regard.data.generated.alignment import SUBJECT, Phrase
from regard.data.generated.clauses import Clause
from regard.data.generated.draw_clauses import MOODS, PERSON, add_time, describe, draw_clause, draw_copula, draw_weather
from regard.data.generated.draw_phrases import BRIEF, HUMAN, Dice
from regard.data.generated.draw_phrases import subject as draw_subject
from regard.data.generated.lexicon import HE, MODALS, SHE, THEY, WE, WHO, Tense
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
from regard.data.generated.verbs import ASK, BE, BELIEVE, HOPE, KNOW, SAY, THINK, VERBS, Verb

ENDURING = tuple(verb for verb in VERBS if not verb.remarks & {"event", "project"})  # verbs that have a present
PERSONAL = tuple(verb for verb in ENDURING if verb.subjects & HUMAN)
ACTIONS = tuple(verb for verb in PERSONAL if not verb.stative)
SEPARABLE = tuple(verb for verb in VERBS if "|" in verb.german and "event" not in verb.remarks)
SUBORDINATE = VERBS + SEPARABLE * 2  # more of those whose two parts only meet at the end of a subordinate clause
CHANGING = tuple(verb for verb in VERBS if not verb.stative)


def _actions(*english: str) -> tuple[Verb, ...]:
    return tuple(verb for verb in ACTIONS if verb.english in english)


# What one has to do or wants to do instead, and what may or may not happen.
DUTIES = _actions("work", "sleep", "get up", "go", "drive", "shop", "stay")
CONDITIONS = _actions(
    "come", "come back", "arrive", "call", "help", "ask", "invite", "visit", "stay", "fall asleep", "cry"
)
REASONED_TENSES: tuple[Tense, ...] = ("now", "now", "past", "past", "future")
DUTY_MODALS = MODALS[1:3]  # because he has to, because he wants to


def draw_sentence(dice: Dice) -> Sentence:
    which = dice.random()
    if which < 0.45:
        return _statement(dice, draw_clause(dice))
    if which < 0.53:
        return _statement(dice, draw_copula(dice))
    if which < 0.55:
        return _statement(dice, draw_weather(dice, dice.pick(("now", "past", "future"))))
    if which < 0.69:
        return _yes_no(dice)
    if which < 0.77:
        return _open_question(dice)
    if which < 0.88:
        return _reported(dice)
    return _conditional(dice) if which < 0.92 else _reasoned(dice)


def _statement(dice: Dice, clause: Clause) -> Sentence:
    add_time(dice, clause, 0.55)
    clause.time_first = clause.time is not None and dice.chance(0.4)
    return Sentence(clause)


def _yes_no(dice: Dice) -> Sentence:
    while True:
        clause = draw_copula(dice) if dice.chance(0.2) else draw_clause(dice, negatable=False)
        clause.negated = False
        clause.subject = _not_first_person(dice, clause.subject)
        if clause.subject.person == "3sg" or not _begins_rarely(clause):
            add_time(dice, clause, 0.35)
            return Sentence(clause, "inverted", "?")


def _begins_rarely(clause: Clause) -> bool:
    """Whether a German question starts with the verb itself or a modal, whose plurals would be rare first words."""
    if clause.verb is BE:
        return False
    return clause.modal is not None or clause.tense in ("now", "habit") or clause.verb.stative


def _not_first_person(dice: Dice, subject: Nominal) -> Nominal:
    """Nobody asks what "I" and "we" are doing."""
    return subject if subject.person in ("3sg", "3pl") else Pronoun(SUBJECT, dice.pick((HE, SHE, THEY)))


def _open_question(dice: Dice) -> Sentence:
    clause = draw_copula(dice) if dice.chance(0.15) else draw_clause(dice, negatable=False)
    while not clause.subject.definite:  # nobody asks what "a man" is doing
        clause = draw_clause(dice, negatable=False)
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
    if verb.subjects & HUMAN:
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
    main = Clause(draw_subject(dice, PERSON, BRIEF), dice.pick((KNOW, KNOW, BELIEVE, SAY, HOPE, THINK, ASK)))
    main.negated = main.verb in (KNOW, BELIEVE) and dice.chance(0.4)
    open_ended = main.verb is ASK or (main.verb is KNOW and main.negated)
    if main.verb is HOPE:
        second = draw_clause(dice, CHANGING, tense="future", detail=BRIEF)
    elif dice.chance(0.2):
        second = draw_copula(dice)
    else:
        second = draw_clause(dice, SUBORDINATE, detail=BRIEF, negatable=not open_ended)
    add_time(dice, second, 0.15)
    if open_ended:
        second.negated = False
        second.subject = _not_first_person(dice, second.subject)
    if second.subject.head == main.subject.head:
        second.subject = _taking_up(main.subject) or second.subject
    return _joined(main, WHETHER if open_ended else THAT, second)


def _conditional(dice: Dice) -> Sentence:
    main = draw_clause(dice, ACTIONS, tense="future", detail=BRIEF)
    subject = _taking_up(main.subject)
    which = dice.random()
    if which < 0.25:
        second = draw_weather(dice, "habit")
    elif subject is None or which < 0.5:
        second = draw_clause(dice, CONDITIONS, tense="habit", detail=BRIEF)
    elif which < 0.75:
        second = describe(dice, subject, MOODS, "now")
    else:
        second = draw_clause(dice, CONDITIONS, tense="habit", subject=subject, detail=BRIEF)
    return _joined(main, IF, second, dice.chance(0.5))


def _reasoned(dice: Dice) -> Sentence:
    """Why somebody does something, or in spite of what: a mood, something else to do, or the weather."""
    main = draw_clause(dice, ACTIONS, dice.pick(REASONED_TENSES), detail=BRIEF)
    add_time(dice, main, 0.15)
    tense: Tense = "past" if main.tense == "past" else "now"
    subject = _taking_up(main.subject)
    which = dice.random()
    if subject is None or which < 0.2:
        second = draw_weather(dice, tense)
    elif which < 0.7:
        second = describe(dice, subject, MOODS, tense)
    else:
        second = draw_clause(dice, DUTIES, tense, subject, DUTY_MODALS, BRIEF)
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
