"""Runs to export: one that has learned something, and random ones of any shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.config import resolve
from regard.data.corpus import Corpus, load_required
from regard.data.tokenizer import BOS, PAD, UNK, TokenizerPair
from regard.data.tokenizer import train as learn
from regard.export.runs import write_run
from regard.tasks.translation import build
from regard.training.checkpoint import weights


@pytest.fixture(autouse=True)
def installed(request: pytest.FixtureRequest) -> None:
    """Skip where what a file NEEDS is not installed."""
    for package in getattr(request.module, "NEEDS", ()):
        pytest.importorskip(package, reason=f"needs {package}: pip install 'regard[dev]'")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Models this small are slower with more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def sentences(reverser_test: Corpus) -> list[str]:
    return reverser_test.source[:60]


@pytest.fixture(scope="session")
def trained(reverser: Path) -> Path:
    return reverser


@pytest.fixture(scope="session")
def tokenizers(reverser_recipe: dict[str, Any]) -> TokenizerPair:
    recipe = resolve(reverser_recipe)
    corpus = load_required(recipe.data, "train")
    return learn(recipe.tokenizer, corpus.source[:500], corpus.target[:500], 1)


@pytest.fixture
def random_run(reverser_recipe: dict[str, Any], tmp_path: Path, tokenizers: TokenizerPair) -> Callable[..., Path]:
    """A run of random weights, biases and scales of norms among them, in the shape asked for."""

    def make(name: str = "random", **model: object) -> Path:
        recipe = resolve({**reverser_recipe, "name": name, "model": {**reverser_recipe["model"], **model}})
        torch.manual_seed(3)
        network = build(recipe, tokenizers)
        with torch.no_grad():
            for name_, tensor in weights(network).items():
                if tensor.dim() == 1:
                    tensor += 0.3 * torch.randn_like(tensor)
                elif "layers" in name_:
                    tensor *= 2
                elif "positions" not in name_:  # so that symbols that never come out are not the likeliest
                    tensor[[PAD, BOS, UNK]] *= 0.01
        return write_run(tmp_path / name, recipe, tokenizers, weights(network)).path

    return make
