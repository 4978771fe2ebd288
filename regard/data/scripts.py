"""Which script a language is written in, and how much of a text is in it."""

from __future__ import annotations

import re

from regard.data.languages import main_code

# Blocks of Unicode; only the letters in them are ever asked for.
SCRIPTS = {
    "Latin": r"A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u1d00-\u1dbf\u1e00-\u1eff\u2c60-\u2c7f"
    r"\ua720-\ua7ff\ufb00-\ufb06\uff21-\uff3a\uff41-\uff5a",
    "Greek": r"\u0370-\u03ff\u1f00-\u1fff",
    "Cyrillic": r"\u0400-\u052f\u1c80-\u1c8f\ua640-\ua69f",
    "Armenian": r"\u0530-\u058f\ufb13-\ufb17",
    "Hebrew": r"\u0590-\u05ff\ufb1d-\ufb4f",
    "Arabic": r"\u0600-\u06ff\u0750-\u077f\u0870-\u08ff\ufb50-\ufdff\ufe70-\ufefe",
    "Devanagari": r"\u0900-\u097f\ua8e0-\ua8ff",
    "Bengali": r"\u0980-\u09ff",
    "Gurmukhi": r"\u0a00-\u0a7f",
    "Gujarati": r"\u0a80-\u0aff",
    "Odia": r"\u0b00-\u0b7f",
    "Tamil": r"\u0b80-\u0bff",
    "Telugu": r"\u0c00-\u0c7f",
    "Kannada": r"\u0c80-\u0cff",
    "Malayalam": r"\u0d00-\u0d7f",
    "Sinhala": r"\u0d80-\u0dff",
    "Thai": r"\u0e00-\u0e7f",
    "Lao": r"\u0e80-\u0eff",
    "Tibetan": r"\u0f00-\u0fff",
    "Burmese": r"\u1000-\u109f\uaa60-\uaa7f",
    "Georgian": r"\u10a0-\u10ff\u1c90-\u1cbf\u2d00-\u2d2f",
    "Ethiopic": r"\u1200-\u139f\u2d80-\u2ddf",
    "Khmer": r"\u1780-\u17ff",
    "Hangul": r"\u1100-\u11ff\u3130-\u318f\uac00-\ud7af",
    "Kana": r"\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f",
    "Han": r"\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f",
}
LANGUAGES = {
    "Latin": "af az bs ca ceb cs cy da de en eo es et eu fi fr ga gd gl ha hr ht hu id ig is it jv la lb lt lv mg mi "
    "ms mt nb nl nn no oc pl pt ro rw sk sl sn so sq st su sv sw tl tn tr uz vi wa xh yo zu",
    "Cyrillic": "ba be bg kk ky mk mn ru tg tt uk", "Latin Cyrillic": "sr sh", "Greek": "el", "Armenian": "hy",
    "Hebrew": "he yi", "Arabic": "ar arz ckb fa ps sd ug ur", "Devanagari": "hi mr ne sa", "Bengali": "as bn",
    "Gurmukhi": "pa", "Gujarati": "gu", "Odia": "or", "Tamil": "ta", "Telugu": "te", "Kannada": "kn",
    "Malayalam": "ml", "Sinhala": "si", "Thai": "th", "Lao": "lo", "Tibetan": "bo", "Burmese": "my", "Georgian": "ka",
    "Ethiopic": "am ti", "Khmer": "km", "Hangul Han": "ko", "Kana Han": "ja", "Han": "yue zh",
}  # fmt: skip
UNSPACED = {"bo", "ja", "km", "lo", "my", "th", "yue", "zh"}  # languages that put no space between words
LETTER = re.compile(r"[^\W\d_]")


def unspaced(language: str) -> bool:
    """Whether a language puts no space between words."""
    return main_code(language) in UNSPACED


def script_of(language: str) -> str:
    """The names of a language's scripts with a space between, or nothing where we do not know them."""
    return next((names for names, codes in LANGUAGES.items() if main_code(language) in codes.split()), "")


class Script:
    """The letters a language is written in."""

    def __init__(self, names: str) -> None:
        self.names = names
        self.latin = "Latin" in names.split()
        blocks = "".join(SCRIPTS[name] for name in names.split())
        self.foreign = re.compile(rf"[^\W\d_{blocks}]")

    def share(self, text: str) -> float:
        """How much of the text's letters is in the script; 1 where it has no letter."""
        if self.latin and text.isascii():
            return 1.0
        foreign = len(self.foreign.findall(text))
        return 1 - foreign / len(LETTER.findall(text)) if foreign else 1.0
