"""Translating a stream: lines as they come, results as they are read, and proof that batches do not matter."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from regard.data.files import decode_lines
from regard.decode.translator import Translation, Translator

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
        """`links`: the alignment of each translation in Pharaoh format, or nothing."""
        if self.as_json:
            return json.dumps(self.record(best, links), ensure_ascii=False)
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
    """Translates every sentence alone as well, and keeps the differences.

    Matrix products of other shapes round differently, so two candidates of nearly the same probability may
    change places; anything else is a defect.
    """

    model: Translator
    margin: float = 1e-4
    total: int = 0
    differing: list[str] = field(default_factory=list)
    defects: int = 0

    def check(self, first: int, together: list[Translation]) -> None:
        alone = self.model.search([t.source for t in together], batch_sentences=1)
        for i, (ours, theirs) in enumerate(zip(together, (best[0] for best in alone), strict=True)):
            self.total += 1
            if ours.target_tokens != theirs.target_tokens:
                gap = abs(ours.log_prob - theirs.log_prob)
                self.defects += gap >= self.margin
                self.differing.append(
                    f"line {first + i + 1}: {ours.text!r} or {theirs.text!r}, log-probabilities {gap:.1e} apart"
                )

    def summary(self) -> str:
        head = f"{len(self.differing)} of {self.total} translations depend on the batch"
        return "\n".join(
            [head + (f", {self.defects} beyond the margin {self.margin:g}" if self.differing else ""), *self.differing]
        )
