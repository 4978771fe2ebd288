"""Small files in the form of the real ones, for tests of tasks on sets."""

from __future__ import annotations

import gzip
import io
import lzma
from pathlib import Path

import numpy as np


def write_omniglot(folder: Path, n_characters: int = 60, n_drawers: int = 12) -> Path:
    """Every character a random pattern of its own, every drawer a little noise."""
    chance = np.random.default_rng(0)
    patterns = chance.random((n_characters, 1, 28, 28)) < 0.3
    images = patterns ^ (chance.random((n_characters, n_drawers, 28, 28)) < 0.02)
    path = folder / "omniglot.npz"
    character = np.repeat(np.arange(n_characters, dtype=np.int16), n_drawers)
    np.savez(path, images=images.reshape(-1, 28, 28).astype(np.uint8), character=character)
    return path


def write_mnist(folder: Path, count: int = 40) -> Path:
    for part in ("train", "t10k"):
        images = np.zeros((count, 28, 28), dtype=np.uint8)
        labels = np.arange(count, dtype=np.uint8) % 10
        for image, label in zip(images, labels, strict=True):
            image[4 + label : 8 + label, 6:20] = 255
        head = b"".join(number.to_bytes(4, "big") for number in (2051, count, 28, 28))
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(head + images.tobytes()))
        head = b"".join(number.to_bytes(4, "big") for number in (2049, count))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(head + labels.tobytes()))
    return folder


def write_flickr8k(folder: Path, count: int = 60) -> Path:
    """Red images have a dog in the snow, blue ones a man in the water."""
    from PIL import Image

    names = [f"{i:04d}.jpg" for i in range(count)]
    parts, captions = [], []
    for i, name in enumerate(names):
        dog = i % 3 != 0
        picture = Image.new("RGB", (16, 16), (200, 20, 20) if dog else (20, 20, 200))
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG")
        parts.append(buffer.getvalue())
        words = "A dog in the snow ." if dog else "A man in the water ."
        captions += [f"{name}#{k}\t{words}" for k in range(5)]
    offsets = np.cumsum([0, *map(len, parts)]).astype(np.int32)
    np.savez(folder / "index.npz", offsets=offsets, names=np.array(names))
    (folder / "images_jpeg.bin").write_bytes(b"".join(parts))
    (folder / "Flickr8k.token.txt.xz").write_bytes(lzma.compress("\n".join(captions).encode()))
    for split, chosen in (("train", names[:30]), ("dev", names[30:45]), ("test", names[45:])):
        (folder / f"Flickr_8k.{split}Images.txt.xz").write_bytes(lzma.compress("\n".join(chosen).encode()))
    return folder


def write_modelnet(folder: Path, count: int = 20, points: int = 64) -> Path:
    import h5py

    chance = np.random.default_rng(0)
    for part in ("train", "test"):
        with h5py.File(folder / f"ply_data_{part}0.h5", "w") as file:
            labels = np.arange(count) % 40
            file["data"] = (labels[:, None, None] + 1) * chance.standard_normal((count, points, 3)).astype(np.float32)
            file["label"] = labels[:, None].astype(np.uint8)
    return folder
