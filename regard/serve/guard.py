"""What stands before every route: sizes and times of requests, who may ask, what is logged, and headers of answers.

It speaks ASGI directly, so that a body is counted while it is read, whatever a header claims. A body that is too large
is read to its end and thrown away, up to a point, since most clients read no answer before they have sent all.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve.journal import Journal
from regard.serve.limits import Limits, Refusal
from regard.serve.metrics import Metrics
from regard.serve.origins import answering_preflights

DISCARDED = 16 * 2**20  # bytes of a body beyond the limit that are read and thrown away
LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
PROBES = frozenset(("/live", "/ready", "/metrics", "/health"))
REFUSED_SECONDS = 2.0  # for which the body of a request that is refused anyway is read
BREAK_OFF = "regard.break_off"  # the scope's extension by which a connection is closed in the middle of an answer
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
        if netloc_of(origin) != host:
            raise Refusal(403, "Pages of other sites may not ask here: start the server with --cors for their origin.")


def hostname(host: str) -> str:
    """Without the port; an IPv6 address without its brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def netloc_of(url: str) -> str:
    """Name and port, as in a Host header; nothing where it is no URL."""
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def error_response(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """What every refusal and failure looks like."""
    readable = message.encode("utf-8", "replace").decode()  # a message may quote half a surrogate pair
    asked_for = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return JSONResponse({"error": readable}, status, asked_for | (headers or {}))


def refusal_response(refusal: Refusal) -> Response:
    return error_response(refusal.status, refusal.message, refusal.headers)


def with_security(headers: Iterable[tuple[bytes, bytes]], other_origins: bool) -> list[tuple[bytes, bytes]]:
    """An answer's headers and those that every answer has; `other_origins` says whether pages elsewhere may read it."""
    given = list(headers)
    present = {name for name, _ in given}
    own = dict(SECURITY)
    if b"content-security-policy" not in present:
        own["content-security-policy"] = API_POLICY
    if b"cache-control" not in present:
        own["cache-control"] = "no-store"
    if not other_origins:
        own["cross-origin-resource-policy"] = "same-origin"
    return [*given, *((name.encode(), value.encode()) for name, value in own.items())]


@dataclass
class Exchange:
    """One request and its answer, as they are logged and counted."""

    scope: Scope
    places: frozenset[str] = frozenset()  # the paths of all routes
    began: float = field(default_factory=time.monotonic)
    status: int = 0
    started: bool = False
    finished: bool = False

    @property
    def method(self) -> str:
        method = str(self.scope["method"])
        return method if method in METHODS else "other"

    @property
    def probe(self) -> bool:
        """Whether it asks after the server's health alone."""
        return self.scope["path"] in PROBES

    def break_off(self) -> None:
        """Close the connection in the middle of an answer. Without a server that can, fail: it closes then."""
        extension = self.scope.get("extensions", {}).get(BREAK_OFF)
        if not extension:
            raise ConnectionAbortedError("an answer broke off") from None  # the cause may hold text
        extension["close"]()

    @property
    def route(self) -> str:
        """The path of the route that answered, or would have; nothing that a client could make up."""
        route = getattr(self.scope.get("route"), "path", "")
        if route:
            return str(route)
        path = str(self.scope["path"])
        return path if path in self.places else "other"

    @property
    def note(self) -> str:
        """What the routes have to say of it for the log."""
        state = self.scope.get("state", {})
        key = f", key {state['key']!r}" if "key" in state else ""
        return f"{key}{state.get('note', '')}"


class Guard:
    """The layer around the routes. `log` gets a line for each answer; without text, query or headers of users."""

    def __init__(
        self, app: ASGIApp, limits: Limits, metrics: Metrics, access: Access, log: Callable[[str], None],
        places: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.app, self.places = answering_preflights(app, access.origins), places
        self.limits, self.metrics, self.access, self.log = limits, metrics, access, Journal(log)
        self.in_flight = 0  # requests that were let in, and are more than a question after the server's health
        self.draining = False  # nobody is let in any more

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"There is nothing here for {scope['type']}.")
        exchange = Exchange(scope, self.places)
        self.metrics.in_flight.inc()
        try:
            await self.handle(exchange, receive, self.dressed(exchange, send))
        finally:
            self.metrics.in_flight.dec()
            seconds = time.monotonic() - exchange.began
            self.metrics.requests.labels(exchange.route, str(exchange.status)).inc()
            self.metrics.latency.labels(exchange.route).observe(seconds)
            if not exchange.probe or exchange.status >= 400:
                client, took = (scope.get("client") or ("-",))[0], f"{1000 * seconds:.0f} ms"
                self.log(f"{client} {exchange.method} {exchange.route} {exchange.status} {took}{exchange.note}")

    async def handle(self, exchange: Exchange, receive: Receive, send: Send) -> None:
        """Have a request answered, or answer it with what is wrong."""
        try:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in exchange.scope["headers"]}
            refusal = self.refusal(exchange, headers)
            if refusal:  # after its body, for a refusal in the middle of it may not arrive
                await self.body(headers, receive, refusal)
                raise refusal
            self.in_flight += not exchange.probe
            try:
                body = await self.body(headers, receive, keep=not exchange.probe)
                await self.answer(exchange, body, receive, send)
            finally:
                self.in_flight -= not exchange.probe
        except Refusal as refusal:
            await self.refuse(exchange, send, refusal)
        except Gone:
            exchange.status = 499  # the client has gone, or does not read; nobody reads this
        except asyncio.CancelledError:
            if not self.draining:
                raise
            left = "The server has gone down before this was answered: send it again, to whoever answers then."
            await self.refuse(exchange, send, Refusal(503, left, 5, close=True))
        except Exception as error:
            frames = "".join(traceback.format_tb(error.__traceback__)[-6:])
            self.log(f"An answer failed with {type(error).__name__}:\n{frames}")  # no message: it may hold text
            await self.refuse(exchange, send, Refusal(500, f"The server failed with {type(error).__name__}."))

    def refusal(self, exchange: Exchange, headers: dict[str, str]) -> Refusal | None:
        """Why a request is not let in, as far as its header tells."""
        try:
            self.access.check(exchange.scope["method"], headers)
        except Refusal as refusal:
            return refusal
        if exchange.probe:
            return None
        if self.draining:
            return Refusal(503, "The server is going down: send this again, to whoever answers then.", 5, close=True)
        reads = exchange.method in ("GET", "HEAD")  # the page, which still comes, and says why
        if not reads and self.in_flight >= self.limits.in_flight:
            return Refusal(429, f"{self.limits.in_flight} requests are being answered already: try again soon.", 1)
        return None

    async def refuse(self, exchange: Exchange, send: Send, refusal: Refusal) -> None:
        """Say what is wrong. An answer that has begun is broken off instead: an end that looks whole would lie."""
        if exchange.finished:
            return
        if exchange.started:
            exchange.break_off()
            return
        response = refusal_response(refusal)
        await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
        await send({"type": "http.response.body", "body": response.body})

    async def body(
        self, headers: dict[str, str], receive: Receive, refusal: Refusal | None = None, keep: bool = True
    ) -> bytes:
        """The whole body, if it is small enough and comes soon enough. That of a request which is refused anyway, or
        has no use for one, is read and not kept."""
        parts: list[bytes] = []
        size, most = 0, self.limits.body_bytes
        too_large = Refusal(413, f"The body has more than {most:,} bytes: send less at a time.", close=True)
        declared = headers.get("content-length", "")
        if "expect" in headers and (refusal or (declared.isdecimal() and int(declared) > most)):
            raise refusal or too_large  # its sender waits for our leave
        seconds = min(self.limits.read_seconds, REFUSED_SECONDS) if refusal else self.limits.read_seconds
        try:
            async with asyncio.timeout(seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Gone
                    size, more = size + len(message.get("body", b"")), message.get("more_body", False)
                    if size <= most and keep and not refusal:
                        parts.append(message.get("body", b""))
                    elif size > most + DISCARDED:
                        raise too_large
        except TimeoutError:
            raise refusal or Refusal(
                408, f"The body has not come within {seconds:g} seconds: send it faster.", close=True
            ) from None
        if size > most:
            raise too_large
        return b"".join(parts)

    async def answer(self, exchange: Exchange, body: bytes, receive: Receive, send: Send) -> None:
        """Let the routes answer; stop them where the client goes away, or does not read what it is sent."""
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

        scope = exchange.scope
        if scope["method"] == "HEAD":  # answered as GET; the server, whose scope this is not, leaves out the body
            scope = {**scope, "method": "GET"}
        answering = asyncio.ensure_future(self.app(scope, replay, send))
        answering.add_done_callback(look_at)
        watching = asyncio.ensure_future(gone())
        longest = self.limits.seconds + self.limits.read_seconds  # to search, and then to be read
        try:
            await asyncio.wait({answering, watching}, timeout=longest, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                late = not watching.done()
                answering.cancel()
                await asyncio.wait({answering})
                if answering.cancelled():
                    if late and not exchange.started:
                        raise Refusal(504, f"There was no answer within {longest:g} seconds: ask for less at a time.")
                    if late:
                        exchange.break_off()
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
                message["headers"] = with_security(message["headers"], bool(self.access.origins))
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                exchange.finished = True

        return wrapped


def look_at(task: asyncio.Future[None]) -> None:
    """Lest asyncio logs what nobody has looked at, and somebody's text with it."""
    if not task.cancelled():
        task.exception()


class Gone(Exception):
    """The client has closed its connection, or does not read."""
