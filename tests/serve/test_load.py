"""Many clients at once: no answer is lost or wrong, and a server that has too much to do says so."""

from __future__ import annotations

import asyncio
import concurrent.futures
import http.client
import json
import re
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.serving import Server, differing, metrics, ratios, served, under_load
from regard.decode.translator import Translator

PAIR = "en-de"
LONG = "a b c d e f g h i j k l m n o p q r s t u v w x y z " * 11  # one sentence, and a slow one


def beyond_margin(model: Translator, pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Differences that rounding does not explain: two candidates closer than the batch promise's margin may change
    places."""
    found = []
    for source, text in pairs:
        scores = {one.text: one.log_prob for one in model.search([source], n_best=4, batch_sentences=1)[0]}
        if text not in scores or abs(scores[text] - scores[model.translate(source)]) >= 1e-4:
            found.append((source, text))
    return found


def test_64_clients_get_what_the_translator_gives(server: Server, model: Translator, sentences: list[str]) -> None:
    expected = dict(zip(sentences, model.translate(sentences), strict=True))
    load = asyncio.run(under_load(server.port, sentences, 64, 3.0, {}))
    assert set(load.statuses) == {200}
    assert len(load.translations) >= 64
    assert beyond_margin(model, differing(load.translations, expected)) == []
    sizes = asyncio.run(metrics(server.port))
    mean = sizes['regard_batch_sentences_sum{model="run"}'] / sizes['regard_batch_sentences_count{model="run"}']
    assert mean > 2, "they were translated together"


@pytest.fixture(scope="module")
def small(reverser: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server with a short queue, one sentence at a time."""
    options = ["--max-queue", "8", "--max-items", "8", "--batch-tokens", "1", "--beam", "8"]
    with served(reverser, tmp_path_factory.mktemp("small") / "log", *options, pair=PAIR) as server:
        yield server


@dataclass(frozen=True)
class Reply:
    status: int
    retry_after: str | None
    content: dict[str, Any]
    seconds: float


def post(port: int, **body: Any) -> Reply:
    """A request on a connection of its own."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        headers = {"Content-Type": "application/json", "Connection": "close"}
        connection.request("POST", "/v1/translate", json.dumps(body), headers)
        answer = connection.getresponse()
        content = json.loads(answer.read())
        return Reply(answer.status, answer.headers["Retry-After"], content, time.monotonic() - began)
    finally:
        connection.close()


def test_overload_is_refused_at_once_and_passes(small: Server, model: Translator) -> None:
    with concurrent.futures.ThreadPoolExecutor(30) as pool:
        futures = [pool.submit(post, small.port, text=LONG[:300], split="none") for _ in range(30)]
        answers = [future.result() for future in futures]
    statuses = [answer.status for answer in answers]
    assert set(statuses) == {200, 429}
    refused = [answer for answer in answers if answer.status == 429]
    assert all(answer.retry_after and "sentences wait" in answer.content["error"] for answer in refused)
    slowest_refusal = max(answer.seconds for answer in refused)
    assert slowest_refusal < max(answer.seconds for answer in answers), "a refusal does not wait for the queue"
    after = post(small.port, text="a b c")
    assert after.status == 200
    assert after.content["translations"][0]["text"] == model.translate("a b c", beam_size=8)


def test_a_deadline_is_kept_and_nothing_is_left_behind(small: Server) -> None:
    answer = post(small.port, text=LONG, split="none", deadline=0.05)
    assert answer.status == 504
    assert "deadline" in answer.content["error"]
    with httpx.stream(
        "POST", f"http://127.0.0.1:{small.port}/v1/translate", timeout=60,
        json={"text": [LONG[:500]] * 4, "split": "none", "deadline": 0.05, "stream": True},
    ) as streamed:  # fmt: skip
        lines = [json.loads(line) for line in streamed.iter_lines()]
    assert streamed.status_code == 200
    assert lines[-1]["status"] == 504
    assert post(small.port, text="a b c").status == 200
    assert asyncio.run(metrics(small.port))["regard_queue_sentences"] == 0


def test_a_client_that_goes_away_is_forgotten(small: Server) -> None:
    def leave() -> None:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"http://127.0.0.1:{small.port}/v1/translate", json={"text": [LONG[:550]] * 7}, timeout=0.2)

    threads = [threading.Thread(target=leave) for _ in range(1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert post(small.port, text="a b c").status == 200, "the queue has room again"
    for _ in range(100):
        if asyncio.run(metrics(small.port))["regard_queue_sentences"] == 0:
            return
        time.sleep(0.05)
    raise AssertionError("sentences of nobody wait")


def test_sigterm_under_load_loses_nothing_that_was_accepted(
    reverser: Path, model: Translator, sentences: list[str], tmp_path: Path
) -> None:
    """Clients count what they got, the server what it accepted: the numbers are the same."""
    expected = dict(zip(sentences, model.translate(sentences), strict=True))
    log = tmp_path / "log"
    statuses: list[int] = []
    answers: list[tuple[str, str]] = []
    with served(reverser, log, "--batch-tokens", "200", pair=PAIR) as server:

        def client(number: int) -> None:
            while True:
                text = sentences[number % len(sentences)]
                number += 7
                try:
                    answer = post(server.port, text=text, split="none")
                except OSError:  # the port is closed; of a request that was accepted this would be a loss
                    return
                statuses.append(answer.status)
                if answer.status == 200:
                    answers.append((text, answer.content["translations"][0]["text"]))

        threads = [threading.Thread(target=client, args=(i,)) for i in range(24)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + 60
        while len(answers) < 48 and time.monotonic() < until:
            time.sleep(0.02)
        assert server.end(signal.SIGTERM) == 0
        for thread in threads:
            thread.join()
    ended = re.search(r"([\d,]+) orders were accepted; 0 sentences were left", log.read_text())
    assert ended
    assert int(ended[1].replace(",", "")) == len(answers) >= 48
    assert set(statuses) <= {200, 503}
    assert beyond_margin(model, differing(answers, expected)) == []


@pytest.mark.soak
def test_64_clients_for_two_minutes(tmp_path: Path) -> None:
    """On the demo model: nothing lost, nothing wrong, memory flat, five times one at a time."""
    import argparse

    import regard
    from benchmarks.serving import measure
    from regard.data.generated import generate
    from regard.training.start import fit

    run = tmp_path / "demo"
    fit("demo", run)
    model = regard.load(run, device="cpu")
    sentences = [pair.source for pair in generate("en-de", "test", 1000)]
    expected = dict(zip(sentences, model.translate(sentences), strict=True))
    options = argparse.Namespace(
        run=run, out=tmp_path, beam=0, serve=[], threads=1, pair="", clients=64, seconds=120.0
    )  # fmt: skip
    rounds = [measure(options, way, sentences, expected) for way in ("batched", "one at a time")]
    shown = [{key: row[key] for key in row if key != "memory_mib"} for row in rounds]
    print(json.dumps(shown, indent=1, ensure_ascii=False))
    for row in rounds:
        assert set(row["statuses"]) == {200}
        assert row["exit"] == 0
        assert beyond_margin(model, row["wrong_pairs"]) == []
    memory = rounds[0]["memory_mib"]
    first, second = ([mib for seconds, mib in memory if low <= seconds < high] for low, high in ((10, 60), (60, 121)))
    print("MiB in the first minute and the second:", min(first), max(first), min(second), max(second))
    assert max(second) < max(first) + 5
    assert max(ratios(rounds, "per_second")[0], ratios(rounds, "per_cpu_second")[0]) >= 5
