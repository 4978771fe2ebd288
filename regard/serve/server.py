"""A server in a process of its own: uvicorn, told to end politely.

SIGTERM or SIGINT: requests that come from now on are refused with 503, those that were accepted are answered, then the
port is closed and the process ends. A second signal, or `drain_seconds`, ends it at once.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import logging
import socket
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.errors import RegardError
from regard.serve.app import build
from regard.serve.guard import Guard, error_response
from regard.serve.limits import Limits, Refusal
from regard.serve.state import Serving

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
    body are one packet, and its reader wakes up once."""

    def __init__(self, inner: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.inner, self.loop = inner, loop
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
        self.inner.close()

    def abort(self) -> None:
        self.inner.abort()


def patient(limits: Limits) -> type[H11Protocol]:
    """HTTP with an end to the patience for a request's header: uvicorn would wait for ever."""

    class Patient(H11Protocol):
        since = 0.0
        timer: asyncio.TimerHandle | None = None
        refused = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(Gathering(transport, self.loop))
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

        def send_400_response(self, msg: str) -> None:
            """Answer what is no HTTP, and read on for a moment: a connection that is closed on its sender in the middle
            of a sentence takes the answer with it."""
            self.refused = True
            if self.cycle and not self.cycle.response_complete:
                self.cycle.disconnected = True  # whoever was answering need not
                self.cycle.message_event.set()
            status, headers, body = error_response(Refusal(400, "This is no HTTP that can be read.", close=True))
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                head = h11.Response(status_code=status, headers=headers, reason=b"Bad Request")
                for event in (head, h11.Data(data=body), h11.EndOfMessage()):
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

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.drain_until:
            super().handle_exit(sig, frame)
            return
        self.drain_until = time.monotonic() + self.serving.limits.drain_seconds

    async def on_tick(self, counter: int) -> bool:
        if self.drain_until and not self.serving.batcher.draining:
            self.serving.batcher.drain()
            self.say("Going down: what was accepted is answered, what comes now is not.")
        if self.drain_until:
            answered = self.serving.batcher.idle and self.guard.in_flight == 0
            if answered or time.monotonic() > self.drain_until:
                self.should_exit = True
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            address = self.servers[0].sockets[0].getsockname()
            host = f"[{address[0]}]" if ":" in address[0] else address[0]
            self.say(f"Serving at http://{host}:{address[1]}/")


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
    limits = serving.limits
    config = uvicorn.Config(
        guard, http=patient(limits), loop="asyncio", ws="none", lifespan="on", access_log=False,
        log_level=logging.ERROR, server_header=False, timeout_keep_alive=30, backlog=2048, proxy_headers=False,
        timeout_graceful_shutdown=round(limits.drain_seconds),
    )  # fmt: skip
    server = Server(config, serving, guard, say)
    gc.collect()
    gc.freeze()  # models and libraries stay: the collector need not look at them again while requests wait
    server.run([port])
    orders = serving.batcher.counted
    say(f"Ended. {orders:,} orders were accepted; {serving.batcher.waiting:,} sentences were left.")
