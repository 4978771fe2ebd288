"""Every filter has a pair it must drop and one it must keep; what normal and near mean is pinned down."""

from __future__ import annotations

import pytest

from regard.data.cleaning import Cleaning
from regard.data.filters import Chunk, Cleaned, Cleaner, Known
from regard.data.near import near
from regard.errors import RegardError

GOOD = ("The old house stands by the river.", "Das alte Haus steht am Fluss.")


def clean(pairs: list[tuple[str, str]], known: Known | None = None, languages: tuple[str, str] = ("en", "de"),
          **rules: object) -> Cleaned:  # fmt: skip
    cleaner = Cleaner(Cleaning(**rules), languages, known, keep_dropped=True)  # type: ignore[arg-type]
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    return cleaner(Chunk(0, list(range(1, len(pairs) + 1)), sources, targets, []))


def reason(source: str, target: str, languages: tuple[str, str] = ("en", "de"), **rules: object) -> str:
    """Why a pair is dropped, or nothing."""
    return next((why for _, why, _, _ in clean([(source, target)], languages=languages, **rules).dropped), "")


@pytest.mark.parametrize(
    ("expected", "source", "target", "off"),
    [
        ("empty", "Something.", " \u200b\u00a0\t", None),
        ("length", "word " * 201, "Wort " * 190, {"max_words": 0}),
        ("length", "w" * 2001, "Wort", {"max_characters": 0}),
        ("ratio", "one two three four five six seven eight nine ten eleven twelve", "eins zwei", {"max_ratio": 0.0}),
        ("script", "Это предложение не английское.", "Dieser Satz ist deutsch.", {"min_script": 0.0}),
        ("script", "This is English.", "Это предложение по-русски.", {"min_script": 0.0}),
        ("copy", "This was never translated.", "this was NEVER translated", {"copies": "off"}),
    ],
)
def test_a_bad_pair_is_dropped_for_its_reason_and_kept_without_the_filter(
    expected: str, source: str, target: str, off: dict[str, object] | None
) -> None:
    assert reason(source, target) == expected
    if off is not None:
        assert reason(source, target, **off) == ""


@pytest.mark.parametrize(
    ("source", "target"),
    [
        GOOD,
        ("Yes.", "Das ist ganz und gar richtig so."),  # short sentences have any ratio
        ("word " * 199 + "end", "Wort " * 199 + "Ende"),
        ("He quoted Чехов in the first sentence of his talk.", "Er zitierte Чехов im ersten Satz seines Vortrags."),
        ("1990 – 2000", "1990 – 2000"),  # numbers and names are the same in both languages
        ("New York, 12 May", "New York, 12 May"),
        ("§ 5 (3)", "§ 5 (3)"),
        ("12:30", "12.30 Uhr"),
    ],
)
def test_a_good_pair_is_kept(source: str, target: str) -> None:
    assert reason(source, target) == ""


def test_copies_of_names_and_numbers_go_where_all_copies_are_unwanted() -> None:
    assert reason("New York, 12 May", "New York, 12 May", copies="all") == "copy"
    assert reason("Mr Brown", "Herr Brown", copies="all") == ""
    assert reason("In 1990 it ended.", "In 1991 it ended.") == ""  # other numbers are no copy


def test_limits_can_be_moved() -> None:
    assert reason(*GOOD, max_words=5) == "length"
    assert reason(*GOOD, max_characters=20) == "length"
    long = "one two three four five six seven eight nine ten eleven twelve"
    assert reason(long, "eins zwei drei vier fünf sechs", max_ratio=1.5) == "ratio"
    assert reason(long, "eins zwei drei vier fünf sechs") == ""
    assert reason("He quoted Чехов.", "Er zitierte Чехов.", min_script=0.9) == "script"


def test_languages_without_spaces_are_measured_by_characters() -> None:
    chinese = "这座老房子矗立在河边已经有一百多年的历史了"
    english = "This old house has been standing by the river for more than a hundred years"
    assert reason(english, chinese, ("en", "zh")) == ""
    assert reason(english, chinese[:4], ("en", "zh")) == "ratio"


def test_a_language_of_unknown_script_is_not_judged() -> None:
    assert reason("Что это?", "nuqneH", ("ru", "tlh")) == ""


