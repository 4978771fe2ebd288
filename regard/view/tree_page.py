"""One self-contained HTML page: a tree beside the attention of its brackets.

As `regard.view.page`: nothing is asked of the network, the policy admits only the page's own style and script, and
words are text, never markup.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.view.labels import visible
from regard.view.page import hash_of, inert_json
from regard.view.trees import Drawable, tree_svg


def tree_page(title: str, tree: Drawable, layers: Mapping[str, npt.NDArray[np.floating[Any]]]) -> str:
    """layers: by name, how much each bracket attended to each word when it was opened, (brackets, words); none where
    that is not known."""
    expected = (len(tree.brackets), len(tree.words))
    for name, weights in layers.items():
        if weights.shape != expected:
            raise ValueError(f"{name}: weights have shape {weights.shape}, but the tree asks for {expected}")
    template = resources.files("regard.view").joinpath("tree.html").read_text(encoding="ascii")
    rows = [[[round(float(one), 4) for one in row] for row in weights] for weights in layers.values()]
    parts = {
        "title": html.escape(visible(title)),
        "style_hash": hash_of(inside("style", template)),
        "script_hash": hash_of(inside("script", template)),
        "svg": tree_svg(tree),
        "data": inert_json({"layers": [visible(name) for name in layers], "weights": rows}),
    }
    page = re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)
    return page.encode("ascii", "xmlcharrefreplace").decode("ascii")


def inside(element: str, template: str) -> str:
    """What the template's one such element without attributes holds."""
    match = re.search(rf"<{element}>(.*?)</{element}>", template, re.DOTALL)
    assert match, element
    return match[1]
