"""Translating a stream: lines as they come, results as they are read, and proof that batches do not matter."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import IO, Any

from regard.data.files import decode_lines
from regard.decode.alignment import pharaoh
from regard.decode.margins import MARGIN
from regard.decode.phrases import Glossary, Spelling
from regard.decode.request import Translation, Unmet
from regard.decode.translator import Translator
from regard.decode.wishes import Wish, in_tokens
from regard.errors import RegardError
from regard.wording import counted

CHUNK = 2048  # lines translated before the first of them is printed, when they come faster than that
PATIENCE = 0.02  # seconds to wait for more lines once there is one


def available_lines(file: IO[bytes]) -> Iterator[list[str]]:
    """The lines of a stream in groups: what is there already, so that one typed line is answered at once and
    a file goes through in large, well-filled batches. A bad line is reported after the lines before it."""
    rest, number, ended = b"", 1, False
    while not ended:
        lines: list[bytes] = []
        deadline: float | None = None
        while len(lines) < CHUNK and not ended:
            wait = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([file], [], [], wait)[0]:
                break
            data = os.read(file.fileno(), 2**16)
            ended = not data
            *whole, rest = (rest + data).split(b"\n")
            lines += whole if not ended else [*whole, rest] if rest else whole
            if lines and deadline is None:
                deadline = time.monotonic() + PATIENCE
        decoded: list[str] = []
        try:
            decoded.extend(decode_lines(lines, "standard input", number))
        finally:  # also where a line could not be decoded
            if decoded:
                yield decoded
        number += len(lines)


@dataclass(frozen=True)
class LineFormat:
    """How a result is printed."""

    n_best: int = 1
    scores: bool = False
    as_json: bool = False

    def show(self, number: int, best: list[Translation], links: list[str]) -> str:
        """`links`: the alignment of each translation in Pharaoh format, or nothing. A line end that a model of bytes
        puts into its text becomes a space, but for JSON, which can write it."""
        if self.as_json:
            return json.dumps(self.record(best, links), ensure_ascii=False)
        best = [one._replace(text=one.text.replace("\n", " ")) for one in best]
        if self.n_best > 1:
            fields = [[str(number), one.text, f"{one.score:.4f}"] for one in best]
            return "\n".join(" ||| ".join([*row, *links[i : i + 1]]) for i, row in enumerate(fields))
        score = [f"{best[0].score:.4f}"] if self.scores else []
        return "\t".join([*score, best[0].text, *links[:1]])

    def record(self, best: list[Translation], links: list[str]) -> dict[str, Any]:
        translations: list[dict[str, Any]] = [
            {"text": t.text, "score": t.score, "log_prob": t.log_prob}
            | ({"tokens": len(t.target_tokens), "calls": t.calls} if t.calls else {})
            for t in best
        ]
        for translation, alignment in zip(translations, links, strict=False):
            translation["alignment"] = alignment
        return {"source": best[0].source, "translations": translations}


@dataclass
class Verifier:
    """Compares translations made together with those of each sentence alone, and keeps the differences: what rounding
    does not explain is a defect."""

    model: Translator
    total: int = 0
    differing: list[str] = field(default_factory=list)
    defects: int = 0

    def check(
        self, first: int, together: list[list[Translation]], alone: list[list[Translation]], wishes: list[Wish] | None
    ) -> None:
        """first: the number of the first sentence, from 0   wishes: what is asked of each, if anything"""
        for i, ((ours, *others), (theirs, *_)) in enumerate(zip(together, alone, strict=True)):
            self.total += 1
            if ours.target_tokens != theirs.target_tokens:
                number, wish = first + i + 1, wishes[i] if wishes else Wish()
                gap = self.model.margin(ours, theirs, self.model.width(wish, 1 + len(others)))
                self.defects += not gap < MARGIN
                self.differing.append(f"line {number}: {ours.text!r} or {theirs.text!r}, margin {gap:.1e}")

    def summary(self) -> str:
        head = f"{len(self.differing)} of {self.total} translations depend on the batch"
        beyond = f", {self.defects} by more than rounding (a margin of {MARGIN:g})" if self.differing else ""
        return "\n".join([head + beyond, *self.differing])


@dataclass
class Tally:
    """What is worth saying of all translations together."""

    tokens: int = 0
    calls: int = 0  # of a decoder that gives several tokens a call
    unended: int = 0  # translations that came to their limit
    first: int = 0  # the line of the first of them

    def count(self, line: int, best: Translation, ended: bool) -> None:
        if best.calls:
            self.tokens += len(best.target_tokens)
            self.calls += best.calls
        if not ended:
            self.unended += 1
            self.first = min(self.first or line, line)

    def remarks(self) -> list[str]:
        told = []
        if self.calls:
            each = self.tokens / self.calls
            told.append(f"{self.tokens:,} tokens in {self.calls:,} calls of the decoder: {each:.2f} tokens a call.")
        if self.unended:
            told.append(
                f"{counted(self.unended, 'translation')} came to the limit of tokens without an end, the first in line "
                f"{self.first:,}: --max-length and decode.extra_length set it."
            )
        return told


@dataclass(frozen=True)
class Asked:
    """What is asked of translations, line by line."""

    glossary: Glossary = field(default_factory=Glossary)
    forbidden: tuple[str, ...] = ()
    prefix: str = ""  # of every line
    prefixes: tuple[str, ...] | None = None  # of each line, in place of one for all

    def __bool__(self) -> bool:
        return self != Asked()

    def wishes(self, first: int, lines: list[str]) -> list[Wish]:
        if self.prefixes is not None and first + len(lines) > len(self.prefixes):
            raise RegardError(
                f"There are more lines than the {counted(len(self.prefixes), 'prefix', 'prefixes')}: give one for each."
            )
        prefixes = [self.prefix] * len(lines) if self.prefixes is None else self.prefixes[first:]
        return [Wish(prefix, self.glossary.required(line)) for prefix, line in zip(prefixes, lines, strict=False)]

    def idle(self, first: int, lines: list[str]) -> list[int]:
        """Lines that have a prefix of their own and nothing to translate, by number from 1."""
        return [
            number for number, line in enumerate(lines, start=first + 1)
            if self.prefixes is not None and self.prefixes[number - 1].strip() and not line.strip()
        ]  # fmt: skip

    def check_glossary(self, spelling: Spelling) -> None:
        """Whether its translations can be written: a long job should not find out when a term comes."""
        for term, translation in self.glossary.entries:
            if fault := in_tokens(Wish(required=(translation,)), spelling).fault:
                raise RegardError(
                    f"The glossary's entry of {term!r} cannot be met. {fault} --unmet free translates lines that have "
                    "the term without what is asked."
                )

    def check_lines(self, lines: int) -> None:
        """Whether so many lines in all have a prefix each: one too many or too few, and others may be shifted."""
        if self.prefixes is not None and lines != len(self.prefixes):
            raise RegardError(
                f"{counted(lines, 'line')} and {counted(len(self.prefixes), 'prefix', 'prefixes')}: give one for each "
                "line, an empty one where nothing is asked."
            )


@dataclass(frozen=True)
class LineTranslator:
    """Lines in, lines out. `remark` is told of sentences too long for the model, `progress` the number of the last line
    that was translated. `freely`: a line of which no translation is all that is asked is translated without, and that
    is remarked; else it is an error."""

    model: Translator
    style: LineFormat
    alignments: bool = False
    asked: Asked = field(default_factory=Asked)
    freely: bool = False
    verifier: Verifier | None = None
    tally: Tally = field(default_factory=Tally)
    remark: Callable[[str], None] = lambda text: None
    progress: Callable[[int], None] = lambda line: None

    def __call__(self, first: int, lines: list[str]) -> list[str]:
        """What is printed for each line, of which the first has the number `first`, from 0."""
        found = self.search(first, lines, progress=lambda done: self.progress(first + done))
        for number, (best, *_) in enumerate(found, start=first + 1):
            if best.cut:
                self.remark(f"line {number}: its last {best.cut} tokens are more than the model reads and were cut off")
            self.tally.count(number, best, self.model.ended(best))
        for number in self.asked.idle(first, lines):
            self.remark(f"line {number} has a prefix but nothing to translate: are the lines of --prefixes shifted?")
        if self.verifier:
            alone = replace(self, remark=lambda text: None).search(first, lines, batch_sentences=1)
            wishes = self.asked.wishes(first, lines) if self.asked else None
            self.verifier.check(first, found, alone, wishes)
        every = [one for best in found for one in best]
        links = iter([pharaoh(one) for one in self.model.align(every)] if self.alignments else [])
        return [self.style.show(first + i, best, [*islice(links, len(best))]) for i, best in enumerate(found)]

    def search(self, first: int, lines: list[str], **more: Any) -> list[list[Translation]]:
        """The translations of lines, with what is asked of them."""
        n_best, wishes = self.style.n_best, self.asked.wishes(first, lines) if self.asked else None
        try:
            return self.model.search(lines, n_best, wishes=wishes, forbidden=self.asked.forbidden, **more)
        except Unmet as unmet:
            if not self.freely:
                place = f"line {first + min(unmet.why) + 1}"
                raise RegardError(
                    f"{place}: {unmet} --unmet free translates such lines without what is asked."
                ) from None
            free = self.model.search([lines[i] for i in unmet.why], n_best, **more)
            for (number, why), best in zip(unmet.why.items(), free, strict=True):
                self.remark(f"line {first + number + 1}: {why} The line is translated without what is asked.")
                unmet.found[number] = best
            return unmet.found
