"""The doctor and `regard data prepare` know the same characters, and misread ones can be repaired."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.data.filters import INVISIBLE
from regard.doctor.characters import examine, patterns
from regard.doctor.languages import scripts
from regard.doctor.texts import Side, read_side


def test_every_character_that_prepare_deletes_is_named() -> None:
    deleted = [chr(code) for code in range(0x110000) if INVISIBLE.match(chr(code))]
    found = list(patterns(Side("x", [f"a{character}b" for character in deleted])))
    assert {one.code for one in found} == {"control-characters", "zero-width-characters", "soft-hyphens"}
    assert sorted(line for one in found for line in one.lines) == list(range(1, len(deleted) + 1))


CHINESE, JAPANESE, KOREAN = "我们今天在家里吃饭", "わたしは今日家でご飯を食べます", "우리는 오늘 집에서 밥을 먹는다"


def strangers(*lines: str) -> list[int]:
    return [line for found in scripts(Side("x", list(lines))) for line in found.lines]


def test_han_stands_beside_kana_and_hangul_but_they_do_not_stand_in_chinese() -> None:
    assert not strangers(*[JAPANESE] * 40, "日本国憲法第九条")
    assert not strangers(*[KOREAN] * 40, "大韓民國憲法")
    assert strangers(*[CHINESE] * 60, KOREAN) == [61]
    assert strangers(*[CHINESE] * 60, "わたしはいえでたべます") == [61]


def read_as_most_programs_do(text: str) -> str:
    """UTF-8 as Windows-1252, and as Latin-1 where that has no letter."""
    codes = (bytes([code]) for code in text.encode())
    return "".join(code.decode("latin-1" if code in b"\x81\x8d\x8f\x90\x9d" else "cp1252") for code in codes)


MISREAD = {
    "cp1252": ("Die Äpfel “sind schön".encode().decode("cp1252"), "Die Äpfel “sind schön"),
    "latin-1": ("Die Straße à Ílhavo".encode().decode("latin-1"), "Die Straße à Ílhavo"),
    "both": (read_as_most_programs_do("“Straße”, à Ílhavo"), "“Straße”, à Ílhavo"),
}


@pytest.mark.parametrize("kind", MISREAD)
def test_the_advice_repairs_the_line_and_nothing_destroys_it(kind: str) -> None:
    line, meant = MISREAD[kind]
    found = list(examine(Side("x", [line, "plain\x07"])))
    assert [(one.code, one.lines) for one in found] == [("mojibake", [1]), ("control-characters", [2])]
    advice = found[0].fix.removeprefix("Repair them before anything else: ").removesuffix(".")
    assert eval(advice, {"text": line}) == meant  # what a reader would type
    assert f"repaired: {meant}" in found[0].examples


def test_a_control_character_in_a_misread_line_is_still_named() -> None:
    found = list(examine(Side("x", ["schÃ¶n \x07"])))
    assert [one.code for one in found] == ["mojibake", "control-characters"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf16_is_told_from_other_encodings_and_read(encoding: str, tmp_path: Path) -> None:
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    (tmp_path / "a.de").write_bytes(f"{mark}Ein müder Hund.\r\nEin Ċ.\r\n".encode(encoding))
    side = read_side(tmp_path / "a.de")
    assert side.lines == ["Ein müder Hund.", "Ein Ċ."]
    (found,) = examine(side)
    assert (found.code, found.lines) == ("not-utf8", [])
    assert "UTF-16" in found.what
    assert "iconv -f utf-16 -t utf-8" in found.fix
