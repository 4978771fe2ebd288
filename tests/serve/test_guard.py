"""What stands before the routes, in a real server: clients that do not read, answers that break off, proxies, other
origins, and too many at once."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from regard.decode.translator import Translator
from regard.serve import app as app_module
from regard.serve import server as server_module
from regard.serve.app import build
from regard.serve.batcher import Batcher
from regard.serve.guard import LOOPBACK, Access, Guard
from regard.serve.limits import Limits, Refusal
from regard.serve.metrics import Metrics
from regard.serve.models import Models, Served
from regard.serve.origins import readable
from regard.serve.server import listening, patient
from regard.serve.state import Serving

SECRET = "S E C R E T"
PAGE = "https://page.example"
HEAD = b"POST /echo HTTP/1.1\r\nHost: localhost\r\n"


@dataclass
class Running:
    port: int
    guard: Guard
    server: uvicorn.Server
    log: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)


def routes() -> FastAPI:
    """Routes that do what ours should not."""
    app = FastAPI()

    @app.post("/echo")
    async def echo() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/fails")
    async def fails() -> StreamingResponse:
        async def content() -> AsyncIterator[bytes]:
            yield b"begun\n"
            await asyncio.sleep(0.05)
            raise ValueError(SECRET)

        return StreamingResponse(content())

    @app.get("/endless")
    async def endless() -> StreamingResponse:
        async def content() -> AsyncIterator[bytes]:
            while True:
                yield b"x" * 65_536
                await asyncio.sleep(0)  # sending to nobody waits for nothing

        return StreamingResponse(content())

    return app


@contextlib.contextmanager
def running(access: Access | None = None, **limits: Any) -> Iterator[Running]:
    """Our guard and our protocol in a thread."""
    access, allowed, log = access or Access(), Limits(**limits), list[str]()
    guard = Guard(routes(), allowed, Metrics(), access, log.append)
    config = uvicorn.Config(
        readable(guard, access.origins), http=patient(allowed, access), loop="asyncio", ws="none", lifespan="off",
        access_log=False, log_level="error", timeout_graceful_shutdown=1,
    )  # fmt: skip
    server, port = uvicorn.Server(config), listening("127.0.0.1", 0)
    number = port.getsockname()[1]
    thread = threading.Thread(target=server.run, args=([port],))
    thread.start()
    try:
        eventually(lambda: server.started)
        yield Running(number, guard, server, log)
    finally:
        server.should_exit = True
        thread.join()


def eventually(holds: Callable[[], Any]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until, "it never came to that"
        time.sleep(0.02)


def test_behind_the_documented_proxy_the_own_page_may_ask_and_no_other() -> None:
    """nginx hands on the Host that the browser sent, which is the page's origin."""
    with running(Access((*LOOPBACK, "mt.example.org"))) as it:

        def status(host: str, origin: str) -> int:
            return httpx.post(f"{it.url}/echo", headers={"Host": host, "Origin": origin}).status_code

        assert status("mt.example.org", "https://mt.example.org") == 200
        assert status("mt.example.org", "https://evil.example") == 403
        assert status("evil.example", "https://evil.example") == 400
        assert status("127.0.0.1:5000", "https://mt.example.org") == 403, "as the page says of a proxy without the line"


def test_an_answer_that_breaks_off_looks_broken_and_leaves_no_text_in_the_log(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with running() as it:
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(f"{it.url}/fails")
        eventually(lambda: any("/fails 200" in line for line in it.log))
        assert it.guard.in_flight == 0
    logged = "\n".join(it.log) + capfd.readouterr().err
    assert "An answer failed with ValueError" in logged
    assert SECRET not in logged
    assert "Traceback" not in logged, "which is uvicorn's"


def test_without_a_connection_to_close_a_broken_answer_still_hides_its_cause() -> None:
    """Under a server that is not ours the error that closes the connection is logged with all that led to it."""
    guard = Guard(routes(), Limits(), Metrics(), Access(), lambda line: None)

    async def asked() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url="http://localhost") as client:
            await client.get("/fails")

    with pytest.raises(ConnectionAbortedError) as caught:
        asyncio.run(asked())
    assert caught.value.__suppress_context__
    assert caught.value.__cause__ is None


