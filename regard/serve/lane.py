"""A way past the framework for the request that comes most: a valid one to /v1/translate.

Between the guard and a route FastAPI has a dozen layers, which cost a quarter of the event loop's time for a request
(docs/log.md), and while the event loop works, Python's one lock keeps the search waiting. A request whose body is what
the route asks for is handed to the route at once. Everything else, and whatever is wrong with it, goes the usual way
and gets the usual answer.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Lane:
    """The layer inside the guard, which has read the whole body and gives it in one message.

    model: what `endpoint`, the route at `path`, takes a body for
    """

    def __init__(
        self, app: ASGIApp, path: str, model: type[BaseModel], endpoint: Callable[[Any, Request], Awaitable[Response]]
    ) -> None:
        self.app, self.path, self.model, self.endpoint = app, path, model, endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != self.path or scope["method"] != "POST" or not is_json(scope):
            await self.app(scope, receive, send)
            return
        message = await receive()
        try:
            asked = self.model.model_validate(json.loads(message.get("body", b"")))  # as FastAPI does
        except (ValueError, RecursionError):
            await self.app(scope, first(message, receive), send)
            return
        response = await self.endpoint(asked, Request(scope, receive, send))
        await response(scope, receive, send)


def is_json(scope: Scope) -> bool:
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    return len(kinds) == 1 and kinds[0].split(b";")[0].strip().lower() == b"application/json"


def first(message: Message, receive: Receive) -> Receive:
    """Receive this message, then what comes."""
    left = [message]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again
