"""Tokenizers that do not fit the text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.config import TokenizerConfig
from regard.data import tokenizer as subwords
from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.doctor.subwords import text_like_training, unknown, unseen_characters, unused
from regard.doctor.texts import Bitext, Side


@pytest.fixture
def english(clean: Path) -> list[str]:
    return (clean / "train.en").read_text(encoding="utf-8").splitlines()


def learn(lines: list[str], size: int = 300) -> Tokenizer:
    return subwords.train(TokenizerConfig(vocab_size=size), lines, lines, 1).source


def test_a_lower_cased_vocabulary_tells_that_capitals_do_not_fit_without_the_training_text(english: list[str]) -> None:
    lower = learn([line.lower() for line in english])
    assert [f.code for f in text_like_training(lower, Side("a.en", english), None)] == ["preprocessing-mismatch"]
    assert not list(text_like_training(learn(english), Side("a.en", english), None))
    assert not list(text_like_training(lower, Side("a.en", [line.lower() for line in english]), None))


def test_text_that_falls_to_pieces_is_of_another_kind(english: list[str], clean: Path) -> None:
    german = Side("a.de", (clean / "train.de").read_text(encoding="utf-8").splitlines())
    tokenizer, train = learn(english, 800), Side("train.en", english)
    assert [f.code for f in text_like_training(tokenizer, german, train)] == ["tokenizer-mismatch"]
    assert not list(text_like_training(tokenizer, Side("b.en", english[:50]), train))


def test_unknown_characters_are_named_with_their_lines(english: list[str]) -> None:
    lines = [*english[:30], "Ein Löwe schläft.", *english[30:60]]
    (found,) = unknown(learn(english), Side("a.en", lines))
    assert found.lines == [31]
    assert "ä" in found.what
    assert "ö" in found.what
    assert not list(unknown(learn(english), Side("a.en", english)))


def test_a_vocabulary_of_another_text_goes_unused(english: list[str], clean: Path) -> None:
    german = (clean / "train.de").read_text(encoding="utf-8").splitlines()
    tokenizer = learn(german, 800)
    other = Bitext("train", Side("a.en", english), Side("b.en", english))
    (found,) = unused(TokenizerPair(tokenizer, tokenizer), other, Path("tokenizer"))
    assert (found.code, found.severity) == ("unused-vocabulary", "warning")


def unseen(train: list[str], test: list[str], **config: Any) -> list[str]:
    splits = {"train": Bitext("train", Side("a", train), Side("b", train))}
    splits["test"] = Bitext("test", Side("c", test), Side("d", []))
    return [found.what.partition("never has ")[2] for found in unseen_characters(splits, TokenizerConfig(**config))]


def test_characters_that_the_tokenizer_reads_as_others_are_not_unseen() -> None:
    train, test = ["a fine cafe\u0301 …"], ["a\u00a0ﬁne\u200b café ..."]
    assert not unseen(train, test)
    assert unseen(train, test, normalization="identity") == ["(. U+00A0 é U+200B ﬁ)."]
    assert not unseen(train, ["ø"], byte_fallback=True)


def test_characters_that_cannot_be_seen_are_spelled_and_a_cut_list_says_so() -> None:
    assert unseen(["a"], ["a", "b\u0310"]) == ["(b U+0310)."]
    assert unseen(["a"], ["bcdefghijklm"]) == ["(b c d e f g h i j k l m)."]
    assert unseen(["a"], ["bcdefghijklmn"]) == ["(b c d e f g h i j k l m …)."]


def test_without_training_text_no_character_is_unseen() -> None:
    assert not unseen([], ["a", "b"])
