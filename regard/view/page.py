"""One self-contained HTML page in which people look into attention: the viewer with its document inside.

The page asks the network for nothing: style, scripts and weights are all inside, and its content security policy admits
only these, by their hashes, and pictures that the page itself has drawn (data:). Nothing that comes from text is ever
markup: tokens travel as JSON in a data block and reach the screen through `textContent`.

The folder `viewer` holds the parts. A server may send them as files: `AttentionViewer.open(element, document)` needs
nothing of this page.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib import resources
from typing import Any

from regard.view.document import attention_document
from regard.view.labels import visible
from regard.view.maps import AttentionView

STYLE = "viewer.css"
SCRIPTS = ("data.js", "drawings.js", "saving.js", "viewer.js", "page.js")  # in the order in which they build


def attention_page(*views: AttentionView) -> str:
    """The page as text, in pure ASCII, so that whatever encoding it is written in, it reads the same."""
    style, scripts = part(STYLE), [part(name) for name in SCRIPTS]
    policy = (
        f"default-src 'none'; script-src {' '.join(map(hash_of, scripts))}; style-src {hash_of(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    title = html.escape(visible(views[0].title)) if views else ""
    code = "\n".join(f"<script>{script}</script>" for script in scripts)
    page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript><p>This page draws its pictures with the scripts inside it. Allow scripts to see them.</p></noscript>
<main id="viewer"></main>
<script type="application/json" id="document">{inert_json(attention_document(*views))}</script>
{code}
</body>
</html>
"""
    return page.encode("ascii", "xmlcharrefreplace").decode("ascii")


def part(name: str) -> str:
    """One of the viewer's files. They are ASCII, so that no character reference is needed where none is read."""
    return resources.files("regard.view").joinpath("viewer", name).read_text(encoding="ascii")


def inert_json(content: dict[str, Any]) -> str:
    """JSON that cannot end its own script element: no <, > or & is left, and nothing beyond ASCII."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def hash_of(text: str) -> str:
    """The source expression that lets a content security policy admit exactly this element."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('ascii')).digest()).decode('ascii')}'"
