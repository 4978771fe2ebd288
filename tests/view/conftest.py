"""Attention made up for tests: sentences, sets, and tokens that mean harm."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from regard.view import AttentionMap, AttentionView, Step, set_map

SOURCE = ["▁A", "▁dog", "▁run", "s", ".", "</s>"]
TARGET = ["▁Ein", "▁Hund", "▁läuft", ".", "</s>"]
GIVEN = ["<s>", *TARGET[:-1]]

# What a token may try, and how it must be seen. The space after a tag name ends it for a parser, as > would.
SEEN_AS = {
    "</script><script>alert(1)</script>": "</script><script>alert(1)</script>",
    "</script <script >": "</script <script >",
    "<!--<script>": "<!--<script>",
    "<!-- <script ": "<!-- <script ",
    "<img src=x onerror=alert(1)>": "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>": "<svg onload=alert(1)>",
    "javascript:alert(1)": "javascript:alert(1)",
    "\"quoted' & &amp; ampersand": "\"quoted' & &amp; ampersand",
    "]]>": "]]>",
    "שלום": "שלום",
    "👩\u200d🚀": "👩\u200d🚀",
    "{{data}}": "{{data}}",
    "\\u003c": "\\u003c",
    "\u202eevil\u202c": "⟨U+202E⟩evil⟨U+202C⟩",
    "a\nb\x1b[31m": "a↵b⟨U+001B⟩[31m",
    " ": "␣",
    "": "∅",
    "\ud800": "⟨U+D800⟩",
    "\uffff": "\uffff",
}
HOSTILE = list(SEEN_AS)


@pytest.fixture(scope="session")
def seen_as() -> dict[str, str]:
    return SEEN_AS


@pytest.fixture(scope="session")
def made_up() -> Callable[..., np.ndarray]:
    """(H, Q, K[, seed]) → weights as a softmax gives them."""
    return weights_of


def weights_of(H: int, Q: int, K: int, seed: int = 0, causal: bool = False) -> np.ndarray:
    scores = np.random.default_rng(seed).normal(size=(H, Q, K)) * 3
    if causal:
        scores = np.where(np.tril(np.ones((Q, K))) > 0, scores, -np.inf)
    exp = np.exp(scores)
    return (exp / exp.sum(-1, keepdims=True)).astype(np.float32)


def attention(name: str, rows: list[str], columns: list[str], H: int = 4, seed: int = 0) -> AttentionMap:
    causal = name.startswith("decoder") and name.endswith("self_attn")
    return AttentionMap(name, rows, columns, weights_of(H, len(rows), len(columns), seed, causal))


@pytest.fixture
def sentence() -> AttentionView:
    """A sentence pair through a Transformer that never was, with alignment and steps."""
    maps = []
    for layer in range(2):
        maps.append(attention(f"decoder.layers.{layer}.cross_attn", TARGET, SOURCE, seed=3 * layer))
        maps.append(attention(f"encoder.layers.{layer}.self_attn", SOURCE, SOURCE, seed=3 * layer + 1))
        maps.append(attention(f"decoder.layers.{layer}.self_attn", TARGET, GIVEN, seed=3 * layer + 2))
    words = AttentionMap("words", ["Ein", "Hund", "läuft."], ["A", "dog", "runs."], weights_of(1, 3, 3, 9))
    steps = [Step(token, 0.5, [("other", 0.25 + t / 100), (token, 0.5 - t / 50)]) for t, token in enumerate(TARGET)]
    return AttentionView("a run", "A dog runs.", "Ein Hund läuft.", maps, words, steps)


@pytest.fixture
def hostile() -> AttentionView:
    """A view in which every string is an attack."""
    one = attention("decoder.layers.0.cross_attn", HOSTILE, HOSTILE, H=2)
    strange = attention("pool.<b>.0.mab", HOSTILE[:2], HOSTILE, H=1)
    words = AttentionMap("<i>", HOSTILE, HOSTILE, one.weights[:1])
    steps = [Step(token, 0.5, [(other, 0.1) for other in HOSTILE]) for token in HOSTILE]
    return AttentionView("{{data}}" + HOSTILE[0], HOSTILE[0], "\u202e&amp;", [one, strange], words, steps)


@pytest.fixture
def cluster_set() -> AttentionView:
    """Two heaps of points, looked at by themselves, by inducing points and by seeds."""
    rng = np.random.default_rng(4)
    points = np.concatenate([rng.normal((2, 2), 0.5, (6, 2)), rng.normal((-2, -2), 0.5, (6, 2))])
    maps = [
        set_map("encoder.0.sab", weights_of(4, 12, 12, 1), points),
        set_map("encoder.1.sab", weights_of(4, 12, 12, 2), points),
        set_map("isab.mab0", weights_of(2, 3, 12, 3), points, rows="inducing point"),
        set_map("isab.mab1", weights_of(2, 12, 3, 4), points, columns="inducing point"),
        set_map("pool.pma", weights_of(2, 2, 12, 5), points, rows="seed"),
    ]
    return AttentionView("two heaps", "", "", maps)
