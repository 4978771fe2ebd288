"""What a client gets from a real server: translations as the command line gives them, and refusals that help."""

from __future__ import annotations

import base64
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch

from benchmarks.serving import Server, served
from regard import capture
from regard.decode.alignment import pharaoh
from regard.decode.translator import Translator
from regard.decode.wishes import Wish
from regard.serve import api

PAIR = "en-de"


def test_a_text_and_several_are_translated_as_by_the_command_line(
    translate: Any, sentences: list[str], reverser: Path
) -> None:
    some = [text.strip() for text in sentences[:12]]
    command = [sys.executable, "-m", "regard", "translate", str(reverser), "--threads", "1"]
    printed = subprocess.run(command, input="\n".join(some), capture_output=True, text=True, check=True).stdout
    answer = translate(text=some)
    assert [one["text"] for one in answer["translations"]] == printed.splitlines()
    assert {key: answer[key] for key in ("model", "source", "target")} == {
        "model": "run",
        "source": "en",
        "target": "de",
    }
    assert translate(text=some[0])["translations"] == [{"text": printed.splitlines()[0]}]


def test_spacing_is_put_back_exactly(translate: Any, model: Translator) -> None:
    text = "\n\n  a b c\t \r\n d e f g  \n"
    first, second = model.translate(["a b c", "d e f g"])
    assert translate(text=text)["translations"][0]["text"] == f"\n\n  {first}\t \r\n {second}  \n"
    for blank in ("", " \n "):
        assert translate(text=blank)["translations"] == [{"text": blank}]
    assert translate(text=[])["translations"] == []


def test_n_best_scores_and_beams_are_the_models(translate: Any, model: Translator, sentences: list[str]) -> None:
    text = sentences[0]
    best = model.search([text], n_best=3, beam_size=5)[0]
    (answer,) = translate(text=text, n_best=3, beam=5, scores=True)["translations"]
    assert [answer["text"], *answer["alternatives"]] == [one.text for one in best]
    (sentence,) = answer["sentences"]
    assert sentence["source"] == text
    found = [(one["score"], one["log_prob"]) for one in sentence["translations"]]
    np.testing.assert_allclose(found, [(one.score, one.log_prob) for one in best], atol=1e-4)


def test_alignments_are_the_command_lines(translate: Any, model: Translator, sentences: list[str]) -> None:
    (answer,) = translate(text=sentences[1], alignments=True)["translations"]
    alignment = answer["sentences"][0]["translations"][0]["alignment"]
    (best,) = model.search([sentences[1]])[0]
    assert pharaoh([tuple(link) for link in alignment["links"]]) == pharaoh(model.align([best])[0])
    assert alignment["source_words"] == sentences[1].split()
    assert alignment["target_words"] == best.text.split()


def test_attention_is_what_capture_gives(translate: Any, model: Translator, sentences: list[str]) -> None:
    (answer,) = translate(text=sentences[2], attention=True)["translations"]
    with capture(model) as maps:
        model.translate(sentences[2])
    sent = {one["name"]: one for one in answer["sentences"][0]["translations"][0]["attention"]}
    assert set(sent) == set(maps)
    assert len(sent) == 6
    for name, one in sent.items():
        weights = np.frombuffer(base64.b64decode(one["weights"]), "<f4").reshape(one["shape"])
        assert weights.shape[1:] == (len(one["rows"]), len(one["columns"]))
        torch.testing.assert_close(torch.tensor(weights), maps[name][0], atol=1e-5, rtol=0)
    (one,) = translate(text=sentences[2], attention=["decoder.layers.1.cross_attn"])["translations"]
    assert [m["name"] for m in one["sentences"][0]["translations"][0]["attention"]] == ["decoder.layers.1.cross_attn"]
    names = ["decoder.layers.1.cross_attn", "encoder.layers.0.self_attn"]
    (many,) = translate(text=sentences[2], attention=names * 2000)["translations"]
    assert [m["name"] for m in many["sentences"][0]["translations"][0]["attention"]] == names, "each once"


