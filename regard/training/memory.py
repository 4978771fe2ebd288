"""Memory that cannot surprise: a batch that does not fit is computed in parts, and the gradient is the same.

The loss is a sum over sentences, divided by the tokens of the whole update, so it can be cut between any two
sentences. What was learned about the size that fits is kept for later batches. Before the first step the largest batch
of the epoch is tried, so that a lack of memory shows at once and not in the night.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Generic

import numpy as np
import torch

from regard.errors import RegardError
from regard.tasks.task import B, Task

# Allocators have no exception of their own on a CPU.
SIGNS = ("DefaultCPUAllocator", "not enough memory", "can't allocate memory", "bad_alloc")


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on a GPU, in torch's CPU allocator or in Python."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


class Fitting(Generic[B]):
    """Cuts batches to what the memory of a device holds, as far as that is known."""

    def __init__(
        self,
        task: Task[B],
        device: torch.device,
        tell: Callable[[str], None],
        release: Callable[[], None] | None = None,
    ) -> None:
        """`release` gives back memory that is held for speed alone."""
        self.task, self.device, self.tell, self.release = task, device, tell, release
        self.limit = math.inf  # positions, padding included, that a batch may have

    def each(self, batches: list[B], begin: Callable[[], None], compute: Callable[[B], None]) -> None:
        """`begin()`, then `compute` for every batch; where one does not fit, all again in smaller parts."""
        before, release = self.limit, self.release
        while (failed := self.attempt(batches, begin, compute)) is not None:
            if release:  # once: what did not fit beside it may fit without it
                release()
                release = None
            else:
                self.lower(failed)
            torch.cuda.empty_cache()
        if self.limit < before:
            self.tell(
                f"Batches of more than {self.limit:,.0f} positions do not fit into memory: they are "
                "computed in parts, with the same gradient."
            )

    def attempt(self, batches: list[B], begin: Callable[[], None], compute: Callable[[B], None]) -> np.ndarray | None:
        """The numbers of the batch that did not fit, or nothing. The error, which holds on to memory, ends here."""
        begin()
        for batch in batches:
            pieces = self.pieces(batch.numbers)
            for numbers in pieces:
                try:
                    compute(batch if len(pieces) == 1 else self.task.batch(numbers, self.device))
                except (RuntimeError, MemoryError) as error:
                    if not out_of_memory(error):
                        raise
                    return numbers
        return None

    def pieces(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Sentences in groups within the limit; a sentence alone is never refused."""
        if len(numbers) == 1 or self.task.order.positions(numbers) <= self.limit:
            return [numbers]
        return [piece for half in np.array_split(numbers, 2) for piece in self.pieces(half)]

    def lower(self, failed: np.ndarray) -> None:
        """Learn that these sentences do not fit together."""
        positions = self.task.order.positions(failed)
        if len(failed) == 1:
            raise RegardError(
                f"A single example of {positions:,} tokens does not fit into memory: set train.recompute = true, or a "
                "data.max_length below its length."
            )
        # A little more than half: two halves of a batch of this size pass, one row of padding more or less.
        self.limit = 0.75 * positions

    def rehearse(self, batch: B, begin: Callable[[], None], compute: Callable[[B], None], reserve: int) -> None:
        """Compute a batch for its memory alone, and leave no trace but a limit where it did not fit.

        `reserve`: how many numbers training will hold that are not there yet, such as the optimiser's moments.
        """
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            later = torch.empty(reserve, device=self.device)
            self.each([batch], begin, compute)
        del later
        begin()
