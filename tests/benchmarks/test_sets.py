"""Growth of time and memory with the size of a set, measured at tiny sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.sets import PEER, SYSTEMS, Setting, describe, draw, exponents, markdown, measure, run, sizes

TINY = Setting(d_model=8, n_heads=2, n_inducing=3, threads=1)


@pytest.mark.parametrize("name", [name for name in SYSTEMS if name != PEER])
def test_every_system_of_ours_is_measured(name: str) -> None:
    point = measure(name, 20, TINY)
    assert point["n"] == 20
    assert point["seconds"] > 0
    assert point["bytes"] > 0


def test_the_slope_of_a_power_is_its_exponent() -> None:
    points = [{"n": n, "seconds": 3e-6 * n**2, "processor": 1e-6 * n**2, "bytes": 5 * n} for n in sizes(10_000)]
    assert exponents(points) == pytest.approx({"seconds": 2, "processor": 2, "bytes": 1})
    assert set(exponents(points[:2]).values()) == {None}


def test_sizes_go_up_by_half_powers_of_ten() -> None:
    assert sizes(1_000_000) == [100, 316, 1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000]


def test_a_run_leaves_a_table_a_picture_and_why_a_curve_ended(tmp_path: Path) -> None:
    result = run(TINY, ["ISAB", "nonsense"], [10], tmp_path)
    assert [point["n"] for point in result["curves"]["ISAB"]["points"]] == [10]
    assert "KeyError" in result["curves"]["nonsense"]["ended"]
    assert json.loads((tmp_path / "sets.json").read_text())["curves"].keys() == {"ISAB", "nonsense"}
    assert "| ISAB | " in (tmp_path / "sets.md").read_text()
    assert (tmp_path / "sets.png").stat().st_size > 10_000


def test_exponents_are_shown(tmp_path: Path) -> None:
    points = [{"n": n, "seconds": 1e-5 * n, "processor": 1e-5 * n, "bytes": 1000 * n} for n in sizes(10_000)]
    curve = {"points": points, "ended": "", "exponents": exponents(points)}
    result = {
        "setting": vars(TINY), "precision": "float32", "machine": "a machine", "versions": {}, "difference": None,
        "curves": {"ISAB": curve},
    }  # fmt: skip
    assert "n^1.00 | n^1.00" in markdown(result)
    draw(result, tmp_path / "sets.png")


def test_our_network_and_pyg_s_compute_the_same() -> None:
    assert describe(TINY)["difference"] < 1e-5
