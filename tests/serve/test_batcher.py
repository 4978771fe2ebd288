"""Whose sentences are translated together."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from regard.decode.translator import Translator
from regard.decode.wishes import Wish
from regard.serve.batcher import Batcher, Kind, Piece, Stream
from regard.serve.limits import Limits, Refusal
from regard.serve.metrics import Metrics
from regard.serve.models import Models, Place, Served


@pytest.fixture
def served(model: Translator) -> dict[str, Served]:
    return Models([Served("one", "en", "de", model, model)]).models


def batcher(served: dict[str, Served], batch_tokens: int = 1000, **limits: int) -> Batcher:
    return Batcher(served, Limits(**limits), Metrics(), batch_tokens)


def taken(queue: Batcher) -> list[Piece]:
    return queue.take(queue.orders[0].kind)


GREEDY, BEAM = Kind("one", 1, options=(("beam_size", 1),)), Kind("one", 4)


def submit(queue: Batcher, kind: Kind, texts: list[str], seconds: float = 30.0) -> None:
    queue.submit(kind, texts, [Wish()] * len(texts), seconds)


@pytest.fixture
def queued(served: dict[str, Served], monkeypatch: pytest.MonkeyPatch) -> Batcher:
    """A queue whose thread has not begun, though it says so."""
    queue = batcher(served, 24)
    monkeypatch.setattr(queue.thread, "is_alive", lambda: True)
    return queue


def tokens(queue: Batcher, *texts: str) -> int:
    """How many the longest has, with the end symbol."""
    return max(map(len, queue.models["one"].translator.tokenizers.source.encode(texts)))


def test_requests_take_turns_within_the_budget(queued: Batcher) -> None:
    queued.batch_tokens = 6 * tokens(queued, "a b c", "d e f", "g h i")
    submit(queued, GREEDY, ["a b c"] * 5)
    submit(queued, GREEDY, ["d e f"] * 2)
    submit(queued, GREEDY, ["g h i"])
    texts = [piece.text for piece in taken(queued)]
    assert texts == ["a b c", "d e f", "g h i", "a b c", "d e f", "a b c"]
    assert [piece.text for piece in taken(queued)] == ["a b c", "a b c"]
    assert queued.waiting == 0
    assert not queued.orders


def test_padding_and_the_beam_count_for_the_budget(queued: Batcher) -> None:
    long = "c d e f g h i"
    assert tokens(queued, long) > tokens(queued, "a") + 1
    queued.batch_tokens = 3 * tokens(queued, long) - 1
    submit(queued, GREEDY, ["a", "b", long])
    assert [piece.text for piece in taken(queued)] == ["a", "b"], "with the third all three would be as long as it"
    assert [piece.text for piece in taken(queued)] == [long]
    queued.batch_tokens = 3 * 4 * tokens(queued, "a")
    submit(queued, BEAM, ["a"] * 4)
    assert len(taken(queued)) == 3


def test_the_most_urgent_goes_first_and_decides_the_kind(queued: Batcher) -> None:
    submit(queued, GREEDY, ["a"])
    submit(queued, BEAM, ["b"], seconds=1.0)
    submit(queued, GREEDY, ["c"], seconds=2.0)
    order = [[piece.text for piece in taken(queued)] for _ in range(2)]
    assert order == [["b"], ["c", "a"]]


def test_a_sentence_larger_than_the_budget_goes_alone(queued: Batcher) -> None:
    submit(queued, GREEDY, ["a b c d e f g h i j k l m n o p q r s t u v w x y z a b c"])
    assert len(taken(queued)) == 1


def test_a_full_queue_refuses_all_of_a_request_or_nothing(served: dict[str, Served]) -> None:
    queue = batcher(served, queue=64)
    queue.start()
    with queue.changed:  # the thread cannot take anything meanwhile
        submit(queue, GREEDY, ["a"] * 60)
        with pytest.raises(Refusal) as refusal:
            submit(queue, GREEDY, ["b"] * 5)
        assert refusal.value.status == 429
        assert queue.waiting == 60
        submit(queue, GREEDY, ["b"] * 4)
    queue.stop()
    assert queue.waiting == 0


def test_what_is_cancelled_is_not_translated(queued: Batcher) -> None:
    order = queued.submit(GREEDY, ["a", "b"], [Wish()] * 2, 30.0)
    submit(queued, GREEDY, ["c"])
    queued.cancel(order)
    assert [piece.text for piece in taken(queued)] == ["c"]


def test_a_search_may_look_at_the_queue_while_a_request_is_cancelled(queued: Batcher) -> None:
    order = queued.submit(GREEDY, ["a", "b"], [Wish()] * 2, 30.0)

    class Meddled(list[Any]):
        """The request is cancelled between the look whether there is any and the look at the first."""

        def __len__(self) -> int:
            length = super().__len__()
            queued.cancel(order)
            return length

    queued.orders = Meddled(queued.orders)
    assert Stream(queued, GREEDY).waiting() == 0
    before = queued.orders
    submit(queued, GREEDY, ["c"])
    assert (len(before), len(queued.orders)) == (0, 1), "nor does it grow under somebody's eyes"


def test_a_search_that_fails_is_told_and_counted_and_its_sentences_translated(
    served: dict[str, Served], model: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise ArithmeticError(chr(9731))

    monkeypatch.setattr("regard.serve.batcher.translate_as_they_come", fail)
    told: list[str] = []
    queue = Batcher(served, Limits(), Metrics(), complain=told.append)
    assert queue.joined(BEAM)
    queue.start()
    order = queue.submit(BEAM, ["a b c"], [Wish()], 30.0)
    assert order.futures[0].result(30).translations[0].text == model.translate("a b c")
    queue.stop()
    assert len(told) == 1
    assert "ArithmeticError" in told[0]
    assert chr(9731) not in told[0], "a message may have somebody's text"
    assert b"regard_failures_total 1.0" in queue.metrics.text()


def test_one_clients_impossible_wish_is_hers_alone(
    served: dict[str, Served], model: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[int] = []
    search = Translator.search
    monkeypatch.setattr(
        Translator, "search",
        lambda self, texts, *rest, **more: (searched.append(len(texts)), search(self, texts, *rest, **more))[1],
    )  # fmt: skip
    queue = batcher(served)
    queue.start()
    kind = Kind("one", 4, wishes=True)
    wishes = [Wish(), Wish(prefix="ü"), Wish(prefix="z")]
    order = queue.submit(kind, ["a b c"] * 3, wishes, 30.0)
    answers = [future.exception(30) or future.result() for future in order.futures]
    assert isinstance(answers[1], Refusal)
    assert answers[1].status == 422
    assert "ü" in answers[1].message
    assert answers[0].translations[0].text == model.translate("a b c")
    assert answers[2].translations[0].text.startswith("z")
    assert searched == [3, 2], "the others once more, together"
    queue.stop()
    with pytest.raises(Refusal, match="going down"):
        submit(queue, GREEDY, ["a"])


def test_stopping_answers_what_waits(served: dict[str, Served], model: Translator, sentences: list[str]) -> None:
    queue = batcher(served)
    queue.start()
    orders = [queue.submit(BEAM, [text], [Wish()], 30.0) for text in sentences[:40]]
    queue.stop()
    found = [order.futures[0].result(0).translations[0].text for order in orders]
    assert found == model.translate(sentences[:40])


def test_answers_of_one_step_wake_the_event_loop_once(
    served: dict[str, Served], model: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask() -> tuple[list[str], int]:
        loop, wakes = asyncio.get_running_loop(), 0
        wake = loop.call_soon_threadsafe

        def counted(*arguments: Any) -> asyncio.Handle:
            nonlocal wakes
            wakes += 1
            return wake(*arguments)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        queue = batcher(served, batch_tokens=100_000)
        queue.start()
        order = queue.submit(BEAM, ["a b c"] * 30, [Wish()] * 30, 30.0)
        answers = await asyncio.gather(*(queue.mail.awaited(future) for future in order.futures))
        late = await queue.mail.awaited(order.futures[0])  # which is there already
        queue.stop()
        assert late == answers[0]
        return [answer.translations[0].text for answer in answers], wakes

    texts, wakes = asyncio.run(ask())
    assert texts == [model.translate("a b c")] * 30
    assert wakes <= 1, "none where all were there before anybody waited"


def test_languages_are_read_from_a_run_or_given(reverser: Path, tmp_path: Path) -> None:
    from regard.errors import RegardError

    assert Place.read(f"pt-BR:de={reverser}") == Place(reverser, "pt-BR", "de")
    assert Place.read(f"en-de={reverser}") == Place(reverser, "en", "de")
    with pytest.raises(RegardError, match="does not say"):
        Place.read(str(reverser))
    with pytest.raises(RegardError, match="english is no pair"):
        Place.read(f"english={reverser}")


def test_a_model_is_found_by_its_languages(model: Translator) -> None:
    pairs = [("en", "de"), ("de", "en"), ("en", "pt-BR")]
    models = Models([Served("run", source, target, model, model) for source, target in pairs])
    assert [served.name for served in models] == ["run", "run-2", "run-3"]
    assert models.find("de").name == models.find(target="en").name == models.find(name="run-2").name == "run-2"
    assert models.find("EN", "pt").name == "run-3"
    assert models.languages() == {"en": ["de", "pt-BR"], "de": ["en"]}
    long = "x" * 100_000
    for asked in (
        {"source": "en"}, {"source": "fr"}, {"name": "runn"}, {"source": "de", "name": "run"}, {"source": long},
        {"target": long}, {"name": long},
    ):  # fmt: skip
        with pytest.raises(Refusal) as refusal:
            models.find(**asked)
        assert refusal.value.status == (422 if "source" in asked and "name" in asked else 400), "one contradicts itself"
        assert len(refusal.value.message) < 500, "what was asked is not all said again"
