"""Alignment error rate."""

from __future__ import annotations

import pytest

from regard.evaluate.alignment import alignment_error_rate


def test_perfect_half_and_empty_alignments() -> None:
    truth = [[(0, 0), (1, 2)], [(0, 1)]]
    assert alignment_error_rate(truth, truth).value == 0.0
    # Three true links; three found, of which two are right: 1 − 2·2 / (3 + 3).
    assert alignment_error_rate([[(0, 0), (1, 1)], [(0, 1)]], truth).value == pytest.approx(100 / 3)
    assert alignment_error_rate([[], []], truth).value == 100.0
