"""One clause in both languages: the forms of its verb, and the order of its words.

English order:  [time] subject auxiliary not often verb recipient object place [time]
German order:   first finite-verb … middle … rest-of-the-verb, where "first" is the subject, or the time, or nothing in
                a question; in a subordinate clause the finite verb comes last.

The German middle, between the two halves of the verb, is where a speaker has the most choice. We fix it:
1. the subject, unless it stands first; then pronouns;
2. time, then datives, then objects with a definite article; but those come before the time where the clause has
   nicht or oft, so that nicht stands where it negates the whole: Anna hat das Buch gestern nicht gelesen;
3. an indefinite object comes after the place: Anna liest im Garten ein Buch; else the place comes last;
4. nicht stands before the place and the predicate. "Not … a" and "not … any" are kein, and then there is no nicht.
"""

from dataclasses import dataclass
from typing import Literal

from regard.data.generated.alignment import DEGREE, NEGATION, Phrase, Token, phrase
from regard.data.generated.german import Case
from regard.data.generated.lexicon import Adjective, Modal, Tense, Time
from regard.data.generated.phrases import Adverbial, Nominal, NounPhrase
from regard.data.generated.verbs import Verb

# "inverted" is a German main clause after something else in first place, and a question in both languages.
Order = Literal["statement", "inverted", "subordinate"]
DEGREES = (phrase(DEGREE, "very", "sehr"), phrase(DEGREE, "too", "zu"))
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

    @property
    def object_case(self) -> Case:
        return "dat" if self.verb.frame == "dative" else "acc"

    @property
    def says_nicht(self) -> bool:
        return self.negated and not (isinstance(self.object, NounPhrase) and self.object.negative)
