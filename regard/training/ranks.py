"""Many processes, one run: data parallelism under `torchrun` (docs/decisions/006-ranks.md).

    g = Σ over ranks of ∇ loss(this rank's sentences) / (tokens of the whole update)

The sum over ranks is one reduction after a rank's whole backward pass. How a rank came to its gradient, in how many
pieces, is its own affair. Rank 0 alone writes, validates and speaks; with one process every function here is trivial.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from regard.errors import RegardError

# The others wait this long while rank 0 validates. A rank that dies is noticed sooner, by its closed connections.
PATIENCE = timedelta(hours=6)
BUCKET = 2**25  # numbers added up at a time: few reductions, yet no second copy of all gradients


def size() -> int:
    """How many processes train together, as torchrun tells them."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1


def rank() -> int:
    return int(os.environ["RANK"]) if size() > 1 else 0


def first() -> bool:
    """Whether this process is the one that writes and speaks."""
    return rank() == 0


@contextmanager
def joined(device: str) -> Iterator[None]:
    """Be one of the processes that torchrun started, if it did; `device` as in `train.device`."""
    if size() == 1 or dist.is_initialized():
        yield
        return
    cuda = device != "cpu" and torch.cuda.is_available()
    if cuda:
        local = int(os.environ.get("LOCAL_RANK", "0"))
        if local >= torch.cuda.device_count():
            raise RegardError(
                f"There is no GPU for process {local} of this machine: give torchrun --nproc-per-node="
                f"{torch.cuda.device_count()}, or set train.device = cpu."
            )
        torch.cuda.set_device(local)
    # After a restart torchrun's store still has the addresses of processes that died: each attempt gets its own keys.
    store, rank, world = next(rendezvous("env://"))
    store = PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    # Gradients travel by nccl where they are on GPUs; what the processes agree on is on the CPU and waits for no GPU.
    backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=PATIENCE)
    try:
        yield
    finally:
        dist.destroy_process_group()


def share(batches: Sequence[np.ndarray], rank: int, world: int) -> list[np.ndarray]:
    """A rank's part of an update: whole batches where they go round evenly, else its sentences of each batch.

    The update is the same sentences whatever the number of ranks. The part may be empty.
    """
    if len(batches) % world == 0:
        return list(batches[rank::world])
    return [batch[rank::world] for batch in batches if len(batch) > rank]


def add_up(parameters: Iterable[nn.Parameter], loss: Tensor) -> None:
    """Replace gradients and loss by their sums over all ranks."""
    if size() == 1:
        return
    tensors = [loss]
    for parameter in parameters:
        if parameter.grad is None:  # a rank without a sentence
            parameter.grad = torch.zeros_like(parameter)
        tensors.append(parameter.grad)
    for bucket in buckets(tensors):
        flat = torch.cat([tensor.flatten() for tensor in bucket])
        with peers():
            dist.all_reduce(flat)
        for tensor, total in zip(bucket, flat.split([tensor.numel() for tensor in bucket]), strict=True):
            tensor.copy_(total.view_as(tensor))


def buckets(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """Neighbours together, up to BUCKET numbers; by sizes alone, so that every rank makes the same ones."""
    bucket, filled = list[Tensor](), 0
    for tensor in tensors:
        if bucket and filled + tensor.numel() > BUCKET:
            yield bucket
            bucket, filled = [], 0
        bucket.append(tensor)
        filled += tensor.numel()
    yield bucket


def lead(action: Callable[[], float | None]) -> float:
    """Rank 0 acts while the others wait; all get the number it found. Where it fails, all end."""
    if size() == 1:
        return action() or 0.0
    outcome = torch.zeros(2, dtype=torch.float64)  # whether it went well, and the number
    try:
        if first():
            outcome[1] = action() or 0.0
            outcome[0] = 1.0
    finally:
        with peers():
            dist.broadcast(outcome, 0)
    if not outcome[0]:
        raise SystemExit(1)  # rank 0 has said why
    return float(outcome[1])


def any_of(flag: bool) -> bool:
    """Whether the flag is up on any rank; the same answer on all."""
    if size() == 1:
        return flag
    flags = torch.tensor(float(flag))
    with peers():
        dist.all_reduce(flags)
    return bool(flags)


def same_weights(model: nn.Module) -> None:
    """Give every rank the weights of rank 0, in place."""
    if size() > 1:
        for parameter in model.parameters():
            with peers():
                dist.broadcast(parameter.detach(), 0)


def reseed(seed: int, step: int) -> None:
    """Random numbers of this update and rank, where there are several ranks.

    They follow from (seed, step, rank), so there are no states of many ranks to save: a run goes on exactly from any
    step. A single process goes on with the state in its checkpoint.
    """
    if size() > 1:
        torch.manual_seed(int(np.random.SeedSequence([seed, step, rank()]).generate_state(1, np.uint64)[0]))


@contextmanager
def peers() -> Iterator[None]:
    """A lost connection in a sentence: the process that ended says more."""
    try:
        yield
    except RuntimeError as error:
        raise RegardError(
            f"Rank {rank()} has lost the others: one of them ended, or the network failed. The same command goes on "
            "from the last checkpoint; torchrun --max-restarts does so by itself."
        ) from error
