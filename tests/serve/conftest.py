"""Real servers: `regard serve` in a process of its own, on a model that was trained in seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import regard
from benchmarks.serving import Server, served
from regard.data.corpus import Corpus
from regard.decode.translator import Translator

PAIR = "en-de"  # what the reverser's languages are said to be


@pytest.fixture(scope="session")
def model(reverser: Path) -> Translator:
    translator: Translator = regard.load(reverser, device="cpu")
    return translator


@pytest.fixture(scope="session")
def sentences(reverser_test: Corpus) -> list[str]:
    return reverser_test.source


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server") / "log"


@pytest.fixture(scope="session")
def server(reverser: Path, log: Path) -> Iterator[Server]:
    """With the limits that a server has by default."""
    with served(reverser, log, pair=PAIR) as running:
        yield running


@pytest.fixture
def ask(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=60) as client:
        yield client


@pytest.fixture
def translate(ask: httpx.Client) -> Any:
    """POST /v1/translate that must succeed."""

    def call(**body: Any) -> dict[str, Any]:
        answer = ask.post("/v1/translate", json=body)
        assert answer.status_code == 200, answer.text
        content: dict[str, Any] = answer.json()
        return content

    return call
