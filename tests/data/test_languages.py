"""Languages by their codes."""

from __future__ import annotations

import pytest

from regard.data.detection import WORDS
from regard.data.languages import NAMES, check_code, language_of, name_of, title_of
from regard.data.scripts import LANGUAGES
from regard.errors import RegardError


def test_every_language_with_a_known_script_or_words_has_a_name() -> None:
    assert set(WORDS) | {code for codes in LANGUAGES.values() for code in codes.split()} <= set(NAMES)
    assert len([code for code in NAMES if len(code) == 2]) == 184


def test_the_language_is_read_from_the_name_of_a_file() -> None:
    names = {
        "test.de": "de", "test.en-de.de.gz": "de", "a.de.xz": "de", "b/test.de.txt": "de", "train.tok.lc.fr": "fr",
        "train.pt-BR": "pt", "de": "", "output": "", "x.txt": "", "train.src": "", "corpus.en-de.gz": "",
    }  # fmt: skip
    assert {name: language_of(name) for name in names} == names


def test_a_code_may_have_a_country_and_a_name_may_be_unknown() -> None:
    assert name_of("fr") == "French (fr)"
    assert name_of("pt-BR") == "Portuguese (pt-BR)"
    assert name_of("tlh") == "tlh"
    titles = {
        "fr": "French", "EN": "English", "pt-BR": "Portuguese (Brazil)", "pt_br": "Portuguese (Brazil)",
        "zh-Hant": "Chinese (traditional)", "en-ZZ": "English (ZZ)", "tlh": "tlh", "tlh-AQ": "tlh-AQ",
    }  # fmt: skip
    assert {code: title_of(code) for code in titles} == titles
    assert not check_code("pt_BR", "--language")
    assert "tlh is no language code known here" in check_code("tlh", "--language")


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("german", "write de for german"), ("Englsh", "did you mean en, English?"), ("1", "no language code"),
        ("dr", "did you mean da or de or dv or dz?"),
    ],
)  # fmt: skip
def test_what_is_no_code_is_refused_with_the_nearest_right_one(given: str, hint: str) -> None:
    with pytest.raises(RegardError, match="--languages") as error:
        check_code(given, "--languages")
    assert hint in str(error.value)


def test_three_letters_may_be_a_code_or_a_slip() -> None:
    assert "did you mean de?" in check_code("dee", "--languages")
