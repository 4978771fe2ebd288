"""A side that is no text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from regard.doctor.pairs import wordless
from regard.doctor.texts import Bitext, Side

GERMAN = [f"Der Hund Nummer {i} schläft." for i in range(40)]


@pytest.mark.parametrize("name", [str, "doc-{:04}".format, "{} / 7".format])
def test_a_column_of_ids_is_named(name: Callable[[int], str]) -> None:
    ids = Side("ids", [*map(name, range(38)), "Ja.", ""])
    for sides in ((ids, Side("de", GERMAN)), (Side("de", GERMAN), ids)):
        (found,) = wordless(Bitext("train", *sides))
        assert (found.code, found.severity, found.where.files) == ("no-words", "error", ("ids",))
        assert "--columns" in found.fix


def test_text_with_figures_and_figures_on_both_sides_are_passed_in_silence() -> None:
    figures = Side("x", [f"{i} + {i}" for i in range(40)])
    assert not list(wordless(Bitext("train", figures, Side("y", [str(2 * i) for i in range(40)]))))
    chinese = Side("zh", ["我们今天在家里吃饭。"] * 30 + ["2024年"] * 10)
    assert not list(wordless(Bitext("train", chinese, Side("de", GERMAN))))
