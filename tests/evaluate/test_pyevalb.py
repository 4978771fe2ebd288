"""Beside PYEVALB, an independent scorer from PyPI.

It follows EVALB in what a bracket is and in when two match, and leaves out most of the parameter file COLLINS: it does
not take punctuation out, keeps function tags, tells PRT from ADVP, counts the bare root, and of two equal brackets over
the same words matches one. So the two must agree where none of this occurs, and where it does ours is what a hand
derivation gives (`test_parseval`).
"""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from regard.data.generated.trees import trees
from regard.data.trees import Tree, tree_of
from regard.evaluate.parseval import COLLINS, Rules, Total, compare

scorer = pytest.importorskip("PYEVALB.scorer")
from PYEVALB import parser as theirs  # noqa: E402

PLAIN = Rules(frozenset(), {})  # nothing left out, no labels the same


def counts_of_pyevalb(gold: Tree, parsed: Tree) -> tuple[int, int, int, int]:
    sides = (theirs.create_from_bracket_string(str(tree)) for tree in (gold, parsed))
    found = scorer.Scorer().score_trees(*sides)
    return found.gold_brackets, found.test_brackets, found.matched_brackets, found.cross_brackets


def counts_of_ours(gold: Tree, parsed: Tree, rules: Rules = COLLINS) -> tuple[int, int, int, int]:
    one = compare(gold, parsed, rules)
    return one.labelled.gold, one.labelled.parsed, one.labelled.matched, one.crossing


def disturbed(tree: Tree, dice: random.Random) -> Tree:
    """The tree with some brackets gone and others of another label; none stands twice."""
    kept = [one for i, one in enumerate(tree.brackets) if not i or dice.random() > 0.2]
    changed = [one._replace(label=dice.choice(["NP", "VP", "PP"])) if dice.random() < 0.2 else one for one in kept]
    return Tree(tree.words, tree.tags, tuple(dict.fromkeys(changed)))


def moved(tree: Tree, other: Tree) -> Tree | None:
    """Another tree's brackets over this one's words, where it has as many: most of them cross."""
    return Tree(tree.words, tree.tags, other.brackets) if len(tree.words) == len(other.words) else None


def test_equal_counts_where_no_rule_of_collins_matters() -> None:
    dice, drawn = random.Random(4), trees("train", 400)
    pairs = [(tree, disturbed(tree, dice)) for tree in drawn]
    pairs += [(a, b) for a, other in pairwise(drawn) if (b := moved(a, other))]
    assert len(pairs) > 420
    for gold, parsed in pairs:
        assert counts_of_ours(gold, parsed, PLAIN) == counts_of_pyevalb(gold, parsed)
    ours = Total.of(compare(gold, parsed, PLAIN) for gold, parsed in pairs).labelled
    summed = [sum(column) for column in zip(*(counts_of_pyevalb(*pair) for pair in pairs), strict=True)]
    assert (ours.gold, ours.parsed, ours.matched) == tuple(summed[:3])


@pytest.mark.parametrize(
    ("gold", "parsed", "ours", "pyevalb"),
    [
        # The comma is no word to EVALB: NP 0–1 in both. To PYEVALB the NPs are 0–2 and 0–1.
        ("(S (NP (NN a) (, ,)) (VP (VB b)))", "(S (NP (NN a)) (, ,) (VP (VB b)))", (3, 3, 3), (3, 3, 2)),
        # ADVP = PRT.
        ("(VP (VB a) (PRT (RP b)))", "(VP (VB a) (ADVP (RP b)))", (2, 2, 2), (2, 2, 1)),
        # NP-SBJ is NP.
        ("(S (NP-SBJ (NN a)) (VB b))", "(S (NP (NN a)) (VB b))", (2, 2, 2), (2, 2, 1)),
        # TOP is not counted.
        ("(TOP (S (NN a) (VB b)))", "(TOP (S (NN a) (VB b)))", (1, 1, 1), (2, 2, 2)),
        # NP over NP counts twice on both sides and matches twice.
        ("(S (NP (NP (NN a))) (VB b))", "(S (NP (NP (NN a))) (VB b))", (3, 3, 3), (3, 3, 2)),
    ],
)  # fmt: skip
def test_where_it_departs_from_evalb_the_hand_derivation_decides(
    gold: str, parsed: str, ours: tuple[int, ...], pyevalb: tuple[int, ...]
) -> None:
    assert counts_of_ours(tree_of(gold), tree_of(parsed))[:3] == ours
    assert counts_of_pyevalb(tree_of(gold), tree_of(parsed))[:3] == pyevalb
