"""One answer from many sides: which sides, how answers come back, and who wins."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.nn.em import assign
from regard.nn.layout import Padded
from regard.nn.mixture import Mixture
from regard.tasks.views import BETA, agreed, preferred, sides, turned_back


def heaps(*sizes: int, centres: Tensor) -> tuple[Tensor, Padded]:
    """One set of points around each of these centres."""
    torch.manual_seed(0)
    points = [centre + 0.2 * torch.randn(size, 2) for centre, size in zip(centres, sizes, strict=True)]
    return torch.cat(points)[None], Padded.of([sum(sizes)])


def around(*centres: tuple[float, float], breadth: float = 0.2) -> Mixture:
    K = len(centres)
    return Mixture(torch.full((1, K), 1 / K).log(), torch.tensor([centres]), torch.full((1, K, 2), breadth))


@pytest.mark.parametrize("count", [1, 2, 7, 8, 32])
def test_sides_are_as_many_and_each_another_and_the_first_is_the_plane_as_it_is(count: int) -> None:
    every = sides(count, torch.zeros(1))
    assert len({tuple(side.flatten().round(decimals=4).tolist()) for side in every}) == count
    torch.testing.assert_close(every[0], torch.eye(2))
    for side in every:
        torch.testing.assert_close(side @ side.T, torch.eye(2))


def test_an_answer_comes_back_to_where_the_points_are() -> None:
    """Points and centres are turned alike; what was broad along one axis is so along the other after a quarter."""
    means, sigmas = torch.randn(3, 4, 2), torch.rand(3, 4, 2) + 0.1
    for side in sides(8, means):
        back = turned_back(Mixture(torch.zeros(3, 4), means @ side.T, sigmas), side)
        torch.testing.assert_close(back.means, means)
    quarter = sides(8, means)[2]
    back = turned_back(Mixture(torch.zeros(3, 4), means, sigmas), quarter)
    torch.testing.assert_close(back.sigmas, sigmas.flip(-1))


class FromSides:
    """A network that says of each side what it is told to."""

    def __init__(self, *answers: Mixture) -> None:
        self.answers, self.asked = answers, 0

    def __call__(self, x: Tensor, layout: Padded) -> Mixture:
        side = sides(len(self.answers), x)[self.asked]
        weights, means, sigmas = self.answers[self.asked]
        self.asked += 1
        return Mixture(weights, means @ side.T, sigmas)


def test_an_answer_that_fits_wins_over_many_that_do_not() -> None:
    x, layout = heaps(40, 60, centres=torch.tensor([[-2.0, 0.0], [2.0, 1.0]]))
    right = around((-2.0, 0.0), (2.0, 1.0))
    across = around((0.0, 3.0), (0.0, -3.0), breadth=2.0)  # puts upper and lower points together
    found = agreed(FromSides(across, across, across, across, across, right, across), x, layout, 7)
    assert torch.equal(assign(x, layout, found), assign(x, layout, right))


def test_what_others_agree_on_wins_over_what_is_a_little_likelier_and_not_over_what_is_much_likelier() -> None:
    """By hand: the first of three answers is like no other, the mean of its indices 1/3, of the others' 1.9/3."""
    alike = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.9], [0.0, 0.9, 1.0]]]).expand(2, -1, -1)
    balance = (1.9 / 3 - 1 / 3) / BETA
    likelihoods = torch.tensor([[0.9 * balance, 1.1 * balance], [0.0, 0.0], [0.0, 0.0]])
    assert preferred(alike, likelihoods).tolist() == [1, 0]


def test_sets_of_a_batch_are_answered_each_for_itself() -> None:
    """Padding does not count, and which answer wins for one set says nothing about another."""
    left, _ = heaps(30, 30, centres=torch.tensor([[-2.0, 0.0], [-2.0, 3.0]]))
    right, _ = heaps(20, 20, centres=torch.tensor([[2.0, 0.0], [2.0, 3.0]]))
    x = torch.zeros(2, 60, 2)
    x[0], x[1, :40] = left[0], right[0]
    layout = Padded.of([60, 40])
    one, other = around((-2.0, 0.0), (-2.0, 3.0)), around((2.0, 0.0), (2.0, 3.0))
    pair = Mixture(*(torch.cat(parts) for parts in zip(one, other, strict=True)))
    swapped = Mixture(*(torch.cat(parts) for parts in zip(other, one, strict=True)))
    found = agreed(FromSides(swapped, pair, swapped), x, layout, 3)
    torch.testing.assert_close(found.means, pair.means, atol=0.2, rtol=0)
