"""The serving benchmark from end to end at a toy size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.serving import ratios
from regard.data.corpus import Corpus

ROOT = Path(__file__).resolve().parents[2]


def test_both_ways_of_serving_are_measured(reverser: Path, reverser_test: Corpus, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("\n".join(reverser_test.source[:30]) + "\n")
    command = [
        sys.executable, "benchmarks/serving.py", str(reverser), "--pair", "en-de", "--text", str(text),
        "--clients", "4", "--seconds", "1", "--rounds", "1", "--out", str(tmp_path),
    ]  # fmt: skip
    result = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert result.returncode == 0, result.stderr
    rounds = json.loads((tmp_path / "serving.json").read_text())
    assert [row["way"] for row in rounds] == ["batched", "one at a time"]
    for row in rounds:
        assert row["statuses"] == {"200": row["requests"]}
        assert row["exit"] == 0
        assert row["wrong"] == 0
        assert row["cpu_seconds"] > 0
        assert row["memory_mib"]
    assert len(ratios(rounds, "per_second")) == 1
    assert "By processor time: batched is" in (tmp_path / "serving.md").read_text()
