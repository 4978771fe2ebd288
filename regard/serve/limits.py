"""What a request may ask for, and how it is told that it asked for too much."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from regard.errors import RegardError


class Refusal(Exception):
    """A request that is not served: the status of HTTP and a sentence that says what to change."""

    def __init__(self, status: int, message: str, retry_after: float = 0.0, close: bool = False) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after, self.close = status, message, retry_after, close

    @property
    def headers(self) -> dict[str, str]:
        headers = {"Retry-After": str(max(1, round(self.retry_after)))} if self.retry_after else {}
        return headers | ({"Connection": "close"} if self.close else {})


OPTIONS = {  # of `regard serve`, by the limit that each sets
    "characters": "--max-characters", "items": "--max-items", "beam": "--max-beam", "n_best": "--max-n-best",
    "sentence_characters": "--max-sentence", "glossary_terms": "--max-terms", "term_characters": "--max-term",
    "attention_characters": "--max-attention", "body_bytes": "--max-body", "read_seconds": "--read-seconds",
    "queue": "--max-queue", "in_flight": "--max-requests", "seconds": "--max-seconds",
    "drain_seconds": "--drain-seconds",
}  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """All of them are on; each is an option of `regard serve`."""

    characters: int = 5_000  # of all texts of a request together
    items: int = 64  # texts of a request
    beam: int = 8
    n_best: int = 8
    sentence_characters: int = 600  # a longer sentence is translated in parts
    glossary_terms: int = 32
    term_characters: int = 100  # of a glossary's term or translation; a prefix may have ten times as many
    attention_characters: int = 400  # of a text whose attention is asked for; a given translation may have twice that
    body_bytes: int = 262_144
    read_seconds: float = 10  # until a request's header has come, and again its body
    queue: int = 2_048  # sentences that wait
    in_flight: int = 512  # requests
    seconds: float = 30  # from a request to its answer; a request may ask for less
    drain_seconds: float = 60  # from SIGTERM to the end, whatever is left

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not (value > 0 and math.isfinite(value)):
                raise RegardError(f"{OPTIONS[item.name]} {value} must be a number above 0.")
        if self.queue < self.items:
            raise RegardError(
                f"--max-queue {self.queue} has no room for a request of --max-items {self.items}: raise the one, or "
                "lower the other."
            )
