"""The server's log: when, and what."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Journal:
    """Lines for the log, those of one turn of the event loop written together, under one time."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.write = write
        self.lines: list[str] = []

    def __call__(self, line: str) -> None:
        if not self.lines:
            asyncio.get_running_loop().call_soon(self.flush)
        self.lines.append(line)

    def flush(self) -> None:
        lines, self.lines = self.lines, []
        when = now()
        self.write("\n".join([f"{when} {line}" for line in lines]))
