"""Trees as symbols: two forms and back, and a tree over the given words whatever the symbols are."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

from regard.data.linearise import FORMS, Repairs, RepairTally, linearise_plain, linearise_tags, rebuild
from regard.data.trees import NO_PARSE, Tree, normalise, retagged, tree_of

JOHN = tree_of("(S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .))")


def test_the_two_forms() -> None:
    assert " ".join(linearise_plain(JOHN)) == "(S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S"
    assert " ".join(linearise_tags(JOHN)) == "(S (NP NNP )NP (VP VBZ (NP DT NN )NP )VP . )S"
    assert {name: form(JOHN)[2] for name, form in FORMS.items()} == {"plain": "XX", "tags": "NNP"}


def test_both_forms_lead_back_to_the_tree(grown: Callable[[int], str]) -> None:
    for number in range(1_000):
        tree = normalise(tree_of(grown(number)))
        assert rebuild(linearise_tags(tree), tree.words) == (tree, Repairs())
        plain, repairs = rebuild(linearise_plain(tree), tree.words)
        assert set(plain.tags) <= {"XX"}
        assert (retagged(plain, tree.tags), repairs) == (tree, Repairs())


def test_there_are_as_many_leaves_as_words_and_brackets_close_in_order(grown: Callable[[int], str]) -> None:
    for number in range(200):
        tree = normalise(tree_of(grown(number)))
        symbols, opened, leaves = linearise_plain(tree), [], 0
        for symbol in symbols:
            if symbol[0] == "(":
                opened.append(symbol[1:])
            elif symbol[0] == ")":
                assert symbol[1:] == opened.pop()
            else:
                leaves += 1
        assert not opened
        assert leaves == len(tree.words)
        assert len(symbols) == leaves + 2 * len(tree.brackets)


@pytest.mark.parametrize(
    ("symbols", "tree", "repairs"),
    [
        # A bracket closes that is not the innermost one: NP is closed with VP.
        ("(S A (VP B (NP C )VP D )S", "(S (A a) (VP (B b) (NP (C c))) (D d))", {"unclosed": 1}),
        # A bracket closes that is not open.
        ("(S A )NP (VP B C D )VP )S", "(S (A a) (VP (B b) (C c) (D d)))", {"unopened": 1}),
        ("(S A B C D )S )S", "(S (A a) (B b) (C c) (D d))", {"unopened": 1}),
        # A bracket without words, and one around it.
        ("(S A B (NP (VP )VP )NP C D )S", "(S (A a) (B b) (C c) (D d))", {"empty": 2}),
        # Symbols that are none.
        ("(S A ( B ) C (N(P D )S", "(S (A a) (B b) (C c) (D d))", {"unreadable": 3}),
        # The fifth leaf is one too many, and so is the bracket around it.
        ("(S A B C D (NP E )NP )S", "(S (A a) (B b) (C c) (D d))", {"surplus": 1, "empty": 1}),
        # The symbols end in the middle of a phrase.
        ("(S A B (NP C (PP D", "(S (A a) (B b) (NP (C c) (PP (D d))))", {"unclosed": 3}),
        # Two words have no leaf: they hang from the root.
        ("(S (NP A B )NP )S", "(S (NP (A a) (B b)) (XX c) (XX d))", {"missing": 2}),
        ("(S (NP A", "(S (NP (A a)) (XX b) (XX c) (XX d))", {"unclosed": 2, "missing": 3}),
        # Two trees, of which the first does not become larger.
        ("(S A )S (NP B )NP", "(TOP (S (A a)) (NP (B b)) (XX c) (XX d))", {"missing": 2, "unrooted": 1}),
        ("A B C D", "(TOP (A a) (B b) (C c) (D d))", {"unrooted": 1}),
        ("", "(TOP (XX a) (XX b) (XX c) (XX d))", {"missing": 4, "unrooted": 1}),
        ("(S )S", "(TOP (XX a) (XX b) (XX c) (XX d))", {"empty": 1, "missing": 4, "unrooted": 1}),
    ],
)
def test_repairs_one_by_one(symbols: str, tree: str, repairs: dict[str, int]) -> None:
    assert rebuild(symbols.split(), ["a", "b", "c", "d"]) == (tree_of(tree), Repairs(**repairs))


def test_one_word_needs_no_root() -> None:
    assert rebuild(["UH"], ["yes"]) == (tree_of("(UH yes)"), Repairs())
    assert rebuild([], ["yes"]) == (tree_of("(XX yes)"), Repairs(missing=1))


def test_no_words_have_no_parse() -> None:
    assert rebuild([], []) == (NO_PARSE, Repairs())
    assert rebuild(["(S", "XX", ")S"], []) == (NO_PARSE, Repairs(surplus=1, empty=1))


def test_any_symbols_give_a_tree_over_the_words() -> None:
    generator = random.Random(3)
    symbols = [
        "(S",
        ")S",
        "(NP",
        ")NP",
        "(VP",
        ")VP",
        "XX",
        "XX",
        "NN",
        ".",
        "",
        "(",
        ")",
        "((",
        "a b",
        "<unk>",
        "(N\tP",
    ]
    for _ in range(5_000):
        given = generator.choices(symbols, k=generator.randrange(30))
        words = [f"w{i}" for i in range(generator.randrange(12))]
        tree, repairs = rebuild(given, words)
        assert list(tree.words) == words
        assert tree_of(str(tree)) == tree  # which is sound, and can be written
        leaves = sum(bool(symbol) and symbol[0] not in "()" and " " not in symbol for symbol in given)
        assert repairs.surplus == max(0, leaves - len(words))
        assert repairs.missing == max(0, len(words) - leaves)
        if not repairs.total:
            assert linearise_tags(tree) == given  # what was not repaired was not changed
        # The repaired tree is well-formed.
        assert rebuild(linearise_tags(tree), words) == (tree, Repairs())


def test_damage_to_a_sound_sequence_is_noticed(grown: Callable[[int], str]) -> None:
    """One bracket taken away, or one leaf: something is repaired, always."""
    generator = random.Random(4)
    for number in range(300):
        tree = normalise(tree_of(grown(number)))
        symbols = linearise_tags(tree)
        if not symbols:
            continue
        del symbols[generator.randrange(len(symbols))]
        rebuilt, repairs = rebuild(symbols, tree.words)
        assert repairs.total
        assert rebuilt.words == tree.words


def test_long_garbage_takes_no_long_time() -> None:
    n = 20 * sys.getrecursionlimit()
    tree, repairs = rebuild(["(A"] * n + [")B"] * n + ["XX"] + [")A"] * (n // 2), ["a"])
    assert len(tree.brackets) == n
    assert repairs == Repairs(unopened=n, unclosed=n - n // 2)


def test_repairs_are_counted_and_reported() -> None:
    outputs: list[tuple[str, Any]] = [("(S XX )S", 1), ("(S XX", 1), ("(S XX )S )S", 1), ("", 2)]
    found: list[tuple[Tree, Repairs]] = [rebuild(text.split(), ["a"] * n) for text, n in outputs]
    tally = RepairTally.of(repairs for _, repairs in found)
    assert tally == RepairTally(4, 3, Repairs(unclosed=1, unopened=1, missing=2, unrooted=1))
    assert str(tally) == (
        "malformed: 3 of 4 outputs (75.0 %): 1 bracket closed, 1 closing bracket left out, 2 words added to the "
        "root, 1 root added."
    )
    assert str(RepairTally.of([])) == "malformed: 0 of 0 outputs (0.0 %)."
