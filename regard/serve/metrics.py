"""What Prometheus reads at /metrics. No label has more values than there are routes, statuses and models."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """One of these a server, so that several in a process do not meet."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter("regard_requests", "Requests answered.", ["route", "status"], registry=registry)
        self.latency = Histogram(
            "regard_request_seconds", "From a request to its answer.", ["route"], buckets=SECONDS, registry=registry
        )
        self.in_flight = Gauge("regard_requests_in_flight", "Requests being answered.", registry=registry)
        self.queue = Gauge("regard_queue_sentences", "Sentences that wait.", registry=registry)
        self.wait = Histogram(
            "regard_queue_seconds", "How long sentences wait.", buckets=SECONDS, registry=registry
        )  # fmt: skip
        self.batch = Histogram(
            "regard_batch_sentences", "Sentences searched together, each time that some begin.", ["model"],
            buckets=SIZES, registry=registry,
        )  # fmt: skip
        self.search = Histogram(
            "regard_search_seconds", "From a sentence's turn to its translation.", ["model"],
            buckets=SECONDS, registry=registry,
        )  # fmt: skip
        self.sentences = Counter("regard_sentences", "Sentences translated.", ["model"], registry=registry)
        self.tokens = Counter("regard_tokens", "Tokens in and out.", ["model", "side"], registry=registry)
        self.characters = Counter("regard_characters", "Characters translated.", ["model"], registry=registry)
        self.failures = Counter("regard_failures", "Batches that failed for no fault of theirs.", registry=registry)

    def text(self) -> bytes:
        return generate_latest(self.registry)
