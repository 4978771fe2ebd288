"""The document for the viewer: the model's own weights, under the limits that every request has."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from benchmarks.serving import Server
from regard import capture
from regard.decode.translator import Translator
from regard.decode.wishes import Wish
from regard.serve.batcher import Answer, Batcher, Kind
from regard.serve.limits import Limits
from regard.serve.metrics import Metrics
from regard.serve.models import Served
from regard.tasks.attention import attention_view
from regard.view import AttentionView, attention_document
from regard.view.page import SCRIPTS, STYLE, attention_page, part


def stored(example: dict[str, Any]) -> dict[str, np.ndarray]:
    """Every map of an example, (H, Q, K), as a reader of docs/viewer.md unpacks it."""
    numbers = np.frombuffer(zlib.decompress(base64.b64decode(example["weights"]), -15), np.uint8) / 255
    found = {}
    for one in example["maps"]:
        Q, K = (len(example["axes"][one[axis]]["items"]) for axis in ("rows", "columns"))
        found[one["name"]] = numbers[one["at"] : one["at"] + one["H"] * Q * K].reshape(one["H"], Q, K)
    return found


def batched(model: Translator, kind: Kind, text: str) -> Answer:
    """What the server's own thread makes of a sentence."""
    batcher = Batcher({"run": Served("run", "en", "de", model, model)}, Limits(), Metrics())
    batcher.start()
    try:
        return batcher.submit(kind, [text], [Wish()], 60).futures[0].result(60)
    finally:
        batcher.stop()


def view_of(model: Translator, text: str, said: str | None = None) -> AttentionView:
    view = batched(model, Kind("run", model.config.beam_size, view=True, said=said), text).view
    assert view is not None
    return view


def test_weights_are_what_capture_gives_before_they_are_packed(model: Translator, sentences: list[str]) -> None:
    view = view_of(model, sentences[3])
    with capture(model) as maps:
        model.translate(sentences[3])
    assert {one.name for one in view.maps} == set(maps)
    for one in view.maps:
        np.testing.assert_allclose(one.weights, maps[one.name][0].numpy(), atol=1e-5, rtol=0)


def test_the_document_holds_them_within_half_a_level(
    ask: httpx.Client, model: Translator, sentences: list[str]
) -> None:
    answer = ask.post("/v1/attention", json={"text": sentences[3]})
    assert answer.status_code == 200, answer.text
    (example,) = answer.json()["examples"]
    assert (example["source"], example["target"]) == (sentences[3].strip(), model.translate(sentences[3]))
    with capture(model) as maps:
        model.translate(sentences[3])
    found = stored(example)
    assert set(found) == set(maps)
    for name, weights in found.items():
        assert np.abs(weights - maps[name][0].numpy()).max() <= 1 / 510 + 1e-5


def test_a_given_translation_is_looked_into_as_regard_view_does(ask: httpx.Client, model: Translator) -> None:
    answer = ask.post("/v1/attention", json={"text": "a b c. d", "translation": "d a"}).json()
    assert answer == attention_document(attention_view(model, model.given("a b c. d", "d a")))
    assert [step["token"] for step in answer["examples"][0]["steps"]][-1] == "</s>"


def test_each_sentence_is_an_example(ask: httpx.Client) -> None:
    examples = ask.post("/v1/attention", json={"text": "a b\nc d e\n"}).json()["examples"]
    assert [one["source"] for one in examples] == ["a b", "c d e"]


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({}, 422, "text"),
    ({"text": ["a"]}, 422, "text"),
    ({"text": " \n"}, 422, "send a sentence"),
    ({"text": "a b " * 101}, 413, "400 allowed"),
    ({"text": "a", "translation": "a b " * 201}, 413, "800 allowed"),
    ({"text": "a", "model": "rum"}, 400, "did you mean run?"),
    ({"text": "a", "beam": 9}, 400, "8 allowed"),
    ({"text": "a", "n_best": 2}, 422, "n_best"),
    ({"text": "a", "deadline": 1e-9}, 504, "deadline"),
]


@pytest.mark.parametrize(
    ("body", "status", "words"), REFUSED, ids=[f"{status}-{words}" for _, status, words in REFUSED]
)
def test_a_refusal_says_what_to_change(ask: httpx.Client, body: dict[str, Any], status: int, words: str) -> None:
    answer = ask.post("/v1/attention", json=body)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]


def test_alignments_tell_how_much_each_word_looks_at_each(
    translate: Any, model: Translator, sentences: list[str]
) -> None:
    (answer,) = translate(text=sentences[1], alignments=True)["translations"]
    told = answer["sentences"][0]["translations"][0]["alignment"]
    (looks,) = model.word_looks(model.search([sentences[1]])[0])
    for row, weights in zip(looks.tolist(), told["weights"], strict=True):
        assert dict(weights) == pytest.approx({s: weight for s, weight in enumerate(row) if weight >= 0.02}, abs=1e-3)
    strongest = [max(weights, key=lambda pair: pair[1])[0] for weights in told["weights"]]
    assert [[s, t] for t, s in enumerate(strongest)] == sorted(told["links"], key=lambda link: link[1])


def test_the_viewers_files_are_those_of_saved_pages(ask: httpx.Client, server: Server) -> None:
    for name in (STYLE, *SCRIPTS):
        answer = ask.get(f"/page/viewer/{name}")
        assert answer.text == part(name)
        again = ask.get(f"/page/viewer/{name}", headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    assert ask.get("/page/viewer/saved.html").text == attention_page()
    for path in ("/page/viewer/../app.py", "/page/viewer/", "/page/viewer/..%2fapp.py"):
        assert ask.get(path).status_code == 404
    page = (Path(__file__).parents[2] / "regard" / "serve" / "page" / "index.html").read_text()
    places = [page.index(f'src="page/viewer/{name}"') for name in SCRIPTS[:-1]]
    assert places == sorted(places), "in the order in which they build on one another"
