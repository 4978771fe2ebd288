"""The machine a run works on: which device, how many threads, how exact."""

from __future__ import annotations

import ctypes
import os
from dataclasses import replace
from typing import TypeVar

import torch

from regard.config import TrainConfig
from regard.errors import RegardError

Train = TypeVar("Train", bound=TrainConfig)
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


def prepare(config: TrainConfig) -> torch.device:
    """Set torch up as the recipe asks, and give the device to train on."""
    if config.threads:
        torch.set_num_threads(config.threads)
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    return pick(config.device)


def pick(name: str) -> torch.device:
    """The device of this name, or the best there is. Whoever asks is about to compute there."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cpu":
        keep_freed_memory()
    torch.backends.cudnn.allow_tf32 = False  # torch's own choice for recurrent layers and images, unlike for products
    try:  # with its number: under torchrun "cuda" is this process's own GPU
        return torch.zeros((), device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = "it is not there" if name.startswith("cuda") else "it is not one of auto, cpu, cuda, cuda:0 …"
        raise RegardError(f"The device {name!r} cannot be used: {reason}.") from error


def settle(config: Train, before: TrainConfig | None) -> Train:
    """Make `auto` definite: as the run began (`before`), or for a new run as suits the device."""
    if config.precision != "auto":
        return config
    if before and before.precision != "auto":
        return replace(config, precision=before.precision)
    half = pick(config.device).type == "cuda" and torch.cuda.is_bf16_supported()
    return replace(config, precision="bfloat16" if half else "float32")


def keep_freed_memory() -> None:
    """Have the C library keep large blocks it is given back.

    By default each large activation is returned to the system and faulted in again at the next step, a good part of a
    small model's training time on a CPU, and a tenth of a beam search's (docs/log.md).
    """
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return  # not glibc
    mallopt(M_MMAP_THRESHOLD, 2**30)
    mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
