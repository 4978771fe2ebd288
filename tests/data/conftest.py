"""Trees grown at random."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

LABELS = ("S", "NP", "VP", "PP", "NP-SBJ", "NP-SBJ-1", "S=2", "ADVP", "PRT", "ADVP|PRT", "WHNP-3", "QP", "X")
LEAVES = (
    ("NN", "dog"), ("DT", "the"), ("-LRB-", "-LRB-"), ("-RRB-", "-RRB-"), (",", ","), (".", "."), ("CD", "3\\/4"),
    ("NNP", "-LRB-a-RRB-b"), ("CD", "1\u00a0000"), ("NN", "日本語"), ("POS", "'"), ("-NONE-", "*T*-1"), ("-NONE-", "0"),
)  # fmt: skip


@pytest.fixture(scope="session")
def grown() -> Callable[[int], str]:
    """A tree as text, another for each number: with function tags, traces, unary chains, brackets inside words."""

    def phrase(generator: random.Random, depth: int) -> str:
        if depth == 0 or generator.random() < 0.4:
            return "({} {})".format(*generator.choice(LEAVES))
        parts = [phrase(generator, depth - 1) for _ in range(generator.choice((1, 1, 2, 2, 3, 5)))]
        return f"({generator.choice(LABELS)} {' '.join(parts)})"

    def grow(number: int) -> str:
        generator = random.Random(number)
        tree = phrase(generator, generator.randrange(9))
        return generator.choice(("{}", "( {})", "(ROOT {})", "(TOP {} (. .))")).format(tree)

    return grow
