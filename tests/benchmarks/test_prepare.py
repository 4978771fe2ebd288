"""The benchmark of preparing data runs, and what it reports is what happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.prepare import tree_mib
from regard.data.generated import generate

ROOT = Path(__file__).parents[2]


def test_the_benchmark_writes_a_row_for_each_size(tmp_path: Path) -> None:
    pairs = generate("en-de", "train", 400)
    (tmp_path / "train.en").write_text("".join(f"{pair.source}\n" for pair in pairs), encoding="utf-8")
    (tmp_path / "train.de").write_text("".join(f"{pair.target}\n" for pair in pairs), encoding="utf-8")
    command = [
        sys.executable, "benchmarks/prepare.py", "--data", str(tmp_path), "--out", str(tmp_path / "results"),
        "--sizes", "300", "400", "--vocab-size", "300", "--jobs", "1",
    ]  # fmt: skip
    subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": "."}, check=True, capture_output=True)
    table = (tmp_path / "results" / "prepare.md").read_text(encoding="utf-8")
    assert [row.split("|")[1:3] for row in table.splitlines() if row.startswith("| 3") or row.startswith("| 4")] == [
        [" 300 ", " 300 "], [" 400 ", " 400 "]
    ]  # fmt: skip
    for run in json.loads((tmp_path / "results" / "prepare.json").read_text()):
        assert run["learned"]["report"]["seconds"]["tokenizer"] > 0
        assert run["given"]["peak_mib"] > 10


def test_memory_is_that_of_the_whole_family() -> None:
    alone = tree_mib(os.getpid())
    with subprocess.Popen([sys.executable, "-c", "x = bytearray(b'1') * 50_000_000; print(flush=True); input()"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:  # fmt: skip
        assert child.stdout
        child.stdout.readline()
        assert tree_mib(os.getpid()) > alone + 40
        child.communicate(b"\n")
