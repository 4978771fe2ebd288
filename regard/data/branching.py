"""Trees drawn without a look at the words: what a parser must beat.

Punctuation hangs from the root or wherever it happens to stand; no bracket begins or ends for its sake, so that one
span is never bracketed twice once punctuation is taken out.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.data.trees import PUNCTUATION, Bracket, Tree


def flat(words: Sequence[str], tags: Sequence[str]) -> Tree:
    """One S over everything."""
    return rooted(words, tags, [])


def right_branching(words: Sequence[str], tags: Sequence[str]) -> Tree:
    """An S, in which a VP begins at every word but the first and the last and lasts to the end."""
    return rooted(words, tags, [Bracket("VP", i, len(words)) for i in content(tags)[1:-1]])


def left_branching(words: Sequence[str], tags: Sequence[str]) -> Tree:
    """An S, in which an NP begins at the beginning and lasts to every word but the first and the last."""
    return rooted(words, tags, [Bracket("NP", 0, i + 1) for i in reversed(content(tags)[1:-1])])


def content(tags: Sequence[str]) -> list[int]:
    return [i for i, tag in enumerate(tags) if tag not in PUNCTUATION]


def rooted(words: Sequence[str], tags: Sequence[str], inner: Sequence[Bracket]) -> Tree:
    root = [Bracket("S", 0, len(words))] if words else []
    return Tree(tuple(words), tuple(tags), (*root, *inner))
