"""Our own interface, /v1: its requests and answers, and the routes."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from regard.data.languages import title_of
from regard.decode.alignment import links_of
from regard.decode.request import Translation
from regard.errors import nearest
from regard.serve.batcher import Answer
from regard.serve.limits import Refusal
from regard.serve.models import Served
from regard.serve.state import Serving
from regard.serve.work import MOST, Count, Task, Words, Work, begun, note
from regard.view import attention_document

Made = TypeVar("Made")

LOOKED_AT = 0.02  # the least weight that an alignment tells


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class Error(BaseModel):
    error: str = Field(description="What is wrong, and what to change.")


class TranslateRequest(Strict):
    """Texts and what is asked of their translations."""

    text: Words | list[Words] = Field(description="A text, or several.", examples=["Is she sleeping?"])
    source: str | None = Field(None, description="Code of its language; may be left out where only one is served.")
    target: str | None = Field(None, description="Code of the language of the translation; likewise.")
    model: str | None = Field(None, description="Name of a model, in place of languages.")
    beam: Count | None = Field(None, description="Beam size; 1 is greedy search.")
    n_best: Count = Field(1, description="Translations of each sentence, best first.")
    scores: bool = Field(False, description="Give each sentence's score and log-probability.")
    alignments: bool = Field(False, description="Give word alignments.")
    attention: bool | list[str] = Field(False, description="Give attention weights: all, or those of some modules.")
    prefix: Words = Field("", description="How the first sentence's translation begins.")
    glossary: dict[Words, Words] = Field(
        default_factory=dict, description="Terms, and what the translation must say for them."
    )
    split: Literal["sentences", "lines", "none"] = Field("sentences", description="How texts are cut for the model.")
    stream: bool = Field(False, description="Answer in lines of JSON, a sentence each, as they are ready.")
    deadline: Annotated[float, Field(gt=0)] | None = Field(None, description="Seconds until the answer is useless.")


class AttentionRequest(Strict):
    """A text whose translation is looked into."""

    text: Words = Field(description="The text; each of its sentences is an example.", examples=["Is she sleeping?"])
    source: str | None = Field(None, description="As of a translation.")
    target: str | None = Field(None, description="As of a translation.")
    model: str | None = Field(None, description="As of a translation.")
    beam: Count | None = Field(None, description="As of a translation.")
    translation: Words | None = Field(
        None, description="What the model is made to say of the text, which is then not cut; if none, what it says."
    )
    deadline: Annotated[float, Field(gt=0)] | None = Field(None, description="Seconds until the answer is useless.")


NUMBER = f"a whole number from 1 to {MOST:,}"
CODE = "the code of a language, such as en"
SWITCH = "true or false"
MUST = {  # be, so that a wrong field can be told what
    "text": "a text, or a list of texts", "source": CODE, "target": CODE, "model": "the name of a model",
    "beam": NUMBER, "n_best": NUMBER, "scores": SWITCH, "alignments": SWITCH,
    "attention": "true, false, or a list of names of modules", "prefix": "a text",
    "glossary": "an object with a text for each term", "split": '"sentences", "lines" or "none"', "stream": SWITCH,
    "deadline": "a number of seconds above 0", "translation": "a text",
}  # fmt: skip
FIELDS = {
    "/v1/translate": {name: MUST[name] for name in TranslateRequest.model_fields},
    "/v1/attention": {name: MUST[name] for name in AttentionRequest.model_fields} | {"text": "a text"},
}


class AttentionDocument(BaseModel):
    """What the viewer draws: docs/viewer.md has every field."""

    format: str
    version: int
    title: str
    levels: int = Field(description="A stored number n means the weight n / levels.")
    examples: list[dict[str, Any]] = Field(description="One for each sentence.")


class Alignment(BaseModel):
    source_words: list[str]
    target_words: list[str]
    links: list[tuple[int, int]] = Field(description="(source word, target word), from 0.")
    weights: list[list[tuple[int, float]]] = Field(
        description=f"For each target word the source words it looks at and how much, from {LOOKED_AT} on."
    )


class Attention(BaseModel):
    """The weights of one module: rows look at columns."""

    name: str
    rows: list[str]
    columns: list[str]
    shape: tuple[int, int, int] = Field(description="Heads, rows, columns.")
    weights: str = Field(description="Base64 of little-endian float32, in that order.")


class One(BaseModel):
    """A translation of a sentence."""

    text: str
    score: float | None = None
    log_prob: float | None = None
    alignment: Alignment | None = None
    attention: list[Attention] | None = None


class Sentence(BaseModel):
    source: str
    translations: list[One]
    cut: int | None = Field(None, description="Tokens at its end that the model has not seen, being too many.")


class TranslatedText(BaseModel):
    text: str
    alternatives: list[str] | None = Field(None, description="The text of each sentence's second best, third best …")
    sentences: list[Sentence] | None = None


class TranslateResponse(BaseModel):
    model: str
    source: str
    target: str
    translations: list[TranslatedText] = Field(description="One for each text, in order.")


class Model(BaseModel):
    name: str
    source: str
    target: str
    source_name: str = Field(description="What readers call the language.")
    target_name: str
    default: bool = Field(description="Whether it answers for its languages; another one is asked for by its name.")
    engine: str
    beam: int
    n_best: int = Field(description="Translations of a sentence it finds in any case; more need a wider search.")
    alignments: bool = Field(description="Whether it gives alignments and attention.")


class ModelList(BaseModel):
    models: list[Model]
    limits: dict[str, int | float]


ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": Error, "description": "Not JSON, an unknown language, or more asked for than is allowed."},
    401: {"model": Error, "description": "A key is needed."},
    403: {"model": Error, "description": "The key is unknown, or the page that asks is."},
    408: {"model": Error, "description": "The body came too slowly."},
    413: {"model": Error, "description": "Too much text."},
    422: {"model": Error, "description": "A field is wrong, or the wishes cannot be fulfilled."},
    429: {"model": Error, "description": "Too many requests; Retry-After says when to try again."},
    503: {"model": Error, "description": "The server is going down."},
    504: {"model": Error, "description": "Not ready by the deadline."},
}

STREAMED: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/x-ndjson": {}}, "description": "The translations; with `stream`, a line each."}
}


def answer_of(sentence: str, answer: Answer, asked: TranslateRequest, served: Served) -> dict[str, Any]:
    """One sentence's translations as they are sent."""
    found: list[dict[str, Any]] = []
    for number, translation in enumerate(answer.translations):
        one: dict[str, Any] = {"text": translation.text}
        if asked.scores:
            one |= {"score": translation.score, "log_prob": translation.log_prob}
        if asked.alignments:
            one["alignment"] = alignment_of(translation, answer.looks[number], served)
        if asked.attention is not False:
            maps = answer.maps[number]
            names = dict.fromkeys(asked.attention) if isinstance(asked.attention, list) else maps
            one["attention"] = [attention_of(translation, name, maps[name], served) for name in names if name in maps]
        found.append(one)
    cut = answer.translations[0].cut
    return {"source": sentence, "translations": found} | ({"cut": cut} if cut else {})


