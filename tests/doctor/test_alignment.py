"""Files of unequal length and copies: where the doctor says to begin, and what it does not say twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.doctor.alignment import FURTHEST, alignment, learn
from regard.doctor.examine import examine
from regard.doctor.findings import Finding
from regard.doctor.texts import Bitext, Side


def examined(clean: Path, folder: Path, target: list[str], n: int = 1_500) -> dict[str, Finding]:
    source = (clean / "train.en").read_text(encoding="utf-8").splitlines()[:n]
    (folder / "a.en").write_text("\n".join(source) + "\n", encoding="utf-8")
    (folder / "a.de").write_text("\n".join(target) + "\n", encoding="utf-8")
    found = examine(None, {"train": (folder / "a.en", folder / "a.de")})
    return {one.code: one for one in found if one.severity != "note"}


@pytest.fixture
def german(clean: Path) -> list[str]:
    return (clean / "train.de").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("lost", [1, 3, 100])
def test_lines_lost_in_the_middle_are_sought_where_they_are_missing(
    lost: int, clean: Path, tmp_path: Path, german: list[str]
) -> None:
    found = examined(clean, tmp_path, german[:799] + german[799 + lost :])
    first = found["shifted"].lines[0]
    assert abs(first - 800) <= (2 if lost > FURTHEST else 0)
    assert f"Line {first} is the first that does not fit" in found["line-counts-differ"].fix
    assert f"the target is {lost} line{'s' if lost > 1 else ''} early" in found["shifted"].what


def first_shifted(source: list[str], target: list[str]) -> int:
    text = Bitext("train", Side("en", source), Side("de", target))
    (found,) = [one for one in alignment(text, learn(text)) if one.code == "shifted"]
    return found.lines[0]


def test_a_shift_begins_at_the_lost_line_or_after_the_doubled_one(clean: Path, german: list[str]) -> None:
    """The lost line's source stands alone; the doubled one's fits either."""
    source = (clean / "train.en").read_text(encoding="utf-8").splitlines()
    for line in (101, 301, 651, 901, 1201, 1401):
        assert first_shifted(source, german[: line - 1] + german[line:]) == line
        assert first_shifted(source, german[:line] + german[line - 1 :]) == line + 1


def test_lines_lost_at_the_end_are_told_from_those_in_the_middle(
    clean: Path, tmp_path: Path, german: list[str]
) -> None:
    found = examined(clean, tmp_path, german[:1_400])
    assert set(found) == {"line-counts-differ"}
    assert "The first 1,400 lines belong together: the target has lost its end." in found["line-counts-differ"].fix


def test_of_a_small_text_it_cannot_be_told(clean: Path, tmp_path: Path, german: list[str]) -> None:
    found = examined(clean, tmp_path, german[:49] + german[50:100], 100)
    assert "it cannot be told where" in found["line-counts-differ"].fix


@pytest.mark.parametrize("every", [2, 40])
def test_copies_are_no_misalignment(every: int, clean: Path, tmp_path: Path, german: list[str]) -> None:
    source = (clean / "train.en").read_text(encoding="utf-8").splitlines()
    found = examined(
        clean, tmp_path, [a if i % every else b for i, (a, b) in enumerate(zip(german, source, strict=True))]
    )
    assert set(found) == {"copies"}
