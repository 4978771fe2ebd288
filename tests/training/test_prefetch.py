"""Batches made ahead: the same ones in order, errors where they are taken, no thread left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import torch

from regard.training.prefetch import READY, ahead

CPU = torch.device("cpu")
ELSEWHERE = torch.device("meta")  # a device that is not the CPU, on a machine without a GPU


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("batches")]


@pytest.mark.parametrize("device", [CPU, ELSEWHERE], ids=str)
def test_the_items_come_once_each_in_order(device: torch.device) -> None:
    with ahead(iter(range(1, 50)), device) as items:
        assert list(items) == list(range(1, 50))
    assert not threads()


def test_the_next_ones_are_made_while_one_is_used() -> None:
    made: list[int] = []

    def make() -> Iterator[int]:
        for i in range(1, 100):
            made.append(i)
            yield i

    with ahead(make(), ELSEWHERE) as items:
        next(items)
        deadline = time.monotonic() + 10
        while len(made) < 1 + READY and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.01)
        assert len(made) <= 1 + READY  # and no more than that
    assert len(made) >= READY


def test_on_a_cpu_nothing_is_made_before_it_is_asked_for() -> None:
    made: list[int] = []
    with ahead((made.append(i) or i for i in range(9)), CPU) as items:  # type: ignore[func-returns-value]
        next(items)
        assert made == [0]
        assert not threads()


def test_what_goes_wrong_is_raised_where_the_item_is_taken() -> None:
    def make() -> Iterator[int]:
        yield 1
        raise ValueError("a bad batch")

    with ahead(make(), ELSEWHERE) as items:
        assert next(items) == 1
        with pytest.raises(ValueError, match="a bad batch"):
            next(items)
    assert not threads()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_the_thread_ends_with_the_loop(error: type[BaseException]) -> None:
    def endless() -> Iterator[int]:
        while True:
            yield 1

    def loop() -> None:
        with ahead(endless(), ELSEWHERE) as items:
            next(items)
            assert threads()
            raise error

    with pytest.raises(error):
        loop()
    assert not threads()
