"""How fast a server is with requests batched across clients, against the same server with one sentence at a time.

    PYTHONPATH=. python benchmarks/serving.py runs/demo --seconds 20 --rounds 3 --out results

Each client sends a sentence, waits for the answer and sends the next, on a connection that stays open. The two servers
take turns, each in a process of its own; only one runs at a time. Every answer is compared with that of a `Translator`
asked directly. Processor time is the server's own, by its /metrics: on a machine shared with others it tells more than
the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STARTED = re.compile(r"Serving at http://[^:]+:(\d+)/")
LENGTH = re.compile(rb"(?i)content-length: (\d+)")
WAYS = {"batched": [], "one at a time": ["--batch-tokens", "1"]}


@dataclass
class Server:
    """`regard serve` in a process of its own."""

    process: subprocess.Popen[bytes]
    port: int

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=90)


@contextlib.contextmanager
def served(run: Path, log: Path, *options: str, threads: int = 1, pair: str = "") -> Iterator[Server]:
    """A server on a free port, its log in a file; ended at the end."""
    place = f"{pair}={run}" if pair else str(run)
    command = [sys.executable, "-m", "regard", "serve", place, "--port", "0", "--threads", str(threads), *options]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stderr=out, stdout=out)
    try:
        until = time.monotonic() + 120
        while not (found := STARTED.search(log.read_text(errors="replace"))):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"The server did not start:\n{log.read_text(errors='replace')}")
            time.sleep(0.05)
        yield Server(process, int(found[1]))
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def request(method: str, path: str, body: bytes) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def ask(port: int, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """One request on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return await exchange(reader, writer, method, path, body)
    finally:
        writer.close()


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, method: str, path: str, body: bytes
) -> tuple[int, bytes]:
    """One request on an open connection: status and body."""
    writer.write(request(method, path, body))
    answer = await reader.readuntil(b"\r\n\r\n")
    length = LENGTH.search(answer)
    assert length
    return int(answer.split()[1]), await reader.readexactly(int(length[1]))


@dataclass
class Load:
    """What clients have seen."""

    latencies: list[float] = field(default_factory=list)
    answers: list[tuple[str, bytes]] = field(default_factory=list)  # sentences, and the bodies that came for them
    statuses: dict[int, int] = field(default_factory=dict)
    memory: list[tuple[float, float]] = field(default_factory=list)  # seconds, MiB

    @property
    def translations(self) -> list[tuple[str, str]]:
        return [(sentence, json.loads(body)["translations"][0]["text"]) for sentence, body in self.answers]


class Client(asyncio.Protocol):
    """Sends a sentence, waits for the answer and sends the next, until its time is over.

    It shares a few cores with the server, and so does little: requests are bytes made before, and answers are read
    afterwards.
    """

    def __init__(self, requests: list[tuple[str, bytes]], first: int, until: float, load: Load) -> None:
        self.requests, self.number, self.until, self.load = requests, first, until, load
        self.sentence, self.began, self.got = "", 0.0, b""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.send()

    def send(self) -> None:
        self.began = time.monotonic()
        if self.began >= self.until:
            self.ended.set_result(None)
            self.transport.close()
            return
        self.sentence, request = self.requests[self.number % len(self.requests)]
        self.number += 1
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.got += data
        head, end, body = self.got.partition(b"\r\n\r\n")
        if not end or len(body) < int(LENGTH.search(head)[1]):  # type: ignore[index]
            return
        self.load.latencies.append(time.monotonic() - self.began)
        self.got, status = b"", int(head[9:12])
        self.load.statuses[status] = self.load.statuses.get(status, 0) + 1
        if status == 200:
            self.load.answers.append((self.sentence, body))
        self.send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_exception(error or ConnectionResetError("an answer was lost"))


async def watch(port: int, load: Load) -> None:
    """Memory, once a second, until it is cancelled."""
    began = time.monotonic()
    while True:
        memory = (await metrics(port))["process_resident_memory_bytes"] / 2**20
        load.memory.append((time.monotonic() - began, memory))
        await asyncio.sleep(1.0)


async def metrics(port: int) -> dict[str, float]:
    _, text = await ask(port, "GET", "/metrics")
    rows = [line.rpartition(" ") for line in text.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in rows}


