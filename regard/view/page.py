"""One self-contained HTML page that shows every head of every layer.

The page asks the network for nothing: style, script and weights are all inside, and its content security
policy admits only the one style and the one script of the template, by their hashes. Nothing that comes from
text is ever markup: tokens travel as JSON in a data block and reach the document through `textContent`.

Weights are stored as 16-bit integers n, meaning n / 65535, so each is within half a step of the value given;
the page says so in its footer.
"""

import base64
import hashlib
import html
import json
import re
from importlib import resources

import numpy as np
import numpy.typing as npt

from regard.view.labels import CROSS, DECODER_SELF, ENCODER_SELF, group_of, layer_of, visible
from regard.view.maps import AttentionMap, AttentionView

LEVELS = 65535

_ORDER = (ENCODER_SELF, DECODER_SELF, CROSS)


def attention_page(view: AttentionView) -> str:
    """The page as text, in pure ASCII, so that whatever encoding it is written in, it reads the same."""
    template = resources.files("regard.view").joinpath("page.html").read_text(encoding="ascii")
    parts = {
        "title": html.escape(visible(view.title)),
        "style_hash": hash_of("style", template),
        "script_hash": hash_of("script", template),
        "data": inert_json(_content(view)),
    }
    # One pass: a title that itself contains "{{data}}" is text like any other.
    page = re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)
    return page.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _content(view: AttentionView) -> dict[str, object]:
    return {
        "title": visible(view.title),
        "source": visible(view.source),
        "target": visible(view.target),
        "levels": LEVELS,
        "maps": [_map_content(one) for one in sorted(view.maps, key=_group_rank)],
    }


def _map_content(one: AttentionMap) -> dict[str, object]:
    return {
        "name": visible(one.name),
        "group": visible(group_of(one.name)),
        "layer": visible(layer_of(one.name)) if layer_of(one.name) else "",
        "cross": group_of(one.name) == CROSS,
        "rows": [visible(token) for token in one.rows],
        "columns": [visible(token) for token in one.columns],
        "H": one.weights.shape[0],
        "weights": _quantised(one.weights),
    }


def _group_rank(one: AttentionMap) -> int:
    """The order of the paper for the groups it has; others follow as they came (the sort is stable)."""
    group = group_of(one.name)
    return _ORDER.index(group) if group in _ORDER else len(_ORDER)


def _quantised(weights: npt.NDArray[np.float32]) -> str:
    """(H, Q, K) as base64 of little-endian 16-bit integers, rounded to the nearest."""
    # In float64, so that the product itself adds no rounding to the half step we state.
    levels = np.rint(np.clip(weights.astype(np.float64), 0.0, 1.0) * LEVELS)
    return base64.b64encode(levels.astype("<u2").tobytes()).decode("ascii")


def inert_json(content: dict[str, object]) -> str:
    """JSON that cannot end its own script element: no <, > or & is left, and nothing beyond ASCII."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def hash_of(tag: str, template: str) -> str:
    """The source expression that lets a content security policy admit exactly this element."""
    found = re.search(rf"<{tag}>(.*?)</{tag}>", template, flags=re.DOTALL)
    if found is None:
        raise ValueError(f"page.html has no <{tag}> element")
    digest = hashlib.sha256(found[1].encode("ascii")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
