"""The decoding benchmark from end to end at a toy size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import decoding
from benchmarks.decoders import splits

ROOT = Path(__file__).resolve().parents[2]
RUN = ("regard", "regard-ct2", "transformers", "ct2")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    pytest.importorskip("transformers")
    pytest.importorskip("ctranslate2")
    folder = tmp_path_factory.mktemp("benchmark")
    command = [
        sys.executable, "benchmarks/decoding.py", "--model", "toy", "--device", "cpu", "--threads", "1", "--sentences",
        "8", "--single", "2", "--batches", "3", "8", "--tune", "3", "--rounds", "2", "--length", "6", "--beams", "1",
        "--systems", ",".join(RUN), "--out", str(folder), "--profile",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert all(f"| {name} | 1 |" in done.stdout for name in RUN)
    for name in ("decoding.md", "decoding.png"):
        assert (folder / name).stat().st_size
    profiles = (folder / "profile.md").read_text()
    assert "8 sentences, bulk, beam 1," in profiles
    assert "| matrix products |" in profiles
    found: dict[str, Any] = json.loads((folder / "decoding.json").read_text())
    return found


def test_all_systems_translate_the_same_sentences_alike(result: dict[str, Any]) -> None:
    """The same weights, searched greedily in float32, to the same length."""
    texts = {r["system"]: r["texts"] for r in result["rounds"] if r["mode"] == "bulk" and r["round"] == 0}
    assert set(texts) == set(RUN)
    for name in RUN:
        same = sum(a == b for a, b in zip(texts[name], texts["regard"], strict=True))
        assert same >= 7, name  # rounding may decide one


def test_systems_are_asked_in_turn_another_one_first_each_time(result: dict[str, Any]) -> None:
    for mode in ("bulk", "single"):
        rounds = [r for r in result["rounds"] if r["mode"] == mode]
        assert [r["system"] for r in rounds if r["round"] == 0] == list(RUN)
        assert [r["system"] for r in rounds if r["round"] == 1] == [*RUN[1:], RUN[0]]
        assert {r["sentences"] for r in rounds} == {8 if mode == "bulk" else 2}


def test_each_system_has_the_batch_that_suits_it(result: dict[str, Any]) -> None:
    assert set(result["best"]) == {f"{name} {mode} 1" for name in RUN for mode in ("bulk", "single")}
    assert all(best["batch"] in (3, 8) for key, best in result["best"].items() if "bulk" in key)
    assert splits("ct2-int8", 2, "cpu") == [(2, 1), (1, 2)]
    assert splits("transformers", 2, "cpu") == [(1, 2)]


def test_ratios_are_of_the_same_round() -> None:
    seconds = {"regard": (1.0, 10.0, 2.0), "transformers": (2.0, 30.0, 8.0)}
    rounds = [
        {"system": name, "mode": "bulk", "beam": 4, "round": i, "seconds": taken}
        for name, every in seconds.items()
        for i, taken in enumerate(every)
    ]
    assert decoding.ratio({"rounds": rounds}, "regard", "transformers", "bulk", 4) == [2.0, 3.0, 4.0]
    assert decoding.ratio({"rounds": rounds}, "regard", "ct2", "bulk", 4) == []