def test_prefix_and_glossary_are_honoured(translate: Any, model: Translator) -> None:
    wish = Wish(prefix="z", required=("q r",))
    expected = model.search(["a b c"], wishes=[wish])[0][0].text
    (answer,) = translate(text="a b c", prefix="z", glossary={"B": "q r", "x": "never"})["translations"]
    assert answer["text"] == expected
    assert expected.startswith("z")
    assert "q r" in expected


def test_a_long_text_is_streamed_sentence_by_sentence(ask: httpx.Client, translate: Any, sentences: list[str]) -> None:
    text = "\n".join(sentences[:30]) + "\n"
    body = {"text": [text, "a"], "stream": True, "scores": True}
    with ask.stream("POST", "/v1/translate", json=body) as answer:
        assert answer.headers["content-type"] == "application/x-ndjson"
        lines = [json.loads(line) for line in answer.iter_lines()]
    assert lines[-1] == {"done": True}
    texts = ["", ""]
    for line in lines[:-1]:
        best = line["translations"][0]["text"] if "translations" in line else ""
        texts[line["text"]] += line.get("before", "") + best + line.get("after", "")
    assert texts == [one["text"] for one in translate(text=[text, "a"])["translations"]]
    assert sum("translations" in line for line in lines) == 31


# Each is refused with a status and a sentence with these words.
REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({}, 422, "The field text is missing: send a text, or a list of texts."),
    ({"text": 7}, 422, "text must be a text, or a list of texts."),
    ({"text": ["a", {}]}, 422, "text must be a text, or a list of texts."),
    ({"text": None}, 422, "text must be a text, or a list of texts."),
    ({"text": "a", "beams": 2}, 422, "There is no field beams (did you mean beam?)."),
    ({"text": "a", "zzzz": 2}, 422, "There is no field zzzz: there is text, source, target, model, beam, n_best, "),
    ({"text": "a", "beam": 0}, 422, "beam must be a whole number from 1 to 1,000,000."),
    ({"text": "a", "beam": 1.5}, 422, "beam must be a whole number from 1 to 1,000,000."),
    ({"text": "a", "attention": 5}, 422, "attention must be true, false, or a list of names of modules."),
    ({"text": "a", "glossary": {"a": 1}}, 422, "glossary must be an object with a text for each term."),
    ({"text": "a", "model": "run", "source": "fr"}, 422, "run translates en to de, not fr to any language: leave out "),
    ({"text": "a", "model": "run", "source": "de", "target": "en"}, 422, "run translates en to de, not de to en: "),
    ({"text": "a", "beam": 9}, 400, "8 allowed"),
    ({"text": "a", "n_best": 10_000}, 400, "8 allowed"),
    ({"text": "a", "deadline": 0}, 422, "deadline must be a number of seconds above 0."),
    ({"text": "a", "split": "words"}, 422, 'split must be "sentences", "lines" or "none".'),
    ({"text": "a" * 5001}, 413, "5,000 allowed"),
    ({"text": ["a"] * 65}, 413, "64 allowed"),
    ({"text": "a", "source": "fr"}, 400, "en to de"),
    ({"text": "a", "model": "rum"}, 400, "did you mean run?"),
    ({"text": "a", "glossary": {str(i): "a" for i in range(33)}}, 413, "32 allowed"),
    ({"text": "a", "glossary": {"a": "b" * 101}}, 413, "100 allowed"),
    ({"text": "a", "glossary": {"a": " "}}, 422, "empty"),
    ({"text": "a", "glossary": {"a": "ü"}}, 422, "ü"),
    ({"text": "a", "prefix": "ü"}, 422, "ü"),
    ({"text": "a b " * 101, "attention": True}, 413, "400 allowed"),
    ({"text": "a", "attention": ["encoder"]}, 422, "no attention encoder"),
    ({"text": "", "attention": ["encoder"]}, 422, "no attention encoder"),
    ({"text": "a", "attention": ["encoder"], "stream": True}, 422, "no attention encoder"),
    ({"text": "a", "beam": 1_000_001}, 422, "beam"),
    ({"text": "a\ud800"}, 422, "text has half of a surrogate pair, which is no character: leave it out."),
    ({"text": ["a", "\ud800"]}, 422, "text has half of a surrogate pair, which is no character: leave it out."),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "status", "words"), REFUSED, ids=[f"{status}-{words}" for _, status, words in REFUSED]
)
def test_a_refusal_says_what_to_change(ask: httpx.Client, body: dict[str, Any], status: int, words: str) -> None:
    answer = ask.post("/v1/translate", content=json.dumps(body), headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    assert words in answer.json()["error"]


def test_every_field_is_told_what_it_must_be(ask: httpx.Client) -> None:
    """None is refused in words that are pydantic's."""
    wrong: dict[str, list[Any]] = {"text": [[[]]], "glossary": [[], {"a": []}], "attention": [{}, [1]]}
    for path, fields in api.FIELDS.items():
        for name, must in fields.items():
            for value in wrong.get(name, [{"a": 1}]):
                answer = ask.post(path, json={"text": "a", name: value})
                assert answer.json() == {"error": f"{name} must be {must}."}
                assert answer.status_code == 422


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "application/vnd.regard+json"])
def test_a_valid_body_is_answered_alike_whichever_way_it_goes(
    ask: httpx.Client, kind: str, sentences: list[str]
) -> None:
    """JSON by another name passes all layers of the framework."""
    body = json.dumps({"text": sentences[:3], "n_best": 2, "scores": True}).encode()
    answer = ask.post("/v1/translate", content=body, headers={"Content-Type": kind})
    plain = ask.post("/v1/translate", json={"text": sentences[:3], "n_best": 2, "scores": True})
    assert answer.status_code == plain.status_code == 200
    assert answer.content == plain.content
    assert {name: answer.headers[name] for name in answer.headers if name != "date"} == {
        name: plain.headers[name] for name in plain.headers if name != "date"
    }


