"""The built-in corpus: German that agrees, one translation each way, splits that never meet, links that hold."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice

import pytest

from regard.data.generated import CORPORA, SPLITS, Pair, distinct_sentences, generate
from regard.data.generated import english as en
from regard.data.generated import german as de
from regard.data.generated.adjectives import ADJECTIVES
from regard.data.generated.alignment import OBJECT, PLACE, RECIPIENT, SUBJECT, links
from regard.data.generated.clauses import TOO, VERY, Clause
from regard.data.generated.draw_phrases import attributes
from regard.data.generated.lexicon import (
    BARE,
    FREQUENCIES,
    IT,
    MODALS,
    NAMES,
    NOT_A,
    NUMBERS,
    POSSESSIVES,
    PRONOUNS,
    THE,
    THIS,
    TIMES,
    WHO,
    A,
    Tense,
)
from regard.data.generated.nouns import NOUN, NOUNS, nouns_of
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
from regard.data.generated.places import (
    AT_HOME,
    AT_SCHOOL,
    DIRECTIONS,
    HOME,
    IN_CITIES,
    LOCATIONS,
    TO_CITIES,
    TO_SCHOOL,
)
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
    text,
)
from regard.data.generated.symbols import LONGEST as LONGEST_SEQUENCE
from regard.data.generated.verbs import ASK, BE, BELIEVE, HOPE, KNOW, SAY, THINK, VERBS, WEATHER

# ---------------------------------------------------------------------------------------------------------------
# Agreement
# ---------------------------------------------------------------------------------------------------------------

WEAK = """
der alte Mann      | die alte Frau    | das alte Haus     | die alten Häuser
den alten Mann     | die alte Frau    | das alte Haus     | die alten Häuser
dem alten Mann     | der alten Frau   | dem alten Haus    | den alten Häusern
des alten Mannes   | der alten Frau   | des alten Hauses  | der alten Häuser
"""
WEAK_AFTER_DIESER = """
dieser alte Mann    | diese alte Frau   | dieses alte Haus    | diese alten Häuser
diesen alten Mann   | diese alte Frau   | dieses alte Haus    | diese alten Häuser
diesem alten Mann   | dieser alten Frau | diesem alten Haus   | diesen alten Häusern
dieses alten Mannes | dieser alten Frau | dieses alten Hauses | dieser alten Häuser
"""
MIXED = """
mein alter Mann      | meine alte Frau    | mein altes Haus      | meine alten Häuser
meinen alten Mann    | meine alte Frau    | mein altes Haus      | meine alten Häuser
meinem alten Mann    | meiner alten Frau  | meinem alten Haus    | meinen alten Häusern
meines alten Mannes  | meiner alten Frau  | meines alten Hauses  | meiner alten Häuser
"""
STRONG = """
alter Mann    | alte Frau   | altes Haus   | alte Häuser
alten Mann    | alte Frau   | altes Haus   | alte Häuser
altem Mann    | alter Frau  | altem Haus   | alten Häusern
alten Mannes  | alter Frau  | alten Hauses | alter Häuser
"""


@pytest.mark.parametrize(
    ("word", "paradigm", "table"),
    [("der", "weak", WEAK), ("dies", "weak", WEAK_AFTER_DIESER), ("mein", "mixed", MIXED), ("", "strong", STRONG)],
)
def test_article_adjective_and_noun_agree_in_every_case_and_gender(
    word: str, paradigm: de.Paradigm, table: str
) -> None:
    nouns = {"m": ("Mann", "Männer"), "f": ("Frau", "Frauen"), "n": ("Haus", "Häuser"), "p": ("Haus", "Häuser")}
    rows = [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]
    for case, row in zip(de.CASES, rows, strict=True):
        for gender, expected in zip(de.GENDERS, row, strict=True):
            parts = (
                de.determiner(word, gender, case),
                de.adjective("alt", paradigm, gender, case),
                de.noun(*nouns[gender], gender, False, case),
            )
            assert " ".join(part for part in parts if part) == expected


@pytest.mark.parametrize("word", ["ein", "kein", "mein", "sein", "unser"])
def test_ein_words_take_the_endings_of_ein(word: str) -> None:
    forms = {gender: [de.determiner(word, gender, case).removeprefix(word) for case in de.CASES] for gender in "mfnp"}
    assert forms == {
        "m": ["", "en", "em", "es"],
        "f": ["e", "e", "er", "er"],
        "n": ["", "", "em", "es"],
        "p": ["e", "e", "en", "er"],
    }


@pytest.mark.parametrize(
    ("word", "expected"),
    [("müde", "müder"), ("teuer", "teurer"), ("dunkel", "dunkler"), ("schwarz", "schwarzer"), ("groß", "großer")],
)
def test_adjective_stems_lose_what_they_must(word: str, expected: str) -> None:
    assert de.adjective(word, "mixed", "m", "nom") == expected


@pytest.mark.parametrize(
    ("noun", "forms"),  # nominative, accusative, dative, genitive; plural, dative plural
    [
        ("boy", "Junge Jungen Jungen Jungen Jungen Jungen"),
        ("student", "Student Studenten Studenten Studenten Studenten Studenten"),
        ("farmer", "Bauer Bauern Bauern Bauern Bauern Bauern"),
        ("policeman", "Polizist Polizisten Polizisten Polizisten Polizisten Polizisten"),
        ("child", "Kind Kind Kind Kindes Kinder Kindern"),
        ("girl", "Mädchen Mädchen Mädchen Mädchens Mädchen Mädchen"),
        ("teacher", "Lehrer Lehrer Lehrer Lehrers Lehrer Lehrern"),
        ("doctor", "Arzt Arzt Arzt Arztes Ärzte Ärzten"),
        ("guest", "Gast Gast Gast Gastes Gäste Gästen"),
        ("nurse", "Krankenschwester " * 4 + "Krankenschwestern Krankenschwestern"),
        ("daughter", "Tochter Tochter Tochter Tochter Töchter Töchtern"),
        ("car", "Auto Auto Auto Autos Autos Autos"),
    ],
)
def test_nouns_decline(noun: str, forms: str) -> None:
    entry = NOUN[noun]
    singular = [de.noun(entry.german, entry.plural, entry.gender, entry.weak, case) for case in de.CASES]
    plural = [de.noun(entry.german, entry.plural, "p", entry.weak, case) for case in ("nom", "dat")]
    assert singular + plural == forms.split()


CONJUGATIONS = """
sein      bin      ist      sind
haben     habe     hat      haben
werden    werde    wird     werden
können    kann     kann     können
müssen    muss     muss     müssen
wollen    will     will     wollen
dürfen    darf     darf     dürfen
sollen    sollte   sollte   sollten
wissen    weiß     weiß     wissen
mögen     mag      mag      mögen
machen    mache    macht    machen
arbeiten  arbeite  arbeitet arbeiten
finden    finde    findet   finden
antworten antworte antwortet antworten
regnen    regne    regnet   regnen
füttern   füttere  füttert  füttern
tanzen    tanze    tanzt    tanzen
küssen    küsse    küsst    küssen
essen     esse     isst     essen
fressen   fresse   frisst   fressen
fahren    fahre    fährt    fahren
geben     gebe     gibt     geben
helfen    helfe    hilft    helfen
ein|laden lade     lädt     laden
lesen     lese     liest    lesen
nehmen    nehme    nimmt    nehmen
schlafen  schlafe  schläft  schlafen
sehen     sehe     sieht    sehen
sprechen  spreche  spricht  sprechen
tragen    trage    trägt    tragen
treffen   treffe   trifft   treffen
vergessen vergesse vergisst vergessen
waschen   wasche   wäscht   waschen
weg|werfen werfe   wirft    werfen
"""


@pytest.mark.parametrize("row", CONJUGATIONS.strip().splitlines())
def test_verbs_conjugate(row: str) -> None:
    verb, first, third, plural = row.split()
    forms = de.conjugation(verb)
    assert [forms.present(person) for person in ("1sg", "3sg", "1pl", "3pl")] == [first, third, plural, plural]


@pytest.mark.parametrize(
    ("verb", "singular", "plural"),
    [("sein", "war", "waren"), ("haben", "hatte", "hatten"), ("wissen", "wusste", "wussten"),
     ("können", "konnte", "konnten"), ("müssen", "musste", "mussten"), ("wollen", "wollte", "wollten")],
)  # fmt: skip
def test_some_verbs_have_a_präteritum(verb: str, singular: str, plural: str) -> None:
    forms = de.conjugation(verb)
    assert (forms.past("1sg"), forms.past("3sg"), forms.past("1pl"), forms.past("3pl")) == (
        singular, singular, plural, plural,
    )  # fmt: skip


PARTICIPLES = """
schlafen hat geschlafen, arbeiten hat gearbeitet, schwimmen ist geschwommen, singen hat gesungen, rennen ist gerannt,
sitzen hat gesessen, bleiben ist geblieben, ein|kaufen hat eingekauft, fern|sehen hat ferngesehen,
auf|stehen ist aufgestanden, ein|schlafen ist eingeschlafen, an|kommen ist angekommen, ab|fahren ist abgefahren,
zurück|kommen ist zurückgekommen, gehen ist gegangen, fahren ist gefahren, fliegen ist geflogen, kommen ist gekommen,
essen hat gegessen, fressen hat gefressen, trinken hat getrunken, bestellen hat bestellt, mit|bringen hat mitgebracht,
verkaufen hat verkauft, lesen hat gelesen, schreiben hat geschrieben, tragen hat getragen, an|ziehen hat angezogen,
aus|ziehen hat ausgezogen, waschen hat gewaschen, auf|räumen hat aufgeräumt, reparieren hat repariert,
auf|machen hat aufgemacht, zu|machen hat zugemacht, weg|werfen hat weggeworfen, nehmen hat genommen,
füttern hat gefüttert, beobachten hat beobachtet, besuchen hat besucht, treffen hat getroffen, an|rufen hat angerufen,
ein|laden hat eingeladen, ab|holen hat abgeholt, finden hat gefunden, verlieren hat verloren, vergessen hat vergessen,
sehen hat gesehen, hören hat gehört, verstehen hat verstanden, helfen hat geholfen, danken hat gedankt,
antworten hat geantwortet, folgen ist gefolgt, zu|hören hat zugehört, gehören hat gehört, geben hat gegeben,
an|bieten hat angeboten, sprechen hat gesprochen, warten hat gewartet, regnen hat geregnet, denken hat gedacht,
kennen hat gekannt, bringen hat gebracht, wissen hat gewusst
"""


@pytest.mark.parametrize("row", [row.strip() for row in PARTICIPLES.split(",")])
def test_the_perfekt_has_its_auxiliary_and_participle(row: str) -> None:
    verb, auxiliary, participle = row.split()
    forms = de.conjugation(verb)
    assert (de.conjugation(forms.perfect).third, forms.participle) == (auxiliary, participle)


@pytest.mark.parametrize(
    ("verb", "forms"),
    [("watch", "watches watched watching"), ("tidy", "tidies tidied tidying"), ("shop", "shops shopped shopping"),
     ("have", "has had having"), ("write", "writes wrote writing"), ("put", "puts put putting"),
     ("see", "sees saw seeing"), ("play", "plays played playing"), ("fly", "flies flew flying"),
     ("go", "goes went going"), ("visit", "visits visited visiting"), ("order", "orders ordered ordering")],
)  # fmt: skip
def test_english_verbs_inflect(verb: str, forms: str) -> None:
    assert [en.third_person(verb), en.past(verb), en.ing(verb)] == forms.split()


# ---------------------------------------------------------------------------------------------------------------
# A page of sentences, each checked by hand
# ---------------------------------------------------------------------------------------------------------------

DETERMINERS = {"the": THE, "this": THIS, "these": THIS, "a": A, "an": A, "any": NOT_A}
DETERMINERS |= {entry.english: entry for entry in POSSESSIVES} | {entry.english_plural: entry for entry in NUMBERS}
PLURALS = {en.plural(noun.english): noun for noun in NOUNS if noun.plural}
ADJECTIVE = {adjective.english: adjective for adjective in ADJECTIVES}
TIME = {" ".join(word.text for word in time.words.english): time for time in TIMES}
FREQUENCY = {phrase.english[0].text: phrase for phrase in FREQUENCIES}
MODAL = {modal.english: modal for modal in MODALS}
SUBJECTS = {entry.english: entry for entry in (*PRONOUNS, WHO, IT)}
OBJECTS = {entry.english_object: entry for entry in PRONOUNS}
FIXED = {
    " ".join(word.text for word in phrase.english): phrase
    for phrase in (AT_HOME, AT_SCHOOL, HOME, TO_SCHOOL, *IN_CITIES, *TO_CITIES)
}


def nominal(words: str, unit: int, negated: bool = False) -> Nominal:
    """The phrase that these English words are."""
    if words in (SUBJECTS if unit == SUBJECT else OBJECTS):
        return Pronoun(unit, (SUBJECTS if unit == SUBJECT else OBJECTS)[words])
    first, *rest = words.split()
    if first in NAMES:
        return Named(unit, first, rest[1] if rest else "")
    owner = None
    if rest and rest[0].endswith("'s"):
        owner = Owner(DETERMINERS[first], NOUN[rest.pop(0).removesuffix("'s")])
        determiner = THE
    elif first.endswith("'s"):
        determiner = name_as_owner(first.removesuffix("'s"))
    elif first in DETERMINERS:
        determiner = NOT_A if negated and DETERMINERS[first] is A else DETERMINERS[first]
    else:
        determiner, rest = BARE, [first, *rest]
    very = rest[0] == "very"
    *adjectives, noun = rest[very:]
    entry = PLURALS.get(noun) or NOUN[noun]
    adjective = ADJECTIVE[adjectives[0]] if adjectives else None
    return NounPhrase(unit, entry, determiner, noun in PLURALS, adjective, very, owner)


def place(words: str) -> Adverbial:
    if words in FIXED:
        return FIXED[words]
    for spot in LOCATIONS + DIRECTIONS:
        if words.startswith(spot.english + " ") and words.endswith(" " + spot.noun.english):
            return Prepositional(
                spot.english, spot.german, spot.case, nominal(words.removeprefix(spot.english + " "), PLACE)
            )
    raise KeyError(words)


def say(
    subject: str, verb: str, thing: str = "", *, to: str = "", where: str = "", when: str = "", often: str = "",
    tense: Tense = "now", modal: str = "", no: bool = False, first: bool = False, how: str = "",
) -> Clause:  # fmt: skip
    """A clause; a verb like "eat/fressen" names the German one where English has two."""
    english, _, german = verb.partition("/")
    entries = [*VERBS, *WEATHER, BE, KNOW, BELIEVE, SAY, HOPE, THINK, ASK]
    entry = next(v for v in entries if v.english == english and german in ("", v.german))
    *degree, adjective = how.split() or [""]
    clause = Clause(nominal(subject, SUBJECT), entry, tense, MODAL[modal] if modal else None, no)
    if thing and entry.preposition is not None:
        clause.place = Prepositional(*entry.preposition, nominal(thing, PLACE))
    elif thing:
        clause.object = nominal(thing, OBJECT, no)
    clause.recipient = nominal(to, RECIPIENT) if to else None
    clause.place = place(where) if where else clause.place
    clause.time, clause.time_first = TIME[when] if when else None, first
    clause.frequency = FREQUENCY[often] if often else None
    clause.predicate = ADJECTIVE[adjective] if adjective else None
    clause.degree = {"very": VERY, "too": TOO}[degree[0]] if degree else None
    return clause


def ask(clause: Clause, word: object = None) -> Sentence:
    return Sentence(clause, "inverted", "?", word)  # type: ignore[arg-type]


def both(main: Clause, conjunction: object, second: Clause, first: bool = False) -> Sentence:
    return Sentence(main, conjunction=conjunction, second=second, second_first=first)  # type: ignore[arg-type]


# fmt: off
PAGE: list[tuple[Sentence | Clause, str, str]] = [
    # Articles, gender, number, case, adjective endings.
    (say("the old dog", "sleep", where="in the garden"),
     "The old dog is sleeping in the garden.", "Der alte Hund schläft im Garten."),
    (say("a young woman", "read", "a long letter", where="in the library"),
     "A young woman is reading a long letter in the library.",
     "Eine junge Frau liest in der Bibliothek einen langen Brief."),
    (say("this child", "need", "a blue sweater"),
     "This child needs a blue sweater.", "Dieses Kind braucht einen blauen Pullover."),
    (say("I", "have", "an old car"), "I have an old car.", "Ich habe ein altes Auto."),
    (say("he", "drink", "cold milk"), "He is drinking cold milk.", "Er trinkt kalte Milch."),
    (say("they", "order", "fresh bread"), "They are ordering fresh bread.", "Sie bestellen frisches Brot."),
    (say("we", "buy", "red flowers"), "We are buying red flowers.", "Wir kaufen rote Blumen."),
    (say("two hungry birds", "eat/fressen", "the sweet pear"),
     "Two hungry birds are eating the sweet pear.", "Zwei hungrige Vögel fressen die süße Birne."),
    (say("the girl", "eat/essen", "five small tomatoes", tense="past"),
     "The girl ate five small tomatoes.", "Das Mädchen hat fünf kleine Tomaten gegessen."),
    (say("many children", "play/spielen", where="in the park"),
     "Many children are playing in the park.", "Viele Kinder spielen im Park."),
    (say("my brothers", "repair", "the broken bicycles"),
     "My brothers are repairing the broken bicycles.", "Meine Brüder reparieren die kaputten Fahrräder."),
    (say("our very clever daughter", "feed", "these brown horses"),
     "Our very clever daughter is feeding these brown horses.",
     "Unsere sehr kluge Tochter füttert diese braunen Pferde."),
    (say("his rich uncle", "sell", "expensive clocks", tense="past"),
     "His rich uncle sold expensive clocks.", "Sein reicher Onkel hat teure Uhren verkauft."),
    # Weak nouns, datives, two objects.
    (say("Anna", "know/kennen", "the boy"), "Anna knows the boy.", "Anna kennt den Jungen."),
    (say("the doctor", "help", "the sick student"),
     "The doctor is helping the sick student.", "Der Arzt hilft dem kranken Studenten."),
    (say("they", "follow", "these women", tense="past"),
     "They followed these women.", "Sie sind diesen Frauen gefolgt."),
    (say("Paul", "give", "a new ball", to="the children"),
     "Paul is giving the children a new ball.", "Paul gibt den Kindern einen neuen Ball."),
    (say("I", "show", "the picture", to="my grandmother", tense="past", when="yesterday"),
     "I showed my grandmother the picture yesterday.", "Ich habe gestern meiner Großmutter das Bild gezeigt."),
    (say("she", "send", "many letters", to="us", tense="past"),
     "She sent us many letters.", "Sie hat uns viele Briefe geschickt."),
    (say("this green umbrella", "belong to", "the lady"),
     "This green umbrella belongs to the lady.", "Dieser grüne Regenschirm gehört der Dame."),
    # Names, owners, pronouns.
    (say("Anna and Paul", "live", where="in Munich"),
     "Anna and Paul live in Munich.", "Anna und Paul wohnen in München."),
    (say("Emma's old house", "be", how="too small"),
     "Emma's old house is too small.", "Emmas altes Haus ist zu klein."),
    (say("my brother's dog", "watch", "the farmer's cats"),
     "My brother's dog is watching the farmer's cats.", "Der Hund meines Bruders beobachtet die Katzen des Bauern."),
    (say("he", "find", "the nurse's key", tense="past", when="today"),
     "He found the nurse's key today.", "Er hat heute den Schlüssel der Krankenschwester gefunden."),
    (say("she", "like", "him"), "She likes him.", "Sie mag ihn."),
    (say("they", "believe", "her"), "They believe her.", "Sie glauben ihr."),
    (say("we", "thank", "them", tense="future"), "We will thank them.", "Wir werden ihnen danken."),
    (say("the waiter", "see", "me", tense="past"), "The waiter saw me.", "Der Kellner hat mich gesehen."),
    # Separable verbs.
    (say("I", "get up", tense="habit", when="every morning"),
     "I get up every morning.", "Ich stehe jeden Morgen auf."),
    (say("my mother", "call", "the doctor"), "My mother is calling the doctor.", "Meine Mutter ruft den Arzt an."),
    (say("Lisa", "pick up", "him", tense="past"), "Lisa picked him up.", "Lisa hat ihn abgeholt."),
    (say("Lisa", "pick up", "the guests", tense="future"),
     "Lisa will pick up the guests.", "Lisa wird die Gäste abholen."),
    (say("the pupils", "turn off", "the computers", tense="past"),
     "The pupils turned off the computers.", "Die Schüler haben die Computer ausgemacht."),
    (say("Sarah", "shop", where="in the city", when="today"),
     "Sarah is shopping in the city today.", "Sarah kauft heute in der Stadt ein."),
    (say("he", "throw away", "his old jacket", modal="want to"),
     "He wants to throw away his old jacket.", "Er will seine alte Jacke wegwerfen."),
    (say("the train", "arrive", where="in Vienna", tense="past"),
     "The train arrived in Vienna.", "Der Zug ist in Wien angekommen."),
    # The verb is second, whatever comes first.
    (say("the teacher", "lose", "his umbrella", tense="past", when="yesterday", first=True),
     "Yesterday the teacher lost his umbrella.", "Gestern hat der Lehrer seinen Regenschirm verloren."),
    (say("we", "fly", where="to Rome", tense="future", when="next week", first=True),
     "Next week we will fly to Rome.", "Nächste Woche werden wir nach Rom fliegen."),
    (say("I", "clean", "the kitchen", tense="habit", when="every week", first=True),
     "Every week I clean the kitchen.", "Jede Woche putze ich die Küche."),
    (say("a bus", "leave", tense="past", when="an hour ago", first=True),
     "An hour ago a bus left.", "Vor einer Stunde ist ein Bus abgefahren."),
    # Times, places, directions.
    (say("Peter", "swim", where="in the cold lake", tense="past", when="on Sunday"),
     "Peter swam in the cold lake on Sunday.", "Peter ist am Sonntag im kalten See geschwommen."),
    (say("my aunts", "sit", where="under the old tree"),
     "My aunts are sitting under the old tree.", "Meine Tanten sitzen unter dem alten Baum."),
    (say("the boys", "go", where="to school"), "The boys are going to school.", "Die Jungen gehen zur Schule."),
    (say("we", "stay", where="at home", tense="past"), "We stayed at home.", "Wir sind zu Hause geblieben."),
    (say("Tom", "come", where="home"), "Tom is coming home.", "Tom kommt nach Hause."),
    (say("they", "drive", where="to the station", tense="past", when="two days ago"),
     "They drove to the station two days ago.", "Sie sind vor zwei Tagen zum Bahnhof gefahren."),
    (say("she", "go", where="to the new cinema", tense="future", when="in the evening"),
     "She will go to the new cinema in the evening.", "Sie wird am Abend ins neue Kino gehen."),
    (say("the farmer", "sell", "his apples", where="at the market", tense="habit", when="every day"),
     "The farmer sells his apples at the market every day.", "Der Bauer verkauft jeden Tag seine Äpfel auf dem Markt."),
    (say("the key", "be", where="on the table"), "The key is on the table.", "Der Schlüssel ist auf dem Tisch."),
    # Habits.
    (say("Maria", "eat/essen", "fish", tense="habit", often="never"),
     "Maria never eats fish.", "Maria isst nie Fisch."),
    (say("I", "visit", "my aunt", tense="habit", often="often"),
     "I often visit my aunt.", "Ich besuche meine Tante oft."),
    (say("he", "offer", "the cake", to="the guests", tense="habit", often="rarely"),
     "He rarely offers the guests the cake.", "Er bietet den Gästen selten den Kuchen an."),
    (say("this room", "be", often="always", how="very cold"),
     "This room is always very cold.", "Dieses Zimmer ist immer sehr kalt."),
    # Negation.
    (say("Anna", "read", "the book", tense="past", when="yesterday", no=True),
     "Anna did not read the book yesterday.", "Anna hat das Buch gestern nicht gelesen."),
    (say("we", "have", "a dog", no=True), "We do not have a dog.", "Wir haben keinen Hund."),
    (say("the boy", "buy", "any milk", tense="past", no=True),
     "The boy did not buy any milk.", "Der Junge hat keine Milch gekauft."),
    (say("they", "open", "the window", no=True),
     "They are not opening the window.", "Sie machen das Fenster nicht auf."),
    (say("she", "wait", "the bus", no=True), "She is not waiting for the bus.", "Sie wartet nicht auf den Bus."),
    (say("the soup", "be", how="warm", no=True), "The soup is not warm.", "Die Suppe ist nicht warm."),
    (say("I", "sleep", where="at home", tense="future", no=True),
     "I will not sleep at home.", "Ich werde nicht zu Hause schlafen."),
    # Modals.
    (say("Jan", "swim", modal="can", no=True), "Jan cannot swim.", "Jan kann nicht schwimmen."),
    (say("she", "work", tense="past", modal="have to", when="on Monday"),
     "She had to work on Monday.", "Sie musste am Montag arbeiten."),
    (say("the pupils", "tidy", "the room", modal="have to", no=True),
     "The pupils do not have to tidy the room.", "Die Schüler müssen das Zimmer nicht aufräumen."),
    (say("the children", "watch TV", modal="may", when="today"),
     "The children may watch TV today.", "Die Kinder dürfen heute fernsehen."),
    (say("we", "talk", "our doctor", modal="should"),
     "We should talk to our doctor.", "Wir sollten mit unserem Arzt sprechen."),
    # Questions.
    (ask(say("she", "sleep")), "Is she sleeping?", "Schläft sie?"),
    (ask(say("they", "sing/singen", "the song", tense="past")),
     "Did they sing the song?", "Haben sie das Lied gesungen?"),
    (ask(say("Eva", "invite", "us", tense="future")), "Will Eva invite us?", "Wird Eva uns einladen?"),
    (ask(say("the policeman", "drink", "coffee", tense="habit", often="often")),
     "Does the policeman often drink coffee?", "Trinkt der Polizist oft Kaffee?"),
    (Sentence(say("who", "turn on", "the radio", tense="past"), mark="?"),
     "Who turned on the radio?", "Wer hat das Radio angemacht?"),
    (ask(say("the woman", "visit"), WHOM), "Who is the woman visiting?", "Wen besucht die Frau?"),
    (ask(say("the car", "belong to"), TO_WHOM), "Who does the car belong to?", "Wem gehört das Auto?"),
    (ask(say("our cat", "eat/fressen", tense="past"), WHAT),
     "What did our cat eat?", "Was hat unsere Katze gefressen?"),
    (ask(say("Martin", "live"), WHERE), "Where does Martin live?", "Wo wohnt Martin?"),
    (ask(say("they", "fly", tense="future"), WHERE_TO), "Where will they fly?", "Wohin werden sie fliegen?"),
    (ask(say("the guests", "come back", tense="future"), WHEN),
     "When will the guests come back?", "Wann werden die Gäste zurückkommen?"),
    (ask(say("the child", "cry"), WHY), "Why is the child crying?", "Warum weint das Kind?"),
    # Subordinate clauses: the verb is last.
    (both(say("I", "know/wissen"), THAT, say("Nina", "call", "the lawyer")),
     "I know that Nina is calling the lawyer.", "Ich weiß, dass Nina den Anwalt anruft."),
    (both(say("he", "believe"), THAT, say("we", "forget", "the tickets", tense="past")),
     "He believes that we forgot the tickets.", "Er glaubt, dass wir die Fahrkarten vergessen haben."),
    (both(say("she", "hope"), THAT, say("it", "snow", tense="future", when="tomorrow")),
     "She hopes that it will snow tomorrow.", "Sie hofft, dass es morgen schneien wird."),
    (both(say("we", "know/wissen", no=True), WHETHER, say("he", "come", where="to the hotel", modal="can")),
     "We do not know whether he can come to the hotel.", "Wir wissen nicht, ob er zum Hotel kommen kann."),
    (both(say("the man", "stay", where="at home"), BECAUSE, say("he", "be", how="sick")),
     "The man is staying at home because he is sick.", "Der Mann bleibt zu Hause, weil er krank ist."),
    (both(say("she", "run", tense="past"), ALTHOUGH, say("Sarah", "be", tense="past", how="very tired"), first=True),
     "Although Sarah was very tired, she ran.", "Obwohl Sarah sehr müde war, ist sie gerannt."),
    (both(say("we", "swim", tense="future", no=True), IF, say("it", "rain", tense="habit"), first=True),
     "If it rains, we will not swim.", "Wenn es regnet, werden wir nicht schwimmen."),
    (both(say("Oskar", "cook", "rice", tense="future"), IF, say("his friends", "come back", tense="habit", no=True)),
     "Oskar will cook rice if his friends do not come back.",
     "Oskar wird Reis kochen, wenn seine Freunde nicht zurückkommen."),
]
# fmt: on


@pytest.mark.parametrize(("built", "english", "german"), PAGE, ids=[row[1] for row in PAGE])
def test_the_page_of_checked_sentences(built: Sentence | Clause, english: str, german: str) -> None:
    sentence = built if isinstance(built, Sentence) else Sentence(built)
    assert text(sentence.english()) == english
    assert text(sentence.german()) == german


def linked_words(sentence: Sentence) -> set[tuple[str, str]]:
    source, target = sentence.english(), sentence.german()
    return {(source[i].text, target[j].text) for i, j in links(source, target)}


def test_links_follow_the_meaning() -> None:
    assert linked_words(Sentence(say("we", "buy", "a dog", no=True, tense="past"))) == {
        ("we", "wir"), ("did", "haben"), ("not", "keinen"), ("buy", "gekauft."), ("a", "keinen"), ("dog.", "Hund"),
    }  # fmt: skip
    assert linked_words(Sentence(say("Tom", "call", "my brother's friend", where="in the garden"))) == {
        ("Tom", "Tom"), ("is", "ruft"), ("calling", "ruft"), ("calling", "an."), ("my", "meines"),
        ("brother's", "Bruders"), ("brother's", "den"), ("friend", "Freund"), ("in", "im"), ("the", "im"),
        ("garden.", "Garten"),
    }  # fmt: skip
    assert linked_words(both(say("I", "hope"), THAT, say("she", "sing/singen", modal="can"))) == {
        ("I", "ich"), ("hope", "hoffe,"), ("that", "dass"), ("she", "sie"), ("can", "kann."), ("sing.", "singen"),
    }  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------
# The corpus
# ---------------------------------------------------------------------------------------------------------------

TRAIN_SIZE = 40_000
HELD_SIZE = 1_000


@pytest.fixture(scope="module")
def train() -> list[Pair]:
    return generate("en-de", "train", TRAIN_SIZE)


@pytest.fixture(scope="module")
def held() -> dict[str, list[Pair]]:
    return {split: generate("en-de", split, HELD_SIZE) for split in SPLITS[1:]}


def words(line: str) -> list[str]:
    """The words without their punctuation, capitals as they stand."""
    return re.findall(r"[\w']+", line)


def test_every_sentence_has_one_translation_in_each_direction(train: list[Pair], held: dict[str, list[Pair]]) -> None:
    translation: dict[str, str] = {}
    original: dict[str, str] = {}
    samples = [train, *held.values(), generate("en-de", "train", 120_000, seed=2)]
    for pair in (pair for sample in samples for pair in sample):
        assert translation.setdefault(pair.source, pair.target) == pair.target
        assert original.setdefault(pair.target, pair.source) == pair.source
    assert len(translation) > 150_000


def test_splits_never_meet() -> None:
    splits = [{pair.source for seed in (1, 2) for pair in generate("en-de", split, 1_500, seed)} for split in SPLITS]
    assert len(set.union(*splits)) == sum(map(len, splits))


def test_combinations_pair_words_that_training_never_pairs() -> None:
    trained = [list(sentence.pairings()) for sentence, _ in islice(distinct_sentences("train", 1), TRAIN_SIZE)]
    together = {pairing for pairings in trained for pairing in pairings}
    known = {word for pairing in together for word in pairing}
    new = set()
    for sentence, _ in islice(distinct_sentences("combinations", 1), HELD_SIZE):
        unseen = set(sentence.pairings()) - together
        assert unseen
        assert {word for pairing in unseen for word in pairing} <= known
        new |= unseen
    assert len(new) > 50
    for split in ("train", "valid", "test"):  # whatever the seed
        for sentence, _ in islice(distinct_sentences(split, 3), 2_000):
            assert new.isdisjoint(sentence.pairings())


def test_every_word_form_to_be_translated_is_frequent_in_training(
    train: list[Pair], held: dict[str, list[Pair]]
) -> None:
    source = Counter(word for pair in train for word in words(pair.source))
    target = Counter(word for pair in train for word in words(pair.target))
    pairs = [pair for pairs in held.values() for pair in pairs]
    assert min(source[word] for pair in pairs for word in words(pair.source)) >= 10
    assert min(target[word] for pair in pairs for word in words(pair.target)) >= 10


def test_sentences_and_vocabulary_stay_small_enough_to_learn_in_minutes(train: list[Pair]) -> None:
    lengths = [len(pair.source.split()) for pair in train]
    assert (min(lengths), max(lengths)) == (3, 14)
    assert 7 < sum(lengths) / len(lengths) < 9
    assert len({word for pair in train for word in words(pair.source)}) < 900
    assert len({word for pair in train for word in words(pair.target)}) < 1_400


def test_there_are_more_than_a_million_sentences() -> None:
    """Counted in one pattern alone: a name, a verb in the past, "the", adjective, noun, and a time at the end."""
    times = sum("past" in time.tenses for time in TIMES)
    objects = sum(
        len(set(attributes(noun, "weak", False, "acc")))
        for verb in VERBS
        if verb.frame == "transitive"
        and not verb.stative
        and "project" not in verb.remarks
        and "grown" not in verb.subjects
        for noun in nouns_of(verb.objects)
    )
    assert len(NAMES) * objects * times > 1_000_000


def test_every_word_is_linked_to_a_word_of_the_other_side(train: list[Pair], held: dict[str, list[Pair]]) -> None:
    for pair in train[:5_000] + held["combinations"]:
        assert list(pair.alignment) == sorted(set(pair.alignment))
        assert {i for i, _ in pair.alignment} == set(range(len(pair.source.split())))
        assert {j for _, j in pair.alignment} == set(range(len(pair.target.split())))


def test_names_are_linked_to_themselves(train: list[Pair]) -> None:
    for pair in train[:5_000]:
        source, target = pair.source.split(), pair.target.split()
        for i, j in pair.alignment:
            if words(source[i])[0] in NAMES:
                assert words(source[i]) == words(target[j])


def test_no_two_words_of_a_kind_share_a_translation() -> None:
    translations = [
        [(entry.english, entry.german) for entry in NOUNS],
        [(entry.english, entry.german) for entry in ADJECTIVES],
        [(entry.english, entry.german) for entry in MODALS],
        [(verb.english, verb.german) for verb in VERBS if verb.german != "fressen"],
    ]
    for pairs in translations:
        distinct = set(pairs)  # "sing" is there with a song and without
        assert len({english for english, _ in distinct}) == len(distinct)
        assert len({german for _, german in distinct}) == len(distinct)


@pytest.mark.parametrize("corpus", CORPORA)
def test_generation_is_reproducible_and_longer_samples_extend_shorter_ones(corpus: str) -> None:
    many = generate(corpus, "train", 1_000, seed=4)
    assert generate(corpus, "train", 10, seed=4) == many[:10]
    assert generate(corpus, "train", 1_000, seed=4) == many
    assert generate(corpus, "train", 1_000, seed=5) != many
    assert len({pair.source for pair in many}) == 1_000


def test_german_to_english_is_the_same_corpus_turned_round() -> None:
    for split in SPLITS:
        there, back = generate("en-de", split, 50), generate("de-en", split, 50)
        for pair, turned in zip(there, back, strict=True):
            assert (turned.source, turned.target) == (pair.target, pair.source)
            assert turned.alignment == tuple(sorted((j, i) for i, j in pair.alignment))


@pytest.mark.parametrize("corpus", ["copy", "reverse"])
def test_symbols_are_copied_and_reversed(corpus: str) -> None:
    pairs = generate(corpus, "train", 2_000)
    for pair in pairs:
        source, target = pair.source.split(), pair.target.split()
        assert target == (source if corpus == "copy" else source[::-1])
        assert [source[i] for i, _ in pair.alignment] == [target[j] for _, j in pair.alignment]
        assert {j for _, j in pair.alignment} == set(range(len(target)))
    assert {len(pair.source.split()) for pair in pairs} == set(range(1, LONGEST_SEQUENCE + 1))
    others = {pair.source for split in ("valid", "test") for pair in generate(corpus, split, 500)}
    assert others.isdisjoint(pair.source for pair in pairs)
    assert len(others) == 1_000


@pytest.mark.parametrize(
    ("corpus", "split", "n", "message"),
    [
        ("en-fr", "train", 1, "no built-in corpus 'en-fr'"),
        ("en-de", "dev", 1, "no split 'dev'"),
        ("en-de", "train", 0, "not 0"),
        ("en-de", "test", 10**9, "not 1000000000"),
        ("copy", "combinations", 1, "no combinations"),
    ],
)
def test_a_wrong_request_is_refused_in_one_sentence(corpus: str, split: str, n: int, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        generate(corpus, split, n)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
