"""Requests that are wrong in every way: the server answers each with a sentence, and goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from benchmarks.serving import Server, metrics, served
from regard.serve import keys

NASTY = [
    "", "\x00", "\ud800", "\udfff\ud800", "😀" * 50, "\u202e", "\ufffe", "a\u0300" * 100, "<script>", "%s%n",
    "../../etc", "\r\n\r\n", "\x1b[31m", " ", "\u2028", "🏳️‍🌈", "a" * 6000, "。" * 300, "." * 500, "null", "NaN",
]  # fmt: skip
NINES = int("9" * 4300)  # the longest number that Python reads, and one more cannot be written
VALUES: list[Any] = [
    *NASTY, NINES, {"istanbul": "a"}, ["encoder.layers.0.self_attn"] * 300, "a" * 2500 + " " + "A. " * 800,
    None, True, False, 0, -1, 1, 9, 1e308, -1e308, 10**30, 0.5, [], {}, [[]], [None], {"a": {"b": []}},
    ["a"] * 70, ["a", 1], {"a": "b"}, {"a": 1}, float("nan"), float("inf"),
]  # fmt: skip
# Not that what fits the document is accepted: a limit or an unknown language refuses it as well.
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
FIELDS = [
    "text", "source", "target", "model", "beam", "n_best", "scores", "alignments", "attention", "prefix", "glossary",
    "split", "stream", "deadline", "translation", "q", "format", "alternatives", "api_key", "extra", "\ud800",
]  # fmt: skip
PATHS = [
    "/v1/translate",
    "/v1/attention",
    "/translate",
    "/detect",
    "/v1/models",
    "/languages",
    "/",
    "/nowhere",
    "/%ff",
    "//",
    "/ready",
]
KINDS = [
    "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", "",
    "application/json; charset=utf-16", "application/json; charset=nonsense", "a/b/c;;;=", "\xff",
]  # fmt: skip


def body(chance: random.Random) -> bytes:
    """Bytes that are JSON, nearly JSON, a form, or nothing at all."""
    content = {name: chance.choice(VALUES) for name in chance.sample(FIELDS, chance.randint(0, 6))}
    if chance.random() < 0.5:
        content.setdefault("text", "a b")
        content.setdefault("q", "a b")
        content.setdefault("target", "de")
    text = json.dumps(content, ensure_ascii=chance.random() < 0.5)
    data = text.encode(chance.choice(["utf-8", "utf-8", "utf-8", "utf-16", "utf-32"]), "surrogatepass")
    how = chance.randrange(12)
    if how == 0:
        data = data[: chance.randint(0, len(data))]
    elif how == 1:
        data = bytes(chance.randrange(256) for _ in range(chance.randint(0, 300)))
    elif how == 2:
        data = b"[" * chance.choice([10, 100_000])
    elif how == 3:
        data = b'{"text": ' + b"9" * chance.choice([10, 5000]) + b"}"
    elif how == 4:
        data = b"&".join(b"q=%" + bytes([chance.randrange(256)]) for _ in range(chance.randint(1, 2000)))
    elif how == 5 and chance.random() < 0.2:
        data = b'{"text": "' + b"a" * chance.choice([262_200, 400_000]) + b'"}'
    elif how == 6:
        data = b"\xef\xbb\xbf" + data
    return data


def raw(chance: random.Random) -> bytes:
    """A whole request, its header well formed or not."""
    data = body(chance)
    method = chance.choice(["POST"] * 8 + ["GET", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE", "QUX"])
    path = chance.choice(PATHS)
    headers = [b"Host: " + chance.choice([b"localhost"] * 20 + [b"evil", b"", b"[::1", b"\xff"])]
    headers.append(b"Content-Type: " + chance.choice(KINDS).encode("latin-1"))
    if chance.random() < 0.2:
        headers.append(b"Origin: " + chance.choice([b"null", b"http://localhost", b"http://[", b"\xff"]))
    if chance.random() < 0.2:
        headers.append(b"Authorization: " + chance.choice([b"Bearer x", b"Basic eA==", b"Bearer", b"\xff\xfe"]))
    if chance.random() < 0.2:
        headers.append(b"X-" + b"y" * chance.choice([1, 100]) + b": " + b"z" * chance.choice([1, 4000, 70_000]))
    how = chance.randrange(10)
    if how < 6:
        headers.append(b"Content-Length: %d" % len(data))
        payload = data
    elif how < 9:
        headers.append(b"Transfer-Encoding: chunked")
        size = chance.choice([1, 7, 1000, 100_000])
        parts = [data[i : i + size] for i in range(0, min(len(data), 2000 * size), size)]
        payload = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    else:
        headers.append(
            chance.choice([b"Content-Length: x", b"Content-Length: -1", b"Transfer-Encoding: gzip", b"broken"])
        )
        payload = data
    return (
        f"{method} {path} HTTP/1.1\r\n".encode()
        + b"\r\n".join([*headers, b"Connection: close"])
        + b"\r\n\r\n"
        + payload
    )


def answer_to(port: int, request: bytes) -> bytes:
    """All that the server sends before it closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has answered already
            connection.sendall(request)
        parts = []
        while part := connection.recv(65_536):
            parts.append(part)
        return b"".join(parts)


