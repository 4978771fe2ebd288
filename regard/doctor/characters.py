"""Damaged characters in one file: wrong encodings, markup, escapes, and what cannot be seen."""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from regard.data import filters
from regard.data.files import conversion
from regard.data.moses import stops
from regard.doctor.findings import Finding, at_lines, examples_of, grade, share, shorten
from regard.doctor.texts import Side, Sought, scan

# UTF-8 bytes 80–BF as Latin-1, Windows-1252 and Windows-1250 show them.
TRAIL = "\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸŚŤŹśťźˇ˘ŁĄŞŻ˛łąşĽ˝ľż"
MOJIBAKE = re.compile(rf"[ÂÃÄÅĂĹ][{TRAIL}]|â(?:€|\x80)[{TRAIL}]?|(?:[ÐÑ][{TRAIL}]){{2}}|ï»¿")
ADJACENT = re.compile(r"[^\x00-\x7f]{2}")
MOSES_ESCAPES = {"&apos;", "&quot;", "&amp;", "&lt;", "&gt;", "&#124;", "&#91;", "&#93;"}
ENTITY = re.compile(r"&(?:#\d{1,6}|#x[0-9a-fA-F]{1,5}|[a-zA-Z][a-zA-Z0-9]{1,7});")
UNSEEN = filters.INVISIBLE.findall("".join(map(chr, range(0x10000))))  # what regard data prepare deletes
# With the controls that Python takes for white space, and prepare for a space.
CONTROLS = "".join(c for c in UNSEEN if unicodedata.category(c) == "Cc") + "\x0b\x0c\x1c\x1d\x1e\x1f"
SOFT_HYPHEN = "\u00ad"
WIDTHLESS = "".join(c for c in UNSEEN if c not in CONTROLS and c != SOFT_HYPHEN)
COMBINING = "".join(map(chr, range(0x300, 0x370)))


@dataclass(frozen=True)
class Pattern:
    """A fault that a regular expression finds, and the share of lines in which it is normal."""

    code: str
    pattern: re.Pattern[str]
    needs: str  # characters, one of which every match has
    what: str
    fix: str
    tolerated: float = 0.0


PATTERNS = (
    Pattern(
        "replacement-character", re.compile("\ufffd"), "\ufffd",
        "hold U+FFFD, the mark of characters that a converter could not read.",
        "Convert the original file again with its true encoding; what is lost cannot be restored from here.",
    ),
    Pattern(
        "lost-characters", re.compile(r"(?<=[^\W\d_])\?(?![A-Z])[^\W\d_]+(?![\w=&/.])"), "?",
        "have a question mark inside a word, where a converter has thrown a letter away.",
        "Convert the original file again, to UTF-8.", 0.0002,
    ),
    Pattern(
        "markup", re.compile(r"</?[a-zA-Z][a-zA-Z0-9]{0,9}(?:\s[^<>\n]*)?/?>"), "<",
        "hold HTML or XML tags.", "Strip the tags; a model would learn to write them.", 0.0005,
    ),
    Pattern(
        "escaped-characters",
        re.compile(r"\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\[nt](?![a-z])|%[C-E][0-9A-F]%[89AB][0-9A-F]|"
                   r"=[C-E][0-9A-F]=[89AB][0-9A-F]"),
        "\\%=",
        "hold escapes such as \\u00e4, \\n or %C3%A4 instead of the characters.",
        "Decode them where the text was extracted (JSON, URL, mail).", 0.0001,
    ),
    Pattern(
        "control-characters", re.compile(f"[{CONTROLS}]"), CONTROLS,
        "hold control characters.", "Delete them: tr -d '\\000-\\010\\013\\014\\016-\\037\\177' does for most.", 0.0001,
    ),
    Pattern(
        "hidden-line-ends", re.compile("[\r\x85\u2028\u2029]"), "\r\x85\u2028\u2029",
        "hold a line end that not every program takes for one (\\r, U+0085, U+2028, U+2029).",
        "Replace it by a space: some tools would split the line and shift all that follow.",
    ),
    Pattern(
        "tabs", re.compile(r"\t"), "\t", "hold a tab.",
        "If these are several columns, cut out the one you need; else replace tabs by spaces.", 0.0001,
    ),
    Pattern(
        "zero-width-characters", re.compile(f"[{WIDTHLESS}]"), WIDTHLESS,
        "hold characters without width (U+200B, a BOM, direction marks).", "Delete them.", 0.0001,
    ),
    Pattern(
        "soft-hyphens", re.compile(SOFT_HYPHEN), SOFT_HYPHEN,
        "hold soft hyphens, which split words where nobody sees it.", "Delete U+00AD.", 0.001,
    ),
    Pattern(
        "decomposed-accents", re.compile("(?<=[A-Za-z])[\u0300-\u036f]"), COMBINING,
        "write accents as characters of their own (NFD).",
        "Normalise to NFC: a reference in NFD never equals an output in NFC.", 0.0001,
    ),
)  # fmt: skip


def undecodable(side: Side) -> Iterator[Finding]:
    """Lines that are not UTF-8, or a whole file of UTF-16."""
    numbers = side.undecodable
    if side.utf16 or numbers:
        what = "The file is UTF-16" if side.utf16 else f"{share(len(numbers), len(side.lines))} are not UTF-8"
        way = f"with {conversion('utf-16')}" if side.utf16 else f"e.g. with {conversion()}"
        yield Finding(
            "not-utf8", "error", at_lines(side.file, numbers), f"{what}, which regard train refuses.",
            f"Convert it, {way}.", examples_of(side.lines, numbers),
        )  # fmt: skip


