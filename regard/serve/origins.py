"""Pages of other sites that may ask, where --cors names some.

Two layers. The outermost puts on every answer, the guard's refusals among them, the headers by which such a page may
read it. A preflight, in which a browser asks whether its page may ask, goes past it and through the guard like any
request (the name it calls, the size and time of its body, how many there are, the log) and is answered inside. It needs
no key and is counted against none: browsers send none with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send


def allowing(app: ASGIApp, origins: Sequence[str]) -> CORSMiddleware:
    return CORSMiddleware(
        app, allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=["Authorization", "Content-Type"],
        expose_headers=["Retry-After"],
    )  # fmt: skip


def preflight(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "OPTIONS":
        return False
    names = {name for name, _ in scope["headers"]}
    return b"origin" in names and b"access-control-request-method" in names


def apart(preflights: ASGIApp, others: ASGIApp) -> ASGIApp:
    """Preflights to the one, everything else to the other."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await (preflights if preflight(scope) else others)(scope, receive, send)

    return app


def readable(guard: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """The outermost layer."""
    return apart(preflights=guard, others=allowing(guard, origins)) if origins else guard


def answering_preflights(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """The layer inside the guard."""
    return apart(preflights=allowing(app, origins), others=app) if origins else app
