"""Counting unique characters: *Set Transformer*, §5.2, on Omniglot (Lake et al., 2015).

    n ~ U{smallest..largest}   c ~ U{1..n}   c different characters, each at least once; the target is c

The paper splits by character and does not say where; here the characters are put into a fixed random order and cut into
`PARTS`. All images of a set are by different drawers, so that no image comes twice. As in the paper's released code for
other tasks, the sets of a batch share their size: the convolutions before the set model have batch statistics, which
padding would spoil.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from zipfile import BadZipFile

import numpy as np

from regard.data.sets.stream import Sets, need_file, sizes_between
from regard.errors import RegardError

SPLIT_SEED = 28
PARTS = {"train": 1_200, "valid": 123, "test": 300}  # of Omniglot's characters; of fewer, as many in proportion


@dataclass(frozen=True)
class Characters:
    """Images of the characters of a split."""

    images: np.ndarray  # (characters, drawers, side, side) uint8, ink is 255
    smallest: int
    largest: int
    fingerprint: str
    count: None = None

    @property
    def extent(self) -> str:
        return f"{len(self.images):,} characters by {self.images.shape[1]} drawers, in sets without end"

    def draw(self, chance: np.random.Generator, numbers: np.ndarray) -> Sets:
        B, (n_characters, n_drawers) = len(numbers), self.images.shape[:2]
        sizes = sizes_between(chance, self.smallest, self.largest, B, together=True)
        n = int(sizes[0])
        unique = chance.integers(1, n + 1, B)
        characters = np.argpartition(chance.random((B, n_characters)), n, axis=1)[:, :n]  # n different ones
        which = np.broadcast_to(np.arange(n), (B, n)).copy()
        again = which >= unique[:, None]  # the first c places hold one character each, the others any of those
        which[again] = (chance.random((B, n)) * unique[:, None]).astype(np.int64)[again]
        which = chance.permuted(which, axis=1)
        drawers = np.argsort(chance.random((B, n_drawers)), axis=1)[:, :n]
        chosen = np.take_along_axis(characters, which, axis=1)
        return Sets(self.images[chosen, drawers], sizes, unique, {"character": chosen})


def omniglot(path: str, split: str, smallest: int, largest: int) -> Characters:
    images, fingerprint = read_omniglot(path)
    if largest > images.shape[1]:
        raise RegardError(f"data.largest = {largest} is more than the {images.shape[1]} drawers of a character.")
    order = np.random.default_rng(SPLIT_SEED).permutation(len(images))
    ends = np.cumsum([round(len(images) * part / sum(PARTS.values())) for part in PARTS.values()])[:-1]
    part = dict(zip(PARTS, np.split(order, ends), strict=True))[split]
    if len(part) <= largest:
        raise RegardError(
            f"{path} has {len(part)} characters for {split}: data.largest = {largest} needs more than that."
        )
    return Characters(images[part], smallest, largest, fingerprint)


@lru_cache(maxsize=1)
def read_omniglot(path: str) -> tuple[np.ndarray, str]:
    """All images, (characters, drawers, side, side), from an .npz with `images` and the `character` of each."""
    need_file(path, "Omniglot as an .npz file of images (n, 28, 28) and character (n,)")
    try:
        with np.load(path, allow_pickle=False) as file:
            images, character = file["images"], file["character"]
    except (OSError, ValueError, TypeError, AttributeError, KeyError, IndexError, BadZipFile):
        raise RegardError(
            f"{path} is no Omniglot file: it should be an .npz file with arrays named images and character."
        ) from None
    counts = np.bincount(character)
    if counts.min() != counts.max():
        raise RegardError(f"{path} has characters with other numbers of images: every one needs the same.")
    images = images[np.argsort(character, kind="stable")].reshape(len(counts), -1, *images.shape[1:])
    if images.max() <= 1:
        images = images * np.uint8(255)
    return images, hashlib.sha256(images.tobytes()).hexdigest()
