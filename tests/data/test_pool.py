"""Work over several processes: in order, a little ahead, and not outliving the one who asked."""

from __future__ import annotations

import operator
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial

import pytest

from regard.data.pool import AHEAD, in_order
from regard.errors import RegardError


@pytest.mark.parametrize("jobs", [1, 3])
def test_results_come_in_the_order_of_the_tasks(jobs: int) -> None:
    assert list(in_order(partial(pow, 2), range(60), jobs)) == [2**i for i in range(60)]


def test_tasks_are_drawn_as_results_are_taken() -> None:
    drawn = 0

    def tasks() -> Iterator[int]:
        nonlocal drawn
        for i in range(1000):
            drawn += 1
            yield i

    results = in_order(operator.neg, tasks(), 2)
    for taken in range(1, 20):
        next(results)
        assert drawn <= taken + 2 * AHEAD
    results.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_mistake_in_a_task_is_raised_here(jobs: int) -> None:
    with pytest.raises(TypeError, match="bad operand"):
        list(in_order(operator.neg, [1, "x"], jobs))  # type: ignore[list-item]


def test_a_process_that_dies_is_said_in_a_sentence() -> None:
    with pytest.raises(RegardError, match="A worker process died"):
        list(in_order(os._exit, [1], 2))


def test_the_processes_end_with_their_parent() -> None:
    code = """
import multiprocessing, time
from regard.data.pool import in_order
def tasks():
    yield 0
    yield 0
    for _ in range(6):
        yield 600
results = in_order(time.sleep, tasks(), 2)
next(results)
print(*(child.pid for child in multiprocessing.active_children()), flush=True)
next(results)
next(results)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        children = [int(word) for word in parent.stdout.readline().split()]
        assert len(children) == 2
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while any(running(child) for child in children):
        assert time.monotonic() < deadline, "the workers outlive their parent"
        time.sleep(0.05)


def running(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
