"""Languages told apart by script and common words."""

from __future__ import annotations

import pytest

from regard.data.detection import confidence, likeliest


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("the dog is in the garden and it was not there", "en"), ("der Hund ist im Garten und sie sind es nicht", "de"),
        ("le chien est dans le jardin et ne sont pas", "fr"), ("собака в саду", "ru"), ("犬は庭にいます", "ja"),
    ],
)  # fmt: skip
def test_the_likeliest_language_comes_first(text: str, language: str) -> None:
    found = likeliest(["fr", "ja", "en", "de-AT", "ru"], text)
    assert found[0][0].partition("-")[0] == language
    assert found[0][1] > 50
    assert sorted(code for code, _ in found) == ["de-AT", "en", "fr", "ja", "ru"]


def test_nothing_speaks_for_a_language_where_there_are_no_words_or_another_script() -> None:
    assert confidence("en", "123 …") == confidence("en", "собака в саду") == confidence("ru", "the dog") == 0.0