async def under_load(port: int, sentences: list[str], clients: int, seconds: float, options: dict[str, Any]) -> Load:
    load, until = Load(), time.monotonic() + seconds
    step = max(1, len(sentences) // clients)
    bodies = [json.dumps({"text": sentence, "split": "none", **options}).encode() for sentence in sentences]
    requests = [(text, request("POST", "/v1/translate", body)) for text, body in zip(sentences, bodies, strict=True)]
    loop = asyncio.get_running_loop()
    some = [Client(requests, i * step, until, load) for i in range(clients)]
    for one in some:
        await loop.create_connection(lambda one=one: one, "127.0.0.1", port)  # type: ignore[misc]
    watching = asyncio.ensure_future(watch(port, load))
    try:
        await asyncio.gather(*(one.ended for one in some))  # the load's time is over with the last answer
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    return load


def differing(pairs: list[tuple[str, str]], expected: dict[str, str]) -> list[tuple[str, str]]:
    return [pair for pair in pairs if expected[pair[0]] != pair[1]]


def measure(
    run: Path,
    out: Path,
    way: str,
    sentences: list[str],
    expected: dict[str, str],
    *,
    clients: int = 64,
    seconds: float = 20.0,
    threads: int = 1,
    beam: int = 0,
    pair: str = "",
    serve: Sequence[str] = (),
) -> dict[str, Any]:
    """One round of one way of serving."""
    log = out / f"server-{way.replace(' ', '-')}.log"
    asked = {"beam": beam} if beam else {}
    with served(run, log, *WAYS[way], *serve, threads=threads, pair=pair) as server:

        async def work() -> tuple[Load, dict[str, float], dict[str, float], float]:
            await under_load(server.port, sentences, clients, min(3.0, seconds), asked)  # to warm up
            before, began = await metrics(server.port), time.monotonic()
            load = await under_load(server.port, sentences, clients, seconds, asked)
            passed = time.monotonic() - began
            return load, before, await metrics(server.port), passed

        load, before, after, passed = asyncio.run(work())
        code = server.end()
    n, cpu = len(load.latencies), after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]
    ordered, wrong = sorted(load.latencies), differing(load.translations, expected)
    return {
        "way": way, "requests": n, "statuses": load.statuses, "seconds": passed, "per_second": n / passed,
        "cpu_seconds": cpu, "per_cpu_second": n / cpu, "p50_ms": 1000 * statistics.median(ordered),
        "p99_ms": 1000 * ordered[int(0.99 * (n - 1))], "wrong": len(wrong), "wrong_pairs": wrong, "exit": code,
        "memory_mib": load.memory,
    }  # fmt: skip


def table(rounds: list[dict[str, Any]]) -> str:
    head = "| round | way | requests | /s | / processor s | p50 ms | p99 ms | memory MiB first, last | wrong |"
    lines = [head, "|--:|---|--:|--:|--:|--:|--:|--:|--:|"]
    for row in rounds:
        memory = f"{row['memory_mib'][0][1]:.0f}, {row['memory_mib'][-1][1]:.0f}"
        lines.append(
            f"| {row['round']} | {row['way']} | {row['requests']:,} | {row['per_second']:.1f} | "
            f"{row['per_cpu_second']:.1f} | {row['p50_ms']:.0f} | {row['p99_ms']:.0f} | {memory} | {row['wrong']} |"
        )
    return "\n".join(lines)


def ratios(rounds: list[dict[str, Any]], key: str) -> list[float]:
    """Batched over one at a time, round by round."""
    by_way = {way: [row[key] for row in rounds if row["way"] == way] for way in WAYS}
    return [a / b for a, b in zip(by_way["batched"], by_way["one at a time"], strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--text", type=Path, help="sentences, one a line; else those of the built-in English test set")
    parser.add_argument("--pair", default="", help="languages, where the run does not say them")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of the server's torch")
    parser.add_argument("--beam", type=int, default=0)
    parser.add_argument("--serve", default="", help="further options of regard serve, such as '--max-beam 4'")
    parser.add_argument("--out", type=Path, default=Path("serving-results"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.text:
        sentences = [line.strip() for line in options.text.read_text(encoding="utf-8").splitlines() if line.strip()]
    else:
        from regard.data.generated import generate

        sentences = [pair.source for pair in generate("en-de", "test", 1000)]
    import torch

    import regard

    torch.set_num_threads(options.threads)
    changes = {"beam_size": options.beam} if options.beam else {}
    model = regard.load(options.run)
    expected = dict(zip(sentences, model.translate(sentences, **changes), strict=True))
    rounds = []
    for number in range(1, options.rounds + 1):
        for way in list(WAYS) if number % 2 else list(WAYS)[::-1]:
            row = measure(
                options.run, options.out, way, sentences, expected, clients=options.clients, seconds=options.seconds,
                threads=options.threads, beam=options.beam, pair=options.pair, serve=shlex.split(options.serve),
            )  # fmt: skip
            rounds.append({"round": number, **row})
            print(table(rounds[-1:]).splitlines()[-1], flush=True)
    summary = "\n".join(
        f"{name}: batched is {statistics.median(found):.1f} times one at a time ({min(found):.1f} to {max(found):.1f})."
        for name, key in (("By the clock", "per_second"), ("By processor time", "per_cpu_second"))
        for found in [ratios(rounds, key)]
    )
    text = (
        f"{options.clients} clients, {os.cpu_count()} cores, {options.threads} threads.\n\n{table(rounds)}\n\n{summary}"
    )
    print(text)
    (options.out / "serving.md").write_text(text + "\n", encoding="utf-8")
    (options.out / "serving.json").write_text(json.dumps(rounds, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
