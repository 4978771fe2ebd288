"""What a log tells, and what it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from regard.doctor.curve import CHECKS, divergence
from regard.doctor.examine import examine
from regard.training.start import fit


def reports(*losses: float) -> list[dict[str, Any]]:
    return [{"kind": "train", "step": 10 * i, "loss": loss} for i, loss in enumerate(losses, start=1)]


@pytest.mark.parametrize("losses", [(9.2, 8.0, 6.5, 4.9), (9.0, 5.0), (4.0,), (), (9.0, 7.0, 5.0, 3.0, 9.0, 3.2)])
def test_a_loss_that_falls_has_not_diverged(losses: tuple[float, ...]) -> None:
    """However steeply and at whatever length; nor has one that jumps once."""
    assert not [found for check in CHECKS for found in check(reports(*losses), "log") if found.code == "diverged"]


def test_a_loss_that_rises_at_the_very_end_has_diverged() -> None:
    (found,) = divergence(reports(9.0, 7.0, 4.0, 8.0, 9.5), "log")
    assert found.lines == [4]


def test_a_run_that_trained_too_long_on_too_little_has_overfitted(tmp_path: Path, few: dict[str, Any]) -> None:
    """With dropout, and so not for want of it."""
    fit(few, tmp_path / "run", console=Console(quiet=True))
    found = [finding for finding in examine(tmp_path / "run") if finding.severity != "note"]
    assert [finding.code for finding in found] == ["overfitting"]
