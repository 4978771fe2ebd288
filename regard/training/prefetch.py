"""The next update ready when the present one ends: a thread makes batches while a GPU computes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

T = TypeVar("T")
READY = 2  # updates made ahead, so that a large one after a small one is not waited for


@contextmanager
def ahead(items: Iterator[T], device: torch.device) -> Iterator[Iterator[T]]:
    """The same items, made by a thread where a GPU does the work.

    On a CPU a thread would take time from the computation, so they are made when asked for. What goes wrong in the
    thread is raised where the item is taken; the thread ends with the block.
    """
    if device.type == "cpu":
        yield items
        return

    def start() -> None:
        if device.type == "cuda":
            torch.cuda.set_device(device)  # a thread begins at GPU 0, and pinning memory would wake it

    def taken() -> Iterator[T]:
        coming = deque(pool.submit(next, items, None) for _ in range(READY))
        while (item := coming.popleft().result()) is not None:
            coming.append(pool.submit(next, items, None))
            yield item

    pool = ThreadPoolExecutor(1, "batches", start)
    try:
        yield taken()
    finally:
        pool.shutdown(cancel_futures=True)
