"""A server in a process of its own: uvicorn, told to end politely.

SIGTERM or SIGINT: requests that come from now on are refused with 503, those that were accepted are answered, then the
port is closed and the process ends. A second signal ends it at once, and so does the end of `drain_seconds`; with
status 1 where something was left.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import logging
import os
import socket
import sys
import time
from collections.abc import Callable
from http import HTTPStatus
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.errors import RegardError
from regard.serve.app import build
from regard.serve.guard import BREAK_OFF, Access, Guard, refusal_response, with_security
from regard.serve.limits import Limits, Refusal
from regard.serve.origins import readable
from regard.serve.state import Serving
from regard.wording import counted

SPARE = 256  # connections beyond as many as there may be requests
LINGER = 2.0  # seconds for which a refused connection is still read
GATHERED = 65_536  # bytes that are sent at once, however many more are to come


def loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Gathering(asyncio.Transport):
    """A connection on which what is written in one turn of the event loop is sent together: an answer's header and its
    body are one packet, and its reader wakes up once. When it is closed, what is left to send has `seconds` to be read:
    asyncio would wait for ever."""

    def __init__(self, inner: asyncio.Transport, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        super().__init__()
        self.inner, self.loop, self.seconds = inner, loop, seconds
        self.parts: list[bytes | bytearray | memoryview] = []
        self.size = 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.inner.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self.inner.is_closing()

    def pause_reading(self) -> None:
        self.inner.pause_reading()

    def resume_reading(self) -> None:
        self.inner.resume_reading()

    def can_write_eof(self) -> bool:
        return self.inner.can_write_eof()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.parts:
            self.loop.call_soon(self.flush)
        self.parts.append(data)
        self.size += len(data)
        if self.size > GATHERED:
            self.flush()

    def flush(self) -> None:
        parts, self.parts, self.size = self.parts, [], 0
        if parts and not self.inner.is_closing():
            self.inner.write(b"".join(parts))

    def write_eof(self) -> None:
        self.flush()
        self.inner.write_eof()

    def close(self) -> None:
        self.flush()
        if not self.inner.is_closing() and self.inner.get_write_buffer_size():
            self.loop.call_later(self.seconds, self.inner.abort)
        self.inner.close()

    def abort(self) -> None:
        self.inner.abort()


def patient(limits: Limits, access: Access) -> type[H11Protocol]:
    """HTTP with an end to the patience for a request's header, where uvicorn would wait for ever, and to the number of
    connections."""

    class Patient(H11Protocol):
        since = 0.0
        timer: asyncio.TimerHandle | None = None
        refused = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(Gathering(transport, self.loop, limits.read_seconds))
            most = limits.in_flight + SPARE
            if len(self.connections) > most:
                self.refuse(Refusal(503, f"{most} connections are open already: try again soon.", 1, close=True))
                return
            self.since = self.loop.time()
            self.watch()

        def data_received(self, data: bytes) -> None:
            if self.refused:
                return
            if self.waiting and self.timer is None:  # the first bytes of a further request
                self.since = self.loop.time()
            super().data_received(data)
            self.watch()

        @property
        def waiting(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def watch(self) -> None:
            """Have a timer while a header is incomplete, and none while a request is answered."""
            if self.waiting and self.timer is None and not self.transport.is_closing():
                self.timer = self.loop.call_at(self.since + limits.read_seconds, self.transport.close)
            elif not self.waiting and self.timer is not None:
                self.timer.cancel()
                self.timer = None

        def handle_events(self) -> None:
            super().handle_events()
            if self.cycle is not None:  # of which nothing has run yet, if it is new
                self.cycle.scope["extensions"] = {BREAK_OFF: {"close": self.break_off}}

        def break_off(self) -> None:
            if self.cycle is not None:
                self.cycle.disconnected = True
            self.transport.close()

        def send_400_response(self, msg: str) -> None:
            if self.cycle and not self.cycle.response_complete:
                self.cycle.disconnected = True  # whoever was answering need not
                self.cycle.message_event.set()
            self.refuse(Refusal(400, "This is no HTTP that can be read.", close=True))

        def refuse(self, refusal: Refusal) -> None:
            """Answer without a request, and read on for a moment: a connection that is closed on its sender in the
            middle of a sentence takes the answer with it."""
            self.refused = True
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                response = refusal_response(refusal)
                headers = with_security(response.raw_headers, bool(access.origins))
                reason = HTTPStatus(refusal.status).phrase
                head = h11.Response(status_code=refusal.status, headers=headers, reason=reason)
                for event in (head, h11.Data(data=bytes(response.body)), h11.EndOfMessage()):
                    self.transport.write(self.conn.send(event) or b"")
            if self.transport.can_write_eof():
                self.transport.write_eof()
            self.loop.call_later(LINGER, self.transport.close)

        def connection_lost(self, exc: Exception | None) -> None:
            if self.timer is not None:
                self.timer.cancel()
            super().connection_lost(exc)

    return Patient


class Server(uvicorn.Server):
    """uvicorn's, which first drains what was accepted."""

    def __init__(self, config: uvicorn.Config, serving: Serving, guard: Guard, say: Callable[[str], None]) -> None:
        super().__init__(config)
        self.serving, self.guard, self.say = serving, guard, say
        self.drain_until = 0.0
        self.sentences_left = self.requests_left = 0
        self.gave_up = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.drain_until:
            self.should_exit = self.force_exit = True
            if self.started:
                self.loop.call_soon_threadsafe(self.break_all_off)
            return
        self.guard.draining = True
        self.drain_until = time.monotonic() + self.serving.limits.drain_seconds

    def break_all_off(self) -> None:
        self.give_up()
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    def give_up(self) -> None:
        """Wait no longer for what is left, and remember how much that was."""
        if self.gave_up:
            return
        batcher = self.serving.batcher
        self.sentences_left, self.requests_left = batcher.waiting, self.guard.in_flight
        self.gave_up = self.requests_left > 0 or not batcher.idle
        batcher.stop(abandon=True)

    async def on_tick(self, counter: int) -> bool:
        if self.drain_until and not self.serving.batcher.draining:
            self.serving.batcher.drain()
            self.say(
                "Going down: what was accepted is answered, what comes now is not; a second signal ends this at once."
            )
        if self.drain_until:
            answered = self.serving.batcher.idle and self.guard.in_flight == 0
            if answered or time.monotonic() > self.drain_until:
                self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Connections have what is left of the time to be closed by their clients."""
        left = 0.0 if self.force_exit else max(0.0, self.drain_until - time.monotonic())
        self.config.timeout_graceful_shutdown = left  # type: ignore[assignment]
        late = self.loop.call_later(left, self.give_up)
        await super().shutdown(sockets)
        late.cancel()
        if self.force_exit:  # then uvicorn leaves this out, and the loop's end would break off who waits for it
            await self.lifespan.shutdown()

    def end(self) -> str:
        """What there is to say at the end."""
        queued = f"Ended. {were(self.serving.batcher.accepted, 'request')} queued"
        if not self.requests_left:
            return f"{queued}, and none was given up."
        left = f" with {counted(self.sentences_left, 'sentence')} still to translate" if self.sentences_left else ""
        return f"{queued}. {were(self.requests_left, 'request')} given up{left}."

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self.started:
            address = self.servers[0].sockets[0].getsockname()
            host = f"[{address[0]}]" if ":" in address[0] else address[0]
            self.say(f"Serving at http://{host}:{address[1]}/")


def were(number: int, what: str) -> str:
    """`1 request was`, `2 requests were`."""
    return f"{counted(number, what)} {'was' if number == 1 else 'were'}"


def unsaid(record: logging.LogRecord) -> bool:
    """Of requests that are given up we speak ourselves; uvicorn would too."""
    return "graceful shutdown exceeded" not in record.getMessage()


def listening(host: str, port: int) -> socket.socket:
    """The port, taken before anything else is done."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise RegardError(f"Port {port} of {host} cannot be served ({error.strerror}): give another --port.") from None


def run(serving: Serving, port: socket.socket, say: Callable[[str], None]) -> None:
    """Serve until a signal."""
    guard = build(serving)
    config = uvicorn.Config(
        readable(guard, serving.access.origins), http=patient(serving.limits, serving.access), loop="asyncio",
        ws="none", lifespan="on", access_log=False, log_level=logging.ERROR, server_header=False, timeout_keep_alive=30,
        backlog=2048, proxy_headers=False,
    )  # fmt: skip
    logging.getLogger("uvicorn.error").addFilter(unsaid)
    server = Server(config, serving, guard, say)
    gc.collect()
    gc.freeze()  # models and libraries stay: the collector need not look at them again while requests wait
    server.run([port])
    say(server.end())
    if server.gave_up:
        sys.stderr.flush()
        # The translator's thread may be in the middle of a search, which nothing else ends.
        os._exit(1 if server.requests_left else 0)
