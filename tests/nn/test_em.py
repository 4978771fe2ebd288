"""Sets under their mixtures: likelihood and one EM step against loops that follow the formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from regard.data.sets import Sets, stream
from regard.data.sets.mixtures import Mixtures
from regard.nn.em import assign, em_step, mean_log_likelihood
from regard.nn.layout import Packed, Padded
from regard.nn.mixture import Mixture


def some_sets(count: int = 3) -> tuple[Sets, Mixture]:
    sets = stream(Mixtures(5, 12, 3, 4.0, 0.5), "test", 0, 1).take(np.arange(count)).trimmed()
    weights, means, sigmas = (torch.from_numpy(sets.truth[key]) for key in ("weights", "means", "sigmas"))
    return sets, Mixture(weights.log(), means, sigmas)


def density(x: np.ndarray, mean: np.ndarray, sigma: np.ndarray) -> float:
    each = [
        math.exp(-((a - m) ** 2) / (2 * s * s)) / (s * math.sqrt(2 * math.pi))
        for a, m, s in zip(x, mean, sigma, strict=True)
    ]
    return math.prod(each)


def parts(mixture: Mixture, row: int) -> list[tuple[float, np.ndarray, np.ndarray]]:
    weights = mixture.log_weights[row].exp().tolist()
    return list(zip(weights, mixture.means[row].numpy(), mixture.sigmas[row].numpy(), strict=True))


def test_the_oracles_likelihood_is_that_of_a_loop() -> None:
    sets, mixture = some_sets()
    found = mean_log_likelihood(torch.from_numpy(sets.elements), Padded.of(sets.sizes), mixture)
    for row, size in enumerate(sets.sizes):
        points = sets.elements[row, :size]
        slow = [math.log(sum(w * density(x, m, s) for w, m, s in parts(mixture, row))) for x in points]
        assert float(found[row]) == pytest.approx(np.mean(slow), rel=1e-4)


def test_one_step_of_em_is_that_of_a_loop() -> None:
    sets, mixture = some_sets()
    found = em_step(torch.from_numpy(sets.elements), Padded.of(sets.sizes), mixture)
    for row, size in enumerate(sets.sizes):
        points = sets.elements[row, :size].astype(float)
        r = np.array([[w * density(x, m, s) for w, m, s in parts(mixture, row)] for x in points])
        r /= r.sum(axis=1, keepdims=True)
        for k in range(3):
            total = r[:, k].sum()
            if total < 0.01:  # a component without elements keeps what it was
                continue
            mean = sum(r[i, k] * points[i] for i in range(size)) / total
            variance = sum(r[i, k] * (points[i] - mean) ** 2 for i in range(size)) / total
            assert float(found.log_weights[row, k].exp()) == pytest.approx(total / size, abs=1e-5)
            assert found.means[row, k].numpy() == pytest.approx(mean, abs=1e-4)
            assert found.sigmas[row, k].numpy() == pytest.approx(np.sqrt(variance).clip(1e-3), abs=1e-3)


def test_a_step_never_makes_the_points_less_likely() -> None:
    sets, mixture = some_sets(20)
    x, layout = torch.from_numpy(sets.elements), Padded.of(sets.sizes)
    before = mean_log_likelihood(x, layout, mixture)
    after = mean_log_likelihood(x, layout, em_step(x, layout, mixture))
    assert bool((after >= before - 1e-5).all())


def test_packed_sets_give_the_same() -> None:
    sets, mixture = some_sets()
    padded, packed = Padded.of(sets.sizes), Packed.of(sets.sizes)
    x = torch.from_numpy(sets.elements)
    flat = padded.real(x)
    for ours, theirs in zip(em_step(x, padded, mixture), em_step(flat, packed, mixture), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert torch.equal(padded.real(assign(x, padded, mixture)), assign(flat, packed, mixture))


def test_a_component_that_nothing_belongs_to_keeps_what_it_was() -> None:
    x = torch.zeros(1, 4, 2)
    mixture = Mixture(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[[0.0, 0.0], [90.0, 90.0]]]), torch.ones(1, 2, 2))
    after = em_step(x, Padded.of([4]), mixture)
    assert torch.equal(after.means[0, 1], mixture.means[0, 1])
    assert bool(after.log_weights.isfinite().all())
