"""What is looked at: the attention maps of one sentence pair, or of one set.

Shapes: H heads, Q query positions (what looks, the rows), K key positions (what is looked at, the columns).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

# A softmax never exceeds one, but a mean or a change of precision may, by rounding.
_SLACK = 1e-5

Floats = npt.NDArray[np.floating[Any]]


# eq=False: comparing arrays with == gives an array, so a generated __eq__ would raise rather than answer.
@dataclass(frozen=True, eq=False)
class AttentionMap:
    """Every head of one attention module."""

    name: str  # module path, e.g. "decoder.layers.0.cross_attn"
    rows: list[str]  # query tokens (Q)
    columns: list[str]  # key tokens (K)
    weights: npt.NDArray[np.float32]  # (H, Q, K); a row sums to one, or is zero where nothing may be attended
    row_points: Floats | None = None  # (Q, 2) where queries are points of a plane rather than words
    column_points: Floats | None = None  # (K, 2)

    def __post_init__(self) -> None:
        expected = (len(self.rows), len(self.columns))
        if self.weights.ndim != 3 or self.weights.shape[1:] != expected:
            raise ValueError(
                f"{self.name}: weights have shape {self.weights.shape}, but the tokens ask for (H, Q, K) = "
                f"(H, {expected[0]}, {expected[1]})"
            )
        # One comparison refuses NaN too: it is neither above nor below.
        if not bool(np.all((self.weights >= -_SLACK) & (self.weights <= 1 + _SLACK))):
            raise ValueError(f"{self.name}: attention weights lie between 0 and 1, and some of these do not")
        for points, labels in ((self.row_points, self.rows), (self.column_points, self.columns)):
            if points is not None and (points.shape != (len(labels), 2) or not bool(np.all(np.isfinite(points)))):
                raise ValueError(
                    f"{self.name}: {len(labels)} points of a plane are {len(labels)} × 2 finite numbers, not "
                    f"{points.shape}; project what has more dimensions"
                )


@dataclass(frozen=True)
class Step:
    """One token of an output: what was chosen, and what the model would rather or also have said."""

    token: str
    probability: float
    alternatives: list[tuple[str, float]]  # the most probable tokens, the chosen one among them or not


@dataclass(frozen=True, eq=False)
class AttentionView:
    """Every attention map recorded for one sentence and its translation, or for one set."""

    title: str  # e.g. the name of the run
    source: str  # the raw sentence
    target: str  # its translation
    maps: list[AttentionMap]
    alignment: AttentionMap | None = None  # words by words, one head
    steps: list[Step] = field(default_factory=list)  # one for each token of the output


def recurrent_view(
    title: str, source: Sequence[str], target: Sequence[str], weights: Floats, steps: Sequence[Step] = ()
) -> AttentionView:
    """The alignment of a recurrent model, (T, S) or (1, T, S): one map without layers or heads."""
    one = AttentionMap("attention", list(target), list(source), weights.reshape(-1, *weights.shape[-2:]).astype("f4"))
    return AttentionView(title, " ".join(source), " ".join(target), [one], one, list(steps))


def set_map(name: str, weights: Floats, points: Floats, rows: str = "", columns: str = "") -> AttentionMap:
    """An attention (H, Q, K) over a set of points (N, 2).

    Its rows and columns are the points unless a word says what else they are: `rows="seed"` for pooling by attention
    (PMA), `rows="inducing"` or `columns="inducing"` for the two halves of ISAB.
    """
    _, Q, K = weights.shape
    labels = [f"({x:.3g}, {y:.3g})" for x, y in points]
    return AttentionMap(
        name,
        [f"{rows} {i}" for i in range(Q)] if rows else labels,
        [f"{columns} {i}" for i in range(K)] if columns else labels,
        weights.astype("f4"),
        None if rows else points,
        None if columns else points,
    )
