"""The attention document and its page: self-contained, faithful to the weights, and inert whatever the tokens say."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import zlib
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.view import AttentionMap, AttentionView, attention_document, attention_page, recurrent_view, set_map

SOURCE = ["▁A", "▁dog", "▁run", "s", ".", "</s>"]
TARGET = ["▁Ein", "▁Hund", "▁läuft", ".", "</s>"]
Weights = Callable[..., np.ndarray]


def numbers_of(example: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(example["weights"]), wbits=-15), dtype=np.uint8)


def weights_in(example: dict[str, Any], one: dict[str, Any], levels: int) -> np.ndarray:
    Q, K = (len(example["axes"][one[side]]["items"]) for side in ("rows", "columns"))
    return numbers_of(example)[one["at"] : one["at"] + one["H"] * Q * K].reshape(one["H"], Q, K) / levels


def document_text_in(page: str) -> str:
    """What stands in the data element, up to the end tag that the template wrote."""
    begin = page.index('id="document">') + len('id="document">')
    return page[begin : page.index("</script>\n<script>", begin)]


def test_page_refers_to_nothing_outside_itself(sentence: AttentionView) -> None:
    # With the document taken out: base64 may spell anything, and is never followed.
    page = re.sub(r'id="document">.*?</script>', "></script>", attention_page(sentence), flags=re.DOTALL)
    page = page.replace("http://www.w3.org/2000/svg", "")  # the name of a namespace, never fetched
    for reference in ("http:", "https:", "//cdn", "src=", "@import", "url(", "fetch(", "import(", "eval(", "innerHTML"):
        assert reference not in page


def test_page_forbids_every_request_and_every_other_script(sentence: AttentionView) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', attention_page(sentence))
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy[1]
    assert "connect-src" not in policy[1]


def test_the_page_holds_the_document(sentence: AttentionView, cluster_set: AttentionView) -> None:
    inside = json.loads(document_text_in(attention_page(sentence, cluster_set)))
    assert inside == attention_document(sentence, cluster_set)


@pytest.mark.parametrize("which", ["sentence", "cluster_set"])
def test_weights_are_those_given_within_the_stated_rounding(which: str, request: pytest.FixtureRequest) -> None:
    view: AttentionView = request.getfixturevalue(which)
    document = attention_document(view)
    (example,) = document["examples"]
    given = {one.name: one for one in view.maps}
    assert len(example["maps"]) == len(given)
    for one in example["maps"]:
        original = given[one["name"]]
        rows, columns = example["axes"][one["rows"]], example["axes"][one["columns"]]
        assert (rows["items"], columns["items"]) == (original.rows, original.columns)
        error = np.abs(weights_in(example, one, document["levels"]) - original.weights.astype(np.float64)).max()
        assert error <= 0.5 / document["levels"] + 1e-12 < 0.002


def test_zero_and_one_are_stored_exactly() -> None:
    causal = np.array([[[1, 0], [0.5, 0.5]]], dtype=np.float32)
    document = attention_document(AttentionView("", "", "", [AttentionMap("x", ["a", "b"], ["a", "b"], causal)]))
    (example,) = document["examples"]
    assert weights_in(example, example["maps"][0], document["levels"])[0, 0].tolist() == [1.0, 0.0]


def test_groups_follow_the_paper_and_unknown_paths_keep_their_name(sentence: AttentionView, made_up: Weights) -> None:
    sentence.maps.append(AttentionMap("pool.0.mab", TARGET, SOURCE, made_up(2, len(TARGET), len(SOURCE))))
    maps = attention_document(sentence)["examples"][0]["maps"]
    assert list(dict.fromkeys(one["group"] for one in maps)) == [
        "Encoder self-attention",
        "Decoder self-attention",
        "Cross-attention",
        "pool.mab",
    ]
    assert [one["layer"] for one in maps[:2]] == ["layer 0", "layer 1"]


def test_axes_say_their_kind_and_are_written_once(sentence: AttentionView, cluster_set: AttentionView) -> None:
    words, points = (attention_document(view)["examples"][0]["axes"] for view in (sentence, cluster_set))
    assert [axis["kind"] for axis in words] == ["tokens"] * 5  # source, target, what was given, words twice
    assert sorted(axis["kind"] for axis in points) == ["points", "tokens", "tokens"]
    heap = next(axis for axis in points if axis["kind"] == "points")
    assert np.allclose(heap["points"], cluster_set.maps[0].row_points, atol=1e-6)
    assert len(heap["items"]) == 12
    assert ["seed 0", "seed 1"] in [axis["items"] for axis in points]


def test_a_recurrent_alignment_is_one_map_without_layers(made_up: Weights) -> None:
    weights = made_up(1, len(TARGET), len(SOURCE))[0]
    for given in (weights, weights[None]):
        (example,) = attention_document(recurrent_view("rnn", SOURCE, TARGET, given))["examples"]
        (one,) = example["maps"]
        assert (one["H"], one["layer"], one["rollout"]) == (1, "", None)
        assert np.abs(weights_in(example, one, 255)[0] - weights).max() < 0.002
        assert np.array_equal(weights_in(example, one, 255), weights_in(example, example["alignment"], 255))


def test_points_have_two_finite_coordinates(made_up: Weights) -> None:
    with pytest.raises(ValueError, match=r"3 points of a plane are 3 × 2 finite numbers, not \(3, 4\)"):
        AttentionMap("x", ["a"] * 3, ["a"], np.zeros((1, 3, 1), dtype=np.float32), row_points=np.zeros((3, 4)))
    with pytest.raises(ValueError, match="finite"):
        set_map("x", made_up(1, 2, 2), np.array([[0.0, np.nan], [0, 0]]))


def test_page_is_ascii_so_that_any_encoding_writes_it(hostile: AttentionView) -> None:
    assert attention_page(hostile).isascii()


class Outline(HTMLParser):
    """The tags of a document in order, and how many comments it has."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.comments = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_comment(self, data: str) -> None:
        self.comments += 1