def send_malformed(server: Server, count: int, seed: int) -> dict[int, int]:
    chance = random.Random(seed)
    statuses: dict[int, int] = {}
    for number in range(count):
        request = raw(chance)
        answer = answer_to(server.port, request)
        found = re.match(rb"HTTP/1\.1 (\d+) ", answer)
        assert found, (number, request[:300], answer[:300])
        status = int(found[1])
        statuses[status] = statuses.get(status, 0) + 1
        assert status < 500, (number, request[:600], answer)
    return statuses


def test_hundreds_of_malformed_requests_are_answered(server: Server, ask: httpx.Client) -> None:
    statuses = send_malformed(server, 400, seed=1)
    assert {200, 400, 413, 422} <= set(statuses), statuses
    assert ask.post("/v1/translate", json={"text": "a b c"}).status_code == 200


# What once was answered with 500, or not before minutes had passed.
SHARP: list[tuple[str, dict[str, Any], int]] = [
    ("/translate", {"q": "a", "target": "de", "alternatives": NINES}, 400),
    ("/v1/translate", {"text": "a", "n_best": NINES}, 422),
    ("/v1/translate", {"text": "a", "beam": NINES}, 422),
    ("/v1/translate", {"text": "a", "deadline": NINES}, 422),
    ("/v1/attention", {"text": "a", "beam": NINES}, 422),
    ("/v1/translate", {"text": "a İstanbul", "glossary": {"istanbul": "a"}}, 200),
    ("/v1/translate", {"text": "a" * 3000 + " " + "A. " * 600 + "b"}, 200),
    ("/v1/translate", {"text": "." * 2500 + " " * 2499 + "a"}, 200),
]


@pytest.mark.parametrize(("path", "content", "status"), SHARP)
def test_what_once_hurt_is_answered(ask: httpx.Client, path: str, content: dict[str, Any], status: int) -> None:
    answer = ask.post(path, content=json.dumps(content), headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text[:300]


@pytest.fixture(scope="module")
def keyed(reverser: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, str]]:
    """A server that needs a key, and one that it knows."""
    folder = tmp_path_factory.mktemp("keyed")
    key = keys.add(folder / "keys.json", "anna", keys.HIGHEST_RATE)
    with served(reverser, folder / "log", "--keys", str(folder / "keys.json"), pair="en-de") as running:
        yield running, key


def test_malformed_requests_to_a_server_with_keys_are_answered(keyed: tuple[Server, str]) -> None:
    server, key = keyed
    statuses = send_malformed(server, 150, seed=4)
    assert {400, 403} <= set(statuses), statuses
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=60) as client:
        for given_key, status in ((key, 200), ("\ud800", 403), ("\udc80x", 403), ("", 401), (None, 401)):
            content = json.dumps({"q": "a", "target": "de", "api_key": given_key})
            for path in ("/translate", "/detect"):
                answer = client.post(path, content=content, headers={"content-type": "application/json"})
                assert answer.status_code == status, (given_key, answer.text)


@pytest.mark.soak
def test_ten_thousand_malformed_requests_do_not_make_it_grow(server: Server, ask: httpx.Client) -> None:
    send_malformed(server, 1000, seed=2)
    before = asyncio.run(metrics(server.port))
    send_malformed(server, 10_000, seed=3)
    after = asyncio.run(metrics(server.port))
    assert after["process_resident_memory_bytes"] < 1.1 * before["process_resident_memory_bytes"] + 20 * 2**20
    assert after["process_open_fds"] <= before["process_open_fds"] + 2
    assert ask.post("/v1/translate", json={"text": "a b c"}).status_code == 200


def ask_by_document(server: Server, examples: int) -> None:
    """So many requests of each kind that the OpenAPI document allows, and as many that it forbids where there is a
    body; each must be answered as the document says."""
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{server.port}/openapi.json")
    some = settings(
        max_examples=examples, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck),
        database=None, derandomize=True,
    )  # fmt: skip
    for result in schema.get_all_operations():
        operation = result.ok()
        for mode in schemathesis.GenerationMode if operation.body else [schemathesis.GenerationMode.POSITIVE]:

            @given(case=operation.as_strategy(mode))
            @some
            def every(case: schemathesis.Case) -> None:
                answer = case.call_and_validate(headers={"Host": "localhost"}, checks=CHECKS)
                assert answer.status_code < 500 or answer.status_code == 504, "a deadline may be too soon"

            every()


def test_what_the_openapi_document_says_is_how_it_answers(server: Server) -> None:
    ask_by_document(server, 15)


@pytest.mark.soak
def test_thousands_of_requests_by_the_document_are_answered_as_it_says(server: Server) -> None:
    ask_by_document(server, 700)
