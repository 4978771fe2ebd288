"""Runs to export: one that has learned something, and random ones of any shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from regard.config import Recipe, resolve
from regard.data.corpus import load_required
from regard.data.tokenizer import BOS, PAD, UNK, TokenizerPair
from regard.data.tokenizer import train as learn
from regard.export.runs import write_run
from regard.tasks.translation import build
from regard.training.checkpoint import weights
from regard.training.start import fit

RECIPE = {
    "name": "reverser",
    "data": {"corpus": "reverse", "train_size": 2000, "valid_size": 20, "test_size": 60},
    "tokenizer": {"vocab_size": 60},
    "model": {"n_layers": 2, "d_model": 32, "d_ff": 64, "n_heads": 4, "dropout": 0.0},
    "train": {
        "steps": 120, "batch_tokens": 600, "warmup_steps": 50, "lr_scale": 0.3, "valid_every": 120,
        "save_every": 120, "average": 1, "tensorboard": False, "valid_sentences": 4, "threads": 1,
    },
}  # fmt: skip


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
def sentences() -> list[str]:
    return load_required(resolve(RECIPE).data, "test").source


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained for a few seconds: uncertain enough that searches differ, sure enough that they end."""
    run = tmp_path_factory.mktemp("trained") / "reverser"
    fit(RECIPE, run)
    return run


@pytest.fixture(scope="session")
def tokenizers() -> TokenizerPair:
    recipe = resolve(RECIPE)
    corpus = load_required(recipe.data, "train")
    return learn(recipe.tokenizer, corpus.source[:500], corpus.target[:500], 1)


@pytest.fixture
def random_run(tmp_path: Path, tokenizers: TokenizerPair) -> Callable[..., Path]:
    """A run of random weights, biases and scales of norms among them, in the shape asked for."""

    def make(name: str = "random", **model: object) -> Path:
        recipe: Recipe = resolve({**RECIPE, "name": name, "model": {**RECIPE["model"], **model}})  # type: ignore[dict-item]
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
