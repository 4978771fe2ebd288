"""Languages by their codes: what they are called, which code a file's name ends in, what a mistyped one should be.

Two letters are ISO 639-1, all of it. Of the three-letter codes, thousands, only some are known here.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import PurePath

from regard.errors import RegardError

NAMES = dict(
    entry.split(" ", 1)
    for entry in [
        "aa Afar",
        "ab Abkhazian",
        "ae Avestan",
        "af Afrikaans",
        "ak Akan",
        "am Amharic",
        "an Aragonese",
        "ar Arabic",
        "as Assamese",
        "av Avaric",
        "ay Aymara",
        "az Azerbaijani",
        "ba Bashkir",
        "be Belarusian",
        "bg Bulgarian",
        "bi Bislama",
        "bm Bambara",
        "bn Bengali",
        "bo Tibetan",
        "br Breton",
        "bs Bosnian",
        "ca Catalan",
        "ce Chechen",
        "ch Chamorro",
        "co Corsican",
        "cr Cree",
        "cs Czech",
        "cu Church Slavonic",
        "cv Chuvash",
        "cy Welsh",
        "da Danish",
        "de German",
        "dv Divehi",
        "dz Dzongkha",
        "ee Ewe",
        "el Greek",
        "en English",
        "eo Esperanto",
        "es Spanish",
        "et Estonian",
        "eu Basque",
        "fa Persian",
        "ff Fulah",
        "fi Finnish",
        "fj Fijian",
        "fo Faroese",
        "fr French",
        "fy Frisian",
        "ga Irish",
        "gd Gaelic",
        "gl Galician",
        "gn Guarani",
        "gu Gujarati",
        "gv Manx",
        "ha Hausa",
        "he Hebrew",
        "hi Hindi",
        "ho Hiri Motu",
        "hr Croatian",
        "ht Haitian",
        "hu Hungarian",
        "hy Armenian",
        "hz Herero",
        "ia Interlingua",
        "id Indonesian",
        "ie Interlingue",
        "ig Igbo",
        "ii Sichuan Yi",
        "ik Inupiaq",
        "io Ido",
        "is Icelandic",
        "it Italian",
        "iu Inuktitut",
        "ja Japanese",
        "jv Javanese",
        "ka Georgian",
        "kg Kongo",
        "ki Kikuyu",
        "kj Kuanyama",
        "kk Kazakh",
        "kl Greenlandic",
        "km Khmer",
        "kn Kannada",
        "ko Korean",
        "kr Kanuri",
        "ks Kashmiri",
        "ku Kurdish",
        "kv Komi",
        "kw Cornish",
        "ky Kyrgyz",
        "la Latin",
        "lb Luxembourgish",
        "lg Ganda",
        "li Limburgish",
        "ln Lingala",
        "lo Lao",
        "lt Lithuanian",
        "lu Luba-Katanga",
        "lv Latvian",
        "mg Malagasy",
        "mh Marshallese",
        "mi Maori",
        "mk Macedonian",
        "ml Malayalam",
        "mn Mongolian",
        "mr Marathi",
        "ms Malay",
        "mt Maltese",
        "my Burmese",
        "na Nauru",
        "nb Norwegian Bokmål",
        "nd North Ndebele",
        "ne Nepali",
        "ng Ndonga",
        "nl Dutch",
        "nn Norwegian Nynorsk",
        "no Norwegian",
        "nr South Ndebele",
        "nv Navajo",
        "ny Chichewa",
        "oc Occitan",
        "oj Ojibwa",
        "om Oromo",
        "or Odia",
        "os Ossetian",
        "pa Punjabi",
        "pi Pali",
        "pl Polish",
        "ps Pashto",
        "pt Portuguese",
        "qu Quechua",
        "rm Romansh",
        "rn Rundi",
        "ro Romanian",
        "ru Russian",
        "rw Kinyarwanda",
        "sa Sanskrit",
        "sc Sardinian",
        "sd Sindhi",
        "se Northern Sami",
        "sg Sango",
        "sh Serbo-Croatian",
        "si Sinhala",
        "sk Slovak",
        "sl Slovenian",
        "sm Samoan",
        "sn Shona",
        "so Somali",
        "sq Albanian",
        "sr Serbian",
        "ss Swati",
        "st Sotho",
        "su Sundanese",
        "sv Swedish",
        "sw Swahili",
        "ta Tamil",
        "te Telugu",
        "tg Tajik",
        "th Thai",
        "ti Tigrinya",
        "tk Turkmen",
        "tl Tagalog",
        "tn Tswana",
        "to Tonga",
        "tr Turkish",
        "ts Tsonga",
        "tt Tatar",
        "tw Twi",
        "ty Tahitian",
        "ug Uyghur",
        "uk Ukrainian",
        "ur Urdu",
        "uz Uzbek",
        "ve Venda",
        "vi Vietnamese",
        "vo Volapük",
        "wa Walloon",
        "wo Wolof",
        "xh Xhosa",
        "yi Yiddish",
        "yo Yoruba",
        "za Zhuang",
        "zh Chinese",
        "zu Zulu",
        "arz Egyptian Arabic",
        "ceb Cebuano",
        "ckb Central Kurdish",
        "yue Cantonese",
    ]
)
CODES = {name.lower(): code for code, name in NAMES.items()}
VARIANTS = dict(  # countries and scripts that tell forms of a language apart
    entry.split(" ", 1)
    for entry in [
        "at Austria",
        "au Australia",
        "be Belgium",
        "br Brazil",
        "ca Canada",
        "ch Switzerland",
        "cn China",
        "de Germany",
        "es Spain",
        "fr France",
        "gb United Kingdom",
        "hk Hong Kong",
        "ie Ireland",
        "in India",
        "it Italy",
        "mx Mexico",
        "nl Netherlands",
        "pt Portugal",
        "tw Taiwan",
        "us United States",
        "arab Arabic script",
        "cyrl Cyrillic",
        "hans simplified",
        "hant traditional",
        "latn Latin script",
    ]
)
CODE = re.compile("([A-Za-z]{2,3})(?:[-_](?:[A-Z]{2}|[A-Z][a-z]{3}))?")  # with a country or a script: pt-BR, zh_Hant


def main_code(language: str) -> str:
    """`pt` for pt-BR or pt_BR."""
    return re.split(r"[-_]", language.lower())[0]


def title_of(language: str) -> str:
    """What readers call it: `French`, `Portuguese (Brazil)`; a code that is not known here stands for itself."""
    code, *variant = re.split(r"[-_]", language, maxsplit=1)
    if code.lower() not in NAMES:
        return language
    inside = f" ({VARIANTS.get(variant[0].lower(), variant[0])})" if variant else ""
    return NAMES[code.lower()] + inside


def name_of(language: str) -> str:
    """`French (fr)`; a code that is not known here stands for itself."""
    name = NAMES.get(main_code(language))
    return f"{name} ({language})" if name else language


def check_code(language: str, option: str) -> str:
    """A remark on a code that is not known here, or nothing. An error where it is no code at all: a language's name, or
    two letters that mean none."""
    code = main_code(language)
    if code in NAMES:
        return ""
    if language.lower() in CODES:
        raise RegardError(f"{option} takes codes: write {CODES[language.lower()]} for {language}.")
    if not re.fullmatch("[a-z]{3}", code):
        raise RegardError(f"{option}: {language} is no language code{likely(code)}: give one such as en or pt-BR.")
    return f"{language} is no language code known here{likely(code)}: what depends on the language is left out."


def likely(code: str) -> str:
    """What a mistyped code or name may have been meant to be."""
    if len(code) > 3:
        close = get_close_matches(code, CODES, n=1)
        return f" (did you mean {CODES[close[0]]}, {NAMES[CODES[close[0]]]}?)" if close else ""
    first = [known for known in NAMES if code[:2] == known] or [known for known in NAMES if known[0] == code[:1]]
    return f" (did you mean {' or '.join(first)}?)" if 1 <= len(first) <= 5 else ""


def language_of(file: str | PurePath) -> str:
    """`de` of train.de or train.tok.de.gz or test.de.txt; nothing where the name does not say."""
    found = [match[1].lower() for part in PurePath(file).name.split(".")[1:] if (match := CODE.fullmatch(part))]
    return next((code for code in reversed(found) if code in NAMES), "")
