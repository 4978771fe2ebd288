"""Mixtures of Gaussians against torch's own distributions."""

from __future__ import annotations

import torch
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from regard.nn.layout import Packed, Padded
from regard.nn.mixture import Mixture, log_joint, log_likelihood, mixture_of


def test_likelihoods_equal_torch_s_in_both_layouts() -> None:
    torch.manual_seed(0)
    mixture, lengths = mixture_of(torch.randn(2, 3, 5)), [4, 6]
    x = torch.randn(10, 2)
    expected = torch.cat([
        MixtureSameFamily(
            Categorical(logits=mixture.log_weights[b]), Independent(Normal(mixture.means[b], mixture.sigmas[b]), 1)
        ).log_prob(part)
        for b, part in enumerate(x.split(lengths))
    ])  # fmt: skip
    packed, padded = Packed.of(lengths), Padded.of(lengths)
    torch.testing.assert_close(log_likelihood(x, packed, mixture), expected)
    torch.testing.assert_close(padded.real(log_likelihood(packed.pad(x), padded, mixture)), expected)


def test_the_nearest_component_is_the_likeliest() -> None:
    means = torch.tensor([[[0.0, 0.0], [5.0, 5.0]]])
    mixture = Mixture(torch.tensor([[0.5, 0.5]]).log(), means, torch.ones(1, 2, 2))
    found = log_joint(torch.tensor([[0.2, -0.1], [4.0, 6.0]]), Packed.of([2]), mixture)
    assert found.argmax(-1).tolist() == [0, 1]


def test_the_floor_keeps_equal_points_finite() -> None:
    outputs = torch.full((1, 1, 3), -1e4, requires_grad=True)  # a softplus of nothing
    loss = log_likelihood(torch.zeros(3, 1), Packed.of([3]), mixture_of(outputs, floor=1e-3)).sum()
    loss.backward()
    assert loss.isfinite()
    assert outputs.grad is not None
    assert outputs.grad.isfinite().all()
