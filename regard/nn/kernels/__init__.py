"""Triton kernels: functions of `regard.nn` again, for a GPU, in fewer passes over memory.

Each file holds one idea, forward and backward, behind a function with the signature of the plain one. Nothing here
is imported unless a tensor lies on a GPU (or a test runs Triton's interpreter).
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor


@cache
def installed() -> bool:
    return find_spec("triton") is not None


def usable(x: Tensor) -> bool:
    """Whether the kernels can take the place of torch's operations on x."""
    return x.is_cuda and x.dtype != torch.float64 and installed()