def test_hostile_tokens_add_no_element_and_no_comment(sentence: AttentionView, hostile: AttentionView) -> None:
    plain, attacked = Outline(attention_page(sentence)), Outline(attention_page(hostile))
    assert attacked.tags == plain.tags
    assert attacked.comments == plain.comments == 0
    # Without a < of its own the document cannot end its element, whatever rules the parser follows.
    assert not set("<>&") & set(document_text_in(attention_page(hostile)))


def test_what_is_unseen_or_acts_is_spelt_out(hostile: AttentionView, seen_as: dict[str, str]) -> None:
    assert attention_document(hostile)["examples"][0]["axes"][0]["items"] == list(seen_as.values())


def test_two_hundred_tokens_through_the_base_model_stay_below_five_megabytes(made_up: Weights) -> None:
    """The worst that rows of a softmax do: weights as unlike one another as 8 bits can hold of them."""
    n = 200
    tokens = [f"▁token{i}" for i in range(n)]
    maps = [
        AttentionMap(f"{side}.layers.{layer}.{kind}_attn", tokens, tokens, made_up(8, n, n, layer))
        for layer in range(6)
        for side, kind in (("encoder", "self"), ("decoder", "self"), ("decoder", "cross"))
    ]
    assert len(attention_page(AttentionView("large", "", "", maps))) < 5_000_000


def test_maps_refuse_what_cannot_be_shown() -> None:
    with pytest.raises(ValueError, match=r"shape \(2, 3\)"):
        AttentionMap("x", ["a", "b"], ["a", "b", "c"], np.zeros((2, 3), dtype=np.float32))
    with pytest.raises(ValueError, match="between 0 and 1"):
        AttentionMap("x", ["a"], ["a"], np.full((1, 1, 1), np.nan, dtype=np.float32))
    with pytest.raises(ValueError, match="between 0 and 1"):
        AttentionMap("x", ["a"], ["a"], np.full((1, 1, 1), 1.5, dtype=np.float32))


GUIDE = Path(__file__).parents[2] / "docs" / "viewer.md"


def keys_of(content: object) -> set[str]:
    """Every key of a document, at any depth."""
    if isinstance(content, dict):
        return set(content) | {key for value in content.values() for key in keys_of(value)}
    return {key for value in content for key in keys_of(value)} if isinstance(content, list) else set()


def test_the_guide_names_every_field(sentence: AttentionView, cluster_set: AttentionView) -> None:
    (table,) = re.findall(r"```text\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.S)
    named = {name for line in table.splitlines() for name in re.findall(r"\w+", re.split(r"\s{2,}", line.strip())[0])}
    assert named == keys_of(attention_document(sentence, cluster_set))


def test_the_guides_snippet_makes_a_page(tmp_path: Path) -> None:
    (snippet,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.S)
    subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, check=True)
    content = json.loads(document_text_in((tmp_path / "attention.html").read_text()))
    assert [axis["kind"] for axis in content["examples"][1]["axes"]] == ["points", "tokens"]
