"""Sets of images: *Set Transformer*, §5.2 and §5.5: convolutions for each image, then a set model.

Departure from the paper: it does not say how the outputs of the anomaly model, 256 numbers for each of eight places,
become scores. `OutlierFinder` gives one vector for what a set has in common; an image is scored by how far its own
vector is from it, so scores go with the images wherever they stand.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from regard.config.set_tasks import ImagesConfig
from regard.config.sets import SetTransformerConfig
from regard.models.set_transformer import SetTransformer
from regard.nn.batch_norm import BatchNorm
from regard.nn.dropout import dropout
from regard.nn.layout import Layout


class ImageEncoder(nn.Module):
    """An image as a vector: 3×3 convolutions of stride 2, then linear maps.

    Batch statistics are taken over all images of a batch, so with `batch_norm` sets must be trained without padding.
    """

    def __init__(self, config: ImagesConfig, side: int, colours: int) -> None:
        super().__init__()
        self.config, self.grey = config, colours == 1
        channels = [colours, *(config.channels * config.growth**i for i in range(config.n_convolutions))]
        self.convolutions = nn.ModuleList(
            nn.Conv2d(d_in, d_out, 3, stride=2, padding=1) for d_in, d_out in pairwise(channels)
        )
        self.norms = nn.ModuleList(BatchNorm(width) if config.batch_norm else nn.Identity() for width in channels[1:])
        for _ in range(config.n_convolutions):
            side = (side + 1) // 2
        widths = [channels[-1] * side * side]
        width = config.hidden
        while width > config.d_out:
            widths.append(width)
            width //= 2
        if config.hidden:
            widths += [config.d_out, config.d_out]
        self.maps = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))
        self.d_out = widths[-1]

    def forward(self, images: Tensor) -> Tensor:
        """images: (…, side, side, colours), or (…, side, side) where there is but one, bytes → (…, d_out)."""
        if self.grey:
            images = images[..., None]
        leading = images.shape[:-3]
        images = images.reshape(math.prod(leading), *images.shape[-3:])  # of no images a −1 would be ambiguous
        x = images.permute(0, 3, 1, 2).float() / 255
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = F.relu(self.drop(norm(convolution(x))))
        x = x.flatten(1)
        for number, part in enumerate(self.maps, start=1):
            x = part(x)
            if number < len(self.maps):
                x = self.drop(F.relu(x))
        return x.view(*leading, self.d_out)

    def drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.config.dropout) if self.training else x


class ImageSetTransformer(nn.Module):
    """A set model on the vectors of images."""

    def __init__(self, images: ImagesConfig, config: SetTransformerConfig, side: int, colours: int, d_out: int) -> None:
        super().__init__()
        self.images = ImageEncoder(images, side, colours)
        self.sets = SetTransformer(config, self.images.d_out, d_out)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """x: (B, N, side, side[, colours]) in a padded layout → (B, n_outputs, d_out)."""
        return self.sets(self.images(x), layout)


class OutlierFinder(nn.Module):
    """How far each image is from what its set has in common."""

    def __init__(self, images: ImagesConfig, config: SetTransformerConfig, side: int, colours: int) -> None:
        super().__init__()
        self.images = ImageEncoder(images, side, colours)
        self.sets = SetTransformer(config, self.images.d_out, self.images.d_out)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """x: (B, N, side, side[, colours]) in a padded layout → (B, N) scores, the lowest possible at padding."""
        # To one length: where all vectors begin small and alike, distances would teach nothing for long.
        vectors = F.layer_norm(self.images(x), (self.images.d_out,))  # (B, N, D)
        common = self.sets(vectors, layout).mean(dim=1)  # (B, D)
        scores = (vectors - common[:, None]).square().sum(dim=-1) / math.sqrt(vectors.shape[-1])
        return scores if layout.full else scores.masked_fill(~layout.mask, float("-inf"))
