"""Trees drawn without a look at the words."""

from __future__ import annotations

from regard.data.branching import flat, left_branching, right_branching
from regard.data.trees import NO_PARSE

WORDS, TAGS = ["so", ",", "he", "did", "go", "."], ["RB", ",", "PRP", "VBD", "VB", "."]


def test_the_three_trees() -> None:
    assert str(flat(WORDS, TAGS)) == "(S (RB so) (, ,) (PRP he) (VBD did) (VB go) (. .))"
    assert str(right_branching(WORDS, TAGS)) == "(S (RB so) (, ,) (VP (PRP he) (VP (VBD did) (VB go) (. .))))"
    assert str(left_branching(WORDS, TAGS)) == "(S (NP (NP (RB so) (, ,) (PRP he)) (VBD did)) (VB go) (. .))"


def test_few_words() -> None:
    for draw in (flat, right_branching, left_branching):
        assert draw([], []) == NO_PARSE
        assert str(draw(["go"], ["VB"])) == "(S (VB go))"
        assert str(draw(["go", "!"], ["VB", "."])) == "(S (VB go) (. !))"
