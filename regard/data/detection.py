"""Which of some languages a text is in, by their scripts and commonest words: cheap, and unsure of short texts."""

from __future__ import annotations

import re
from collections.abc import Iterable

from regard.data.languages import main_code
from regard.data.scripts import Script, script_of

COMMON = {
    "en": "the of and to in a is that it for was on with as are be by this at an his from not have were which their "
    "you he she they we has been will would there but all one",
    "de": "der die und das den von zu mit sich des auf für ist im dem nicht ein eine als auch es an werden aus er hat "
    "dass sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur oder ich wir",
    "fr": "le la les de des et à en un une du dans que qui est pour pas sur au par plus ne se il elle ce sont avec son "
    "sa aux cette ou nous vous ont été mais leur je",
    "es": "de la que el en y a los se del las un por con no una su para es al lo como más o pero sus le ha este son "
    "está también fue muy hay desde todo nos",
    "it": "di che e il la un a per in una è non del si da con i le al della sono dei alla nel più anche gli lo come "
    "ma su delle ha o nella questo degli dal",
    "pt": "de a o que e do da em um para com não uma os no se na por mais as dos como mas ao ele das à seu sua ou ser "
    "quando muito nos já eu também só pelo são foi",
    "nl": "de het een en van in is dat op te zijn voor met die niet aan er om ook als dan maar bij nog naar uit ze hij "
    "wordt door heeft worden over ik wij deze",
    "sv": "och att det i en som på är av för med till den har de inte om ett han men var jag sig från vi så kan när "
    "hon under också efter eller nu",
    "da": "og i at det er en til på af for de med som den ikke har et der om han var jeg fra vi så kan men når hun "
    "efter også eller nu blev",
    "cs": "se na je v že s z do to o i jako za ve po který které ale si by pro jsou od k byl jeho jsem už před která "
    "než nebo ze při není",
    "pl": "w i na z się do nie że to jest o jak po za od przez ale dla ich co być tym przy są jego który która tak "
    "oraz także może już",
    "ro": "de și în a la cu o pe că nu din se un este care pentru mai sau ca fi au fost prin după sunt al ale dar",
    "hu": "a az és hogy nem is egy van ez de meg csak volt már mint még ha el ki azt lesz kell vagy minden",
    "fi": "ja on ei se että oli hän ovat mutta kun myös joka niin kuin ole sen tai jos hänen mitä voi",
    "ru": "и в не на что с он как это по но из у за от то все она так его же был о для мы вы",
}
WORDS = {language: frozenset(words.split()) for language, words in COMMON.items()}
WORD = re.compile(r"[^\W\d_]+")


def words(line: str) -> list[str]:
    return WORD.findall(line.lower())


def likeliest(languages: Iterable[str], text: str) -> list[tuple[str, float]]:
    """The languages, those of which one can be surest first, each with a confidence of 0 to 100."""
    return sorted(((code, confidence(code, text)) for code in languages), key=lambda pair: -pair[1])


def confidence(language: str, text: str) -> float:
    """The share of words that are common in the language; of letters in its script, where that is not Latin."""
    found, code = words(text), main_code(language)
    names = script_of(code)
    script = Script(names) if names else None
    if not found or (script and script.share(text) < 0.5):
        return 0.0
    if script and not script.latin:
        return round(100 * script.share(text), 1)
    return round(100 * sum(word in WORDS.get(code, ()) for word in found) / len(found), 1)
