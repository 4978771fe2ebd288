"""Sets of images: scores go with the images, padding changes nothing, layers are those of the supplement."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.config import SetTransformerConfig
from regard.config.set_tasks import ImagesConfig
from regard.models.image_sets import ImageEncoder, ImageSetTransformer, OutlierFinder
from regard.nn.layout import Padded

SETS = SetTransformerConfig(encoder="sab", n_layers=1, d_model=16, n_heads=2, n_seeds=2)
SMALL = ImagesConfig(n_convolutions=2, channels=4, hidden=16, d_out=8)


def images(B: int, N: int, side: int = 12, colours: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (B, N, side, side, colours), dtype=torch.uint8, generator=generator)


def test_the_papers_convolutions_and_linear_maps() -> None:
    characters = ImageEncoder(ImagesConfig(), 28, 1)
    assert [tuple(part.weight.shape) for part in characters.convolutions] == [(64, 1, 3, 3)] + [(64, 64, 3, 3)] * 3
    assert (characters.d_out, len(characters.maps)) == (2 * 2 * 64, 0)
    faces = ImageEncoder(ImagesConfig(3, 32, 2, batch_norm=False, hidden=1024, d_out=256), 40, 3)
    assert [part.out_channels for part in faces.convolutions] == [32, 64, 128]
    assert [part.out_features for part in faces.maps] == [1024, 512, 256, 256]


def test_images_may_be_as_narrow_as_colours_are_few() -> None:
    torch.manual_seed(0)
    grey = torch.randint(0, 256, (2, 5, 4, 4), dtype=torch.uint8)
    assert ImageEncoder(SMALL, 4, 1).eval()(grey).shape == (2, 5, 8)
    six_bands = torch.randint(0, 256, (2, 5, 4, 4, 6), dtype=torch.uint8)
    assert ImageEncoder(SMALL, 4, 6).eval()(six_bands).shape == (2, 5, 8)


def test_scores_go_with_the_images_wherever_they_stand() -> None:
    torch.manual_seed(0)
    model = OutlierFinder(SMALL, SETS, 12, 3).eval()
    x, order = images(2, 5), torch.tensor([3, 0, 4, 2, 1])
    scores, moved = model(x, Padded.of([5, 5])), model(x[:, order], Padded.of([5, 5]))
    torch.testing.assert_close(scores[:, order], moved, atol=1e-5, rtol=1e-4)


def test_padding_changes_nothing_and_is_never_the_outlier() -> None:
    torch.manual_seed(0)
    model = OutlierFinder(SMALL, SETS, 12, 3).eval()
    x = images(2, 5)
    padded = model(x, Padded.of([5, 3]))
    torch.testing.assert_close(padded[1:, :3], model(x[1:, :3], Padded.of([3])), atol=1e-5, rtol=1e-4)
    assert bool((padded[1, 3:] == float("-inf")).all())


def test_statistics_are_gathered_in_training_and_used_in_testing() -> None:
    torch.manual_seed(0)
    model = ImageSetTransformer(ImagesConfig(n_convolutions=1, channels=4), SETS, 12, 1, 1)
    x, layout = images(4, 3, colours=1)[..., 0], Padded.of([3] * 4)
    before = model.eval()(x, layout)
    model.train()(x, layout)
    norm = model.images.norms[0]
    seen = model.images.convolutions[0](x.reshape(-1, 1, 12, 12).float() / 255).transpose(0, 1).flatten(1)
    torch.testing.assert_close(norm.running_mean, 0.1 * seen.mean(dim=1))
    assert not torch.equal(model.eval()(x, layout), before)


def test_empty_sets_of_images_have_finite_values_and_gradients() -> None:
    """Alone, where no image is computed at all, and beside others."""
    torch.manual_seed(0)
    for config in (SMALL, ImagesConfig(n_convolutions=1, channels=4)):  # the second with batch statistics
        counter, finder = ImageSetTransformer(config, SETS, 12, 3, 1).eval(), OutlierFinder(config, SETS, 12, 3).eval()
        for sizes in ([0], [0, 0], [2, 0]):
            x, layout = images(len(sizes), max(sizes)), Padded.of(sizes)
            out, scores = counter(x, layout), finder(x, layout)
            assert out.shape == (len(sizes), 2, 1)
            assert out.isfinite().all()
            assert scores.shape == (len(sizes), max(sizes))
            assert scores[layout.mask].isfinite().all()
            (out.square().sum() + scores[layout.mask].sum()).backward()
        found = [
            parameter.grad for parameter in (*counter.parameters(), *finder.parameters()) if parameter.requires_grad
        ]
        assert all(gradient is not None and gradient.isfinite().all() for gradient in found)
