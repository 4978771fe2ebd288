"""What a device is set up for."""

from __future__ import annotations

import pytest
import torch

from regard.training.device import pick


def test_float32_is_not_rounded_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    pick("cpu")
    assert not torch.backends.cudnn.allow_tf32
    assert not torch.backends.cuda.matmul.allow_tf32
