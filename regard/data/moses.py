"""Words as Moses' scripts make them (Koehn et al. 2007), and whether a text is in such words; through sacremoses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from regard.errors import RegardError


def moses_rules(language: str, normalise: bool = False) -> Callable[[str], str]:
    """Tokenised by Moses' rules for a language, its punctuation normalised before or not."""
    try:
        moses: Any = import_module("sacremoses")  # untyped
    except ImportError:
        raise RegardError('Moses tokenisation needs sacremoses: pip install "regard[corpora]".') from None
    if not language:
        raise RegardError("Moses rules differ by language: name that of the references, e.g. --language de.")
    tokeniser = moses.MosesTokenizer(language)
    before = moses.MosesPunctNormalizer(language).normalize if normalise else str
    return lambda line: str(tokeniser.tokenize(before(line), return_str=True))


def stops(lines: Iterable[str]) -> tuple[int, int]:
    """How many full stops and commas stand alone, and how many at a word."""
    ends = [word for line in lines for word in line.split() if word[-1] in ".,"]
    return sum(len(word) == 1 for word in ends), sum(len(word) > 1 and word[-2].isalnum() for word in ends)


def is_tokenised(lines: Iterable[str]) -> bool:
    """Whether full stops and commas stand alone, rarely (after an abbreviation, say) at a word."""
    alone, attached = stops(lines)
    return alone > 0 and alone >= 4 * attached