def alignment_of(translation: Translation, looks: Tensor, served: Served) -> dict[str, Any]:
    tokenizers = served.plain.tokenizers
    rows = [[round(weight, 4) for weight in row] for row in looks.tolist()]
    return {
        "source_words": tokenizers.source.word_texts(translation.source_tokens),
        "target_words": tokenizers.target.word_texts(translation.target_tokens),
        "links": sorted(links_of(looks)),
        "weights": [[(s, weight) for s, weight in enumerate(row) if weight >= LOOKED_AT] for row in rows],
    }


def attention_of(translation: Translation, name: str, given: Tensor, served: Served) -> dict[str, Any]:
    weights = given.float().cpu().numpy()
    rows, columns = served.plain.axes(translation, name)
    packed = base64.b64encode(weights.astype("<f4", copy=False).tobytes()).decode("ascii")
    return {"name": name, "rows": rows, "columns": columns, "shape": list(weights.shape), "weights": packed}


def check_names(asked: TranslateRequest, served: Served) -> None:
    """Refuse an attention that the model does not have, before anything is searched for."""
    names = asked.attention if isinstance(asked.attention, list) and served.sees else []
    known = served.plain.attentions if names else []
    for name in names if known else ():
        if name not in known:
            shown = name[:100]
            raise Refusal(
                422, f"{served.name} has no attention {shown}{nearest(shown, known)}: there is {', '.join(known)}."
            )


def text_of(work: Work, number: int, answers: Sequence[Answer], asked: TranslateRequest) -> dict[str, Any]:
    text: dict[str, Any] = {"text": work.joined(number, answers)}
    if asked.n_best > 1:
        text["alternatives"] = work.alternatives(number, answers)
    if asked.n_best > 1 or asked.scores or asked.alignments or asked.attention is not False:
        sentences = zip(work.texts[number].sentences, answers, strict=True)
        text["sentences"] = [answer_of(sentence, answer, asked, work.task.served) for sentence, answer in sentences]
    return text


