"""Several models in one server: another engine, and one that writes all tokens at once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

import regard
from benchmarks.serving import served
from regard.decode.translator import Translator
from regard.decode.wishes import Wish
from regard.export.choice import open_translator


def test_the_languages_choose_the_model(
    reverser: Path, model: Translator, sentences: list[str], tmp_path: Path
) -> None:
    with several(reverser, f"de-en={reverser}", tmp_path) as ask:
        names = [(one["name"], one["source"]) for one in ask.get("/v1/models").json()["models"]]
        assert names == [("run", "en"), ("run-2", "de")]
        for source, name in (("en", "run"), ("de", "run-2")):
            answer = ask.post("/v1/translate", json={"text": sentences[:5], "source": source}).json()
            assert answer["model"] == name
            assert [one["text"] for one in answer["translations"]] == model.translate(sentences[:5])
        assert ask.get("/ready").json()["models"] == ["run", "run-2"]
        unclear = ask.post("/v1/translate", json={"text": "a"})
        assert unclear.status_code == 400
        assert "Say source and target" in unclear.json()["error"]
        languages = ask.get("/languages").json()
        assert [(one["code"], one["targets"]) for one in languages] == [("en", ["de"]), ("de", ["en"])]


def test_of_two_models_for_a_pair_the_first_answers_and_the_server_says_so(
    reverser: Path, model: Translator, tmp_path: Path
) -> None:
    with served(reverser, tmp_path / "log", f"pt-BR:en={reverser}", f"pt:en={reverser}", pair="pt-BR:en") as server:
        asked = httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=60)
        found = asked.get("/v1/models").json()["models"]
        assert [(one["name"], one["source"], one["default"]) for one in found] == [
            ("run", "pt-BR", True), ("run-2", "pt-BR", False), ("run-3", "pt", True)
        ]  # fmt: skip
        for request, name in (
            ({"source": "pt-BR", "target": "en"}, "run"), ({"source": "pt-br", "target": "en"}, "run"),
            ({"source": "pt", "target": "en"}, "run-3"), ({"model": "run-2"}, "run-2"),
            ({"model": "run-2", "source": "pt"}, "run-2"),
        ):  # fmt: skip
            assert asked.post("/v1/translate", json={"text": "a b", **request}).json()["model"] == name
        unclear = asked.post("/v1/translate", json={"text": "a b", "target": "en"})
        assert unclear.json() == {"error": "Say source and target: there is pt-BR to en, pt to en."}
        names = {one["source"]: one["source_name"] for one in found}
        listed = {one["code"]: one["name"] for one in asked.get("/languages").json()}
        assert names == {"pt-BR": "Portuguese (Brazil)", "pt": "Portuguese"}
        assert listed == {**names, "en": "English"}
        page = asked.get("/frontend/settings").json()["language"]
        assert page["source"] == {"code": "pt-BR", "name": "Portuguese (Brazil)"}
    started = (tmp_path / "log").read_text()
    assert 'run-2: pt-BR to en, by torch. run answers for this pair: ask for "model": "run-2".\n' in started
    assert started.count("answers for this pair") == 1


@pytest.mark.soak
def test_a_model_that_writes_all_tokens_at_once_is_served(
    reverser: Path, masked_reverser: Path, sentences: list[str], tmp_path: Path
) -> None:
    masked = regard.load(masked_reverser, device="cpu")
    with several(reverser, f"de-en={masked_reverser}", tmp_path) as ask:
        answer = ask.post("/v1/translate", json={"text": sentences[:5], "source": "de"}).json()
        assert [one["text"] for one in answer["translations"]] == masked.translate(sentences[:5])
        (one,) = [one for one in ask.get("/v1/models").json()["models"] if one["source"] == "de"]
        page = {"text": "a b c", "model": one["name"], "n_best": one["n_best"], "scores": True, "alignments": True}
        (asked,) = ask.post("/v1/translate", json=page).json()["translations"]  # as the page asks
        assert asked["text"] == masked.translate("a b c")
        (looked,) = ask.post("/v1/attention", json={"text": "a b c", "source": "de"}).json()["examples"]
        assert looked["target"] == masked.translate("a b c")
        for change in ({"beam": 2}, {"prefix": "a"}):
            refused = ask.post("/v1/translate", json={"text": "a b", "source": "de", **change})
            assert refused.status_code == 422, refused.text
        assert ask.get("/ready").status_code == 200


@contextmanager
def several(first: Path, second: str, folder: Path) -> Iterator[httpx.Client]:
    with (
        served(first, folder / "log", second, pair="en-de") as server,
        httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=60) as client,
    ):
        yield client


def test_ctranslate2_searches_and_torch_does_the_rest(
    reverser: Path, model: Translator, sentences: list[str], tmp_path: Path
) -> None:
    pytest.importorskip("ctranslate2")
    shutil.copytree(reverser, tmp_path / "run")
    reverser = tmp_path / "run"  # an export is made inside it
    engine = open_translator(reverser, "ctranslate2")
    with (
        served(reverser, tmp_path / "log", "--engine", "ctranslate2", pair="en-de") as server,
        httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=60) as ask,
    ):
        (one,) = ask.get("/v1/models").json()["models"]
        assert one["engine"] == "CTranslate2"
        assert one["alignments"] is True
        answer = ask.post("/v1/translate", json={"text": sentences[:30]}).json()
        assert [one["text"] for one in answer["translations"]] == engine.translate(sentences[:30])
        wished = ask.post("/v1/translate", json={"text": "a b c", "prefix": "z"}).json()["translations"]
        assert wished[0]["text"] == model.search(["a b c"], wishes=[Wish(prefix="z")])[0][0].text
        aligned = ask.post("/v1/translate", json={"text": "a b c", "alignments": True, "attention": True})
        assert aligned.status_code == 200
        (looked,) = ask.post("/v1/attention", json={"text": "a b c"}).json()["examples"]
        assert looked["target"] == engine.translate("a b c")