def test_a_client_that_does_not_read_is_given_up() -> None:
    with running(seconds=0.5, read_seconds=0.5, in_flight=1) as it, it.connected() as stuck:
        stuck.sendall(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
        eventually(lambda: it.guard.in_flight == 1)
        assert httpx.post(f"{it.url}/echo").status_code == 429
        eventually(lambda: it.guard.in_flight == 0)
        eventually(lambda: not it.server.server_state.connections)
        assert httpx.post(f"{it.url}/echo").status_code == 200
        assert any("/endless 499" in line for line in it.log)


def test_what_is_refused_is_read_and_not_kept() -> None:
    with running(in_flight=1) as it, it.connected() as slow:
        slow.sendall(HEAD + b"Content-Length: 2\r\n\r\n{")
        eventually(lambda: it.guard.in_flight == 1)
        refused = httpx.post(f"{it.url}/echo", content=b"x" * 200_000)
        assert refused.status_code == 429
        assert "1 requests are being answered" in refused.json()["error"]
        assert it.guard.in_flight == 1, "who is refused is not counted"
        slow.sendall(b"}")
        assert slow.recv(1000).startswith(b"HTTP/1.1 200 ")

    messages = [{"type": "http.request", "body": b"x" * 1000, "more_body": more} for more in (False, True)]

    async def receive() -> dict[str, Any]:
        return messages.pop()

    assert asyncio.run(it.guard.body({}, receive, Refusal(429, "later"))) == b""
    assert not messages


def test_one_connection_too_many_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SPARE", 1)
    with running(in_flight=1) as it, it.connected(), it.connected():
        eventually(lambda: len(it.server.server_state.connections) == 2)
        refused = httpx.post(f"{it.url}/echo", content=b"x" * 200_000)
        assert refused.status_code == 503
        assert "2 connections are open already" in refused.json()["error"]
        assert refused.headers["retry-after"] == "1"
    with running(in_flight=1) as it:
        assert httpx.post(f"{it.url}/echo").status_code == 200


def test_what_is_no_http_is_refused_with_security_headers() -> None:
    with running() as it, it.connected() as connection:
        connection.sendall(b"nonsense\r\n\r\n")
        answer = connection.recv(10_000).lower()
    assert answer.startswith(b"http/1.1 400 bad request\r\n")
    for header in (b"x-content-type-options: nosniff", b"cache-control: no-store", b"content-security-policy: default"):
        assert b"\r\n" + header in answer


def test_a_page_elsewhere_reads_what_the_guard_refuses() -> None:
    with running(Access(origins=(PAGE,)), in_flight=1, body_bytes=10, read_seconds=1.0) as it:
        origin = {"Origin": PAGE}
        large = httpx.post(f"{it.url}/echo", content=b"x" * 100, headers=origin)
        with it.connected() as slow:
            slow.sendall(HEAD + b"Origin: %s\r\nContent-Length: 2\r\n\r\n{" % PAGE.encode())
            eventually(lambda: it.guard.in_flight == 1)
            crowded = httpx.post(f"{it.url}/echo", headers=origin)
            late = slow.recv(10_000)
        elsewhere = httpx.post(f"{it.url}/echo", headers={"Origin": "https://evil.example"})
    assert (large.status_code, crowded.status_code, elsewhere.status_code) == (413, 429, 403)
    for answer in (large, crowded):
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert answer.headers["access-control-expose-headers"] == "Retry-After"
    assert crowded.headers["retry-after"] == "1"
    assert late.startswith(b"HTTP/1.1 408 ")
    assert b"access-control-allow-origin: " + PAGE.encode() in late.lower()
    assert "access-control-allow-origin" not in elsewhere.headers


def test_a_preflight_is_guarded_like_any_request() -> None:
    """It is let in by the server's name, by the size and the time of its body and by how many there are; it is logged,
    and has the headers that every answer has. A key it needs not: browsers send none with it."""
    asks = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    access = Access((*LOOPBACK,), (PAGE,))
    with running(access, in_flight=1, body_bytes=10, read_seconds=1.0) as it:

        def preflight(content: bytes = b"", **headers: str) -> httpx.Response:
            return httpx.request("OPTIONS", f"{it.url}/echo", headers={**asks, **headers}, content=content)

        allowed = preflight()
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == PAGE
        assert allowed.headers["x-content-type-options"] == "nosniff"
        assert preflight(Origin="https://evil.example").status_code == 400
        assert preflight(Host="evil.example").status_code == 400
        assert preflight(b"x" * 100).status_code == 413
        with it.connected() as slow:
            slow.sendall(HEAD + b"Content-Length: 2\r\n\r\n{")
            eventually(lambda: it.guard.in_flight == 1)
            assert preflight().status_code == 429
        eventually(lambda: it.guard.in_flight == 0)
        it.guard.draining = True
        assert preflight().status_code == 503
        eventually(lambda: sum(" OPTIONS " in line for line in "\n".join(it.log).splitlines()) == 6)


def test_while_a_model_hangs_probes_share_one_decode(model: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "PROBE_SECONDS", 0.3)
    monkeypatch.setattr(app_module, "PROBE_KEPT", 60.0)
    models = Models([Served("one", "en", "de", model, model)])
    batcher = Batcher(models.models, Limits(), Metrics())
    released = threading.Event()
    monkeypatch.setattr(batcher, "flow", lambda kind: released.wait(60))
    guard = build(Serving(models, batcher.limits, batcher.metrics, batcher))
    batcher.start()

    async def asked(times: int) -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url="http://localhost") as client:
            return await asyncio.gather(*(client.get("/ready") for _ in range(times)))

    try:
        answers = asyncio.run(asked(5))
        assert {answer.status_code for answer in answers} == {503}
        assert "one has not translated" in answers[0].json()["error"]
        assert batcher.counted == 1
    finally:
        released.set()
        batcher.stop()
