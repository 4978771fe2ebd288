"""LibreTranslate's interface, so that its clients work unchanged: forms or JSON, and its names for things.

What is not here: formats other than text, files, suggestions. /detect chooses among the languages that are served, by
their scripts and commonest words; confidence is the share of words that speak for the language, 0 where none does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field, ValidationError

from regard.data.detection import likeliest
from regard.data.languages import title_of
from regard.serve.api import CODE, ERRORS
from regard.serve.fields import wrong_with
from regard.serve.limits import Refusal
from regard.serve.models import Served, matches
from regard.serve.state import Serving
from regard.serve.work import MOST, Task, Words, begun, note


class Translate(BaseModel):
    q: Words | list[Words] = Field(description="A text, or several.")
    source: str = Field("auto", description="Code of its language, or auto.")
    target: str
    format: str = Field("text", description="Only text.")
    alternatives: int = Field(0, ge=0, le=MOST, description="Further translations.")
    api_key: str | None = ""


class Detect(BaseModel):
    q: Words
    api_key: str | None = ""


MUST = {
    "q": "a text, or a list of texts", "source": f"{CODE}, or auto", "target": CODE, "format": '"text"',
    "alternatives": f"a whole number from 0 to {MOST:,}", "api_key": "a text",
}  # fmt: skip
FORM = {"application/json", "application/x-www-form-urlencoded"}


def body_of(schema: type[BaseModel]) -> dict[str, Any]:
    """The request of a route that reads its own body, for the OpenAPI document."""
    shape = schema.model_json_schema()
    return {"requestBody": {"required": True, "content": {kind: {"schema": shape} for kind in sorted(FORM)}}}


async def fields_of(request: Request) -> dict[str, Any]:
    """A form or JSON as a dictionary."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    try:
        if kind == "application/json":
            content = json.loads(body)
            if not isinstance(content, dict):
                raise Refusal(400, "The body is no JSON object: send one with q, source and target.")
            return content
        if kind in ("application/x-www-form-urlencoded", ""):
            pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=1000)
            several = [value for name, value in pairs if name == "q"]
            return dict(pairs) | ({"q": several} if len(several) > 1 else {})
    except Refusal:
        raise
    except (ValueError, RecursionError):
        raise Refusal(400, "The body cannot be read: send JSON or a urlencoded form, in UTF-8.") from None
    raise Refusal(
        400, f"A body of the kind {kind[:100]!r} is not read here: send application/json or a urlencoded form."
    )


async def read(request: Request, schema: type[Any], must: Mapping[str, str] = MUST) -> Any:
    content = await fields_of(request)
    try:
        return schema.model_validate(content)
    except ValidationError as error:
        raise Refusal(400, wrong_with(error.errors(include_input=False, include_url=False), must)) from None


def language(code: str) -> dict[str, str]:
    return {"code": code, "name": title_of(code)}


def router(serving: Serving) -> APIRouter:
    routes = APIRouter(tags=["LibreTranslate"])
    models, limits = serving.models, serving.limits

    def chosen(asked: Translate, sample: str) -> tuple[Served, float | None]:
        """The model, and the confidence in the language where that was to be found out."""
        if asked.source.lower() != "auto":
            return models.find(asked.source, asked.target), None
        for code, sureness in likeliest(models.languages(), sample):
            if any(matches(asked.target, target) for target in models.languages()[code]):
                return models.find(code, asked.target), sureness
        raise Refusal(400, f"Nothing is translated to {asked.target[:100]} here: GET /languages lists what is.")

    @routes.post("/translate", responses=ERRORS, openapi_extra=body_of(Translate))
    async def translate(request: Request) -> dict[str, Any]:
        """Translate q, a text or several."""
        asked: Translate = await read(request, Translate)
        serving.admit(request, asked.api_key or "")
        if asked.format != "text":
            raise Refusal(400, f"The format {asked.format[:100]!r} is not translated here: send text.")
        several = isinstance(asked.q, list)
        texts = asked.q if isinstance(asked.q, list) else [asked.q]
        served, sureness = chosen(asked, " ".join(texts)[:2000])
        task = Task(served, texts, n_best=asked.alternatives + 1)
        note(request.state, task, serving.log_text)
        async with begun(task, serving.batcher, limits) as work:
            answers = await work.whole()
            best = [work.joined(number, some) for number, some in enumerate(answers)]
            others = [work.alternatives(number, some) for number, some in enumerate(answers)]
        found: dict[str, Any] = {"translatedText": best if several else best[0]}
        if asked.alternatives:
            found["alternatives"] = others if several else others[0]
        if sureness is not None:
            detected = {"confidence": sureness, "language": served.source}
            found["detectedLanguage"] = [detected] * len(texts) if several else detected
        return found

    @routes.get("/languages")
    async def languages() -> list[dict[str, Any]]:
        """The languages and what each is translated to, which may be nothing."""
        known = dict.fromkeys(served.target for served in models)
        found = models.languages() | {code: [] for code in known if code not in models.languages()}
        return [{**language(code), "targets": targets} for code, targets in found.items()]

    @routes.post("/detect", responses=ERRORS, openapi_extra=body_of(Detect))
    async def detect(request: Request) -> list[dict[str, Any]]:
        """Which of the served source languages q is in."""
        asked: Detect = await read(request, Detect, MUST | {"q": "a text"})
        serving.admit(request, asked.api_key or "")
        if len(asked.q) > limits.characters:
            raise Refusal(413, f"{len(asked.q):,} characters are more than the {limits.characters:,} allowed here.")
        return [{"confidence": sureness, "language": code} for code, sureness in likeliest(models.languages(), asked.q)]

    @routes.get("/frontend/settings")
    async def settings() -> dict[str, Any]:
        """What LibreTranslate's page asks before it begins."""
        first = next(iter(models))
        return {
            "apiKeys": serving.keys is not None, "keyRequired": serving.keys is not None,
            "charLimit": limits.characters, "frontendTimeout": 500, "suggestions": False,
            "supportedFilesFormat": [], "filesTranslation": False,
            "language": {"source": language(first.source), "target": language(first.target)},
        }  # fmt: skip

    return routes
