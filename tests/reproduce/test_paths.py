"""Chains counted on the autograd graph, for graphs whose chains are known, and for the layers of Table 1."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.reproduce.paths import Applications, maximum_path, sequential_steps
from regard.reproduce.sequences import Row, rows


def neighbour(xs: list[Tensor]) -> list[Tensor]:
    """Each position with the one before it."""
    x = torch.stack(xs)
    return list((x + x.roll(1, 0) * (torch.arange(len(xs)) > 0)[:, None, None]).unbind())


def test_the_shortest_of_several_ways_is_found() -> None:
    applications = Applications()
    xs = [torch.randn(1, 2, requires_grad=True) for _ in range(4)]
    (long,) = applications(lambda x: [x[0] * 2], [xs[0]])
    (longer,) = applications(lambda x: [x[0] * 2], [long])
    (end,) = applications(lambda x: [x[0] + x[1]], [longer, long])
    assert applications.shortest(end, xs[0]) == 2
    assert applications.shortest(end, xs[1]) is None
    assert applications.longest() == 3


def test_an_input_that_is_multiplied_by_zero_is_not_reached() -> None:
    applications, x = Applications(), torch.randn(1, 2, requires_grad=True)
    (y,) = applications(lambda x: [x[0] * 0.0], [x])
    assert applications.shortest(y, x) is None


def test_a_stack_of_neighbours_is_as_high_as_the_sequence_is_long() -> None:
    assert [maximum_path(lambda level: lambda xs, note: note(neighbour, xs), n) for n in (2, 5, 9)] == [1, 4, 8]


def test_a_layer_that_reaches_nobody_is_noticed() -> None:
    with pytest.raises(ValueError, match="reach farther"):
        maximum_path(lambda level: lambda xs, note: note(lambda xs: [x * 2 for x in xs], xs), 4)


@pytest.mark.parametrize("row", rows(3, 4) + rows(5, 7), ids=lambda row: row.name)
@pytest.mark.parametrize("n", [2, 9, 10, 28, 33])
def test_paths_of_table_1_are_what_the_formulas_say(row: Row, n: int) -> None:
    assert maximum_path(lambda level: row.layer(4, level).double().applied, n, 4) == row.path(n)


def test_the_formulas_for_a_few_lengths_by_hand() -> None:
    found = {row.name: [row.path(n) for n in (9, 10, 64)] for row in rows(3, 8)}
    assert found == {
        "self-attention": [1, 1, 1],
        "recurrent": [9, 10, 64],  # a cell at every position, the first and the last among them
        "convolution, k = 3": [4, 5, 32],
        "convolution, k = 3, dilated": [2, 3, 4],
        "self-attention, r = 8": [2, 3, 16],
    }


@pytest.mark.parametrize("row", rows(3, 4), ids=lambda row: row.name)
def test_only_recurrence_waits_for_itself(row: Row) -> None:
    steps = [sequential_steps(row.layer(4, 0).double().applied, n, 4) for n in (3, 12)]
    assert steps == ([3, 12] if row.name == "recurrent" else [1, 1])
