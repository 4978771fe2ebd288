"""The attention page: self-contained, faithful to the weights, and inert whatever the tokens say."""

import base64
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.view import AttentionMap, AttentionView, attention_page

SOURCE = ["▁A", "▁dog", "▁run", "s", ".", "</s>"]
TARGET = ["▁Ein", "▁Hund", "▁läuft", ".", "</s>"]

# What a token may try, and how it must be seen. The space after a tag name ends it for a parser, as > would.
SEEN_AS = {
    "</script><script>alert(1)</script>": "</script><script>alert(1)</script>",
    "</script <script >": "</script <script >",
    "<!--<script>": "<!--<script>",
    "<!-- <script ": "<!-- <script ",
    "<img onerror=alert(1)>": "<img onerror=alert(1)>",
    "\"quoted' & &amp; ampersand": "\"quoted' & &amp; ampersand",
    "שלום": "שלום",
    "👩\u200d🚀": "👩\u200d🚀",
    "{{data}}": "{{data}}",
    "\\u003c": "\\u003c",
    "\u202eevil\u202c": "⟨U+202E⟩evil⟨U+202C⟩",
    "a\nb\x1b[31m": "a↵b⟨U+001B⟩[31m",
    " ": "␣",
    "": "∅",
    "\ud800": "⟨U+D800⟩",
}
HOSTILE = list(SEEN_AS)


def weights_of(H: int, Q: int, K: int, seed: int = 0) -> np.ndarray:
    scores = np.random.default_rng(seed).normal(size=(H, Q, K)) * 3
    exp = np.exp(scores)
    return (exp / exp.sum(-1, keepdims=True)).astype(np.float32)


def attention(name: str, rows: list[str], columns: list[str], H: int = 4) -> AttentionMap:
    return AttentionMap(name, rows, columns, weights_of(H, len(rows), len(columns), seed=len(name)))


@pytest.fixture
def view() -> AttentionView:
    maps = []
    for layer in range(2):
        maps.append(attention(f"decoder.layers.{layer}.cross_attn", TARGET, SOURCE))
        maps.append(attention(f"encoder.layers.{layer}.self_attn", SOURCE, SOURCE))
        maps.append(attention(f"decoder.layers.{layer}.self_attn", TARGET, TARGET))
    return AttentionView("a run", "A dog runs.", "Ein Hund läuft.", maps)


def hostile_view() -> AttentionView:
    one = attention("decoder.layers.0.cross_attn", HOSTILE, HOSTILE, H=2)
    strange = attention("pool.<b>.0.mab", HOSTILE[:2], HOSTILE, H=1)
    return AttentionView("{{data}}" + HOSTILE[0], HOSTILE[0], "\u202e&amp;", [one, strange])


def data_text_in(page: str) -> str:
    """What stands in the data element, up to the end tag that the template wrote."""
    begin = page.index('id="data">') + len('id="data">')
    return page[begin : page.index("</script>\n<script>\n", begin)]


