"""Work spread over processes, its results in the order of the tasks, with only a few tasks under way at a time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from regard.errors import RegardError

Task = TypeVar("Task")
Result = TypeVar("Result")

AHEAD = 3  # tasks under way for each process

_work: Callable[[Any], Any]  # a process's own, set when it starts


def in_order(work: Callable[[Task], Result], tasks: Iterable[Task], jobs: int) -> Iterator[Result]:
    """`map(work, tasks)` by `jobs` processes, each of which gets `work` once. Tasks are drawn as results are taken."""
    if jobs == 1:
        yield from map(work, tasks)
        return
    # Spawned: a forked child of a process with threads may inherit a lock that nobody will open.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, initializer=begin, initargs=(work,)) as processes:
        under_way: deque[Future[Result]] = deque()
        try:
            for task in tasks:
                under_way.append(processes.submit(call, task))
                if len(under_way) >= AHEAD * jobs:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        except BrokenProcessPool:
            raise RegardError(
                "A worker process died, perhaps for want of memory: try again with fewer processes (--jobs 1 has none)."
            ) from None
        finally:
            processes.shutdown(wait=True, cancel_futures=True)


def begin(work: Callable[[Any], Any]) -> None:
    """In the new process: leave Ctrl-C to the parent, and end with it."""
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def call(task: Any) -> Any:
    return _work(task)
