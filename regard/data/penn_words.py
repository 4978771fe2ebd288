"""Running text as the Penn Treebank writes its words: punctuation and clitics stand alone, quotes are `` and ''.

The rules, in order: quotes after a space or an opening bracket open, others close; ... and -- stand alone; so do
, ; : @ # $ % & ? ! and brackets, but no comma or colon between digits; a full stop only at the end of the sentence,
before closing quotes or brackets; 's 'm 'd 'll 're 've and n't leave their word; cannot, gonna, gotta, wanna, gimme and
lemme fall in two. A simple tokeniser in the manner of the treebank's own: text that a treebank's tokeniser has split
parses better.
"""

from __future__ import annotations

import re

_RULES = [
    (re.compile(r"[“”]|(?<![\w])''|''(?![\w])"), '"'),
    (re.compile(r"[‘’]"), "'"),
    (re.compile(r'(^|[\s(\[{<])"'), r"\1 `` "),
    (re.compile(r'"'), " '' "),
    (re.compile(r"\.\.\.|…"), " ... "),
    (re.compile(r"--+|—"), " -- "),
    (re.compile(r"([,:])(?!\d)|(?<!\d)([,:])"), r" \1\2 "),
    (re.compile(r"([;@#$%&?!])"), r" \1 "),
    (re.compile(r"([\[\](){}<>])"), r" \1 "),
    (re.compile(r"(?<![.\s])(\.)(\s*(?:''|[)\]}>\s])*)$"), r" \1\2"),
    (re.compile(r"(?<=\w)('(?:s|m|d|ll|re|ve))\b", re.IGNORECASE), r" \1"),
    (re.compile(r"(?<=\w)(n't)\b", re.IGNORECASE), r" \1"),
    (re.compile(r"(?<=s)'(?=\s|$)"), " '"),
    (re.compile(r"\b(can)(not)\b", re.IGNORECASE), r"\1 \2"),
    (re.compile(r"\b(gon|wan)(na)\b", re.IGNORECASE), r"\1 \2"),
    (re.compile(r"\b(got)(ta)\b", re.IGNORECASE), r"\1 \2"),
    (re.compile(r"\b(gim|lem)(me)\b", re.IGNORECASE), r"\1 \2"),
]


def penn_words(text: str) -> list[str]:
    """The words of one sentence of running text."""
    for pattern, written in _RULES:
        text = pattern.sub(written, text)
    return text.split()
