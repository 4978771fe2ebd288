"""Texts are cut where sentences end, and nothing of their spacing is lost."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable

import pytest

from regard.serve import sentences
from regard.serve.sentences import ABBREVIATIONS, CLOSING, closes, inside, split


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


def plainly(line: str) -> list[tuple[int, int]]:
    """What `inside` finds, by patterns that look at everything and go back at will."""
    end = re.compile(rf"(?:[.!?…]+[{CLOSING}]*(?=\s+[^\sa-zà-öø-ÿ])|[。！？．]+[」』”’）]*)")
    spans, begin = [], 0
    for match in end.finditer(line):
        if match[0] != "." or closes(line[begin : match.end()]):
            spans.append((begin, match.end()))
            begin = match.end()
    return [*spans, (begin, len(line))]


def test_what_is_looked_at_before_a_stop_is_enough() -> None:
    chance = random.Random(5)
    pieces = [
        *sorted(ABBREVIATIONS),
        "A",
        "I",
        "7",
        "12",
        "word",
        "İ",
        "_",
        ".",
        ".",
        ". ",
        "! ",
        "…",
        ")",
        " ",
        "。",
        "”",
    ]
    for _ in range(3000):
        line = "".join(chance.choices(pieces, k=chance.randint(0, 30)))
        assert list(inside(line)) == plainly(line)
    assert [len(split(text).sentences) for text in ("Seen ca. Ten.", "See o.approx. Ten.", "See xapprox. Ten.")] == [
        1,
        2,
        2,
    ]


WORST: dict[str, Callable[[int], str]] = {
    "a long word and initials": lambda n: "a" * (n // 2) + " " + "A. " * (n // 6),
    "one word of stops": lambda n: "a." * (n // 2) + " B",
    "stops, then white space": lambda n: "." * (n // 2) + " " * (n // 2 - 1) + "a",
    "stops, then what closes": lambda n: "." * (n // 2) + ")" * (n // 2),
    "numbers": lambda n: "1. " * (n // 3),
    "stops of Chinese": lambda n: "。" * n,
    "white space": lambda n: "a" + " " * n + "b",
}


@pytest.mark.parametrize("shape", WORST)
def test_the_work_grows_as_the_text_does(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    monkeypatch.setattr(sentences, "closes", lambda end: looked.append(len(end)) or closes(end))
    assert list(inside(WORST[shape](600))) == plainly(WORST[shape](600))
    assert max(looked, default=0) <= 12

    def work(size: int) -> float:
        """Of the processor, in the best of some rounds."""
        rounds = []
        for _ in range(7):
            began = time.thread_time()
            split(WORST[shape](size))
            rounds.append(time.thread_time() - began)
        return min(rounds)

    assert work(80_000) < 40 * work(5_000), "16 times as long: not 256 times the work"


@pytest.mark.parametrize("marker", ["- ", "* ", "•\t", "  – ", "2) ", "  12)  "])
def test_what_marks_a_line_of_a_list_stays_before_it(marker: str) -> None:
    cut = split(f"Here:\n{marker}One thing. Another.\n{marker}More.")
    assert cut.sentences == ("Here:", "One thing.", "Another.", "More.")
    assert cut.filled([s.upper() for s in cut.sentences]) == f"HERE:\n{marker}ONE THING. ANOTHER.\n{marker}MORE."


@pytest.mark.parametrize("text", ["-5 degrees.", "* ", "3. Mai war kalt.", "1984) is a book.", "a - b"])
def test_what_only_looks_like_a_marker_is_translated(text: str) -> None:
    assert split(text).sentences == (text.strip(),)
