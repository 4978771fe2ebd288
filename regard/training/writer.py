"""Files written while training goes on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType


class Writer:
    """One piece of work at a time in a thread of its own. Inside `with`; at its end the work is done."""

    def __init__(self) -> None:
        self.threads = ThreadPoolExecutor(1, "writer")
        self.going_on: Future[None] | None = None

    def begin(self, work: Callable[[], None]) -> None:
        """Have something done, after what was begun before."""
        self.wait()
        self.going_on = self.threads.submit(work)

    def wait(self) -> None:
        """Until it is done. What went wrong in it is raised here."""
        going_on, self.going_on = self.going_on, None
        if going_on:
            going_on.result()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.threads.shutdown()
