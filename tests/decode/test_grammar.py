"""The grammar against every string there can be, and a model's trees under it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
import torch
from chain import Chain

from regard.data.linearise import rebuild
from regard.data.tokenizer import BOS, EOS, PAD, UNK, Symbols
from regard.decode.grammar import DEEPEST, Grammar, TreeSymbols
from regard.decode.search import search
from regard.decode.state import Hypothesis, SearchOptions

CPU = torch.device("cpu")
TWO_LABELS = Symbols.of(["X", "(A", ")A", "(B", ")B"])
TWO_LEAVES = Symbols.of(["X", "Y", "(A", ")A"])
BANNED = (PAD, BOS, UNK)


def run(
    vocabulary: Symbols, words: Sequence[int], limit: int, beam: int, n_best: int = 1, slots: int = 0
) -> list[list[Hypothesis]]:
    options = SearchOptions(BOS, EOS, beam_size=beam, n_best=n_best, length_penalty=0.3, banned=BANNED)
    step = Chain(len(words), limit, vocabulary.vocab_size, seed=8)
    grammar = Grammar(TreeSymbols.of(vocabulary), words, beam)
    return search(step, [limit] * len(words), options, CPU, slots, constraints=[grammar])


def well_formed(vocabulary: Symbols, tokens: Sequence[int], words: int) -> bool:
    """By the rules of `rebuild`: nothing to repair, and the end symbol where it belongs."""
    if tokens[-1] != EOS:
        return False
    symbols = vocabulary.pieces(tokens[:-1])
    leaves = sum(not symbol.startswith(("(", ")")) for symbol in symbols)
    return leaves == words and rebuild(symbols, ["w"] * words)[1].total == 0


def every_tree(vocabulary: Symbols, words: int, limit: int) -> set[tuple[int, ...]]:
    others = range(UNK + 1, vocabulary.vocab_size)
    strings = ((*body, EOS) for n in range(limit) for body in itertools.product(others, repeat=n))
    return {string for string in strings if well_formed(vocabulary, string, words)}


@pytest.mark.parametrize(
    ("vocabulary", "words", "limit"),
    [(TWO_LABELS, 1, 6), (TWO_LABELS, 2, 7), (TWO_LEAVES, 2, 7), (TWO_LEAVES, 3, 8)],
)
def test_all_that_is_well_formed_can_come_out_and_nothing_else(vocabulary: Symbols, words: int, limit: int) -> None:
    expected = every_tree(vocabulary, words, limit)
    beam = len(expected) + 5
    (found,) = run(vocabulary, [words], limit, beam, n_best=beam)
    assert {tuple(one.tokens) for one in found} == expected
    assert len(found) == len(expected) > 3


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_whatever_the_beam_and_the_batch_every_output_is_a_tree(beam: int) -> None:
    words, limit = [1, 5, 3, 2, 9, 1, 4], 26
    for vocabulary in (TWO_LABELS, TWO_LEAVES):
        together, in_turn = (run(vocabulary, words, limit, beam, beam, slots) for slots in (0, 2))
        assert together == in_turn
        for n, found in zip(words, together, strict=True):
            assert found
            assert all(well_formed(vocabulary, one.tokens, n) for one in found)


def test_the_best_tree_is_the_best_of_all_trees() -> None:
    words, limit = 2, 7
    tables = Chain(1, limit, TWO_LABELS.vocab_size, seed=8).tables[0]

    def log_prob(tokens: Sequence[int]) -> float:
        return sum(float(tables[i, a, b]) for i, (a, b) in enumerate(itertools.pairwise([BOS, *tokens])))

    trees = every_tree(TWO_LABELS, words, limit)
    options = SearchOptions(BOS, EOS, length_penalty=0.3)
    best = max(trees, key=lambda t: float(options.normalise(torch.tensor(log_prob(t)), torch.tensor(len(t)))))
    (found,) = run(TWO_LABELS, [words], limit, beam=len(trees))
    assert tuple(found[0].tokens) == best


def test_a_limit_that_leaves_room_for_one_bracket_gives_a_flat_tree() -> None:
    (found,) = run(TWO_LABELS, [4], 7, beam=3)  # a root of four leaves, closed, and the end
    assert well_formed(TWO_LABELS, found[0].tokens, 4)
    assert len(found[0].tokens) == 7


def test_brackets_are_never_deeper_than_the_stack() -> None:
    """A model that does nothing but open brackets."""
    limit = 3 * DEEPEST
    step = Chain(1, limit, TWO_LABELS.vocab_size, seed=8)
    step.tables[..., TWO_LABELS.numbers["(A"]] = 5.0
    options = SearchOptions(BOS, EOS, beam_size=1, banned=BANNED)
    (found,) = search(step, [limit], options, CPU, constraints=[Grammar(TreeSymbols.of(TWO_LABELS), [2], 1)])
    assert well_formed(TWO_LABELS, found[0].tokens, 2)
    assert TWO_LABELS.pieces(found[0].tokens[: DEEPEST + 1]).count("X") == 1


def test_a_bracket_without_its_other_half_is_never_opened() -> None:
    vocabulary = Symbols.of(["X", "(A", ")A", "(B", ")C"])
    symbols = TreeSymbols.of(vocabulary)
    assert (symbols.opens >= 0).sum() == 1
    for found in run(vocabulary, [2, 3], 12, beam=4, n_best=4):
        assert all("(B" not in vocabulary.pieces(one.tokens) for one in found)
