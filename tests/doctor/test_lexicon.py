"""The lexicon that alignment is judged by: it learns translations, and does not trust what it has seen."""

from __future__ import annotations

import random

import numpy as np
import pytest

from regard.data.tokenizer import Ragged
from regard.doctor.lexicon import Judge, Lexicon, links, stems

WORDS = [chr(97 + i) * 3 for i in range(20)]


def corpus(n: int) -> tuple[list[str], list[str]]:
    """Each word of the source has its own translation, in another order."""
    chance = random.Random(1)
    source = [chance.sample(WORDS, 6) for _ in range(n)]
    target = [[f"{word}x" for word in sorted(line)] for line in source]
    return [" ".join(line) for line in source], [" ".join(line) for line in target]


def test_links_pair_every_source_word_with_every_target_word() -> None:
    left, right, group = links(Ragged.of([[0, 1], [], [2]]), Ragged.of([[7, 8], [9], [5]]))
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == [(0, 7), (1, 7), (0, 8), (1, 8), (2, 5)]
    assert group.tolist() == [0, 0, 1, 1, 3]


def test_model_1_finds_the_translation_of_each_word() -> None:
    """The classic: `das Haus`, `das Buch`, `ein Buch` are enough to tell four words."""
    das, haus, buch, ein, the, house, book, a = 1, 2, 3, 4, 1, 2, 3, 4
    source = Ragged.of([[das, haus], [das, buch], [ein, buch]])
    target = Ragged.of([[the, house], [the, book], [a, book]])
    lexicon = Lexicon.learn(source, target, np.full(5, 0.2))
    table = {(key // 5, key % 5): p for key, p in zip(lexicon.keys.tolist(), lexicon.probabilities, strict=True)}
    for one, other in ((das, the), (haus, house), (buch, book), (ein, a)):
        best = max((p, t) for (s, t), p in table.items() if s == one)
        assert best[1] == other
    sums = {s: sum(p for (left, _), p in table.items() if left == s) for s in (das, haus, buch, ein)}
    assert list(sums.values()) == pytest.approx([1.0] * 4)


def test_true_pairs_score_above_nothing_and_strangers_below() -> None:
    source, target = corpus(600)
    lines = np.arange(600)
    judge = Judge(source, target, lines, lines)
    true, false = judge.score(lines, lines), judge.score(lines, np.roll(lines, 1))
    assert true.min() > 0 > np.median(false)
    assert true.min() > np.quantile(false, 0.99)


def test_a_pair_is_not_judged_by_what_it_has_taught() -> None:
    """Two strangers put together do not become translations by being in the corpus."""
    source, target = corpus(600)
    source[100], target[100] = source[7], target[300]
    lines = np.arange(600)
    assert Judge(source, target, lines, lines).score(np.array([100]), np.array([100]))[0] < 0


def test_text_without_spaces_is_cut_into_characters() -> None:
    assert stems("我在家。 Translations?") == {"我", "在", "家", "transl", "?"}
    assert stems("ខ្ញុំ") > {"ខ", "ញ"}  # Khmer, as every language that prepare knows to have no spaces