def whole_answer(work: Work, answers: Sequence[Sequence[Answer]], asked: TranslateRequest) -> Response:
    served = work.task.served
    texts = [text_of(work, number, some, asked) for number, some in enumerate(answers)]
    return JSONResponse({"model": served.name, "source": served.source, "target": served.target, "translations": texts})


async def built(make: Callable[[], Made], asked: TranslateRequest) -> Made:
    """An answer, or a line of it. Weights make a large one, during which other requests must be heard."""
    return make() if asked.attention is False else await asyncio.to_thread(make)


async def lines(work: Work, asked: TranslateRequest) -> AsyncIterator[bytes]:
    """The answer as lines of JSON: a sentence each with what stands before it, the end of each text, and {"done": true}
    or an error. The texts are these lines' "before" and first translations, one after the other."""
    for number, (text, futures) in enumerate(zip(work.texts, work.waiting, strict=True)):
        for place, future in enumerate(futures):
            try:
                answer = await work.answer(future)
            except Refusal as refusal:
                yield json_line({"error": refusal.message, "status": refusal.status})
                return
            yield await built(partial(sentence_line, work, number, place, answer, asked), asked)
        yield json_line({"text": number, "after": text.gaps[-1]})
    yield json_line({"done": True})


def sentence_line(work: Work, number: int, place: int, answer: Answer, asked: TranslateRequest) -> bytes:
    text = work.texts[number]
    before = text.gaps[place] or (work.glue if place else "")
    return json_line(
        {"text": number, "before": before, **answer_of(text.sentences[place], answer, asked, work.task.served)}
    )


def json_line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace") + b"\n"


def router(serving: Serving) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["regard"])

    @routes.post("/translate", response_model=TranslateResponse, responses=STREAMED | ERRORS)
    async def translate(asked: TranslateRequest, request: Request) -> Response:
        """Translate a text or several. A text is cut into sentences, which are translated one by one, and put together
        with its own spacing. With `stream` the answer is application/x-ndjson."""
        serving.admit(request, "")
        served = serving.models.find(asked.source, asked.target, asked.model)
        task = Task(
            served, [asked.text] if isinstance(asked.text, str) else asked.text, asked.beam, asked.n_best, asked.prefix,
            asked.glossary, asked.alignments, asked.attention is not False, asked.split, asked.deadline,
        )  # fmt: skip
        note(request.state, task, serving.log_text)
        check_names(asked, served)
        if asked.stream:
            return await streamed(task, asked)
        async with begun(task, serving.batcher, serving.limits) as work:
            answers = await work.whole()
        return await built(partial(whole_answer, work, answers, asked), asked)

    async def streamed(task: Task, asked: TranslateRequest) -> Response:
        manager = begun(task, serving.batcher, serving.limits)
        work = await manager.__aenter__()  # here, so that what is refused gets a status of its own

        async def content() -> AsyncIterator[bytes]:
            try:
                async for line in lines(work, asked):
                    yield line
            finally:
                await manager.__aexit__(None, None, None)

        return StreamingResponse(content(), media_type="application/x-ndjson")

    @routes.post("/attention", response_model=AttentionDocument, responses=ERRORS)
    async def attention(asked: AttentionRequest, request: Request) -> Response:
        """Every attention weight of a text's translation, and how it was decoded: the document that the viewer draws.
        Weights have 8 bits in it; /v1/translate gives them as they are."""
        serving.admit(request, "")
        served = serving.models.find(asked.source, asked.target, asked.model)
        task = Task(
            served, [asked.text], asked.beam, by="sentences" if asked.translation is None else "none",
            seconds=asked.deadline, view=True, said=asked.translation,
        )  # fmt: skip
        note(request.state, task, serving.log_text)
        async with begun(task, serving.batcher, serving.limits) as work:
            (answers,) = await work.whole()
        views = [answer.view for answer in answers if answer.view]
        if not views:
            raise Refusal(422, "The text has nothing that the model reads: send a sentence.")
        return await asyncio.to_thread(lambda: JSONResponse(attention_document(*views)))

    @routes.get("/models", response_model=ModelList)
    async def models() -> dict[str, Any]:
        """The models and the limits."""
        found = [
            {
                "name": served.name, "source": served.source, "target": served.target,
                "source_name": title_of(served.source), "target_name": title_of(served.target),
                "default": serving.models.find(served.source, served.target) is served, "engine": served.engine,
                "beam": served.translator.config.beam_size, "n_best": served.translator.candidates,
                "alignments": served.aligns,
            }
            for served in serving.models
        ]  # fmt: skip
        return {"models": found, "limits": vars(serving.limits)}

    return routes
