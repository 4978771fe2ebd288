"""The kinds of entries, and the small closed classes: determiners, pronouns, names, modals, times.

Nouns, verbs and adjectives have files of their own. Within a class no two entries share an English or a German
word, so a word in its place in the sentence has one translation each way. What that costs:
- there is no "you" (du, ihr or Sie?), no possessive "her" and "their" (both ihr), and "it" is only the weather (of
  things it could be er, sie or es);
- as an accusative, "sie" could be "her" or "them": only "me", "him" and "us" are accusative objects, while
  datives have "her" (ihr) and "them" (ihnen) too;
- "wenn" is "if", and "when" only asks for a time (wann).
"""

from dataclasses import dataclass
from typing import Literal

from regard.data.generated.alignment import FREQUENCY, TIME, Phrase, phrase
from regard.data.generated.german import Gender, Paradigm, Person

# "now" and "habit" are both Präsens; they differ in English, "is reading" and "reads".
Tense = Literal["now", "habit", "past", "future"]
Sex = Literal["he", "she", ""]

# Entries are compared by identity: each exists once, and hashing a dozen fields for each lookup would be slow.


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    english: str
    german: str
    gender: Gender
    plural: str  # German plural; "" for nouns used in the singular only
    tags: frozenset[str]  # what it is, for verbs and adjectives to choose from
    weak: bool = False  # der Junge, den Jungen
    sex: Sex = ""  # the pronoun that may take up the noun; "" where German and English would not agree on it

    @property
    def mass(self) -> bool:
        return "mass" in self.tags


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    english: str
    german: str
    tags: frozenset[str]  # nouns with one of these can be described by it
    passing: bool  # a state that comes and goes (tired), so that it can hold "today" or "often"
    very: bool  # whether something can be very much so
    too: bool  # whether it can be too much so


@dataclass(frozen=True, slots=True, eq=False)
class Determiner:
    """A word before a noun; `english_plural` stands before plurals, and `german` is the stem that is inflected."""

    english: str
    english_plural: str
    german: str
    paradigm: Paradigm
    definite: bool


THE = Determiner("the", "the", "der", "weak", True)
THIS = Determiner("this", "these", "dies", "weak", True)
A = Determiner("a", "", "ein", "mixed", False)
NOT_A = Determiner("a", "any", "kein", "mixed", False)  # "does not have a dog": hat keinen Hund
BARE = Determiner("", "", "", "strong", False)  # plurals and masses: "buys books", "drinks milk"
POSSESSIVES = tuple(
    Determiner(en, en, de, "mixed", True) for en, de in (("my", "mein"), ("his", "sein"), ("our", "unser"))
)
NUMBERS = tuple(
    Determiner("", en, de, "strong", False)
    for en, de in (("two", "zwei"), ("three", "drei"), ("four", "vier"), ("five", "fünf"), ("many", "viel"))
)


@dataclass(frozen=True, slots=True, eq=False)
class PronounEntry:
    english: str
    english_object: str
    nominative: str
    accusative: str  # "" where it would be ambiguous
    dative: str
    person: Person


I = PronounEntry("I", "me", "ich", "mich", "mir", "1sg")
HE = PronounEntry("he", "him", "er", "ihn", "ihm", "3sg")
SHE = PronounEntry("she", "her", "sie", "", "ihr", "3sg")
WE = PronounEntry("we", "us", "wir", "uns", "uns", "1pl")
THEY = PronounEntry("they", "them", "sie", "", "ihnen", "3pl")
WHO = PronounEntry("who", "", "wer", "", "", "3sg")
IT = PronounEntry("it", "", "es", "", "", "3sg")  # only of the weather
PRONOUNS = (I, HE, SHE, WE, THEY)

# No name ends in s, x or z, whose German genitive is only an apostrophe.
NAMES: dict[str, Sex] = {
    **dict.fromkeys(
        ["Anna", "Clara", "Emma", "Eva", "Julia", "Laura", "Lena", "Lisa", "Maria", "Nina", "Sarah", "Sophie"], "she"
    ),
    **dict.fromkeys(
        ["Ben", "Daniel", "David", "Jakob", "Jan", "Karl", "Martin", "Oskar", "Paul", "Peter", "Simon", "Tom"], "he"
    ),
}


@dataclass(frozen=True, slots=True, eq=False)
class Modal:
    """`english` ends in "to" where the modal is a full verb, with "does", "did" and an infinitive."""

    english: str
    english_past: str  # "" where the modal is used in the present only
    german: str


# "must not" would be darf nicht and "muss nicht" is "does not have to": hence "have to", which negates alike.
MODALS = (
    Modal("can", "could", "können"),
    Modal("have to", "had to", "müssen"),
    Modal("want to", "wanted to", "wollen"),
    Modal("may", "", "dürfen"),
    Modal("should", "", "sollen"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Time:
    words: Phrase
    tenses: frozenset[Tense]


def _time(english: str, german: str, *tenses: Tense, links: str = "") -> Time:
    return Time(phrase(TIME, english, german, links), frozenset(tenses))


# "Read" and "put" look alike in present and past, so no time goes with both a habit and the past.
TIMES = (
    _time("now", "jetzt", "now"),
    _time("today", "heute", "now", "past", "future"),
    _time("yesterday", "gestern", "past"),
    _time("last week", "letzte Woche", "past"),
    _time("last month", "letzten Monat", "past"),
    _time("last year", "letztes Jahr", "past"),
    _time("two days ago", "vor zwei Tagen", "past", links="0-1 1-2 2-0"),
    _time("an hour ago", "vor einer Stunde", "past", links="0-1 1-2 2-0"),
    _time("in the morning", "am Morgen", "past", "future", links="0-0 1-0 2-1"),
    _time("in the evening", "am Abend", "past", "future", links="0-0 1-0 2-1"),
    _time("on Monday", "am Montag", "past", "future"),
    _time("on Tuesday", "am Dienstag", "past", "future"),
    _time("on Wednesday", "am Mittwoch", "past", "future"),
    _time("on Thursday", "am Donnerstag", "past", "future"),
    _time("on Friday", "am Freitag", "past", "future"),
    _time("on Saturday", "am Samstag", "past", "future"),
    _time("on Sunday", "am Sonntag", "past", "future"),
    _time("tomorrow", "morgen", "future"),
    _time("soon", "bald", "future"),
    _time("next week", "nächste Woche", "future"),
    _time("next month", "nächsten Monat", "future"),
    _time("next year", "nächstes Jahr", "future"),
    _time("every day", "jeden Tag", "habit"),
    _time("every morning", "jeden Morgen", "habit"),
    _time("every evening", "jeden Abend", "habit"),
    _time("every week", "jede Woche", "habit"),
    _time("in summer", "im Sommer", "habit"),
    _time("in winter", "im Winter", "habit"),
)
FREQUENCIES = tuple(
    phrase(FREQUENCY, en, de)
    for en, de in (("always", "immer"), ("often", "oft"), ("sometimes", "manchmal"), ("rarely", "selten"),
                   ("never", "nie"))
)  # fmt: skip
