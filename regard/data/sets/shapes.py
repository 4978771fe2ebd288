"""Surfaces and curves from which points are drawn: the classes of the generated point clouds.

Each function takes a generator and a shape (…,) and gives so many points, (…, 3), within about one unit of the origin.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Chance = np.random.Generator
Shape = tuple[int, ...]


def sphere(chance: Chance, shape: Shape) -> np.ndarray:
    points = chance.standard_normal((*shape, 3), dtype=np.float32)
    return points / np.linalg.norm(points, axis=-1, keepdims=True)


def bowl(chance: Chance, shape: Shape) -> np.ndarray:
    points = sphere(chance, shape)
    points[..., 2] = -np.abs(points[..., 2])
    return points


def box(chance: Chance, shape: Shape) -> np.ndarray:
    points = chance.uniform(-1, 1, (*shape, 3))
    axis, side = chance.integers(0, 3, shape), chance.integers(0, 2, shape) * 2.0 - 1
    np.put_along_axis(points, axis[..., None], side[..., None], axis=-1)
    return points


def disc(chance: Chance, shape: Shape, radius: float = 1.0) -> np.ndarray:
    """In the plane z = 0."""
    r, angle = radius * np.sqrt(chance.random(shape)), 2 * np.pi * chance.random(shape)
    return np.stack([r * np.cos(angle), r * np.sin(angle), np.zeros(shape)], axis=-1)


def tube(chance: Chance, shape: Shape) -> np.ndarray:
    angle = 2 * np.pi * chance.random(shape)
    return np.stack([0.6 * np.cos(angle), 0.6 * np.sin(angle), chance.uniform(-1, 1, shape)], axis=-1)


def cylinder(chance: Chance, shape: Shape) -> np.ndarray:
    """A tube with lids."""
    points, lid = tube(chance, shape), disc(chance, shape, 0.6)
    lid[..., 2] = np.where(chance.random(shape) < 0.5, -1.0, 1.0)
    return np.where((chance.random(shape) < 0.23)[..., None], lid, points)  # 2 π r² of 2 π r² + 4 π r


def cone(chance: Chance, shape: Shape) -> np.ndarray:
    down, angle = np.sqrt(chance.random(shape)), 2 * np.pi * chance.random(shape)
    return np.stack([0.8 * down * np.cos(angle), 0.8 * down * np.sin(angle), 1 - 2 * down], axis=-1)


def torus(chance: Chance, shape: Shape) -> np.ndarray:
    around, about = 2 * np.pi * chance.random(shape), 2 * np.pi * chance.random(shape)
    r = 0.75 + 0.25 * np.cos(about)
    return np.stack([r * np.cos(around), r * np.sin(around), 0.25 * np.sin(about)], axis=-1)


def tetrahedron(chance: Chance, shape: Shape) -> np.ndarray:
    corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]], dtype=float)
    missing = chance.integers(0, 4, shape)
    faces = np.array([[c for c in range(4) if c != face] for face in range(4)])
    weights = chance.standard_exponential((*shape, 3))
    weights /= weights.sum(axis=-1, keepdims=True)
    return (corners[faces[missing]] * weights[..., None]).sum(axis=-2)


def helix(chance: Chance, shape: Shape) -> np.ndarray:
    t = chance.random(shape)
    return np.stack([0.6 * np.cos(6 * np.pi * t), 0.6 * np.sin(6 * np.pi * t), 2 * t - 1], axis=-1)


def cross(chance: Chance, shape: Shape) -> np.ndarray:
    """Three bars at right angles."""
    points = chance.uniform(-0.15, 0.15, (*shape, 3))
    np.put_along_axis(points, chance.integers(0, 3, (*shape, 1)), chance.uniform(-1, 1, (*shape, 1)), axis=-1)
    return points


def saddle(chance: Chance, shape: Shape) -> np.ndarray:
    x, y = chance.uniform(-1, 1, shape), chance.uniform(-1, 1, shape)
    return np.stack([x, y, 0.8 * (x * x - y * y)], axis=-1)


def moebius(chance: Chance, shape: Shape) -> np.ndarray:
    t, across = 2 * np.pi * chance.random(shape), chance.uniform(-0.35, 0.35, shape)
    r = 0.75 + across * np.cos(t / 2)
    return np.stack([r * np.cos(t), r * np.sin(t), across * np.sin(t / 2)], axis=-1)


SHAPES: dict[str, Callable[[Chance, Shape], np.ndarray]] = {
    "sphere": sphere, "bowl": bowl, "box": box, "disc": disc, "tube": tube, "cylinder": cylinder, "cone": cone,
    "torus": torus, "tetrahedron": tetrahedron, "helix": helix, "cross": cross, "saddle": saddle, "moebius": moebius,
}  # fmt: skip
