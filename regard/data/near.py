"""The near form of a text, by which prepare, report and doctor know a sentence again.

Two texts are *near* each other where they have the same near form: HTML entities as characters, in NFC, case folded;
everything dropped that is no letter, mark or digit (punctuation, symbols, spaces); every run of digits written as 0.
They differ then in case, punctuation, spacing, encoding and numbers at most. It is made from the text as it came,
whatever else is done to the training text, so the same bytes in two splits always have the same near form.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import cache

DIGITS = re.compile(r"\d+")
ASCII_NOISE = bytes(code for code in range(128) if not chr(code).isalnum())


def near(text: str) -> str:
    return without_numbers(bare(text))


def without_numbers(bare: str) -> str:
    return DIGITS.sub("0", bare)


def tells(form: str) -> bool:
    """Whether a near form says anything: a number alone is in every corpus."""
    return bool(form.strip("0"))


def bare(text: str) -> str:
    """Case folded, and nothing but letters, marks and digits."""
    if "&" in text:
        text = html.unescape(text)
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    folded = text.casefold().encode().translate(None, ASCII_NOISE).decode()
    # Once more: what was dropped may have stood between a letter and its mark.
    return folded if folded.isascii() else unicodedata.normalize("NFC", noise().sub("", folded))


@cache
def noise() -> re.Pattern[str]:
    """Everything that is no letter, mark or digit; a mark is part of its letter, which Python's \\w does not know.

    Variation selectors are marks too, but of how a character looks: they are noise.
    """
    codes = (code for code in range(0x300, 0x10000) if not 0xFE00 <= code <= 0xFE0F and not 0x180B <= code <= 0x180F)
    marks = "".join(chr(code) for code in codes if unicodedata.category(chr(code))[0] == "M")
    return re.compile(rf"[^\w{marks}]+")