def examine(side: Side) -> Iterator[Finding]:
    """All of them. Of a misread line it is its repair that the others look at: the remains of a letter's bytes may look
    like control characters or line ends, and to delete those would make the line past repair."""
    yield from undecodable(side)
    numbers = misread(side.lines)
    if numbers:
        yield mojibake(side, numbers)
        lines = list(side.lines)
        for number in numbers:
            once = repair(lines[number - 1])
            lines[number - 1] = repair(once) if MOJIBAKE.search(once) else once
        side = replace(side, lines=lines)
    yield from entities(side)
    yield from patterns(side)


def misread(lines: list[str]) -> list[int]:
    suspects = scan(lines, {"": Sought(ADJACENT, beyond_ascii=True)})[""]  # two such letters in a row are rare
    return [n for n in suspects if MOJIBAKE.search(lines[n - 1])]


def mojibake(side: Side, numbers: list[int]) -> Finding:
    some = [side.lines[n - 1] for n in numbers[:1000]]
    twice = sum(bool(MOJIBAKE.search(repair(line))) for line in some)
    times = "twice" if 2 * twice > len(some) else "once"
    return Finding(
        "mojibake", grade(len(numbers), len(side.lines)), at_lines(side.file, numbers),
        f"{share(len(numbers), len(side.lines))} are UTF-8 that was read {times} as a one-byte encoding (Ã¤ for ä).",
        advice(some) + (", twice." if times == "twice" else "."),
        (*examples_of(side.lines, numbers[:1]), f"repaired: {shorten(repair(some[0]))}"),
    )  # fmt: skip


def advice(lines: list[str]) -> str:
    """The Python that repairs most of the lines."""
    repaired = {way: sum(undone(way, line) is not None for line in lines) for way in MISREADINGS}
    best = max(repaired, key=lambda way: repaired[way])
    if not repaired[best]:
        return "Convert the original file again: these lines hold sound letters beside the misread ones"
    rest = "" if repaired[best] == len(lines) else " (where that fails, a line holds sound letters too: word by word)"
    return f"Repair them before anything else: {best}.decode('utf-8'){rest}"


def one_byte(text: str) -> bytes:
    """Windows-1252, and Latin-1 for the five codes it lacks, which is how most programs read it."""
    return bytes(ord(c) if ord(c) < 256 else c.encode("cp1252")[0] for c in text)


# What text was before it was misread, in words and in deed.
MISREADINGS: dict[str, Callable[[str], bytes]] = {
    "text.encode('cp1252')": lambda text: text.encode("cp1252"),
    "text.encode('latin-1')": lambda text: text.encode("latin-1"),
    "text.encode('cp1250')": lambda text: text.encode("cp1250"),
    "bytes(ord(c) if ord(c) < 256 else c.encode('cp1252')[0] for c in text)": one_byte,
}


def undone(way: str, text: str) -> str | None:
    try:
        return MISREADINGS[way](text).decode("utf-8")
    except UnicodeError:
        return None


def repair(text: str) -> str:
    """One misreading undone: of the whole text, or of the parts where it shows."""
    whole = next((found for way in MISREADINGS if (found := undone(way, text)) is not None), None)
    return MOJIBAKE.sub(lambda match: part_repaired(match.group()), text) if whole is None else whole


def part_repaired(text: str) -> str:
    return next((found for way in MISREADINGS if (found := undone(way, text)) is not None), text)


def entities(side: Side) -> Iterator[Finding]:
    """HTML entities; those that the Moses tokenizer writes are part of its convention."""
    suspects = scan(side.lines, {"": Sought(ENTITY, "&")})[""]
    numbers = [n for n in suspects if html.unescape(side.lines[n - 1]) != side.lines[n - 1]]
    if not numbers:
        return
    kinds = Counter(entity for n in numbers for entity in ENTITY.findall(side.lines[n - 1]))
    named = ", ".join(kind for kind, _ in kinds.most_common(3))
    tokenised = set(kinds) <= MOSES_ESCAPES and "tokenised" in style(side.lines)
    yield Finding(
        "html-entities", "note" if tokenised else grade(len(numbers), len(side.lines), 0.0006),
        at_lines(side.file, numbers),
        f"{share(len(numbers), len(side.lines))} hold HTML entities ({named}"
        + ("), as the Moses tokenizer writes them." if tokenised else ")."),
        "Unescape them, e.g. with Python's html.unescape.", examples_of(side.lines, numbers),
    )  # fmt: skip


def patterns(side: Side) -> Iterator[Finding]:
    found = scan(side.lines, {kind.code: Sought(kind.pattern, kind.needs) for kind in PATTERNS})
    for kind in PATTERNS:
        numbers = found[kind.code]
        if numbers:
            yield Finding(
                kind.code, grade(len(numbers), len(side.lines), kind.tolerated), at_lines(side.file, numbers),
                f"{share(len(numbers), len(side.lines))} {kind.what}", kind.fix, examples_of(side.lines, numbers),
            )  # fmt: skip


def style(lines: list[str], most: int = 5_000) -> set[str]:
    """How a text was prepared: `cased` or `lower-cased`, `tokenised` or `raw`; neither where it does not show."""
    sample = [html.unescape(line) for line in lines[:: max(1, len(lines) // most)]]
    with_letters = [line for line in sample if line.lower() != line.upper()]
    cased = sum(line != line.lower() for line in with_letters)
    alone, attached = stops(sample)
    found = set()
    if len(with_letters) >= 20:
        found |= {"cased"} if cased > 0.2 * len(with_letters) else set()
        found |= {"lower-cased"} if cased < 0.02 * len(with_letters) else set()
    if alone + attached >= max(20, 0.1 * len(sample)):
        found |= {"tokenised"} if alone > 4 * attached else {"raw"} if attached > 4 * alone else set()
    return found
