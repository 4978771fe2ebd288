"""LibreTranslate's clients work unchanged."""

from __future__ import annotations

import json

import httpx
from libretranslatepy import LibreTranslateAPI

from benchmarks.serving import Server
from regard.decode.translator import Translator


def test_libretranslatepy_works(server: Server, model: Translator) -> None:
    client = LibreTranslateAPI(f"http://127.0.0.1:{server.port}")
    assert client.translate("a b c d", "en", "de") == model.translate("a b c d")
    english, german = {"code": "en", "name": "English"}, {"code": "de", "name": "German"}
    assert client.languages() == [{**english, "targets": ["de"]}, {**german, "targets": []}]
    (detected,) = client.detect("this is the one that was in the house")
    assert detected["language"] == "en"
    assert detected["confidence"] > 80


def test_its_json_has_its_shapes(ask: httpx.Client, model: Translator) -> None:
    best = model.search(["a b c"], n_best=3)[0]
    body = {"q": "a b c", "source": "en", "target": "de", "format": "text", "alternatives": 2, "api_key": ""}
    answer = ask.post("/translate", json=body).json()
    assert answer == {"translatedText": best[0].text, "alternatives": [one.text for one in best[1:]]}
    several = ask.post("/translate", json={"q": ["a", "b c"], "source": "auto", "target": "de"}).json()
    assert several["translatedText"] == model.translate(["a", "b c"])
    assert [one["language"] for one in several["detectedLanguage"]] == ["en", "en"]
    unsure = ask.post("/translate", json={"q": "z y x", "source": "auto", "target": "de"}).json()
    detected = {"confidence": 0.0, "language": "en"}
    assert unsure == {"translatedText": model.translate("z y x"), "detectedLanguage": detected}
    settings = ask.get("/frontend/settings").json()
    assert settings["charLimit"] == 5000
    assert settings["keyRequired"] is False
    assert settings["language"]["target"] == {"code": "de", "name": "German"}


def test_its_refusals_are_400(ask: httpx.Client) -> None:
    good = {"q": "a", "source": "en", "target": "de"}
    for change, words in (
        ({"alternatives": 10_000}, "8 allowed"), ({"target": "fr"}, "en to de"), ({"format": "html"}, "text"),
        ({"q": 5}, "q must be a text, or a list of texts."),
        ({"q": ["a", "\ud800"]}, "q has half of a surrogate pair, which is no character: leave it out."),
        ({"alternatives": -1}, "alternatives must be a whole number from 0 to 1,000,000."),
        ({"source": "auto", "target": "xx"}, "xx"),
    ):  # fmt: skip
        body = json.dumps({**good, **change})
        answer = ask.post("/translate", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400, change
        assert words in answer.json()["error"]
    missing = ask.post("/translate", json={"q": "a"})
    assert missing.status_code == 400
    assert missing.json() == {"error": "The field target is missing: send the code of a language, such as en."}
    several = ask.post("/detect", json={"q": ["a"]})
    assert several.json() == {"error": "q must be a text."}
    for content, kind in (
        (b"q=%ff&target=de", "application/x-www-form-urlencoded"), (b"[]", "application/json"),
        (b"x", "multipart/form-data; boundary=x"), (b"{", "application/json"),
    ):  # fmt: skip
        assert ask.post("/translate", content=content, headers={"content-type": kind}).status_code == 400
