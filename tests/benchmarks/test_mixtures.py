"""What likelihood tells of clusters, at a tiny size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import mixtures


def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarts: int) -> dict[str, list[float]]:
    out = tmp_path / str(restarts)
    arguments = ["--sets", "20", "--restarts", str(restarts), "--steps", "5", "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["mixtures.py", *arguments])
    mixtures.main()
    found: dict[str, list[float]] = json.loads((out / "mixtures.json").read_text())
    return found


def test_climbing_goes_up_and_more_climbs_go_higher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few, many = (measured(tmp_path, monkeypatch, restarts) for restarts in (1, 6))
    assert capsys.readouterr().out.count("| oracle |") == 2
    oracle = few["oracle"]
    assert many["oracle"] == oracle
    assert few["expectation maximisation from the oracle"][0] > oracle[0]
    assert few["the likeliest of 1 climbs"][0] < many["the likeliest of 6 climbs"][0]
    assert many["the likeliest of 6 climbs, true σ"][0] < many["expectation maximisation from the oracle"][0]
    assert 0.8 < oracle[1] <= 1
    assert oracle[2] == 0, "the truth has not collapsed"
    assert many["the likeliest of 6 climbs, true σ"][2] == 0
