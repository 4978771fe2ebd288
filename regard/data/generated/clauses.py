"""One clause in both languages: the forms of its verb, and the order of its words.

English order:  [time] subject auxiliary not often verb recipient object place [time]
German order:   first finite-verb … middle … rest-of-the-verb, where "first" is the subject, or the time, or nothing in
                a question; in a subordinate clause the finite verb comes last.

The German middle, between the two halves of the verb, is where a speaker has the most choice. We fix it:
1. the subject, unless it stands first; then pronouns;
2. time, then datives, then objects with a definite article or a name: Anna hat gestern das Buch gelesen;
3. but all of those come before the time where there is nicht (Anna hat das Buch gestern nicht gelesen), and the first
   of them comes before oft and its like (Anna liest das Buch oft, Anna gibt dem Kind oft das Buch);
4. an indefinite object comes after the place: Anna liest im Garten ein Buch, Anna liest das Buch im Garten;
5. nicht stands before the place and the predicate. "Not … a" and "not … any" are kein, and then there is no nicht.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from regard.data.generated import english, german
from regard.data.generated.alignment import DEGREE, FINITE, NEGATION, PREDICATE, VERB, Phrase, Token, Tokens, phrase
from regard.data.generated.german import Case, Person
from regard.data.generated.lexicon import Adjective, Modal, Tense, Time
from regard.data.generated.phrases import Adverbial, Nominal
from regard.data.generated.verbs import Verb

# "inverted" is a German main clause after something else in first place, and a question in both languages.
Order = Literal["statement", "inverted", "subordinate"]
VERY, TOO = phrase(DEGREE, "very", "sehr"), phrase(DEGREE, "too", "zu")
NOT, NICHT = Token("not", (NEGATION,)), Token("nicht", (NEGATION,))

# English particles that follow a pronoun: "picks up the child", but "picks him up".
MOVABLE = frozenset(("up", "on", "off", "away"))


@dataclass(slots=True)
class Clause:
    subject: Nominal
    verb: Verb
    tense: Tense = "now"
    modal: Modal | None = None
    negated: bool = False
    object: Nominal | None = None
    recipient: Nominal | None = None
    place: Adverbial | None = None  # also a direction, or an object with a preposition
    time: Time | None = None
    time_first: bool = False
    frequency: Phrase | None = None
    predicate: Adjective | None = None
    degree: Phrase | None = None


class EnglishVerb(NamedTuple):
    auxiliary: Tokens  # what changes places with the subject in a question, and what "not" follows
    main: Token | None
    particle: Tokens


@cache
def english_verb(verb: Verb, tense: Tense, modal: Modal | None, person: Person, supported: bool) -> EnglishVerb:
    """The verb in English; `supported` asks for an auxiliary, with "do" where there is no other."""
    word, *rest = verb.english.split()
    particle = tuple(Token(text, (VERB,)) for text in rest)
    past = tense == "past"
    if modal is not None and not modal.english.endswith(" to"):
        auxiliary = modal.english_past if past else modal.english
        return EnglishVerb((Token(auxiliary, (FINITE,)),), Token(word, (VERB,)), particle)
    if modal is not None:
        wish = modal.english.split()[0]
        particle = (Token("to", (FINITE,)), Token(word, (VERB,)), *particle)
        if supported:
            do = Token(english.do(person, past), (FINITE,))
            return EnglishVerb((do,), Token(wish, (FINITE,)), particle)
        finite = english.past(wish) if past else english.present(wish, person)
        return EnglishVerb((), Token(finite, (FINITE,)), particle)
    if tense == "future":
        return EnglishVerb((Token("will", (FINITE,)),), Token(word, (VERB,)), particle)
    if verb.frame == "copula":
        return EnglishVerb((Token(english.be(person, past), (VERB, FINITE)),), None, particle)
    if tense == "now" and not verb.stative:
        be = Token(english.be(person, False), (FINITE,))
        return EnglishVerb((be,), Token(english.ing(word), (VERB,)), particle)
    if supported:
        return EnglishVerb((Token(english.do(person, past), (FINITE,)),), Token(word, (VERB,)), particle)
    finite = english.past(word) if past else english.present(word, person)
    return EnglishVerb((), Token(finite, (VERB, FINITE)), particle)


class GermanVerb(NamedTuple):
    finite: Token
    rest: Tokens  # at the end of a main clause: a particle, a participle or an infinitive
    final: Tokens  # all of it, at the end of a subordinate clause


@cache
def german_verb(verb: Verb, tense: Tense, modal: Modal | None, person: Person) -> GermanVerb:
    forms = german.conjugation(verb.german)
    if modal is not None or tense == "future":
        helper = german.conjugation("werden" if modal is None else modal.german)
        helping = helper.past(person) if tense == "past" else helper.present(person)
        return _two_part(helping, forms.infinitive)
    if tense == "past" and not forms.preterite:
        return _two_part(german.conjugation(forms.perfect).present(person), forms.participle)
    finite = forms.past(person) if tense == "past" else forms.present(person)
    return GermanVerb(
        Token(finite, (VERB, FINITE)),
        (Token(forms.particle, (VERB,)),) if forms.particle else (),
        (Token(forms.particle + finite, (VERB, FINITE)),),
    )


def _two_part(finite: str, infinite: str) -> GermanVerb:
    first, last = Token(finite, (FINITE,)), Token(infinite, (VERB,))
    return GermanVerb(first, (last,), (last, first))


def english_words(clause: Clause, order: Order) -> list[Token]:
    inverted = order == "inverted"
    supported = inverted or clause.negated
    verb = english_verb(clause.verb, clause.tense, clause.modal, clause.subject.person, supported)
    words: list[Token] = []
    auxiliary: Sequence[Token] = verb.auxiliary
    if clause.negated:
        # "cannot" is one word in English.
        can = auxiliary[0].text == "can"
        auxiliary = [Token("cannot", (FINITE, NEGATION))] if can else [*auxiliary, NOT]
    if clause.time is not None and clause.time_first:
        words += clause.time.words.english
    if inverted:
        words += auxiliary
    words += clause.subject.english("nom")
    if not inverted:
        words += auxiliary
    if clause.frequency is not None:
        words += clause.frequency.english
    if verb.main is not None:
        words.append(verb.main)
    words += _english_complements(clause, verb.particle)
    if clause.time is not None and not clause.time_first:
        words += clause.time.words.english
    return words


def _english_complements(clause: Clause, particle: Tokens) -> Iterator[Token]:
    thing = clause.object
    moves = thing is not None and thing.pronominal and bool(particle) and particle[-1].text in MOVABLE
    yield from particle[:-1] if moves else particle
    if clause.recipient is not None:
        yield from clause.recipient.english("dat")
    if thing is not None:
        yield from thing.english("acc")
    if moves:
        yield particle[-1]
    if clause.predicate is not None:
        if clause.degree is not None:
            yield from clause.degree.english
        yield Token(clause.predicate.english, (PREDICATE,))
    if clause.place is not None:
        yield from clause.place.english


def german_words(clause: Clause, order: Order) -> list[Token]:
    verb = german_verb(clause.verb, clause.tense, clause.modal, clause.subject.person)
    words: list[Token] = []
    if order == "subordinate":
        words += clause.subject.german("nom")
        words += _middle(clause)
        words += verb.final
        return words
    first = clause.time if clause.time_first else None
    if first is not None:
        words += first.words.german
    elif order == "statement":
        words += clause.subject.german("nom")
    words.append(verb.finite)
    if first is not None or order == "inverted":
        words += clause.subject.german("nom")
    words += _middle(clause)
    words += verb.rest
    return words


def _middle(clause: Clause) -> list[Token]:
    """What stands between the subject and the end of the verb (the numbers are those at the top of this file)."""
    negation = clause.negated and not (clause.object is not None and clause.object.negative)
    object_case: Case = "dat" if clause.verb.frame == "dative" else "acc"
    objects: tuple[tuple[Nominal | None, Case], ...] = ((clause.recipient, "dat"), (clause.object, object_case))
    pronouns: list[Token] = []
    early: list[Token] = []
    late: list[Token] = []
    indefinite: list[Token] = []
    for thing, case in objects:
        if thing is None:
            continue
        if thing.pronominal:
            pronouns += thing.german(case)  # 1
        elif not thing.definite:
            indefinite += thing.german(case)
        elif negation or (clause.frequency is not None and (thing is clause.recipient or clause.recipient is None)):
            early += thing.german(case)  # 3
        else:
            late += thing.german(case)
    words = pronouns + early
    if clause.time is not None and not clause.time_first:
        words += clause.time.words.german
    if clause.frequency is not None:
        words += clause.frequency.german
    words += late  # 2
    if negation:
        words.append(NICHT)  # 5
    if clause.place is not None:
        words += clause.place.german
    words += indefinite  # 4
    if clause.predicate is not None:
        if clause.degree is not None:
            words += clause.degree.german
        words.append(Token(clause.predicate.german, (PREDICATE,)))
    return words