def data_in(page: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(data_text_in(page))
    return content


def weights_in(one: dict[str, Any], levels: int) -> np.ndarray:
    numbers = np.frombuffer(base64.b64decode(one["weights"]), dtype="<u2")
    return numbers.reshape(one["H"], len(one["rows"]), len(one["columns"])) / levels


def test_page_refers_to_nothing_outside_itself(view: AttentionView) -> None:
    # With the data taken out: base64 may spell anything, and is never followed.
    page = re.sub(r'id="data">.*?</script>', "></script>", attention_page(view), flags=re.DOTALL)
    page = page.replace("http://www.w3.org/2000/svg", "")  # the name of a namespace, never fetched
    for reference in (
        "http:",
        "https:",
        "//cdn",
        "src=",
        "href=",
        "@import",
        "url(",
        "fetch(",
        "import(",
        "eval(",
    ):
        assert reference not in page


def test_page_forbids_every_request_and_every_other_script(view: AttentionView) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', attention_page(view))
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy[1]


def test_weights_in_the_page_are_those_given_within_the_stated_rounding(view: AttentionView) -> None:
    data = data_in(attention_page(view))
    given = {one.name: one for one in view.maps}
    assert len(data["maps"]) == len(given)
    for one in data["maps"]:
        original = given[one["name"]]
        assert (one["rows"], one["columns"]) == (original.rows, original.columns)
        error = np.abs(weights_in(one, data["levels"]) - original.weights.astype(np.float64)).max()
        assert error <= 0.5 / data["levels"] + 1e-12


def test_zero_and_one_are_stored_exactly() -> None:
    causal = np.array([[[1, 0], [0.5, 0.5]]], dtype=np.float32)
    data = data_in(attention_page(AttentionView("", "", "", [AttentionMap("x", ["a", "b"], ["a", "b"], causal)])))
    stored = weights_in(data["maps"][0], data["levels"])
    assert stored[0, 0].tolist() == [1.0, 0.0]


def test_groups_follow_the_paper_and_unknown_paths_keep_their_name(view: AttentionView) -> None:
    view.maps.append(attention("pool.0.mab", TARGET, SOURCE))
    maps = data_in(attention_page(view))["maps"]
    assert list(dict.fromkeys(one["group"] for one in maps)) == [
        "Encoder self-attention",
        "Decoder self-attention",
        "Cross-attention",
        "pool.mab",
    ]
    assert [one["layer"] for one in maps[:2]] == ["layer 0", "layer 1"]


def test_page_is_ascii_so_that_any_encoding_writes_it() -> None:
    assert attention_page(hostile_view()).isascii()


def test_hostile_tokens_add_no_element_and_no_comment(view: AttentionView) -> None:
    plain, hostile = Outline(), Outline()
    plain.feed(attention_page(view))
    hostile.feed(attention_page(hostile_view()))
    assert hostile.tags == plain.tags
    assert hostile.comments == plain.comments == 0
    # Without a < of its own the data cannot end its element, whatever rules the parser follows.
    assert not set("<>&") & set(data_text_in(attention_page(hostile_view())))


def test_a_long_sentence_through_a_large_model_stays_below_two_megabytes() -> None:
    tokens = [f"▁token{i}" for i in range(60)]
    weights = weights_of(8, 60, 60)
    maps = [
        AttentionMap(f"{path.replace('#', str(layer))}", tokens, tokens, weights)
        for layer in range(6)
        for path in (
            "encoder.layers.#.self_attn",
            "decoder.layers.#.self_attn",
            "decoder.layers.#.cross_attn",
        )
    ]
    assert len(attention_page(AttentionView("large", "", "", maps))) < 2_000_000


def test_maps_refuse_what_cannot_be_shown() -> None:
    with pytest.raises(ValueError, match=r"shape \(2, 3\)"):
        AttentionMap("x", ["a", "b"], ["a", "b", "c"], np.zeros((2, 3), dtype=np.float32))
    with pytest.raises(ValueError, match="between 0 and 1"):
        AttentionMap("x", ["a"], ["a"], np.full((1, 1, 1), np.nan, dtype=np.float32))
    with pytest.raises(ValueError, match="between 0 and 1"):
        AttentionMap("x", ["a"], ["a"], np.full((1, 1, 1), 1.5, dtype=np.float32))


# ---- in a real browser ----


class Outline(HTMLParser):
    """What a document consists of: its tags in order, the attributes of <html>, heads, means, plain text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.comments = 0
        self.html: dict[str, str | None] = {}
        self.heads: list[tuple[str | None, str | None]] = []
        self.means: list[str | None] = []
        self.texts: list[str] = []
        self._inside_code = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside_code = tag in {"script", "style"}
        named = dict(attrs)
        if tag == "html":
            self.html = named
        if "data-head" in named:
            self.heads.append((named["data-map"], named["data-head"]))
        if "data-mean" in named:
            self.means.append(named["data-mean"])

    def handle_endtag(self, tag: str) -> None:
        self._inside_code = False

    def handle_comment(self, data: str) -> None:
        self.comments += 1

    def handle_data(self, data: str) -> None:
        if not self._inside_code:
            self.texts.append(data)


def in_browser(page: str, folder: Path, then: str = "") -> Outline:
    """The document as it stands in Chromium once its script, and after it `then`, has run."""
    if then:  # the page's own policy would rightly refuse a further script
        page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
        page = page.replace("</body>", f"<script>{then}</script></body>")
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next((found for found in map(shutil.which, names) if found), None)
    if browser is None:
        pytest.skip("no Chromium on this machine: the page was not opened in a real browser")
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command += [
        "--disable-dev-shm-usage",
        f"--user-data-dir={folder / 'profile'}",
        "--dump-dom",
        file.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, timeout=120, check=True)
    outline = Outline()
    outline.feed(done.stdout.decode("utf-8"))
    return outline


def test_browser_draws_every_head_once(view: AttentionView, tmp_path: Path) -> None:
    seen = in_browser(attention_page(view), tmp_path)
    assert seen.html.get("data-error") is None
    assert seen.html.get("data-ready") == "true"
    assert len(seen.heads) == len(set(seen.heads)) == sum(one.weights.shape[0] for one in view.maps)
    assert seen.means.count("heads") == len(view.maps)
    assert seen.means.count("layers") == 3
    assert {*SOURCE, *TARGET, view.title, view.source, view.target} <= set(seen.texts)
    assert any("0 to 65535" in text and "1/131070" in text for text in seen.texts)


def test_browser_shows_hostile_tokens_as_text(tmp_path: Path) -> None:
    view = hostile_view()
    # The map shown large is the cross-attention, whose tokens are all of them; long ones also as a tooltip.
    seen = in_browser(attention_page(view), tmp_path)
    assert seen.html.get("data-error") is None
    assert seen.html.get("data-ready") == "true"
    assert seen.tags.count("script") == 2
    assert not {"img", "b"} & set(seen.tags)
    assert len(seen.heads) == 3
    assert set(SEEN_AS.values()) <= set(seen.texts)


def test_policy_refuses_a_script_that_is_not_the_pages_own(view: AttentionView, tmp_path: Path) -> None:
    intruder = "<script>document.documentElement.dataset.error = 'ran'</script></body>"
    seen = in_browser(attention_page(view).replace("</body>", intruder), tmp_path)
    assert seen.html.get("data-ready") == "true"
    assert seen.html.get("data-error") is None


def test_arrow_keys_move_between_heads_and_pointing_reads_the_weight(view: AttentionView, tmp_path: Path) -> None:
    # From the mean of the last cross-attention layer: up to layer 0, then left past head 3 to head 2.
    doings = """
        for (const key of ["ArrowUp", "ArrowLeft", "ArrowLeft"])
            document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
        const cells = document.querySelector("#heat canvas").getBoundingClientRect();
        document.querySelector("#heat svg").dispatchEvent(new PointerEvent("pointermove", {
            clientX: cells.left + cells.width * 2.5 / 6, clientY: cells.top + cells.height * 1.5 / 5}));
    """
    seen = in_browser(attention_page(view), tmp_path, then=doings)
    assert seen.html.get("data-error") is None
    assert "Cross-attention · layer 0 · head 2" in seen.texts
    reading = seen.texts.index(" looks at ")
    weight = view.maps[0].weights[2, 1, 2]
    assert seen.texts[reading - 1 : reading + 4] == [
        TARGET[1],
        " looks at ",
        SOURCE[2],
        " with weight ",
        f"{weight:.3f}",
    ]


@pytest.mark.parametrize(
    "maps",
    [
        [],
        [AttentionMap("a.0.self_attn", [], [], np.zeros((2, 0, 0), dtype=np.float32))],
        [AttentionMap("set.0.mab", ["x"], ["y", "z"], np.zeros((1, 1, 2), dtype=np.float32))],
    ],
    ids=["no maps", "no tokens", "a row that attends to nothing"],
)
def test_browser_draws_what_is_empty_without_an_error(maps: list[AttentionMap], tmp_path: Path) -> None:
    seen = in_browser(attention_page(AttentionView("empty", "", "", maps)), tmp_path)
    assert seen.html.get("data-error") is None
    assert seen.html.get("data-ready") == "true"
