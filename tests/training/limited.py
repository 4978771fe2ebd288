"""Train a recipe in a process whose memory is limited on the way: `limited.py RECIPE_JSON RUN [STEP SHARE]`.

Before update STEP the kernel's limit on the address space is set to what the process has now, plus SHARE of what its
largest batch took when it was rehearsed. From then on torch's allocator is refused memory as on a full machine.
Freed blocks go back to the system at once (the caller sets MALLOC_MMAP_THRESHOLD_), so that the limit bites. Prints
one JSON line: the loss of every update, the sentences used, and how many batches were computed.
"""

import json
import resource
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from regard.training import device
from regard.training.loop import Loop
from regard.training.start import fit

device.keep_freed_memory = lambda: None
update, gradient, forget = Loop.update, Loop.gradient, Loop.forget
losses: list[float] = []  # of the updates
used: list[list[int]] = []  # the sentences whose gradients the updates are made of
attempt: list[int] = []  # the sentences of the present attempt at an update
sizes: list[int] = []  # of the batches computed


def megabytes(key: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(key))) / 1024


def watched(loop: Loop[Any], batches: list[Any], step: int, n_tokens: int | None = None) -> float:
    if len(sys.argv) > 3 and step == int(sys.argv[3]):
        room = float(sys.argv[4]) * (megabytes("VmPeak") - megabytes("VmSize"))
        limit = int((megabytes("VmSize") + room) * 2**20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    rate = update(loop, batches, step, n_tokens)
    losses.append(float(loop.update_loss))
    used.append(sorted(attempt))
    return rate


def counted(loop: Loop[Any], batch: Any, n_tokens: int) -> None:
    gradient(loop, batch, n_tokens)
    attempt.extend(batch.numbers.tolist())
    sizes.append(len(batch.numbers))


def fresh(loop: Loop[Any]) -> None:
    attempt.clear()
    forget(loop)


Loop.update, Loop.gradient, Loop.forget = watched, counted, fresh  # type: ignore[method-assign,assignment]

if __name__ == "__main__":
    fit(json.loads(sys.argv[1]), sys.argv[2], console=Console(stderr=True, width=300))
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(json.dumps({"losses": losses, "used": used, "batches": len(sizes)}))
