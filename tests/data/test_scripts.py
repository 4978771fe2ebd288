"""Scripts: which letters a language is written in."""

from __future__ import annotations

import re

import pytest

from regard.data.languages import main_code
from regard.data.scripts import LANGUAGES, SCRIPTS, Script, script_of


@pytest.mark.parametrize(
    ("language", "text", "other"),
    [
        ("de", "Übergröße", "гора"), ("vi", "Tiếng Việt", "日本"), ("ru", "Россия", "Russia"),
        ("el", "Ελλάδα", "Greece"),
        ("ar", "العربية", "Arabic"), ("he", "עברית", "Hebrew"), ("hi", "हिन्दी", "Hindi"), ("th", "ภาษาไทย", "Thai"),
        ("ka", "ქართული", "Georgian"), ("zh", "中文", "Chinese"), ("ja", "日本語の", "한국"),
        ("ko", "한국어", "にほん"),
        ("sr", "Србија Srbija", "日本"), ("pt-BR", "São Paulo", "日本"),
    ],
)  # fmt: skip
def test_a_language_is_known_by_its_script(language: str, text: str, other: str) -> None:
    script = Script(script_of(language))
    assert script.share(text) == 1.0
    assert script.share(other) == 0.0
    assert script.share("12 + 7 = 19!") == 1.0  # no letter, nothing to object to


def test_the_share_of_a_script_is_counted_in_letters() -> None:
    assert Script("Latin").share("abc где") == 0.5
    assert Script("Cyrillic").share("abc где, 1234567") == 0.5


def test_a_region_does_not_change_the_language() -> None:
    assert main_code("pt-BR") == main_code("pt_br") == main_code("PT") == "pt"
    assert script_of("ZH-TW") == script_of("zh") == "Han"
    assert script_of("tlh") == ""


def test_every_language_has_one_entry_and_known_scripts() -> None:
    codes = [code for entry in LANGUAGES.values() for code in entry.split()]
    assert len(codes) == len(set(codes))
    assert {name for names in LANGUAGES for name in names.split()} <= set(SCRIPTS)


def test_no_character_is_in_two_scripts() -> None:
    blocks = {name: re.compile(f"[{block}]") for name, block in SCRIPTS.items()}
    for code in range(0x41, 0x10000):
        if not 0xD800 <= code < 0xE000:
            assert sum(bool(block.match(chr(code))) for block in blocks.values()) <= 1, hex(code)
