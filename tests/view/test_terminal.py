"""The alignment in the terminal: dark where strong, labelled, and never wider than asked."""

import numpy as np
import pytest

from regard.view import alignment_text
from regard.view.terminal import cell_width, shorten

INK = " ·░▒▓█"


def test_stronger_weights_are_darker() -> None:
    weights = np.array([[0.0, 0.01, 0.1, 0.3, 0.6, 0.9]])
    columns = ["a", "b", "c", "d", "e", "f"]
    line = alignment_text(["q"], columns, weights).splitlines()[1]
    cells = line[2:].ljust(11)[::2]
    assert cells == INK


def test_every_label_is_written_where_there_is_room() -> None:
    rows, columns = ["▁Ein", "▁Hund"], ["▁A", "▁dog", "</s>"]
    lines = alignment_text(rows, columns, np.full((2, 3), 1 / 3)).splitlines()
    assert lines[0].split() == columns
    assert [line.split()[0] for line in lines[1:3]] == rows


@pytest.mark.parametrize("width", [12, 13, 20, 37, 80, 100])
@pytest.mark.parametrize("token", ["ab", "Donaudampfschifffahrt", "注意机制就是一切", "e\u0301" * 9, "👩\u200d🚀", ""])
def test_no_line_is_wider_than_asked(width: int, token: str) -> None:
    weights = np.random.default_rng(0).random((3, 17))
    drawn = alignment_text([token] * 3, [token] * 17, weights, width=width)
    assert max(map(cell_width, drawn.splitlines())) <= width


def test_columns_that_do_not_fit_continue_below() -> None:
    columns = [f"k{i:02}" for i in range(30)]
    drawn = alignment_text(["one", "two"], columns, np.eye(2, 30), width=40)
    assert all(column in drawn for column in columns)
    assert drawn.count("two") > 1
    assert drawn.count("█" * 3) == 2


def test_rows_beyond_the_height_are_counted() -> None:
    drawn = alignment_text([f"q{i}" for i in range(9)], ["k"] * 30, np.eye(9, 30), width=40, height=4)
    bands = drawn.split("\n\n")[:-1]
    assert len(bands) > 1
    for band in bands:
        assert [line.split()[0] for line in band.splitlines()[1:]] == ["q0", "q1", "q2", "q3", "…"]
        assert band.endswith("… 5 more")
    assert "…" not in alignment_text(["a", "b"], ["k"], np.ones((2, 1)), height=2)


def test_wide_characters_keep_the_columns_in_line() -> None:
    lines = alignment_text(["注意", "a"], ["x", "y"], np.array([[0.0, 1.0], [0.0, 1.0]])).splitlines()
    starts = {cell_width(line[: line.index("█")]) for line in lines[1:3]}
    assert len(starts) == 1


def test_tokens_cannot_steer_the_terminal() -> None:
    drawn = alignment_text(["\x1b[2J"], ["\r\u202e"], np.ones((1, 1)))
    assert not {"\x1b", "\r", "\u202e"} & set(drawn)


def test_shortening_respects_wide_characters() -> None:
    assert shorten("注意机制", 5) == "注意…"
    assert shorten("注意机制", 8) == "注意机制"


@pytest.mark.parametrize(("Q", "K"), [(0, 0), (0, 3), (3, 0)])
def test_nothing_is_said_in_words(Q: int, K: int) -> None:
    drawn = alignment_text(["q"] * Q, ["k"] * K, np.zeros((Q, K)))
    assert drawn == f"nothing to draw: {Q} queries, {K} keys"


def test_wrong_shapes_and_widths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(Q, K\) = \(1, 2\)"):
        alignment_text(["a"], ["b", "c"], np.ones((2, 1)))
    with pytest.raises(ValueError, match="at least 12"):
        alignment_text(["a"], ["b"], np.ones((1, 1)), width=5)
    with pytest.raises(ValueError, match="finite"):
        alignment_text(["a"], ["b"], np.full((1, 1), np.nan))
