"""Table 1 of the Transformer paper, measured at tiny sizes: what is exact must be exact."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from regard.errors import RegardError
from regard.reproduce import table1
from regard.reproduce.fits import exponent, fitted
from regard.reproduce.measuring import operations, peak_memory, seconds
from regard.reproduce.sequences import Row, rows

TINY = table1.Sizes(lengths=(16, 32), width=8, widths=(8, 16), length=16, paths=(4, 8), r=4, repeats=1)


@pytest.fixture(scope="module")
def found() -> list[table1.Measured]:
    return table1.measure(TINY, torch.device("cpu"))


@pytest.mark.parametrize("row", rows(3, 4) + rows(5, 8), ids=lambda row: row.name)
@pytest.mark.parametrize(("n", "d"), [(16, 8), (32, 8), (40, 64), (16, 128)])
def test_counted_operations_are_the_formulas(row: Row, n: int, d: int) -> None:
    forward, backward = table1.counted_operations(row, n, d)
    assert forward == row.operations(n, d)
    # Backward there are two products for each, one for either factor; the first state of an RNN wants none.
    assert 2 * forward - backward == (2 * d * d if row.name == "recurrent" else 0)


def test_the_formulas_have_the_papers_exponents() -> None:
    for row in rows(3, 4):
        assert row.operations(2048, 64) / row.operations(1024, 64) == 2**row.in_n
        assert row.operations(64, 2048) / row.operations(64, 1024) == 2**row.in_d


def test_attention_costs_as_much_as_recurrence_where_n_is_d() -> None:
    attention, recurrence = rows(3, 4)[:2]
    assert attention.operations(64, 64) == recurrence.operations(64, 64)
    assert attention.operations(63, 64) < recurrence.operations(63, 64)
    assert attention.operations(65, 64) > recurrence.operations(65, 64)


@pytest.mark.parametrize("row", rows(3, 4), ids=lambda row: row.name)
def test_what_is_counted_computes_what_is_timed(row: Row) -> None:
    torch.manual_seed(0)
    layer, x = row.layer(8, 1), torch.randn(2, 12, 8)
    torch.testing.assert_close(layer.counted(x), layer(x))


def test_an_exponent_is_read_from_the_largest_sizes() -> None:
    sizes = [2, 4, 8, 16, 32]
    assert exponent(sizes, [9.0, 9.0, *(5 * n**1.5 for n in sizes[2:])]) == pytest.approx(1.5)
    assert fitted(sizes) == (8, 32)


def test_memory_is_what_lives_at_once() -> None:
    class Squares(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(3):
                x = x * x
            return x

    x = torch.randn(1000, requires_grad=True)
    # Three squares, and backward the gradient's two halves, one for each factor, the first of which becomes their sum.
    numbers = peak_memory(Squares(), x) / 4000
    assert numbers == 5
    twice = torch.randn(2000, requires_grad=True)
    assert peak_memory(Squares(), twice) / 8000 == numbers


def test_operations_are_counted_forward_and_backward() -> None:
    weight = torch.empty(3, 5, device="meta", requires_grad=True)
    x = torch.empty(7, 3, device="meta", requires_grad=True)
    assert operations(lambda x: x @ weight, x) == (2 * 7 * 3 * 5, 2 * 2 * 7 * 3 * 5)


def test_times_are_positive_and_gradients_do_not_add_up() -> None:
    layer, x = nn.Linear(4, 4), torch.randn(2, 4, requires_grad=True)
    found = []
    for repeats in (3, 8):
        torch.manual_seed(0)  # the gradient that comes in is drawn
        assert min(seconds(layer, x, repeats)) > 0
        assert x.grad is not None
        assert layer.weight.grad is not None
        found.append((x.grad.clone(), layer.weight.grad.clone()))
    for once, again in zip(*found, strict=True):
        assert torch.equal(once, again)


def test_the_table_is_written_with_its_picture_and_figures(found: list[table1.Measured], tmp_path: Path) -> None:
    table1.write(found, TINY, "cpu", tmp_path)
    record = json.loads((tmp_path / "table-1.json").read_text(encoding="utf-8"))
    layers = {layer["layer"]: layer for layer in record["layers"]}
    assert layers["recurrent"]["maximum_path"] == {"4": 4, "8": 8}
    assert layers["self-attention"]["sequential_steps"] == {"4": 1, "8": 1}
    assert layers["self-attention"]["exponents_in_n"]["operations"] == pytest.approx(2)
    assert layers["convolution, k = 3"]["exponents_in_d"]["operations"] == pytest.approx(2)
    assert all(math.isfinite(x) for x in layers["recurrent"]["exponents_in_n"].values())
    text = (tmp_path / "table-1.md").read_text(encoding="utf-8")
    assert "| self-attention, r = 4 | O(r·n·d) | n^1.00 · d^1.00 |" in text
    assert "between 16 and 32 at d = 8" in text
    one = found[1].by_length[0]  # of the recurrent layer
    assert f"| recurrent | {4 * 16 * 8 * 8 / one.forward / 1e9:.1f} |" in text
    assert (tmp_path / "table-1.png").read_bytes()[:4] == b"\x89PNG"


def test_deviations_are_those_beyond_the_tolerance(found: list[table1.Measured]) -> None:
    assert len(table1.deviations(found, tolerance=0.0)) == 8
    assert table1.deviations(found, tolerance=100.0) == []


def test_times_that_are_too_short_are_said_to_be(found: list[table1.Measured]) -> None:
    slow = [replace(cost, forward=1.0) for cost in found[0].by_length]
    told = table1.deviations([replace(found[0], by_length=slow)], tolerance=0.0)
    in_n, in_d = (next(line for line in told if f"grows with {name}^" in line) for name in "nd")
    assert "too short to tell" not in in_n
    assert "ms at most, too short to tell" in in_d


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lengths": (8,)}, "--sizes needs two or more growing numbers"),
        ({"widths": (16, 8)}, "--widths needs two or more growing numbers"),
        ({"paths": (1, 2)}, "--paths needs two or more growing numbers of at least 2"),
        ({"k": 1}, "--k 1 must be at least 2"),
        ({"r": 0}, "--r 0 must be at least 2"),
    ],
)
def test_sizes_that_show_no_growth_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        table1.Sizes(**wrong)
