"""Point clouds to classify: *Set Transformer*, §5.4: generated shapes, digits, or ModelNet40.

ModelNet40 is read in its usual HDF5 form. Where it is not at hand, two sources stand in: generated shapes, seen from
one side, stretched, turned and blurred, and the strokes of digit images as points in a plane. As in the released code a
cloud is standardised as a whole: far outliers are clipped, then (x − mean) / std.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from regard.data.sets.shapes import SHAPES
from regard.data.sets.stream import Sets, need_file
from regard.errors import RegardError

CLASSES = {
    "shapes": tuple(SHAPES),
    "digits": tuple("0123456789"),
    "modelnet40": (
        "airplane", "bathtub", "bed", "bench", "bookshelf", "bottle", "bowl", "car", "chair", "cone", "cup", "curtain",
        "desk", "door", "dresser", "flower_pot", "glass_box", "guitar", "keyboard", "lamp", "laptop", "mantel",
        "monitor", "night_stand", "person", "piano", "plant", "radio", "range_hood", "sink", "sofa", "stairs", "stool",
        "table", "tent", "toilet", "tv_stand", "vase", "wardrobe", "xbox",
    ),
}  # fmt: skip
LEAST_SEEN = 0.6  # of a generated shape, at least so much is on the side that is seen


@dataclass(frozen=True)
class ShapeClouds:
    """Clouds of generated shapes; the target is the class. Every one is new."""

    n_points: int
    noise: float
    count: None = None
    fingerprint: str = ""

    @property
    def extent(self) -> str:
        return f"{len(SHAPES)} shapes as clouds of {self.n_points:,} points without end"

    def draw(self, chance: np.random.Generator, numbers: np.ndarray) -> Sets:
        B = len(numbers)
        labels = chance.integers(0, len(SHAPES), B)
        clouds = np.empty((B, int(np.ceil(self.n_points / LEAST_SEEN)), 3), dtype=np.float32)
        for label, shape in enumerate(SHAPES.values()):
            rows = np.flatnonzero(labels == label)
            if len(rows):
                clouds[rows] = shape(chance, (len(rows), clouds.shape[1]))
        clouds *= chance.uniform(0.7, 1.3, (B, 1, 3)).astype(np.float32)
        clouds = one_side(chance, clouds, self.n_points) @ rotations(chance, B)
        clouds += np.float32(self.noise) * chance.standard_normal(clouds.shape, dtype=np.float32)
        return Sets(standardised(clouds), np.full(B, self.n_points), labels)


def one_side(chance: np.random.Generator, clouds: np.ndarray, n_points: int) -> np.ndarray:
    """`n_points` of those that lie on one side, which has a share of LEAST_SEEN to all of the points."""
    B, N, _ = clouds.shape
    direction = chance.standard_normal((B, 3, 1), dtype=np.float32)
    along = (clouds @ direction)[..., 0]  # (B, N)
    seen = (N * chance.uniform(LEAST_SEEN, 1.0, B)).astype(np.int64).clip(n_points, N)
    border = np.take_along_axis(np.sort(along, axis=1), seen[:, None] - 1, axis=1)
    # Points come in random order, so the first ones that are seen are a fair choice.
    chosen = np.argsort(along > border, axis=1, kind="stable")[:, :n_points]
    return np.take_along_axis(clouds, chosen[..., None], axis=1)


def rotations(chance: np.random.Generator, count: int) -> np.ndarray:
    """(count, 3, 3), uniformly among all rotations: unit quaternions."""
    w, x, y, z = sphere4(chance, count)
    return np.stack(
        [
            np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)], axis=-1),
            np.stack([2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)], axis=-1),
            np.stack([2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)], axis=-1),
        ],
        axis=1,
    ).astype(np.float32)


def sphere4(chance: np.random.Generator, count: int) -> np.ndarray:
    points = chance.standard_normal((4, count))
    return points / np.linalg.norm(points, axis=0)


def about_z(chance: np.random.Generator, clouds: np.ndarray) -> np.ndarray:
    """The augmentation of the released code: a turn about z by U(−0.1 π, 0.1 π), and U(0.8, 1.25) for each axis."""
    angle = chance.uniform(-0.1 * np.pi, 0.1 * np.pi, len(clouds))
    turn = np.zeros((len(clouds), 3, 3), dtype=np.float32)
    turn[:, 0, 0] = turn[:, 1, 1] = np.cos(angle)
    turn[:, 0, 1], turn[:, 1, 0] = -np.sin(angle), np.sin(angle)
    turn[:, 2, 2] = 1
    return (clouds @ turn) * chance.uniform(0.8, 1.25, (len(clouds), 1, 3)).astype(np.float32)


def standardised(clouds: np.ndarray) -> np.ndarray:
    limit = 100 * np.abs(clouds).mean(axis=(1, 2), keepdims=True)
    clouds = clouds.clip(-limit, limit)
    spread = clouds.std(axis=(1, 2), keepdims=True)
    return (clouds - clouds.mean(axis=(1, 2), keepdims=True)) / np.maximum(spread, 1e-6)


@dataclass(frozen=True)
class DigitClouds:
    """Points on the strokes of digit images, drawn anew each time, as dense as the ink."""

    images: np.ndarray  # (n, side, side) uint8
    labels: np.ndarray
    n_points: int
    noise: float
    training: bool
    fingerprint: str

    @property
    def count(self) -> int:
        return len(self.images)

    @property
    def extent(self) -> str:
        return f"{self.count:,} digits as clouds of {self.n_points:,} points"

    def draw(self, chance: np.random.Generator, numbers: np.ndarray) -> Sets:
        B, side = len(numbers), self.images.shape[-1]
        ink = self.images[numbers].reshape(B, -1).astype(np.float64)
        ink = ink.cumsum(axis=1) / ink.sum(axis=1, keepdims=True)
        each = np.arange(B)[:, None]
        # One search for all images: the ink of image i lies between i and i + 1.
        places = np.searchsorted((ink + each).ravel(), (chance.random((B, self.n_points)) + each).ravel())
        row, column = np.divmod(np.minimum(places.reshape(B, -1) - each * side**2, side**2 - 1), side)
        points = np.stack([column, side - row, np.zeros_like(row)], axis=-1) + chance.random((*row.shape, 3))
        clouds = (points / side).astype(np.float32)
        clouds += np.float32(self.noise / 2) * chance.standard_normal(clouds.shape, dtype=np.float32)
        clouds = standardised(clouds)
        clouds = about_z(chance, clouds) if self.training else clouds
        return Sets(clouds, np.full(B, self.n_points), self.labels[numbers])


def digits(path: str, split: str, n_points: int, noise: float) -> DigitClouds:
    """MNIST's files; the last 5,000 training images are for validation."""
    images, labels = read_mnist(path, "t10k" if split == "test" else "train")
    if split != "test":
        n_valid = min(5_000, len(images) // 10)
        part = slice(len(images) - n_valid, None) if split == "valid" else slice(0, len(images) - n_valid)
        images, labels = images[part], labels[part]
    fingerprint = hashlib.sha256(images.tobytes()).hexdigest()
    return DigitClouds(images, labels, n_points, noise, split == "train", fingerprint)


@lru_cache(maxsize=2)
def read_mnist(path: str, part: str) -> tuple[np.ndarray, np.ndarray]:
    need_file(path, "the folder of MNIST's four idx .gz files", folder=True)
    try:
        images, labels = (
            gzip.decompress((Path(path) / f"{part}-{kind}-ubyte.gz").read_bytes())
            for kind in ("images-idx3", "labels-idx1")
        )
    except FileNotFoundError as error:
        raise RegardError(f"{error.filename} is missing: data.path should be the folder of MNIST's files.") from None
    count, rows, columns = (int.from_bytes(images[i : i + 4], "big") for i in (4, 8, 12))
    return (
        np.frombuffer(images, dtype=np.uint8, offset=16).reshape(count, rows, columns),
        np.frombuffer(labels, dtype=np.uint8, offset=8).astype(np.int64),
    )


@dataclass(frozen=True)
class ModelNet:
    """ModelNet40 (Wu et al., 2015): objects with thousands of points each.

    For training, a cloud is a random part of an object's points, turned and scaled; for tests, every k-th point.
    """

    points: np.ndarray  # (objects, points, 3)
    labels: np.ndarray
    n_points: int
    training: bool
    fingerprint: str

    @property
    def count(self) -> int:
        return len(self.points)

    @property
    def extent(self) -> str:
        return f"{self.count:,} objects as clouds of {self.n_points:,} points"

    def draw(self, chance: np.random.Generator, numbers: np.ndarray) -> Sets:
        objects, total = self.points[numbers], self.points.shape[1]
        if self.training:
            chosen = np.argpartition(chance.random(objects.shape[:2]), self.n_points - 1, axis=1)[:, : self.n_points]
            clouds = about_z(chance, standardised(np.take_along_axis(objects, chosen[..., None], axis=1)))
        else:
            stride = total // self.n_points
            clouds = standardised(objects[:, : stride * self.n_points : stride])
        return Sets(clouds, np.full(len(numbers), self.n_points), self.labels[numbers])


def modelnet40(path: str, split: str, n_points: int) -> ModelNet:
    """The usual HDF5 form: files ply_data_train*.h5 and ply_data_test*.h5 in one folder, each with `data`
    (objects, points, 3) and `label` (objects, 1), and shape_names.txt. A tenth of the training objects is for
    validation."""
    folder = Path(path)
    need_file(path, "the folder of ModelNet40's HDF5 files, ply_data_train*.h5 and ply_data_test*.h5", folder=True)
    points, labels = read_hdf5(sorted(folder.glob(f"ply_data_{'test' if split == 'test' else 'train'}*.h5")), folder)
    if n_points > points.shape[1]:
        raise RegardError(f"data.n_points = {n_points}, but the objects in {path} have {points.shape[1]} points.")
    fingerprint = hashlib.sha256(points.tobytes()).hexdigest()
    names, known = folder / "shape_names.txt", CLASSES["modelnet40"]
    if labels.max() >= len(known) or (names.is_file() and tuple(names.read_text().split()) != known):
        raise RegardError(f"The objects in {path} are of other classes than ModelNet40's, {known[0]} to {known[-1]}.")
    if split != "test":
        held = np.random.default_rng(40).permutation(len(points)) < max(1, len(points) // 10)
        points, labels = points[held == (split == "valid")], labels[held == (split == "valid")]
    return ModelNet(points, labels, n_points, split == "train", fingerprint)


def read_hdf5(files: list[Path], folder: Path) -> tuple[np.ndarray, np.ndarray]:
    try:
        import h5py
    except ImportError:
        raise RegardError("ModelNet40 is in HDF5 files, which need h5py: pip install 'regard[sets]'.") from None
    if not files:
        raise RegardError(f"{folder} has no files ply_data_train*.h5 and ply_data_test*.h5.")
    points, labels = [], []
    for file in files:
        with h5py.File(file) as opened:
            if not {"data", "label"} <= set(opened):
                raise RegardError(f"{file} has no arrays named data and label.")
            points.append(np.asarray(opened["data"], dtype=np.float32))
            labels.append(np.asarray(opened["label"], dtype=np.int64).reshape(-1))
    return np.concatenate(points), np.concatenate(labels)
