"""The doctor and `regard data prepare` know the same characters."""

from __future__ import annotations

from regard.data.filters import INVISIBLE
from regard.doctor.characters import patterns
from regard.doctor.languages import scripts
from regard.doctor.texts import Side


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
