"""Subword regularisation: other pieces, the same words, and the same draw for the same example."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from regard.config import DataConfig, TokenizerConfig
from regard.data import tokenizer as subwords
from regard.data.corpus import load_required
from regard.data.sampling import VARIANTS, SampledRagged, bpe_dropout, sampled, unigram_sampling
from regard.data.tokenizer import EOS, Ragged, Tokenizer


def corpus(kind: str = "bpe") -> tuple[Tokenizer, Ragged]:
    sentences = load_required(DataConfig(corpus="en-de", train_size=400), "train").target
    config = TokenizerConfig(kind=kind, vocab_size=300)  # type: ignore[arg-type]
    tokenizer = subwords.train(config, sentences, sentences, seed=1).target
    return tokenizer, tokenizer.encode_corpus([*sentences, "", "ein Zeichen, das niemand kennt: 漢"])


def drawn(kind: str = "bpe", alpha: float = 0.3, longest: int = 1_000) -> tuple[Tokenizer, Ragged, SampledRagged]:
    tokenizer, tokens = corpus(kind)
    return tokenizer, tokens, sampled(tokenizer, kind, tokens, alpha, seed=7, longest=longest)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_pieces_change_and_the_text_does_not(kind: str) -> None:
    tokenizer, tokens, sample = drawn(kind)
    numbers = np.arange(len(tokens))
    taken = sample.take(numbers)
    assert [tokenizer.decode(taken[i]) for i in numbers] == [tokenizer.decode(tokens[i]) for i in numbers]
    assert sum(taken[i].tolist() != tokens[i].tolist() for i in numbers) > 0.3 * len(tokens)
    assert all(taken[i][-1] == EOS for i in numbers)


def test_an_example_is_drawn_alike_in_every_batch_and_anew_in_every_epoch() -> None:
    _, tokens, sample = drawn()
    n = len(tokens)
    whole = sample.take(np.arange(n))
    assert all(sample.take(np.array([i, 0]))[0].tolist() == whole[i].tolist() for i in range(20))
    later = sample.take(np.arange(n) + n)
    assert sum(later[i].tolist() != whole[i].tolist() for i in range(n)) > 0.9 * n


def test_a_sequence_that_would_be_too_long_stays_as_it_is() -> None:
    _, tokens, sample = drawn(longest=20)
    taken = sample.take(np.arange(len(tokens)))
    grown = taken.lengths > tokens.lengths
    assert taken.lengths[grown].max() <= 20
    assert grown.any()
    long = np.flatnonzero(tokens.lengths > 20)
    assert all(taken[i].tolist() == tokens[i].tolist() for i in long)
    assert len(long)


def test_lengths_are_what_the_draws_come_to() -> None:
    _, tokens, sample = drawn()
    mean = np.mean([sample.take(np.arange(len(tokens)) + e * len(tokens)).lengths.sum() for e in range(10)])
    assert mean < sample.lengths.sum() < 1.05 * mean + len(tokens)


def test_every_segmentation_of_a_word_is_about_as_frequent() -> None:
    _, tokens, sample = drawn()
    words = sample.words
    counts = np.bincount(sample.draw(np.arange(len(tokens)), words), minlength=VARIANTS)
    expected = len(words.values) / VARIANTS
    assert ((counts - expected) ** 2 / expected).sum() < 45  # χ² with 15 degrees of freedom: one in ten thousand


def test_without_dropout_it_is_the_tokenizers_own_segmentation() -> None:
    _, tokens, sample = drawn(alpha=0.0)
    taken = sample.take(np.arange(len(tokens)) + 3 * len(tokens))
    assert taken.values.tolist() == tokens.values.tolist()


def test_unigram_segmentations_are_as_frequent_as_they_are_likely() -> None:
    """abc = a·b·c, ab·c or a·bc, with weights 0.2·0.3·0.1, 0.15·0.1 and 0.2·0.25 to the power α."""
    p, alpha, n = {"a": 0.2, "b": 0.3, "c": 0.1, "ab": 0.15, "bc": 0.25}, 0.5, 20_000
    scores = {piece: math.log(value) for piece, value in p.items()}
    weights = {"a b c": 0.006**alpha, "ab c": 0.015**alpha, "a bc": 0.05**alpha}
    found = Counter(" ".join(pieces) for pieces in unigram_sampling("abc", scores, alpha, random.Random(1), n))
    for pieces, weight in weights.items():
        share = weight / sum(weights.values())
        assert abs(found[pieces] / n - share) < 4 * (share * (1 - share) / n) ** 0.5


def test_bpe_dropout_drops_each_merge_with_its_probability() -> None:
    """ab is the one merge: it is left out with probability p."""
    n, p = 20_000, 0.3
    found = Counter(len(pieces) for pieces in bpe_dropout("ab", {"ab": 0.0}, p, random.Random(1), n))
    assert abs(found[2] / n - p) < 4 * (p * (1 - p) / n) ** 0.5


def test_other_processes_draw_the_same() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import hashlib, test_sampling as t\n"
        "print(hashlib.sha256(t.drawn()[2].variants.values.tobytes()).hexdigest())"
    )
    folder = str(Path(__file__).parent)
    found = {subprocess.check_output([sys.executable, "-c", code, folder], text=True) for _ in range(2)}
    assert len(found) == 1


def test_more_dropout_makes_smaller_pieces() -> None:
    lengths = [drawn(alpha=alpha)[2].lengths.sum() for alpha in (0.05, 0.3, 0.9)]
    assert lengths == sorted(lengths)


def test_characters_spelled_in_bytes_stay_as_they_are() -> None:
    sentences = ["ein Haus und noch ein Haus <0xE6>", "das Haus dort"] * 20
    config = TokenizerConfig(vocab_size=300, byte_fallback=True)
    tokenizer = subwords.train(config, sentences, sentences, seed=1).source
    tokens = tokenizer.encode_corpus(["ein 漢 Haus", "漢字 und Haus"])
    taken = sampled(tokenizer, "bpe", tokens, 0.5, seed=1, longest=100).take(np.arange(20))
    for i in range(20):
        assert tokenizer.decode(taken[i]) == tokenizer.decode(tokens[i % 2])
