"""A search that begins before all sentences are tokenised finds what any other finds."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.data.corpus import Corpus
from regard.data.tokenizer import Tokenizer
from regard.decode import ahead as module
from regard.decode.ahead import Ahead, LimitsAhead, Unexpected, ahead
from regard.decode.recorded import Recorded
from regard.decode.request import Translation
from regard.decode.translator import Translator
from regard.decode.wishes import Wish
from regard.models.stepping import EndToEnd, ModelStep

EARLY: dict[str, Any] = {"recorded": "always", "batch_sentences": 4, "beam_size": 2}
LATE = {**EARLY, "recorded": "never"}


@pytest.fixture(scope="module")
def translator(reverser: Path) -> Translator:
    return regard.load(reverser)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Ahead]:
    """The sources of all searches that began early."""
    monkeypatch.setattr(module, "TEXTS", 3)
    seen, make = [], Ahead.__init__
    monkeypatch.setattr(Ahead, "__init__", lambda self, *rest: (seen.append(self), make(self, *rest))[1])
    return seen


def essence(found: list[list[Translation]]) -> list[list[tuple[Any, ...]]]:
    return [[(one.source, one.text, one.source_tokens, one.target_tokens, one.cut) for one in best] for best in found]


def test_it_finds_the_same_in_the_same_order(translator: Translator, reverser_test: Corpus, made: list[Ahead]) -> None:
    sentences = ["", *reverser_test.source[:30], "   ", "ä ö ü", reverser_test.source[0]]
    seen: list[int] = []
    found = translator.search(sentences, n_best=2, progress=seen.append, **EARLY)
    assert len(made) == 1, "it began early"
    expected = translator.search(sentences, n_best=2, **LATE)
    assert len(made) == 1, "and this did not"
    assert essence(found) == essence(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-5)
    assert seen == sorted(seen)
    assert seen[-1] == len(sentences)


@pytest.mark.parametrize("at_a_step", [2, 1_024])
def test_sources_that_are_laid_out_before_they_enter_are_the_right_ones(
    translator: Translator, reverser_test: Corpus, made: list[Ahead], monkeypatch: pytest.MonkeyPatch, at_a_step: int
) -> None:
    """As in many slots, whose entrance is no recording, with a thread that is never late."""
    monkeypatch.setattr("regard.decode.recorded.FEW", 0)
    monkeypatch.setattr("regard.models.stepping.AT_A_STEP", at_a_step)
    entered: list[tuple[int, int]] = []
    whole_enter, how_many_ready = ModelStep.enter, Ahead.ready

    def enter(self: ModelStep, slots: Any, sentences: list[int]) -> None:
        entered.append((len(sentences), self.expected.ahead(self.sources, sentences[0])))
        right = EndToEnd.of([self.sources[i] for i in sentences], self.device)
        assert [part.tolist() for part in self.lay_out(sentences)] == [part.tolist() for part in right]
        whole_enter(self, slots, sentences)

    def ready(self: Ahead) -> int:
        self.wait(len(self))
        return how_many_ready(self)

    monkeypatch.setattr(ModelStep, "enter", enter)
    monkeypatch.setattr(Ahead, "ready", ready)
    sentences = reverser_test.source[:40]
    found = translator.search(sentences, **EARLY)
    monkeypatch.undo()
    assert essence(found) == essence(translator.search(sentences, **LATE))
    assert [there for _, there in entered[:2]] == [0, 0], "before the first step nothing is expected"
    assert all(there >= min(count, at_a_step) for count, there in entered[2:])
    assert any(there > count for count, there in entered[2:]), "some are there that enter later"


def test_the_first_step_waits_for_the_first_sentences_alone(
    translator: Translator, reverser_test: Corpus, made: list[Ahead], monkeypatch: pytest.MonkeyPatch
) -> None:
    known: list[int] = []
    entered: list[tuple[int, int]] = []
    advance, enter = Recorded.advance, ModelStep.enter
    monkeypatch.setattr(
        Recorded, "advance", lambda self, steps: (known.append(len(made[0].tokens)), advance(self, steps))[1]
    )
    monkeypatch.setattr(
        ModelStep, "enter",
        lambda self, slots, some: (entered.append((len(some), len(made[0].tokens))), enter(self, slots, some))[1],
    )  # fmt: skip
    translator.translate(reverser_test.source[:40], **EARLY)
    assert known[0] == 4, "as many as there are slots"
    assert known[-1] == 40
    assert entered[:2] == [(3, 3), (1, 4)], "the first piece is encoded before anybody waits for the others"


def stretched(texts: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """These texts have many tokens."""
    encode = Tokenizer.encode

    def longer(self: Tokenizer, some: list[str], threads: int = 0) -> list[list[int]]:
        return [
            tokens[:1] * 45 + tokens if text in texts else tokens
            for text, tokens in zip(some, encode(self, some), strict=True)
        ]

    monkeypatch.setattr(Tokenizer, "encode", longer)


def test_a_short_text_of_many_tokens_is_found_too(
    translator: Translator, reverser_test: Corpus, made: list[Ahead], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes do not tell how many tokens there are. Then a search is made again, with all tokens known, and no other."""
    sentences = sorted(reverser_test.source, key=len)[:150]
    stretched({sentences[0]}, monkeypatch)
    # Slots for few sentences have room for longer ones than these: as if there were many.
    monkeypatch.setattr("regard.decode.recorded.FEW_ROOM", 0)
    seen: list[int] = []
    found = translator.search(sentences, max_length=30, progress=seen.append, **EARLY)
    assert [len(one.tokens) for one in made[:-1]] == [64, 64], "as many as a search has before it"
    assert len(made) == 3
    assert essence(found) == essence(translator.search(sentences, max_length=30, **LATE))
    assert seen == sorted(set(seen))
    assert seen[-1] == len(sentences)


