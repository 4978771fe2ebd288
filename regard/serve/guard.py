"""What stands before every route: sizes and times of requests, who may ask, what is logged, and headers of answers.

It speaks ASGI directly, so that a body is counted while it is read, whatever a header claims. A body that is too large
is read to its end and thrown away, up to a point, since most clients read no answer before they have sent all.
"""

from __future__ import annotations

import asyncio
import json
import time
import traceback
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve.limits import Limits, Refusal
from regard.serve.metrics import Metrics

DISCARDED = 16 * 2**20  # bytes of a body beyond the limit that are read and thrown away
LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
PROBES = frozenset(("/live", "/ready", "/metrics", "/health"))
API_POLICY = "default-src 'none'; frame-ancestors 'none'"
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cross-origin-opener-policy": "same-origin",
}


@dataclass(frozen=True)
class Access:
    """Who may ask."""

    hosts: tuple[str, ...] = ()  # names under which the server may be called; none: any
    origins: tuple[str, ...] = ()  # of pages elsewhere that may call it; * for all

    def check(self, method: str, headers: dict[str, str]) -> None:
        """A page of another site must not use a server on somebody's own machine through her browser, neither by a
        name that leads there (DNS rebinding) nor by a form."""
        host = headers.get("host", "")
        if self.hosts and hostname(host) not in self.hosts:
            raise Refusal(400, f"This server is not called {host[:200]!r}: start it with --host-name for that name.")
        origin = headers.get("origin")
        if method != "POST" or origin is None or "*" in self.origins or origin in self.origins:
            return
        if urlsplit_safely(origin) != host:
            raise Refusal(403, "Pages of other sites may not ask here: start the server with --cors for their origin.")


def hostname(host: str) -> str:
    """Without the port; an IPv6 address without its brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def urlsplit_safely(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def error_response(refusal: Refusal) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    body = json.dumps({"error": refusal.message}).encode()  # ASCII: a message may quote half a surrogate pair
    headers = {"content-type": "application/json", "content-length": str(len(body)), **refusal.headers}
    return refusal.status, [(name.lower().encode(), value.encode()) for name, value in headers.items()], body


@dataclass
class Exchange:
    """One request and its answer, as they are logged and counted."""

    scope: Scope
    began: float = field(default_factory=time.monotonic)
    status: int = 0
    started: bool = False
    finished: bool = False

    @property
    def method(self) -> str:
        method = str(self.scope["method"])
        return method if method in METHODS else "other"

    @property
    def route(self) -> str:
        """The path of the route that answered; nothing that a client could make up."""
        route = self.scope.get("route")
        return str(getattr(route, "path", "") or "other")


class Journal:
    """Lines for the log, those of one turn of the event loop written together."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.write = write
        self.lines: list[str] = []

    def __call__(self, line: str) -> None:
        if not self.lines:
            asyncio.get_running_loop().call_soon(self.flush)
        self.lines.append(line)

    def flush(self) -> None:
        lines, self.lines = self.lines, []
        self.write("\n".join(lines))


class Guard:
    """The outermost layer. `log` gets a line for each answer; without text, query or headers of users."""

    def __init__(
        self, app: ASGIApp, limits: Limits, metrics: Metrics, access: Access, log: Callable[[str], None]
    ) -> None:
        self.app, self.limits, self.metrics, self.access, self.log = app, limits, metrics, access, Journal(log)
        self.in_flight = 0  # requests that are more than a question after the server's health

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"There is nothing here for {scope['type']}.")
        exchange = Exchange(scope)
        counted = scope["path"] not in PROBES
        self.in_flight += counted
        self.metrics.in_flight.inc()
        try:
            await self.exchange(exchange, receive, self.dressed(exchange, send))
        finally:
            self.in_flight -= counted
            self.metrics.in_flight.dec()
            seconds = time.monotonic() - exchange.began
            self.metrics.requests.labels(exchange.route, str(exchange.status)).inc()
            self.metrics.latency.labels(exchange.route).observe(seconds)
            if scope["path"] not in PROBES or exchange.status >= 400:
                note = scope.get("state", {}).get("note", "")
                client = (scope.get("client") or ("-",))[0]
                self.log(f"{client} {exchange.method} {exchange.route} {exchange.status} {1000 * seconds:.0f} ms{note}")

    async def exchange(self, exchange: Exchange, receive: Receive, send: Send) -> None:
        scope = exchange.scope
        try:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            body = await self.body(headers, receive)  # first, for a refusal in the middle of it may not arrive
            self.access.check(scope["method"], headers)
            if self.in_flight > self.limits.in_flight:
                raise Refusal(429, f"{self.limits.in_flight} requests are being answered already: try again soon.", 1)
            await self.answer(scope, body, receive, send)
        except Refusal as refusal:
            await self.refuse(exchange, send, refusal)
        except Gone:
            exchange.status = 499  # the client has gone; nobody reads this
        except Exception as error:
            frames = "".join(traceback.format_tb(error.__traceback__)[-6:])
            self.log(f"An answer failed with {type(error).__name__}:\n{frames}")  # no message: it may hold text
            if not exchange.finished:
                await self.refuse(exchange, send, Refusal(500, f"The server failed with {type(error).__name__}."))

    async def refuse(self, exchange: Exchange, send: Send, refusal: Refusal) -> None:
        if exchange.started:
            raise ConnectionAbortedError("an answer broke off")  # uvicorn closes: an end that looks whole would lie
        status, headers, body = error_response(refusal)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def body(self, headers: dict[str, str], receive: Receive) -> bytes:
        """The whole body, if it is small enough and comes soon enough."""
        parts: list[bytes] = []
        size, most = 0, self.limits.body_bytes
        too_large = Refusal(413, f"The body has more than {most:,} bytes: send less at a time.", close=True)
        declared = headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > most and "expect" in headers:
            raise too_large  # its sender waits for our leave
        try:
            async with asyncio.timeout(self.limits.read_seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Gone
                    size, more = size + len(message.get("body", b"")), message.get("more_body", False)
                    if size <= most:
                        parts.append(message.get("body", b""))
                    elif size > most + DISCARDED:
                        raise too_large
        except TimeoutError:
            seconds = self.limits.read_seconds
            raise Refusal(
                408, f"The body has not come within {seconds:g} seconds: send it faster.", close=True
            ) from None
        if size > most:
            raise too_large
        return b"".join(parts)

    async def answer(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Let the routes answer; stop them where the client goes away."""
        given = False

        async def replay() -> Message:
            nonlocal given
            if given:
                await asyncio.Event().wait()  # whether the client is still there is our business
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        answering = asyncio.ensure_future(self.app(scope, replay, send))
        watching = asyncio.ensure_future(gone())
        try:
            await asyncio.wait({answering, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                answering.cancel()
                await asyncio.wait({answering})
                if answering.cancelled():
                    raise Gone
            answering.result()
        finally:
            watching.cancel()
            answering.cancel()

    def dressed(self, exchange: Exchange, send: Send) -> Send:
        """Send with the headers that every answer has."""

        async def wrapped(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                exchange.status, exchange.started = message["status"], True
                present = {name for name, _ in message["headers"]}
                own = dict(SECURITY)
                if b"content-security-policy" not in present:
                    own["content-security-policy"] = API_POLICY
                if b"cache-control" not in present:
                    own["cache-control"] = "no-store"
                if not self.access.origins:
                    own["cross-origin-resource-policy"] = "same-origin"
                message["headers"] = [*message["headers"], *((k.encode(), v.encode()) for k, v in own.items())]
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                exchange.finished = True

        return wrapped


class Gone(Exception):
    """The client has closed its connection."""