def test_text_is_normalised_and_changes_are_counted() -> None:
    messy = "  Cafe\u0301\u00a0au\u2003lait \u200b\x07\tis\u2028nice\ufeff "
    cleaned = clean([(messy, GOOD[1]), GOOD])
    assert cleaned.sources[0].decode() == "Café au lait is nice\n"
    assert cleaned.normalized == {"not in NFC": 1, "invisible characters": 1, "spaces": 1}
    assert clean([(messy, GOOD[1])], normalize=False).sources[0].decode() == f"{messy}\n"


def test_joiners_that_spell_words_are_kept() -> None:
    assert clean([("می\u200cخواهم", GOOD[1])], languages=("fa", "de")).sources[0].decode() == "می\u200cخواهم\n"


def test_html_entities_become_characters_on_demand() -> None:
    pair = ("Fish &amp; chips &#39;n&#x27; &lt;more&gt;", GOOD[1])
    assert clean([pair]).sources[0].decode().startswith("Fish &amp;")
    cleaned = clean([pair], unescape=True)
    assert cleaned.sources[0].decode() == "Fish & chips 'n' <more>\n"
    assert cleaned.normalized == {"HTML entities": 1}


def test_text_of_several_lines_becomes_one() -> None:
    for rules in ({}, {"normalize": False}):
        cleaned = clean([("two\nlines\r\nhere", GOOD[1])], **rules)
        assert cleaned.sources[0].count(b"\n") == 1


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("The Old House!", "the old-house", True), ("It costs 1,000 €.", "it costs 20 €", True),
        ("STRASSE", "Straße", True), ("“Yes” – he said…", "'Yes', he said.", True), ("a_b", "ab", True),
        ("the old house", "the old houses", False), ("resume", "résumé", False), ("कि", "की", False),
        ("٣ كتب", "4 كتب", True), ("I ❤\ufe0f it", "I ❤ it", True), ("ᠠ\u180b", "ᠠ", True),
        ("café", "cafe\u0301", True), ("cafe\u200b\u0301", "café", True), ("AT&amp;T", "AT&T", True),
    ],
)  # fmt: skip
def test_near_means_equal_but_for_case_punctuation_spacing_and_numbers(a: str, b: str, same: bool) -> None:
    assert (near(a) == near(b)) is same


def test_pairs_near_the_held_out_text_are_dropped() -> None:
    known = Known.of(["The river sings.", "12"], ["Der Fluss singt.", "12"])
    pairs = [
        ("the RIVER sings", "Etwas anderes steht hier."),  # its source
        ("Something else is here.", "der fluss singt!"),  # its target
        ("The river sings", "Der Fluss singt"),  # both
        ("13", "Nummer 13"),  # a number alone is no leak
        GOOD,
    ]  # fmt: skip
    assert clean(pairs, known).lines == [4, 5]
    assert [(line, why) for line, why, _, _ in clean(pairs, known).dropped] == [(n, "leakage") for n in (1, 2, 3)]
    assert clean(pairs, known, leakage="pair").lines == [1, 2, 4, 5]
    assert clean(pairs, known, leakage="off").lines == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("unescape", [True, False])
@pytest.mark.parametrize(
    "text",
    [
        "Le cafe\u0301 est la\u0300.", "AT&amp;T is big", "AT&amp;amp;T is big", "I ❤\ufe0f it", "&a\u200bmp; so on",
        "co\u00adop&shy;era\u200bte", "e\u200b\u0301t\u0301e\u0323\u0302", "ﬁne ½ Å Ω ǆ",
        "na\u0131\u0308ve İstanbul", "ᾳ\u0301 ΐ",
    ],
)  # fmt: skip
def test_the_same_bytes_in_training_and_test_text_are_a_leak_whatever_the_rules(
    text: str, normalize: bool, unescape: bool
) -> None:
    known = Known.of([text], ["Etwas."])
    pairs = [(text, GOOD[1]), GOOD]
    assert clean(pairs, known, normalize=normalize, unescape=unescape, min_script=0.0).lines == [2]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"copies": "some"}, "cleaning.copies = some must be one of text, all, off"),
        ({"duplicates": "nearly"}, r"must be one of near, exact, off \(did you mean near\?\)"),
        ({"min_script": 1.5}, "between 0 and 1"),
        ({"max_words": -1}, "must be at least 0"),
    ],
)
def test_impossible_rules_are_refused(rules: dict[str, object], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        Cleaning(**rules)  # type: ignore[arg-type]
