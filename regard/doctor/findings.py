"""What an examination finds: a fault with a name, its place, and what to do about it."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
SPANS_SHOWN, EXAMPLES_SHOWN, EXAMPLE_WIDTH, CHARACTERS_SHOWN = 5, 2, 160, 12

Span = tuple[int, int]  # first and last line, from 1


@dataclass(frozen=True)
class Where:
    """Files and the lines in them; no lines: all of it."""

    files: tuple[str, ...]
    spans: tuple[Span, ...] = ()

    def __str__(self) -> str:
        shown = ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in self.spans[:SPANS_SHOWN])
        more = " …" if len(self.spans) > SPANS_SHOWN else ""
        return " + ".join(self.files) + (f":{shown}{more}" if shown else "")


@dataclass(frozen=True)
class Finding:
    code: str
    severity: Severity
    where: Where
    what: str  # a sentence
    fix: str  # what to do, a sentence
    examples: tuple[str, ...] = ()

    @property
    def lines(self) -> list[int]:
        """Every line it names, from 1."""
        return [line for first, last in self.where.spans for line in range(first, last + 1)]

    def as_dict(self) -> dict[str, Any]:
        return {
            "code": self.code, "severity": self.severity, "files": list(self.where.files),
            "lines": [list(span) for span in self.where.spans], "what": self.what, "fix": self.fix,
            "examples": list(self.examples),
        }  # fmt: skip


def at_lines(file: str | Sequence[str], lines: Iterable[int] = ()) -> Where:
    """Lines of a file, neighbours joined."""
    return Where((file,) if isinstance(file, str) else tuple(file), join(lines))


def join(lines: Iterable[int]) -> tuple[Span, ...]:
    """Sorted lines as spans: 3, 4, 5, 9 → (3, 5), (9, 9)."""
    spans: list[Span] = []
    for line in lines:
        if spans and line <= spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], line)
        else:
            spans.append((line, line))
    return tuple(spans)


def grade(count: int, total: int, tolerated: float = 0.0, grave: float = 0.05) -> Severity:
    """How bad it is that `count` of `total` lines have a fault: up to a `tolerated` share is normal in real text, and
    from a `grave` share on it spoils the whole."""
    if count <= tolerated * total:
        return "note"
    return "error" if count >= grave * total else "warning"


def shorten(text: str, width: int = EXAMPLE_WIDTH) -> str:
    """One printable line of at most `width` characters; what cannot be seen is written as an escape."""
    visible = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return visible if len(visible) <= width else visible[: width - 1] + "…"


def spelled(characters: Collection[str]) -> str:
    """Some of the characters in order, those that cannot be seen alone by their numbers."""
    shown = [
        f"U+{ord(c):04X}" if c.isspace() or not c.isprintable() or unicodedata.combining(c) else c
        for c in sorted(characters)[:CHARACTERS_SHOWN]
    ]
    return " ".join([*shown, *(["…"] if len(characters) > CHARACTERS_SHOWN else [])])


def examples_of(lines: Sequence[str], numbers: Sequence[int]) -> tuple[str, ...]:
    """Some of the lines `numbers`, counted from 1."""
    return tuple(shorten(lines[number - 1]) for number in numbers[:EXAMPLES_SHOWN])


def examples_of_pairs(source: Sequence[str], target: Sequence[str], numbers: Sequence[int]) -> tuple[str, ...]:
    half = EXAMPLE_WIDTH // 2
    return tuple(
        f"{shorten(source[n - 1], half)} ‖ {shorten(target[n - 1], half)}" for n in numbers[:EXAMPLES_SHOWN]
    )  # fmt: skip


def share(count: int, total: int) -> str:
    """`12 of 3,000 lines (0.4 %)`, for the beginning of a sentence."""
    percent = 100 * count / max(total, 1)
    return (
        f"{count:,} of {total:,} lines ({percent:.0f} %)"
        if percent >= 10
        else (f"{count:,} of {total:,} lines ({percent:.2g} %)")
    )


SYMPTOMS = ("attention-", "output-", "dead-embeddings", "no-learning")  # of a model …
CAUSES = ("learning-rate-", "warmup-", "adam-", "clipping-", "shifted", "misaligned", "languages-swapped", "tokenizer-")


# --- the report ------------------------------------------------------------------------------------------


def report(findings: Sequence[Finding], verbose: bool = False) -> str:
    """All findings, the gravest first, and a verdict in the last line."""
    blocks = []
    for severity in SEVERITIES:
        mine = [finding for finding in findings if finding.severity == severity]
        if mine and (severity != "note" or verbose):
            blocks += [f"{severity.upper()}S" if len(mine) > 1 else severity.upper(), *(show(one) for one in mine), ""]
    return "\n".join([*blocks, verdict(findings, verbose)])


def show(finding: Finding) -> str:
    lines = [f"  {finding.where}  [{finding.code}]", f"    {finding.what} {finding.fix}"]
    return "\n".join([*lines, *(f"      {example}" for example in finding.examples)])


def verdict(findings: Sequence[Finding], verbose: bool = False) -> str:
    counts = {severity: sum(finding.severity == severity for finding in findings) for severity in SEVERITIES}
    said = [f"{n} {severity}{'s' if n > 1 else ''}" for severity, n in counts.items() if n and severity != "note"]
    hidden = counts["note"] and not verbose
    notes = f" ({counts['note']} note{'s' if counts['note'] > 1 else ''}: see --verbose)" if hidden else ""
    if not said:
        return f"Nothing wrong found.{notes}"
    return f"{' and '.join(said)} found{notes}; begin with {first_to_mend(findings).code}."


def first_to_mend(findings: Sequence[Finding]) -> Finding:
    """The gravest finding; of a symptom its cause, where one has been found."""
    ordered = [finding for severity in SEVERITIES for finding in findings if finding.severity == severity]
    causes = (one for one in ordered if one.severity != "note" and one.code.startswith(CAUSES))
    return next(causes, ordered[0]) if ordered[0].code.startswith(SYMPTOMS) else ordered[0]
