"""Attention as a JSON document, the one format of saved pages, the viewer's script and whoever serves it.

`docs/viewer.md` describes every field. Weights are whole numbers n of 8 bits, meaning n / LEVELS, so each is within
half a step of the value given; the numbers of one example are compressed together (raw deflate) and written in base64.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.view.labels import CROSS, DECODER_SELF, ENCODER_SELF, group_of, layer_of, visible
from regard.view.maps import AttentionMap, AttentionView, Floats, Step
from regard.view.measures import distances, entropies, rollouts

FORMAT, VERSION = "regard-attention", 1
LEVELS = 255

_ORDER = (ENCODER_SELF, DECODER_SELF, CROSS)


def attention_document(*views: AttentionView) -> dict[str, Any]:
    """The views as JSON values. No string in it has a character that is unseen or acts."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "title": visible(views[0].title) if views else "",
        "levels": LEVELS,
        "examples": [_example(view) for view in views],
    }


def _example(view: AttentionView) -> dict[str, Any]:
    maps = sorted(view.maps, key=_group_rank)
    axes, parts = Axes(), Parts()
    described = [_map(one, rollout, axes, parts) for one, rollout in zip(maps, rollouts(maps), strict=True)]
    alignment = view.alignment
    return {
        "source": visible(view.source) if view.source else "",
        "target": visible(view.target) if view.target else "",
        "maps": described,
        "alignment": None if alignment is None else _map(alignment, None, axes, parts),
        "steps": [_step(step) for step in view.steps],
        "axes": axes.described,
        "weights": parts.packed(),
    }


def _map(one: AttentionMap, rollout: Floats | None, axes: Axes, parts: Parts) -> dict[str, Any]:
    layer = layer_of(one.name)
    far = distances(one)
    return {
        "name": visible(one.name),
        "group": visible(group_of(one.name)),
        "layer": visible(layer) if layer else "",
        "rows": axes.number(one.rows, one.row_points),
        "columns": axes.number(one.columns, one.column_points),
        "H": one.weights.shape[0],
        "at": parts.add(one.weights),
        "entropy": [round(value, 4) for value in entropies(one.weights)],
        "distance": far and [round(value, 4) for value in far],
        "rollout": None if rollout is None else parts.add(rollout),
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "token": visible(step.token),
        "probability": round(step.probability, 6),
        "alternatives": [[visible(token), round(probability, 6)] for token, probability in step.alternatives],
    }


class Axes:
    """What rows and columns stand for, each sequence or set once."""

    def __init__(self) -> None:
        self.described: list[dict[str, Any]] = []

    def number(self, labels: Sequence[str], points: Floats | None) -> int:
        axis: dict[str, Any] = {"kind": "tokens", "items": [visible(label) for label in labels]}
        if points is not None:
            axis = {**axis, "kind": "points", "points": [[round(float(x), 6), round(float(y), 6)] for x, y in points]}
        if axis not in self.described:
            self.described.append(axis)
        return self.described.index(axis)


class Parts:
    """Weights one after another, as they will be compressed."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def add(self, weights: Floats) -> int:
        """The place from which these weights stand, rounded to the nearest level."""
        # In float64, so that the product itself adds no rounding to the half step we state.
        levels = np.rint(np.clip(weights.astype(np.float64), 0.0, 1.0) * LEVELS).astype(np.uint8)
        place, self.size = self.size, self.size + levels.size
        self.parts.append(levels.tobytes())
        return place

    def packed(self) -> str:
        deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)  # at its best it is ten times slower and 6 % smaller
        whole = deflate.compress(b"".join(self.parts)) + deflate.flush()
        return base64.b64encode(whole).decode("ascii")


def _group_rank(one: AttentionMap) -> int:
    """The order of the paper for the groups it has; others follow as they came (the sort is stable)."""
    group = group_of(one.name)
    return _ORDER.index(group) if group in _ORDER else len(_ORDER)
