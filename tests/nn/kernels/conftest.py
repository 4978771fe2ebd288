"""Triton's interpreter runs the kernels on the CPU, one program after another, in float32.

It must be asked for before a kernel is defined, so nothing else in the suite may import them earlier; on a CPU nothing
does.
"""

from __future__ import annotations

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

pytest.importorskip("triton", reason="the kernels need Triton, which is not installed")