@pytest.mark.parametrize(
    "asked",
    [
        {"sample": True, "beam_size": 1}, {"forbidden": ["zzz"]}, {"wishes": [Wish(prefix="a")] * 14},
        {"min_length": 3}, {"no_repeat_ngram": 2}, {"coverage_penalty": 0.2}, {"batch_sentences": 7},
    ],
    ids=lambda asked: next(iter(asked)),
)  # fmt: skip
def test_what_asks_for_more_waits_for_all_tokens(
    translator: Translator, reverser_test: Corpus, made: list[Ahead], asked: dict[str, Any]
) -> None:
    sentences = reverser_test.source[:14]
    found = translator.search(sentences, **{**EARLY, **asked})
    assert not made
    assert essence(found) == essence(translator.search(sentences, **{**LATE, **asked}))


def test_tokens_come_when_they_are_asked_for(translator: Translator, reverser_test: Corpus, made: list[Ahead]) -> None:
    tokenizer, texts = translator.tokenizers.source, reverser_test.source[:11]
    expected = tokenizer.encode(texts)
    with ahead(tokenizer, texts, 9) as sources:
        assert (len(sources), sources.tokens, sources.longest) == (11, expected[:3], max(map(len, expected[:3])))
        assert sources[4] == expected[4]
        assert sources.tokens == expected[:9], "those of all slots come as one"
        assert sources[3:7] == expected[3:7]
        assert sources.asked == 9, "no more than was asked for"
        assert sources.ready() >= 9
        assert sources.asked == 11
        assert sources[10] == expected[10]
        assert list(sources) == expected
        with pytest.raises(IndexError):
            sources[11]
        assert (sources[-1], sources[:-1]) == (expected[-1], expected[:-1])
        limits = LimitsAhead(sources, lambda length: length + 1, source_room=100, room=100)
        assert limits[1:] == [len(tokens) + 1 for tokens in expected[1:]]
        longest = max(map(len, expected))
        for source_room, room in ((longest - 1, 100), (100, longest)):
            with pytest.raises(Unexpected):
                LimitsAhead(sources, lambda length: length + 1, source_room, room)[:]


def test_all_of_them_are_there_for_whoever_asks_for_the_last(translator: Translator, reverser_test: Corpus) -> None:
    texts = reverser_test.source[:5]
    with ahead(translator.tokenizers.source, texts, 2) as sources:
        assert sources.asked == 2
        assert sources[-1] == translator.tokenizers.source.encode(texts)[-1]
        assert sources.tokens == translator.tokenizers.source.encode(texts)


def test_what_is_not_there_is_not_waited_for(translator: Translator, made: list[Ahead]) -> None:
    started = threading.Event()
    asked: list[str] = []

    class Slow(Tokenizer):
        def __init__(self) -> None: ...

        def encode(self, texts: Any, threads: int = 0) -> list[list[int]]:
            asked.append("".join(texts))
            if "b" in texts:
                started.wait(10)
            return [[5, 2] for _ in texts]

    with ahead(Slow(), [*"aaabbbb"], 6) as sources:
        assert sources.ready() == 3
        started.set()
        assert list(sources) == [[5, 2]] * 7
        assert sources.ready() == 7
    assert asked == ["aaa", "bbb", "b"], "nothing is asked for twice"


def test_what_goes_wrong_with_a_piece_is_told_and_leaves_the_others_in_their_places(made: list[Ahead]) -> None:
    class Failing(Tokenizer):
        def __init__(self) -> None: ...

        def encode(self, texts: Any, threads: int = 0) -> list[list[int]]:
            if "x" in texts:
                raise ValueError("no tokens of x")
            return [[ord(text)] for text in texts]

    with ahead(Failing(), [*"abcdxfgh"], 3) as sources:
        assert sources[2] == [ord("c")]
        for ask in (lambda: sources[3], lambda: sources[7], lambda: list(sources)):
            with pytest.raises(ValueError, match="of x"):
                ask()
        assert sources[:3] == [[ord(text)] for text in "abc"]


def test_a_search_that_ends_early_leaves_no_thread(translator: Translator, made: list[Ahead]) -> None:
    def interrupted() -> None:
        with ahead(translator.tokenizers.source, ["a b"] * 5_000, 9) as sources:
            sources.ready()
            raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert threading.active_count() == before
    assert any(piece.cancelled() for piece in made[0].coming)
