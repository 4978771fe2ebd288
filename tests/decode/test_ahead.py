"""A search that begins before all sentences are tokenised finds what any other finds."""

from __future__ import annotations

from pathlib import Path

import pytest

import regard
from regard.data.corpus import Corpus
from regard.data.tokenizer import Tokenizer
from regard.decode import ahead as module
from regard.decode.ahead import Ahead, Limits, Unexpected, ahead
from regard.decode.translator import Translator

EARLY = {"recorded": "always", "batch_sentences": 4, "beam_size": 2}


@pytest.fixture(scope="module")
def translator(reverser: Path) -> Translator:
    return regard.load(reverser)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Ahead]:
    """The sources of all searches that began early."""
    monkeypatch.setattr(module, "PIECE", 3)
    seen, make = [], Ahead.__init__
    monkeypatch.setattr(Ahead, "__init__", lambda self, *rest: (seen.append(self), make(self, *rest))[1])
    return seen


def test_it_finds_the_same_in_the_same_order(translator: Translator, reverser_test: Corpus, made: list[Ahead]) -> None:
    sentences = ["", *reverser_test.source[:30], "   ", "ä ö ü", reverser_test.source[0]]
    seen: list[int] = []
    found = translator.search(sentences, n_best=2, progress=seen.append, **EARLY)
    assert len(made) == 1, "it began early"
    expected = translator.search(sentences, n_best=2, **{**EARLY, "recorded": "never"})
    assert len(made) == 1, "and this did not"
    for ours, theirs in zip(found, expected, strict=True):
        assert [(one.source, one.text, one.source_tokens, one.target_tokens) for one in ours] == [
            (one.source, one.text, one.source_tokens, one.target_tokens) for one in theirs
        ]
        assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-5)
    assert seen == sorted(seen)
    assert seen[-1] == len(sentences)


def test_a_short_text_of_many_tokens_is_found_too(
    translator: Translator, reverser_test: Corpus, made: list[Ahead], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes do not tell how many tokens there are: then all is done again, with all tokens known."""
    sentences = reverser_test.source[:14]
    last = min(sentences, key=len)
    encode = Tokenizer.encode

    def longer(self: Tokenizer, texts: list[str], threads: int = 0) -> list[list[int]]:
        return [
            tokens[:1] * 200 + tokens if text == last else tokens
            for text, tokens in zip(texts, encode(self, texts), strict=True)
        ]

    monkeypatch.setattr(Tokenizer, "encode", longer)
    found = translator.translate(sentences, max_length=30, **EARLY)
    assert len(made) == 1
    assert found == translator.translate(sentences, max_length=30, **{**EARLY, "recorded": "never"})


def test_what_differs_by_sentence_waits_for_all_tokens(
    translator: Translator, reverser_test: Corpus, made: list[Ahead]
) -> None:
    sentences = reverser_test.source[:14]
    translator.search(sentences, sample=True, **{**EARLY, "beam_size": 1})
    translator.search(sentences, forbidden=["zzz"], **EARLY)
    translator.search(sentences[:8], **EARLY)
    assert not made


def test_tokens_come_when_they_are_asked_for(translator: Translator, reverser_test: Corpus, made: list[Ahead]) -> None:
    tokenizer, texts = translator.tokenizers.source, reverser_test.source[:11]
    expected = tokenizer.encode(texts)
    with ahead(tokenizer, texts, first=2) as sources:
        assert (len(sources), sources.tokens) == (11, expected[:2])
        assert sources[4] == expected[4]
        assert sources.tokens == expected[:5], "no more than the piece that has it"
        assert sources[3:9] == expected[3:9]
        assert sources[:] == expected
        limits = Limits(sources, lambda length: length + 1)
        assert limits[1:] == [len(tokens) + 1 for tokens in expected[1:]]
        limits.room = max(map(len, expected)) - 1
        with pytest.raises(Unexpected):
            limits[:]


def test_a_failure_leaves_no_thread(translator: Translator, made: list[Ahead]) -> None:
    with pytest.raises(KeyboardInterrupt), ahead(translator.tokenizers.source, ["a b"] * 500, first=1) as sources:
        raise KeyboardInterrupt
    assert all(future.cancelled() or future.done() for future in sources.coming)
