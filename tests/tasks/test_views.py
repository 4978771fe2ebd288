"""One answer from many sides: which sides, how answers come back, how broad clusters are, and who wins."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.evaluate.clustering import adjusted_rand_index
from regard.nn.em import assign, em_step
from regard.nn.layout import Padded
from regard.nn.mixture import Mixture
from regard.tasks.views import likeliest_of_views, sides, turned_back


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
    centres = (-3.0, 0.0), (3.0, -1.0), (3.0, 1.0)
    x, layout = heaps(60, 40, 40, centres=torch.tensor(centres))
    right, wrong = around(*centres), around((-3.2, 0.0), (-2.8, 0.0), (3.0, 0.0))  # no step leads from there
    found = likeliest_of_views(FromSides(wrong, wrong, wrong, wrong, right, wrong), x, layout, 6)
    assert torch.equal(assign(x, layout, found), assign(x, layout, right))


def test_clusters_are_as_broad_as_most_answers_say_whatever_the_points_would_like() -> None:
    """Three points at one place are likelier with a component of their own that is as narrow as it likes."""
    x, layout = heaps(60, 60, centres=torch.tensor([[-2.0, 0.0], [2.0, 1.0]]))
    x[0, :3] = x[0, 0]
    right = around((-2.0, 0.0), (2.0, 1.0))
    means = torch.stack([x[:, 3:].mean(dim=1), x[:, 0]], dim=1)
    collapsed = Mixture(right.log_weights, means, torch.tensor([[[2.0, 0.6], [1e-3, 1e-3]]]))
    found = likeliest_of_views(FromSides(collapsed, right, right), x, layout, 3)
    torch.testing.assert_close(found.sigmas, torch.full((1, 2, 2), 0.2))
    assert adjusted_rand_index(assign(x, layout, found)[0].numpy(), assign(x, layout, right)[0].numpy()) == 1


def test_answers_climb_while_breadth_stays() -> None:
    """Two heaps that overlap, from centres beside theirs: the centres of ten steps by hand, in which σ has no part."""
    x, layout = heaps(50, 20, centres=torch.tensor([[0.0, 0.0], [0.6, 0.0]]))
    begun = around((-0.3, 0.1), (1.0, 0.2))
    points, centres, weights = x[0].double(), begun.means[0].double(), torch.full((2,), 0.5, dtype=torch.float64)
    for _ in range(10):
        distance = ((points[:, None] - centres) / 0.2).square().sum(dim=2)
        r = (weights.log() - distance / 2).softmax(dim=1)
        weights, centres = r.mean(dim=0), r.T @ points / r.sum(dim=0)[:, None]
    found = likeliest_of_views(FromSides(begun), x, layout, 1)
    torch.testing.assert_close(found.means[0].double(), centres, atol=1e-4, rtol=0)
    torch.testing.assert_close(found.log_weights[0].exp().double(), weights, atol=1e-4, rtol=0)
    free = begun
    for _ in range(10):
        free = em_step(x, layout, free)
    assert (free.means[0].double() - centres).abs().max() > 0.01


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
    found = likeliest_of_views(FromSides(swapped, pair, swapped), x, layout, 3)
    torch.testing.assert_close(found.means, pair.means, atol=0.2, rtol=0)
