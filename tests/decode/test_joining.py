"""Sentences that join a search under way get what they would have got alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.data.corpus import Corpus
from regard.decode.joining import may_join, translate_as_they_come
from regard.decode.request import Translation
from regard.decode.translator import Translator


@pytest.fixture(scope="module")
def model(reverser: Path) -> Translator:
    translator: Translator = regard.load(reverser, device="cpu")
    return translator


@pytest.fixture(scope="module")
def sentences(reverser_test: Corpus) -> list[str]:
    """Of very different lengths, the longest somewhere in the middle; one is empty."""
    some = reverser_test.source[:40]
    return [*some[:20], " ".join(some[20:26]), "", *some[20:]]


class Scripted:
    """A queue to which sentences come at given questions after it."""

    def __init__(self, model: Translator, texts: Sequence[str], times: Sequence[int]) -> None:
        self.encode, self.texts, self.times = model.tokenizers.source.encode, texts, times
        self.asked = self.taken = 0
        self.found: dict[int, list[Translation]] = {}
        self.together: list[int] = []

    def waiting(self) -> int:
        self.asked += 1
        come = sum(time <= self.asked for time in self.times)
        if self.taken == len(self.found):  # nobody is at work: whoever is next has come
            come = max(come, min(self.taken + 1, len(self.texts)))
        return max(0, come - self.taken)

    def take(self, most: int) -> Sequence[tuple[str, list[int]]]:
        self.asked -= 1
        count = min(most, self.waiting())
        texts = self.texts[self.taken : self.taken + count]
        self.taken += count
        self.together.append(self.taken - len(self.found))
        return list(zip(texts, self.encode(texts), strict=True))

    def give(self, found: list[tuple[int, list[Translation]]]) -> None:
        for number, best in found:
            assert number not in self.found
            self.found[number] = best


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "options", [{"beam_size": 1}, {"beam_size": 4}, {"beam_size": 3, "n_best": 2, "min_length": 6}]
)
def test_when_a_sentence_joins_does_not_matter(
    model: Translator, sentences: list[str], options: dict[str, Any], seed: int
) -> None:
    chance = random.Random(seed)
    times = sorted(chance.randrange(120) for _ in sentences)
    queue = Scripted(model, sentences, times)
    translate_as_they_come(model, queue, batch_sentences=6, **options)
    assert sorted(queue.found) == list(range(len(sentences)))
    assert max(queue.together) == 6, "they were searched together"
    expected = model.search(sentences, **options)
    for number, best in queue.found.items():
        assert [one.target_tokens for one in best] == [one.target_tokens for one in expected[number]]
        assert [one.text for one in best] == [one.text for one in expected[number]]
        assert [one.score for one in best] == pytest.approx([one.score for one in expected[number]], abs=1e-4)
        assert best[0].source == sentences[number]


def test_all_at_once_and_one_by_one(model: Translator, sentences: list[str]) -> None:
    expected = model.translate(sentences)
    for times in ([0] * len(sentences), list(range(10_000, 10_000 + len(sentences)))):
        queue = Scripted(model, sentences, times)
        translate_as_they_come(model, queue)
        assert [queue.found[i][0].text for i in range(len(sentences))] == expected


def test_what_cannot_be_joined_is_known(model: Translator) -> None:
    assert may_join(model, model.options())
    for options in ({"sample": True}, {"beam_size": 1, "blockwise": True}, {"coverage_penalty": 0.2}):
        assert not may_join(model, model.options(**options))
