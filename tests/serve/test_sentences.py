"""Texts are cut where sentences end, and nothing of their spacing is lost."""

from __future__ import annotations

import random

import pytest

from regard.serve.sentences import split


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("  Spaces   before.   And after.  ", ["Spaces   before.", "And after."]),
        ("A line\nand another\r\n\r\nand a third", ["A line", "and another", "and a third"]),
        ("Mr. Smith met Dr. J. Brown. They spoke.", ["Mr. Smith met Dr. J. Brown.", "They spoke."]),
        ("Am 3. Mai kam z.B. Anna. Im Jahr 1999. Dann.", ["Am 3. Mai kam z.B. Anna.", "Im Jahr 1999.", "Dann."]),
        ("He said “No.” She left…  Then?!  Yes", ["He said “No.”", "She left…", "Then?!", "Yes"]),
        ("version 2.5 is e.g. here, see fig. 3", ["version 2.5 is e.g. here, see fig. 3"]),
        ("你好。你好吗？我很好。", ["你好。", "你好吗？", "我很好。"]),
        ("¿Qué? ¡No! Élan.", ["¿Qué?", "¡No!", "Élan."]),
        (" \n\t ", []),
        ("", []),
    ],
)
def test_sentences_end_where_a_reader_says(text: str, sentences: list[str]) -> None:
    assert list(split(text).sentences) == sentences


def test_any_text_is_put_together_again_as_it_was() -> None:
    chance = random.Random(4)
    pieces = [
        "word",
        "Word",
        ".",
        "! ",
        " ",
        "\n",
        "\r\n",
        "\u2028",
        "。",
        "… ",
        "3.",
        "  ",
        "“",
        "”",
        "\t",
        "é",
        "\u00a0",
        "😀",
    ]
    for _ in range(500):
        text = "".join(chance.choices(pieces, k=chance.randint(0, 60)))
        for by in ("sentences", "lines", "none"):
            for longest in (5, 600):
                parts = split(text, by, longest)
                assert parts.filled(parts.sentences) == text
                assert all(0 < len(one) <= longest and one == one.strip() for one in parts.sentences)


def test_a_long_sentence_is_cut_at_a_comma_or_between_words() -> None:
    text = "a b c d e f, g h i j k l m n"
    assert list(split(text, longest=16).sentences) == ["a b c d e f,", "g h i j k l m n"]
    assert list(split("x" * 25, longest=10).sentences) == ["x" * 10, "x" * 10, "x" * 5]


def test_sentences_that_touch_get_a_space_where_the_target_has_spaces() -> None:
    parts = split("你好。你好吗？ 好\n")
    assert parts.filled(["Hello.", "How are you?", "Good."], glue=" ") == "Hello. How are you? Good.\n"
    assert parts.filled(["a", "b", "c"]) == "ab c\n"
