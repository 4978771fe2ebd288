"""Many clients at once: no answer is lost or wrong, and a server that has too much to do says so."""

from __future__ import annotations

import asyncio
import concurrent.futures
import http.client
import json
import re
import signal
import socket
import statistics
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
        futures = [pool.submit(post, small.port, text=LONG, split="none") for _ in range(30)]
        answers = [future.result() for future in futures]
    statuses = [answer.status for answer in answers]
    assert set(statuses) == {200, 429}
    refused = [answer for answer in answers if answer.status == 429]
    assert all(answer.retry_after and "sentences wait" in answer.content["error"] for answer in refused)
    slowest_refusal = max(answer.seconds for answer in refused)
    quickest_answer = min(answer.seconds for answer in answers if answer.status == 200)
    assert slowest_refusal < quickest_answer, "a refusal waits for no search"
    after = post(small.port, text="a b c")
    assert after.status == 200
    assert after.content["translations"][0]["text"] == model.translate("a b c", beam_size=8)


def test_a_request_that_the_queue_can_never_hold_is_told_so(small: Server) -> None:
    answer = post(small.port, text="a\n" * 9)
    assert answer.status == 413
    assert answer.content == {"error": "9 sentences are more than the 8 allowed here: send less at a time."}
    assert answer.retry_after is None, "waiting does not help"


def test_a_deadline_is_kept_and_nothing_is_left_behind(small: Server) -> None:
    answer = post(small.port, text=LONG, split="none", deadline=0.005)
    assert answer.status == 504
    assert "deadline" in answer.content["error"]
    with httpx.stream(
        "POST", f"http://127.0.0.1:{small.port}/v1/translate", timeout=60,
        json={"text": [LONG[:500]] * 4, "split": "none", "deadline": 0.005, "stream": True},
    ) as streamed:  # fmt: skip
        lines = [json.loads(line) for line in streamed.iter_lines()]
    assert streamed.status_code == 200
    assert lines[-1]["status"] == 504
    assert post(small.port, text="a b c").status == 200
    assert asyncio.run(metrics(small.port))["regard_queue_sentences"] == 0


def test_a_client_that_goes_away_is_forgotten(small: Server) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"http://127.0.0.1:{small.port}/v1/translate", json={"text": [LONG[:550]] * 7}, timeout=0.2)
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
    ended = re.search(r"Ended\. (\d+) requests were queued, and none was given up\.", log.read_text())
    assert ended
    assert int(ended[1]) == len(answers) >= 48
    assert set(statuses) <= {200, 503}
    assert beyond_margin(model, differing(answers, expected)) == []


@pytest.mark.soak
def test_64_clients_for_two_minutes(tmp_path: Path) -> None:
    """On the demo model: nothing lost, nothing wrong, memory flat, several times one at a time: four to eight of them,
    by the machine (docs/serving.md)."""
    import regard
    from benchmarks.serving import measure
    from regard.data.generated import generate
    from regard.training.start import fit

    run = tmp_path / "demo"
    fit("demo", run)
    model = regard.load(run, device="cpu")
    sentences = [pair.source for pair in generate("en-de", "test", 1000)]
    expected = dict(zip(sentences, model.translate(sentences), strict=True))
    ways = ["batched", "one at a time"]
    rounds = [
        measure(run, tmp_path, way, sentences, expected, seconds=120.0 if number == 0 else 20.0)
        for number in range(3)
        for way in ways[:: -1 if number % 2 else 1]
    ]
    shown = [{key: row[key] for key in row if key != "memory_mib"} for row in rounds]
    print(json.dumps(shown, indent=1, ensure_ascii=False))
    for row in rounds:
        assert set(row["statuses"]) == {200}
        assert row["exit"] == 0
        assert beyond_margin(model, row["wrong_pairs"]) == []
    memory = rounds[0]["memory_mib"]
    # The first minute is that of allocators, which take what the largest searches need.
    third, fourth = ([mib for seconds, mib in memory if low <= seconds < high] for low, high in ((60, 90), (90, 121)))
    print("MiB in the third and the fourth half minute:", min(third), max(third), min(fourth), max(fourth))
    assert max(fourth) < max(third) + 5
    clock, processor = ratios(rounds, "per_second"), ratios(rounds, "per_cpu_second")
    said = f"batched over one at a time, by the clock {clock}, by processor time {processor}"
    print(said)
    assert statistics.median(clock) >= 4, said


def stuck(server: Server, beside: int = 0) -> socket.socket:
    """A request that has been let in beside so many others, and whose body does not come."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    connection.sendall(b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
    until = time.monotonic() + 60
    while asyncio.run(metrics(server.port))["regard_requests_in_flight"] < beside + 2:  # it, and the question after it
        assert time.monotonic() < until
        time.sleep(0.02)
    return connection


def going_down(server: Server, log: Path) -> None:
    """One SIGTERM, which the server has noticed."""
    server.process.send_signal(signal.SIGTERM)
    until = time.monotonic() + 60
    while "Going down" not in log.read_text():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_who_comes_while_the_server_goes_down_is_refused_and_does_not_prolong_it(
    reverser: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with served(reverser, log, "--read-seconds", "500", "--drain-seconds", "500", pair=PAIR) as server:
        first = stuck(server)
        going_down(server, log)
        refused = post(server.port, text="a b c")
        assert refused.status == 503
        assert refused.retry_after
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as second:
            second.sendall(b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
            first.sendall(b"         ")
            assert first.recv(1000).startswith(b"HTTP/1.1 422 "), "which was let in, and is answered"
            assert server.process.wait(timeout=90) == 0, "though the body of the second has not come"
        first.close()


def test_a_drain_ends_at_its_limit_whatever_is_left(reverser: Path, tmp_path: Path) -> None:
    """A body that does not come for long, and sentences that take long."""
    log = tmp_path / "log"
    options = ["--read-seconds", "500", "--max-seconds", "500", "--drain-seconds", "1", "--batch-tokens", "1"]
    options += ["--max-characters", "1000000", "--max-body", "1000000", "--max-queue", "100000"]
    with served(reverser, log, *options, pair=PAIR) as server:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            long = pool.submit(post, server.port, text=[LONG[:500]] * 60, split="none", beam=8)
            while not asyncio.run(metrics(server.port))["regard_queue_sentences"]:
                assert not long.done()
            first = stuck(server, beside=1)
            assert server.end(signal.SIGTERM) == 1
            assert long.result().status == 503
        assert first.recv(1000).startswith(b"HTTP/1.1 503 ")
        first.close()
    given_up = r"Ended\. 1 request was queued\. 2 requests were given up with [1-9]\d* sentences still to translate\."
    assert re.search(given_up, log.read_text())
    assert_only_ours(log)


def assert_only_ours(log: Path) -> None:
    """Each line of the log begins with its time: nobody else has written there, no traceback of a loop that ended."""
    strange = [
        line for line in log.read_text().splitlines() if not re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \S", line)
    ]
    assert strange == []


def test_a_second_signal_ends_the_server_at_once(reverser: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with served(reverser, log, "--read-seconds", "500", "--drain-seconds", "500", pair=PAIR) as server:
        first = stuck(server)
        going_down(server, log)
        assert server.end(signal.SIGTERM) == 1
        first.close()
    assert log.read_text().endswith("Ended. 0 requests were queued. 1 request was given up.\n")
    assert " POST /v1/translate 499 " in log.read_text(), "though no route has seen it"
    assert_only_ours(log)
