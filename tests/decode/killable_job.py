"""Run a job that turns lines round, and die by SIGKILL on the way: `killable_job.py INPUT OUTPUT AT_ONCE COUNT`.

The process kills itself before the COUNT-th of all that it does to a disk (0: never), so that a test can try them all.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.decode import jobs

seen = 0


def before(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **options: Any) -> Any:
        global seen
        seen += 1
        if seen == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)

    return wrapped


def turned(first: int, lines: list[str]) -> list[str]:
    return [f"{first + i} {line[::-1]}" for i, line in enumerate(lines)]


if __name__ == "__main__":
    source, output, at_once, count = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    for name in ("settle", "note", "flush_folder"):
        setattr(jobs, name, before(getattr(jobs, name), count))
    Path.replace = before(Path.replace, count)  # type: ignore[method-assign]
    Path.unlink = before(Path.unlink, count)  # type: ignore[method-assign]
    jobs.run(jobs.Job(source, output, 7), turned, at_once)
