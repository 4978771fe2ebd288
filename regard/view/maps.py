"""What is looked at: the attention maps of one sentence pair.

Shapes: H heads, Q query positions (what looks, the rows), K key positions (what is looked at, the columns).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# A softmax never exceeds one, but a mean or a change of precision may, by rounding.
_SLACK = 1e-5


# eq=False: comparing arrays with == gives an array, so a generated __eq__ would raise rather than answer.
@dataclass(frozen=True, eq=False)
class AttentionMap:
    """Every head of one attention module."""

    name: str  # module path, e.g. "decoder.layers.0.cross_attn"
    rows: list[str]  # query tokens (Q)
    columns: list[str]  # key tokens (K)
    weights: npt.NDArray[np.float32]  # (H, Q, K); a row sums to one, or is zero where nothing may be attended

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


@dataclass(frozen=True, eq=False)
class AttentionView:
    """Every attention map recorded for one sentence and its translation."""

    title: str  # e.g. the name of the run
    source: str  # the raw sentence
    target: str  # its translation
    maps: list[AttentionMap]
