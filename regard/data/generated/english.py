"""English inflection: a or an, plurals, and the forms of verbs.

Choices this file fixes:
- nothing is contracted: "does not", never "doesn't"; only "cannot" is one word, as it is always written;
- the past is the simple past; the present is progressive for what is going on ("is reading"), and simple for
  habits, for states ("knows"), and after "if". German has one Präsens for all of these.
"""

from functools import cache

from regard.data.generated.german import Person

IRREGULAR_PLURALS = {
    "man": "men", "woman": "women", "child": "children", "mouse": "mice", "knife": "knives",
    "policeman": "policemen", "potato": "potatoes", "tomato": "tomatoes",
}  # fmt: skip

IRREGULAR_PASTS = {
    "be": "was", "bring": "brought", "build": "built", "buy": "bought", "come": "came", "drink": "drank",
    "drive": "drove", "eat": "ate", "fall": "fell", "feed": "fed", "find": "found", "fly": "flew", "forget": "forgot",
    "get": "got", "give": "gave", "go": "went", "have": "had", "hear": "heard", "know": "knew", "leave": "left",
    "lose": "lost", "meet": "met", "put": "put", "read": "read", "run": "ran", "see": "saw", "sell": "sold",
    "send": "sent", "sing": "sang", "sit": "sat", "sleep": "slept", "swim": "swam", "take": "took",
    "think": "thought", "throw": "threw", "understand": "understood", "wear": "wore", "write": "wrote",
}  # fmt: skip

# One vowel, one final consonant, stress on the last syllable: the consonant is doubled before -ing and -ed.
DOUBLING = frozenset(("forget", "get", "put", "run", "shop", "sit", "swim"))
BE_PRESENT: dict[Person, str] = {"1sg": "am", "3sg": "is", "1pl": "are", "3pl": "are"}
BE_PAST: dict[Person, str] = {"1sg": "was", "3sg": "was", "1pl": "were", "3pl": "were"}


def article(next_word: str) -> str:
    """a or an, by the sound that the next word of our lexicon begins with: none has a silent h or a "yoo"."""
    return "an" if next_word[0] in "aeiou" else "a"


@cache
def plural(noun: str) -> str:
    if noun in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[noun]
    return noun[:-1] + "ies" if _consonant_y(noun) else noun + _s(noun)


@cache
def third_person(verb: str) -> str:
    """eats, watches, tidies; has and does."""
    if verb in ("have", "do"):
        return {"have": "has", "do": "does"}[verb]
    return verb[:-1] + "ies" if _consonant_y(verb) else verb + _s(verb)


@cache
def past(verb: str) -> str:
    if verb in IRREGULAR_PASTS:
        return IRREGULAR_PASTS[verb]
    if _consonant_y(verb):
        return verb[:-1] + "ied"
    if verb in DOUBLING:
        return verb + verb[-1] + "ed"
    return verb + ("d" if verb.endswith("e") else "ed")


@cache
def ing(verb: str) -> str:
    if verb in DOUBLING:
        return verb + verb[-1] + "ing"
    return verb[:-1] + "ing" if verb.endswith("e") and not verb.endswith("ee") else verb + "ing"


def present(verb: str, person: Person) -> str:
    return third_person(verb) if person == "3sg" else verb


def be(person: Person, in_past: bool) -> str:
    return BE_PAST[person] if in_past else BE_PRESENT[person]


def do(person: Person, in_past: bool) -> str:
    return "did" if in_past else present("do", person)


def _consonant_y(word: str) -> bool:
    return word.endswith("y") and word[-2] not in "aeiou"


def _s(word: str) -> str:
    return "es" if word.endswith(("s", "x", "ch", "sh", "o")) and word != "radio" else "s"
