"""German inflection: articles, adjective endings, nouns and verbs.

Case is one of `CASES`; gender is "m", "f", "n" or "p", where "p" is the plural, which has no gender.
An adjective takes the *weak* ending after der and dieser, the *mixed* one after ein, kein, mein, sein and
unser, and the *strong* one where nothing before it shows the case (no article, a number, viele, Annas).

Choices this file fixes:
- the genitive of masculine and neuter nouns is -es after one syllable and -s after more;
- preposition and article contract wherever they can (im, ins, am, zum, zur);
- Perfekt for the past, except for the few verbs of `PRETERITE`, whose simple past people really say.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal

Case = Literal["nom", "acc", "dat", "gen"]
Gender = Literal["m", "f", "n", "p"]
Paradigm = Literal["weak", "mixed", "strong"]
Person = Literal["1sg", "3sg", "1pl", "3pl"]
CASES: tuple[Case, ...] = ("nom", "acc", "dat", "gen")
GENDERS: tuple[Gender, ...] = ("m", "f", "n", "p")

# One row per case, one column per gender in the order of GENDERS; "-" is an empty ending.
DEFINITE = "der die das die | den die das die | dem der dem den | des der des der"
DIESER_ENDINGS = "er e es e | en e es e | em er em en | es er es er"
EIN_ENDINGS = "- e - e | en e - e | em er em en | es er es er"
ADJECTIVE_ENDINGS: dict[Paradigm, str] = {
    "weak": "e e e en | en e e en | en en en en | en en en en",
    "mixed": "er e es en | en e es en | en en en en | en en en en",
    "strong": "er e es e | en e es e | em er em en | en er en er",
}
EIN_WORDS = ("ein", "kein", "mein", "sein", "unser")
DIESER_WORDS = ("dies", "viel")
CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
}


def _cell(table: str, gender: Gender, case: Case) -> str:
    row = table.split("|")[CASES.index(case)].split()
    return row[GENDERS.index(gender)].replace("-", "")


@cache
def determiner(word: str, gender: Gender, case: Case) -> str:
    """The form of an article or another determiner; numbers and the empty determiner do not change."""
    if word == "der":
        return _cell(DEFINITE, gender, case)
    if word in EIN_WORDS:
        return word + _cell(EIN_ENDINGS, gender, case)
    if word in DIESER_WORDS:
        return word + _cell(DIESER_ENDINGS, gender, case)
    return word


@cache
def adjective(word: str, paradigm: Paradigm, gender: Gender, case: Case) -> str:
    """The attributive form: alt → alter; müde → müder; teuer → teurer; dunkel → dunkler."""
    stem = {"teuer": "teur", "dunkel": "dunkl"}.get(word, word.removesuffix("e"))
    return stem + _cell(ADJECTIVE_ENDINGS[paradigm], gender, case)


@cache
def noun(singular: str, plural: str, gender: Gender, weak: bool, case: Case) -> str:
    """The form of a noun. `gender` "p" asks for the plural; weak nouns are those like der Junge, den Jungen."""
    if gender == "p":
        return plural + "n" if case == "dat" and plural[-1] not in "ns" else plural
    if weak and case != "nom":
        return plural  # the weak ending -n or -en is also the plural's
    if case == "gen" and gender in ("m", "n"):
        return singular + ("es" if _syllables(singular) == 1 else "s")
    return singular


def _syllables(word: str) -> int:
    groups, inside = 0, False
    for letter in word.lower():
        vowel = letter in "aeiouyäöü"
        groups += vowel and not inside
        inside = vowel
    return groups


# The third person singular where the stem vowel or the ending is irregular.
THIRD_PERSON = {
    "essen": "isst", "fahren": "fährt", "fressen": "frisst", "geben": "gibt", "helfen": "hilft", "laden": "lädt",
    "lesen": "liest", "nehmen": "nimmt", "schlafen": "schläft", "sehen": "sieht", "sprechen": "spricht",
    "tragen": "trägt", "treffen": "trifft", "vergessen": "vergisst", "waschen": "wäscht", "werfen": "wirft",
}  # fmt: skip

# Verbs whose singular follows no rule: ich, er.
SINGULAR = {
    "sein": ("bin", "ist"), "haben": ("habe", "hat"), "werden": ("werde", "wird"), "wissen": ("weiß", "weiß"),
    "mögen": ("mag", "mag"), "können": ("kann", "kann"), "müssen": ("muss", "muss"),
    "wollen": ("will", "will"), "dürfen": ("darf", "darf"), "sollen": ("sollte", "sollte"),
}  # fmt: skip

# "should" is sollte(n): the form is a subjunctive, its meaning is present.
PLURAL = {"sein": "sind", "sollen": "sollten"}

# Verbs whose past is the Präteritum: singular; the plural adds -n, and war has waren.
PRETERITE = {"sein": "war", "haben": "hatte", "wissen": "wusste", "können": "konnte", "müssen": "musste",
             "wollen": "wollte"}  # fmt: skip

IRREGULAR_PARTICIPLES = {
    "bieten": "geboten", "bleiben": "geblieben", "bringen": "gebracht", "denken": "gedacht", "essen": "gegessen",
    "fahren": "gefahren", "finden": "gefunden", "fliegen": "geflogen", "fressen": "gefressen", "geben": "gegeben",
    "gehen": "gegangen", "helfen": "geholfen", "kennen": "gekannt", "kommen": "gekommen", "laden": "geladen",
    "lesen": "gelesen", "mögen": "gemocht", "nehmen": "genommen", "rennen": "gerannt", "rufen": "gerufen",
    "schlafen": "geschlafen", "schreiben": "geschrieben", "schwimmen": "geschwommen", "sehen": "gesehen",
    "sein": "gewesen", "singen": "gesungen", "sitzen": "gesessen", "sprechen": "gesprochen", "stehen": "gestanden",
    "tragen": "getragen", "treffen": "getroffen", "trinken": "getrunken", "vergessen": "vergessen",
    "verlieren": "verloren", "verstehen": "verstanden", "waschen": "gewaschen", "werfen": "geworfen",
    "wissen": "gewusst", "ziehen": "gezogen",
}  # fmt: skip

# Verbs of motion and change, and bleiben, build their Perfekt with sein.
WITH_SEIN = frozenset((
    "ab|fahren", "an|kommen", "auf|stehen", "bleiben", "ein|schlafen", "fahren", "fliegen", "folgen", "gehen",
    "kommen", "rennen", "schwimmen", "zurück|kommen",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Conjugation:
    """The forms of one verb that the grammar uses; those of a separable verb come without its particle."""

    particle: str  # "an" of an|rufen, or ""
    infinitive: str  # anrufen
    first: str  # (ich) rufe
    third: str  # (er) ruft
    plural: str  # (wir, sie) rufen
    participle: str  # angerufen
    perfect: str  # the auxiliary of the Perfekt: haben or sein
    preterite: str  # "" unless the past is the Präteritum

    def present(self, person: Person) -> str:
        if person == "1sg":
            return self.first
        return self.third if person == "3sg" else self.plural

    def past(self, person: Person) -> str:
        if person in ("1sg", "3sg"):
            return self.preterite
        return self.preterite + ("n" if self.preterite.endswith("e") else "en")


@cache
def conjugation(verb: str) -> Conjugation:
    """All forms of a verb from its infinitive, with a bar after a separable particle: an|rufen."""
    particle, _, bare = verb.rpartition("|")
    stem = bare[:-2] if bare.endswith("en") else bare[:-1]  # füttern → fütter
    first, third = SINGULAR.get(bare, (stem + "e", THIRD_PERSON.get(bare, _with_t(stem))))
    return Conjugation(
        particle=particle,
        infinitive=particle + bare,
        first=first,
        third=third,
        plural=PLURAL.get(bare, bare),
        participle=particle + IRREGULAR_PARTICIPLES.get(bare, _weak_participle(bare, stem)),
        perfect="sein" if verb in WITH_SEIN else "haben",
        preterite=PRETERITE.get(bare, ""),
    )


def _with_t(stem: str) -> str:
    """arbeit → arbeitet, but mach → macht."""
    return stem + ("et" if stem.endswith(("d", "t", "chn", "gn")) else "t")


def _weak_participle(bare: str, stem: str) -> str:
    unstressed = bare.startswith(("be", "ver", "ge")) or bare.endswith("ieren")
    return ("" if unstressed else "ge") + _with_t(stem)
