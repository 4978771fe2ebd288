"""The server's routes together: /v1, LibreTranslate's, health and metrics, and the page."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

import regard
from regard.decode.wishes import Wish
from regard.serve import api, libretranslate
from regard.serve.batcher import Kind
from regard.serve.fields import wrong_with
from regard.serve.guard import PAGE_POLICY, Guard, error_response, refusal_response
from regard.serve.lane import Lane
from regard.serve.limits import Refusal
from regard.serve.metrics import TYPE
from regard.serve.models import Served
from regard.serve.state import Serving
from regard.view.page import SCRIPTS, STYLE, attention_page, part

PAGE = Path(__file__).parent / "page"
OFTEN = "/v1/translate"  # what most requests ask for
PLACES = {"index.html": "/", "docs.html": "/docs"}  # others are in /page
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
PROBE = "1"  # what /ready translates
PROBE_SECONDS = 10.0
PROBE_KEPT = 1.0  # seconds for which its outcome is believed, so that probes are no load
DESCRIPTION = (
    "Translation by models trained with regard. Every refusal has a body {'error': …} that says what to change."
)


def build(serving: Serving) -> Guard:
    """The application, limits around it."""
    app = FastAPI(
        title="regard", version=regard.__version__, description=DESCRIPTION, docs_url=None, redoc_url=None,
        lifespan=lifespan(serving),
    )  # fmt: skip
    app.add_exception_handler(Exception, failed)
    app.add_exception_handler(Refusal, refused)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, invalid)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, unknown)  # type: ignore[arg-type]
    routers = api.router(serving), libretranslate.router(serving)
    for router in routers:
        app.include_router(router)
    health(app, serving)
    pages(app)
    places = (getattr(route, "path", "") for routes in (app, *routers) for route in routes.routes)
    endpoints = {route.path: route.endpoint for route in routers[0].routes if isinstance(route, APIRoute)}
    lane = Lane(app, OFTEN, api.TranslateRequest, endpoints[OFTEN])
    return Guard(lane, serving.limits, serving.metrics, serving.access, serving.log, frozenset(places))


def lifespan(serving: Serving) -> Callable[[FastAPI], Any]:
    @asynccontextmanager
    async def alive(app: FastAPI) -> AsyncIterator[None]:
        serving.batcher.start()
        yield
        await asyncio.to_thread(serving.batcher.stop)

    return alive


async def failed(request: Request, error: Exception) -> Response:
    return error_response(500, f"The server failed with {type(error).__name__}.")


async def refused(request: Request, refusal: Refusal) -> Response:
    return refusal_response(refusal)


async def invalid(request: Request, error: RequestValidationError) -> Response:
    """What is wrong with a body, in a sentence; without what was sent."""
    errors = error.errors()
    if errors[0]["type"] == "json_invalid":
        return error_response(400, "The body is no JSON: send an object with a text, in UTF-8.")
    if len(errors[0]["loc"]) < 2:
        return error_response(
            422, 'The body is no JSON object: send one, as Content-Type application/json, with a "text".'
        )
    return error_response(422, wrong_with(errors, api.FIELDS[request.scope["path"]], outer=1))


async def unknown(request: Request, error: HTTPException) -> Response:
    sentences = {
        404: "There is nothing at this path: GET /docs or /openapi.json says what there is.",
        405: "This path takes another method: GET /openapi.json says which.",
    }
    message = sentences.get(error.status_code, "The body cannot be read: send JSON in UTF-8.")
    headers = dict(error.headers or {})
    if headers.get("Allow") == "GET":
        headers["Allow"] = "GET, HEAD"  # which the guard makes a GET
    return error_response(error.status_code, message, headers)


def health(app: FastAPI, serving: Serving) -> None:
    """Is the process there, does it translate, and what has it done so far."""
    latest: tuple[float, Refusal | None] | None = None  # when every model was last asked, and what was wrong
    asking = asyncio.Lock()

    async def decode(served: Served) -> None:
        kind = Kind(served.name, served.translator.config.beam_size)  # that of plain requests, whose search it joins
        order = serving.batcher.submit(kind, [PROBE], [Wish()], PROBE_SECONDS, urgent=True)
        try:
            await asyncio.wait_for(serving.batcher.mail.awaited(order.futures[0]), PROBE_SECONDS)
        except TimeoutError:
            raise Refusal(503, f"{served.name} has not translated within {PROBE_SECONDS:g} seconds.") from None
        finally:
            serving.batcher.cancel(order)

    async def asked() -> Refusal | None:
        try:
            for served in serving.models:
                await decode(served)
        except Refusal as refusal:
            return refusal
        return None

    @app.get("/live", tags=["health"])
    async def live() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "ok"}

    app.get("/health", tags=["health"])(live)

    @app.get("/ready", tags=["health"], responses={503: {"model": api.Error}})
    async def ready() -> dict[str, Any]:
        """Whether every model has just translated something."""
        nonlocal latest
        async with asking:
            if serving.batcher.draining:
                raise Refusal(503, "The server is going down.")
            if not latest or time.monotonic() - latest[0] > PROBE_KEPT:
                wrong = await asked()
                latest = time.monotonic(), wrong
            if latest[1]:
                raise Refusal(latest[1].status, latest[1].message)
            return {"status": "ready", "models": [served.name for served in serving.models]}

    @app.get("/metrics", tags=["health"], response_class=Response)
    async def metrics(request: Request) -> Response:
        """Counts for Prometheus. Where keys are needed, it needs one too."""
        if serving.keys:
            serving.known(request)
        return Response(serving.metrics.text(), media_type=TYPE)


def pages(app: FastAPI) -> None:
    """The static files, each a route of its own: nothing else of the disk can be asked for. The viewer's are those of
    saved pages, and `saved.html` is such a page without a document, into which the page puts one."""
    for file in sorted(PAGE.iterdir()):
        if file.suffix in KINDS:
            page(app, PLACES.get(file.name, f"/page/{file.name}"), file.read_bytes(), file.suffix)
    for name in (STYLE, *SCRIPTS):
        page(app, f"/page/viewer/{name}", part(name).encode(), Path(name).suffix)
    page(app, "/page/viewer/saved.html", attention_page().encode(), ".html")


def page(app: FastAPI, path: str, content: bytes, suffix: str) -> None:
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'

    @app.get(path, include_in_schema=False)
    async def static(request: Request) -> Response:
        headers = {"Content-Security-Policy": PAGE_POLICY, "Cache-Control": "no-cache", "ETag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=KINDS[suffix])