def test_head_is_get_without_a_body(ask: httpx.Client) -> None:
    for path in ("/", "/docs", "/page/page.js", "/live", "/health", "/ready", "/metrics", "/v1/models", "/languages"):
        head, get = ask.head(path), ask.get(path)
        assert (head.status_code, head.content) == (200, b""), path
        assert head.headers["content-type"] == get.headers["content-type"]
        if path != "/metrics":  # whose numbers have moved on
            assert head.headers["content-length"] == str(len(get.content))
    assert ask.head("/nowhere").status_code == 404
    assert ask.head("/v1/translate").status_code == 405
    refused = ask.put("/live")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


def test_a_body_is_limited_while_it_is_read(ask: httpx.Client) -> None:
    def chunks() -> Any:
        for _ in range(40):
            yield b"x" * 10_000

    headers = {"content-type": "application/json"}
    for content in (chunks(), b"x" * 400_000, b'{"text": "' + b"a" * 300_000 + b'"}'):
        answer = ask.post("/v1/translate", content=content, headers=headers)
        assert answer.status_code == 413
        assert "262,144 bytes" in answer.json()["error"]
    assert ask.post("/v1/translate", json={"text": "a"}).status_code == 200


def test_the_sender_of_a_large_body_who_asks_first_is_told_at_once(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        head = b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n"
        connection.sendall(head + b"Expect: 100-continue\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_an_answer_is_one_packet(server: Server) -> None:
    body = b'{"text": "a b c"}'
    head = b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        for _ in range(5):
            connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            answer = connection.recv(65_536)
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["model"] == "run", "header and body came together"


def test_every_answer_has_security_headers_and_the_page_a_policy(ask: httpx.Client) -> None:
    for path in ("/", "/page/page.js", "/v1/models", "/nowhere", "/live", "/openapi.json"):
        headers = ask.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers
    page = ask.get("/")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(links) >= 2
    assert all(ask.get("/" + link).status_code == 200 for link in links), "and nothing from elsewhere"
    assert not re.search(r"<script>|<style|\sstyle=|\son\w+=", page.text), "nothing inline, which the policy forbids"


def test_the_documents_make_no_outside_request(ask: httpx.Client) -> None:
    document = ask.get("/openapi.json").json()
    assert {"/v1/translate", "/v1/models", "/translate", "/languages", "/ready"} <= set(document["paths"])
    assert re.findall(r'(?:src|href)="(?:https?:)?//', ask.get("/docs").text) == []
    assert ask.get("/redoc").status_code == 404


def test_health_and_metrics(ask: httpx.Client, translate: Any) -> None:
    assert ask.get("/live").json() == {"status": "ok"}
    assert ask.get("/ready").json() == {"status": "ready", "models": ["run"]}

    def count(name: str) -> float:
        return float(re.search(rf"^{re.escape(name)} (\S+)$", ask.get("/metrics").text, flags=re.M)[1])  # type: ignore[index]

    translate(text="a b c")
    before = count('regard_batch_sentences_sum{model="run"}'), count('regard_tokens_total{model="run",side="source"}')
    translate(text="a b c\nd e f")
    after = count('regard_batch_sentences_sum{model="run"}'), count('regard_tokens_total{model="run",side="source"}')
    assert after[0] == before[0] + 2
    assert after[1] > before[1]
    assert count("regard_queue_sentences") == 0
    assert count('regard_requests_total{route="/v1/translate",status="200"}') >= 2
    assert count("process_resident_memory_bytes") > 0


def test_the_log_has_no_text_of_users(ask: httpx.Client, log: Path) -> None:
    ask.post("/v1/translate", json={"text": "s e c r e t"})
    ask.post("/v1/translate?text=s+e+c+r+e+t", json={"text": "a", "prefix": "s e c r e t ü"})
    ask.post("/s-e-c-r-e-t", json={"text": "s e c r e t"})
    time.sleep(0.2)
    text = log.read_text()
    assert "POST /v1/translate 200" in text
    assert "POST other 404" in text
    assert re.search(
        r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ 127\.0\.0\.1 POST /v1/translate 200 .*, 1 text, 11 characters$", text, re.M
    )
    assert not re.search("s.?e.?c.?r.?e.?t", text)


def test_other_sites_cannot_use_a_local_server(ask: httpx.Client, log: Path) -> None:
    body = {"text": "a"}
    own = str(ask.base_url)
    assert ask.post("/v1/translate", json=body, headers={"Origin": own}).status_code == 200
    elsewhere = ask.post("/v1/translate", json=body, headers={"Origin": "https://evil.example"})
    assert elsewhere.status_code == 403
    assert "--cors" in elsewhere.json()["error"]
    rebound = ask.get("/v1/models", headers={"Host": "evil.example"})
    assert rebound.status_code == 400
    assert "--host-name" in rebound.json()["error"]
    assert ask.get("/live").status_code == 200, "after which the lines before have been written"
    assert " POST /v1/translate 403 " in log.read_text(), "by name, though no route has seen it"
    assert " GET /v1/models 400 " in log.read_text()


# Every option for a limit, the limit, and another value than it has at first.
LIMITED = {
    "max-characters": ("characters", 4001), "max-items": ("items", 61), "max-beam": ("beam", 6),
    "max-n-best": ("n_best", 5), "max-sentence": ("sentence_characters", 501), "max-terms": ("glossary_terms", 31),
    "max-term": ("term_characters", 99), "max-attention": ("attention_characters", 301),
    "max-body": ("body_bytes", 200_001), "max-queue": ("queue", 1001), "max-requests": ("in_flight", 101),
    "max-seconds": ("seconds", 29), "read-seconds": ("read_seconds", 1), "drain-seconds": ("drain_seconds", 59),
}  # fmt: skip
PAGE_ELSEWHERE = "https://page.example"


@dataclass(frozen=True)
class Open:
    """A server that is open to others: with keys, a page elsewhere, another name, texts in the log and little
    patience."""

    server: Server
    log: Path
    key: str
    slow: str  # a key for two requests a minute

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}


@pytest.fixture(scope="module")
def opened(reverser: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    from regard.serve import keys

    place = tmp_path_factory.mktemp("opened")
    file, log = place / "keys.json", place / "log"
    key, slow = keys.add(file, "anna"), keys.add(file, "slow", 2)
    options = ["--keys", str(file), "--cors", PAGE_ELSEWHERE, "--host-name", "mt.example", "--log-text"]
    options += [part for name, (_, value) in LIMITED.items() for part in (f"--{name}", str(value))]
    with served(reverser, log, *options, pair=PAIR) as server:
        yield Open(server, log, key, slow)


@pytest.fixture
def client(opened: Open) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{opened.server.port}", timeout=30) as client:
        yield client


def test_a_key_is_asked_for_and_counted(client: httpx.Client, opened: Open) -> None:
    body = {"text": "a b c"}
    without = client.post("/v1/translate", json=body)
    assert without.status_code == 401
    assert without.headers["www-authenticate"] == "Bearer"
    assert client.post("/v1/translate", json=body, headers={"Authorization": "Bearer x"}).status_code == 403
    assert client.post("/v1/translate", json=body, headers=opened.bearer).status_code == 200
    form = {"q": "a b c", "source": "en", "target": "de"}
    assert client.post("/translate", data=form).status_code == 401
    assert client.post("/translate", data={**form, "api_key": opened.key}).status_code == 200
    codes = [client.post("/translate", data={**form, "api_key": opened.slow}).status_code for _ in range(3)]
    assert codes == [200, 200, 429]
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers=opened.bearer).status_code == 200
    assert client.get("/ready").status_code == 200
    logged = opened.log.read_text()
    assert re.search(r"POST /v1/translate 200 \d+ ms, key 'anna', run, 1 text, 5 characters", logged)
    assert re.search(r"POST /translate 429 \d+ ms, key 'slow'$", logged, flags=re.M)
    assert re.search(r"POST /v1/translate 401 \d+ ms$", logged, flags=re.M)
    assert opened.key not in logged
    assert opened.slow not in logged


def test_a_page_elsewhere_that_is_allowed_may_ask(client: httpx.Client, opened: Open) -> None:
    origin = {"Origin": PAGE_ELSEWHERE}
    allowed = client.post("/v1/translate", json={"text": "a"}, headers={**opened.bearer, **origin})
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == PAGE_ELSEWHERE
    asked = {**origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    assert client.options("/v1/translate", headers=asked).status_code == 200
    refused = client.post("/v1/translate", json={"text": "a"}, headers=origin)
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == PAGE_ELSEWHERE, "the page may read why"
    other = client.get("/v1/models", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in other.headers


def test_each_option_is_the_limit_that_it_says(client: httpx.Client) -> None:
    assert client.get("/v1/models").json()["limits"] == dict(LIMITED.values())


def test_a_server_answers_to_the_names_it_is_given(client: httpx.Client) -> None:
    assert client.get("/v1/models", headers={"Host": "mt.example"}).status_code == 200
    assert client.get("/v1/models", headers={"Host": "evil.example"}).status_code == 400


def test_texts_are_logged_where_that_is_wanted(client: httpx.Client, opened: Open) -> None:
    client.post("/v1/translate", json={"text": "l o g g e d"}, headers=opened.bearer)
    assert client.get("/live").status_code == 200, "after which the line before has been written"
    assert "'l o g g e d'" in opened.log.read_text()


def test_slow_headers_and_bodies_come_to_an_end(opened: Open) -> None:
    header, body = (socket.create_connection(("127.0.0.1", opened.server.port), timeout=30) for _ in range(2))
    with header, body:
        header.sendall(b"POST /v1/translate HTTP/1.1\r\nHo")
        body.sendall(b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
        assert header.recv(1000) == b"", "closed"
        assert body.recv(1000).startswith(b"HTTP/1.1 408 ")


def test_a_port_that_is_taken_is_named(server: Server, reverser: Path) -> None:
    command = [sys.executable, "-m", "regard", "serve", f"en-de={reverser}", "--port", str(server.port)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert f"Port {server.port}" in result.stderr
    assert "--port" in result.stderr


def test_the_extra_that_is_missing_is_named(reverser: Path) -> None:
    code = (
        "import sys; sys.modules['fastapi'] = None\n"
        "from regard.cli import main\n"
        f"sys.argv = ['regard', 'serve', 'en-de={reverser}']\nmain()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "pip install 'regard[serve]'" in result.stderr
