"""Small models and corpora that several rooms' tests share."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from string import ascii_lowercase
from typing import Any

# Chosen before torch is imported, and for child processes: one thread each, since test files run beside one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Commands that tests interrupt must hear it, also where a shell has started the suite in the background.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest
import torch

from regard.config import TransformerConfig, resolve
from regard.data.corpus import Corpus, load_required
from regard.models.transformer import Transformer
from regard.training.start import fit

THREADS = torch.get_num_threads()
TINY = {"n_layers": 2, "d_model": 16, "d_ff": 32, "n_heads": 4, "dropout": 0.0}


@pytest.fixture
def tiny() -> Callable[..., Transformer]:
    """A Transformer of a few thousand parameters with random weights that spread their attention."""

    def make(vocab: int = 20, **changes: object) -> Transformer:
        torch.manual_seed(0)
        model = Transformer(TransformerConfig(**{**TINY, **changes}), vocab)
        for name, parameter in model.named_parameters():
            if "bias" in name:  # published initialisation leaves biases at zero, where mistakes hide
                torch.nn.init.normal_(parameter, std=0.3)
        return model.eval()

    return make


def write_copy_corpus(folder: Path, sizes: dict[str, int], longest: int = 8) -> dict[str, list[str]]:
    """Files of symbol sequences to be copied; returns the recipe's data entries."""
    generator = torch.Generator().manual_seed(5)
    entries = {}
    for split, size in sizes.items():
        lines = []
        for _ in range(size):
            length = int(torch.randint(1, longest + 1, (), generator=generator))
            lines.append(
                " ".join(ascii_lowercase[i] for i in torch.randint(0, 26, (length,), generator=generator).tolist())
            )
        for side in ("src", "tgt"):
            (folder / f"{split}.{side}").write_text("\n".join(lines) + "\n")
        entries[split] = [str(folder / f"{split}.src"), str(folder / f"{split}.tgt")]
    return entries


@pytest.fixture
def tiny_recipe(tmp_path: Path) -> dict[str, object]:
    """A recipe that trains in a second, on a copy corpus in files."""
    data = write_copy_corpus(tmp_path, {"train": 400, "valid": 20, "test": 20})
    return {
        "name": "tiny",
        "data": data,
        "tokenizer": {"vocab_size": 40},
        "model": {**TINY, "dropout": 0.1},
        "train": {
            "steps": 12, "batch_tokens": 200, "warmup_steps": 30, "lr_scale": 0.3, "report_every": 4, "valid_every": 6,
            "valid_sentences": 8, "save_every": 4, "tensorboard": False, "average": 2,
        },
    }  # fmt: skip


@pytest.fixture(autouse=True)
def threads_are_left_alone() -> Iterator[None]:
    """Another number of threads rounds differently: a test that left one behind would change what later ones train."""
    yield
    assert torch.get_num_threads() == THREADS


@pytest.fixture(scope="session")
def reverser_recipe() -> dict[str, Any]:
    """Learned in a few seconds: uncertain enough that searches differ, sure enough that they end."""
    return {
        "name": "reverser",
        "data": {"corpus": "reverse", "train_size": 4000, "valid_size": 20, "test_size": 150},
        "tokenizer": {"vocab_size": 60},
        "model": {"n_layers": 2, "d_model": 32, "d_ff": 64, "n_heads": 4, "dropout": 0.0},
        "train": {
            "steps": 200, "batch_tokens": 800, "warmup_steps": 60, "lr_scale": 0.3, "valid_every": 200,
            "save_every": 200, "average": 1, "tensorboard": False,
        },
    }  # fmt: skip


@pytest.fixture(scope="session")
def reverser(reverser_recipe: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its run, which is nobody's to change."""
    run = tmp_path_factory.mktemp("reverser") / "run"
    fit(reverser_recipe, run)
    return run


@pytest.fixture(scope="session")
def reverser_test(reverser_recipe: dict[str, Any]) -> Corpus:
    return load_required(resolve(reverser_recipe).data, "test")


@pytest.fixture(scope="session")
def masked_reverser_recipe() -> dict[str, Any]:
    """The same for mask-predict: learned in some seconds, and nearly right."""
    return {
        "name": "masked-reverser",
        "task": "mask_predict",
        "data": {"corpus": "reverse", "train_size": 20_000, "valid_size": 20, "test_size": 150, "max_length": 60},
        "tokenizer": {"vocab_size": 77},
        "model": {"n_layers": 2, "d_model": 64, "d_ff": 128, "n_heads": 4, "dropout": 0.0, "max_positions": 64},
        "train": {
            "steps": 400, "batch_tokens": 800, "schedule": "linear", "warmup_steps": 60, "peak_lr": 3e-3,
            "valid_every": 400, "save_every": 400, "average": 1, "tensorboard": False,
        },
        "decode": {"length_candidates": 3},
    }  # fmt: skip


@pytest.fixture(scope="session")
def masked_reverser(masked_reverser_recipe: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its run, which is nobody's to change."""
    run = tmp_path_factory.mktemp("masked-reverser") / "run"
    fit(masked_reverser_recipe, run)
    return run


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the system's."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is None:
        pytest.skip("no Chromium on this machine: the pages were not opened in a real browser")
    return found


@pytest.fixture(scope="module")  # not longer: while Playwright runs, no other event loop can
def browser(chromium: str) -> Iterator[Any]:
    """The system's Chromium, opened."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'regard[dev]'")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()
