"""A server in a process of its own: uvicorn, told to end politely.

SIGTERM or SIGINT: requests that come from now on are refused with 503, those that were accepted are answered, then the
port is closed and the process ends. A second signal, or `drain_seconds`, ends it at once.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import sys
import time
from collections.abc import Callable
from types import FrameType

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.serve.app import build
from regard.serve.guard import Guard
from regard.serve.limits import Limits
from regard.serve.state import Serving


def loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def patient(limits: Limits) -> type[H11Protocol]:
    """HTTP with an end to the patience for a request's header: uvicorn would wait for ever."""

    class Patient(H11Protocol):
        since = 0.0
        timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.since = self.loop.time()
            self.watch()

        def data_received(self, data: bytes) -> None:
            waiting = self.cycle is None or self.cycle.response_complete
            if waiting and self.timer is None:  # the first bytes of a further request
                self.since = self.loop.time()
            super().data_received(data)
            self.watch()

        def watch(self) -> None:
            """Have a timer while a header is incomplete, and none while a request is answered."""
            waiting = self.cycle is None or self.cycle.response_complete
            if waiting and self.timer is None and not self.transport.is_closing():
                self.timer = self.loop.call_at(self.since + limits.body_seconds, self.transport.close)
            elif not waiting and self.timer is not None:
                self.timer.cancel()
                self.timer = None

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

    async def startup(self, sockets: object = None) -> None:
        await super().startup()
        if self.started:
            port = self.servers[0].sockets[0].getsockname()[1]
            host = f"[{self.config.host}]" if ":" in self.config.host else self.config.host
            self.say(f"Serving at http://{host}:{port}/")


def run(serving: Serving, host: str, port: int, say: Callable[[str], None]) -> None:
    """Serve until a signal."""
    guard = build(serving)
    limits = serving.limits
    config = uvicorn.Config(
        guard, host=host, port=port, http=patient(limits), loop="asyncio", ws="none", lifespan="on", access_log=False,
        log_level=logging.ERROR, server_header=False, timeout_keep_alive=30, backlog=2048, proxy_headers=False,
        timeout_graceful_shutdown=round(limits.drain_seconds),
    )  # fmt: skip
    server = Server(config, serving, guard, say)
    server.run()
    orders = serving.batcher.counted
    say(f"Ended. {orders:,} orders were accepted; {serving.batcher.waiting:,} sentences were left.")
    if not server.started:
        sys.exit(1)
