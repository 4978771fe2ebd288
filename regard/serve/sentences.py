"""Texts cut into sentences, and put together again with the spacing that they had.

A line ends a sentence. Inside a line so does a full stop, question or exclamation mark, or an ellipsis, with whatever
closes after it, where white space and then anything but a small letter follow; not after an abbreviation, an initial or
a number of one or two digits ("am 3. Mai"). The marks of Chinese and Japanese end one without white space. What is
longer than a model should see at once is cut after a comma or the like, else at white space, else anywhere. What marks
a line as one of a list (a dash, a bullet, "2)") belongs to its indentation.

Whoever sends a text chooses it, so the work must grow with its length and no faster: a pattern goes over a run of marks
or of white space once and gives nothing of it back (`++`), and of what stands before a full stop only as much is looked
at as an abbreviation may have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

CLOSING = "\"'”’»«)\\]}›"
END = re.compile(rf"(?:(?<![.!?…])[.!?…]++[{CLOSING}]*+(?=\s++[^\sa-zà-öø-ÿ])|[。！？．]++[」』”’）]*+)")
LINE = re.compile(r"[^\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
MARKER = re.compile(r"\s*+(?:[-*+•‣◦▪–—]|\d{1,3}\))\s++(?=\S)")
BEFORE_STOP = re.compile(r"([^\W_]+(?:\.[^\W_]+)*)\.$")
CUTS = (re.compile(r"[,;:，；：、]\s*"), re.compile(r"\s+"))
ABBREVIATED = (
    "mr mrs ms dr prof sr jr st vs no nos fig vol ed eds dept gen col sgt rev hon inc ltd co corp approx "
    "bzw ca evtl ggf inkl nr str vgl usw hr fr frl abs art bd jh z.b d.h u.a o.ä i.d.r "
    "m mm mme mlle p.ex env av e.g i.e cf u.s u.k a.m p.m"
)
ABBREVIATIONS = frozenset(ABBREVIATED.split())
# The stop, the longest abbreviation, and two more characters: they show where a longer word, or one with a stop before
# its last part, goes on to the left.
BEFORE = max(map(len, ABBREVIATIONS)) + 3


@dataclass(frozen=True)
class Text:
    """What stands between the sentences, and the sentences: gaps[0] sentences[0] gaps[1] … gaps[-1]."""

    gaps: tuple[str, ...]
    sentences: tuple[str, ...]

    def filled(self, translations: Sequence[str], glue: str = "") -> str:
        """The text with translations in the place of its sentences. `glue` goes where two sentences touch, as they do
        in scripts without spaces."""
        inner = [gap or glue for gap in self.gaps[1:-1]]
        gaps = [self.gaps[0], *inner, *self.gaps[1:][-1:]]
        parts = [part for pair in zip(gaps, [*translations, ""], strict=False) for part in pair]
        return "".join(parts)


def split(text: str, by: str = "sentences", longest: int = 600) -> Text:
    """`by`: sentences, lines, or none for the text as one. No sentence begins or ends with white space, or is longer
    than `longest` characters."""
    spans = [(0, len(text))] if by == "none" else [unmarked(*match.span(), text) for match in LINE.finditer(text)]
    if by == "sentences":
        spans = [(start + first, start + last) for start, end in spans for first, last in inside(text[start:end])]
    spans = [(start + first, start + last) for start, end in spans for first, last in parts(text[start:end], longest)]
    edges = [0, *(edge for span in spans for edge in span), len(text)]
    return Text(
        tuple(text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)),
        tuple(text[a:b] for a, b in spans),
    )


def unmarked(start: int, end: int, text: str) -> tuple[int, int]:
    """Where the words of a line begin, and its end."""
    marker = MARKER.match(text, start, end)
    return (marker.end() if marker else start), end


def inside(line: str) -> Iterator[tuple[int, int]]:
    """Where the sentences of a line begin and end."""
    begin = 0
    for match in END.finditer(line):
        if match[0] == "." and not closes(line[max(begin, match.end() - BEFORE) : match.end()]):
            continue
        yield begin, match.end()
        begin = match.end()
    yield begin, len(line)


def closes(end: str) -> bool:
    """Whether the full stop at this end of a sentence is more than a part of its last word."""
    found = BEFORE_STOP.search(end)
    if not found:
        return True
    word = found[1]
    initial = len(word) == 1 and word.isalpha() and word.isupper() and word != "I"
    ordinal = len(word) <= 2 and word.isdigit()
    return not (initial or ordinal or word.lower() in ABBREVIATIONS)


def parts(sentence: str, longest: int) -> Iterator[tuple[int, int]]:
    """A sentence without the white space around it, in parts that are short enough; nothing where it is all white."""
    begin, end = len(sentence) - len(sentence.lstrip()), len(sentence.rstrip())
    while end - begin > longest:
        cut = place_to_cut(sentence[begin : begin + longest]) + begin
        yield begin, begin + len(sentence[begin:cut].rstrip())
        begin = cut + len(sentence[cut:end]) - len(sentence[cut:end].lstrip())
    if begin < end:
        yield begin, end


def place_to_cut(text: str) -> int:
    """The end of the last comma or the like in the second half, or else of the last white space anywhere."""
    for pattern, least in zip(CUTS, (len(text) // 2, 1), strict=True):
        places = [match.end() for match in pattern.finditer(text) if match.end() >= least]
        if places:
            return places[-1]
    return len(text)
