"""Translating a stream: lines as they come, results as they are read, and proof that batches do not matter."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from regard.data.corpus import decode_lines
from regard.decode.translator import Translation, Translator, pharaoh

CHUNK = 2048  # lines translated before the first of them is printed, when they come faster than that


def available_lines(file: IO[bytes]) -> Iterator[list[str]]:
    """The lines of a stream in groups: what is there already, so that one typed line is answered at once and
    a file goes through in large, well-filled batches. A reading error surfaces after the lines before it."""
    lines: queue.Queue[str | BaseException | None] = queue.Queue(maxsize=CHUNK)

    def read() -> None:
        try:
            for line in decode_lines(file, "standard input"):
                lines.put(line)
            lines.put(None)
        except BaseException as error:
            lines.put(error)

    threading.Thread(target=read, daemon=True).start()
    ended: bool | BaseException = False
    while ended is False:
        group: list[str] = []
        while len(group) < CHUNK:
            try:
                # Wait for a first line; after it, only as long as a reader takes to pass on the next.
                item = lines.get(timeout=0.02 if group else None)
            except queue.Empty:
                break
            if isinstance(item, str):
                group.append(item)
            else:
                ended = True if item is None else item
                break
        if group:
            yield group
    if isinstance(ended, BaseException):
        raise ended


@dataclass(frozen=True)
class LineFormat:
    """How a result is printed."""

    n_best: int = 1
    scores: bool = False
    alignments: bool = False
    as_json: bool = False

    def show(self, number: int, best: list[Translation], links: list[tuple[int, int]] | None) -> str:
        if self.as_json:
            return json.dumps(self.record(best, links), ensure_ascii=False)
        if self.n_best > 1:
            return "\n".join(f"{number} ||| {one.text} ||| {one.score:.4f}" for one in best)
        fields = [best[0].text]
        if self.scores:
            fields.insert(0, f"{best[0].score:.4f}")
        if links is not None:
            fields.append(pharaoh(links))
        return "\t".join(fields)

    def record(self, best: list[Translation], links: list[tuple[int, int]] | None) -> dict[str, Any]:
        record: dict[str, Any] = {
            "source": best[0].source,
            "translations": [{"text": t.text, "score": t.score, "log_prob": t.log_prob} for t in best],
        }
        if links is not None:
            record["alignment"] = pharaoh(links)
        return record


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
                gap = abs(ours.score - theirs.score)
                self.defects += gap >= self.margin
                self.differing.append(f"line {first + i + 1}: {ours.text!r} or {theirs.text!r}, scores {gap:.1e} apart")

    def summary(self) -> str:
        head = f"{len(self.differing)} of {self.total} translations depend on the batch"
        return "\n".join(
            [head + (f", {self.defects} beyond the margin {self.margin:g}" if self.differing else ""), *self.differing]
        )
