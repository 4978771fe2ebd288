"""The comparison of the fast path with the plain one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import devices, identical
from regard.config import TokenizerConfig
from regard.data.generated import generate
from regard.data.prepare import Settings, prepare


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built-in corpus with a small vocabulary."""
    folder = tmp_path_factory.mktemp("data")
    for split, size in (("train", 600), ("valid", 5)):
        pairs = generate("en-de", split, size)
        (folder / f"{split}.tsv").write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs))
    settings = Settings(
        ("en", "de"),
        (str(folder / "train.tsv"),),
        (str(folder / "valid.tsv"),),
        tokenizer=TokenizerConfig(vocab_size=400),
    )
    prepare(settings, folder / "prepared", jobs=1)
    return folder / "prepared"


def test_without_dropout_both_paths_have_the_same_losses(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.nn.kernels.usable", lambda x: False)  # restored after what `train` does to it
    small = {"n_layers": 1, "d_model": 32, "d_ff": 64, "n_heads": 2, "dropout": 0.0}
    monkeypatch.setattr(
        identical,
        "RECIPE",
        {**identical.RECIPE, "model": small, "train": {**identical.RECIPE["train"], "batch_tokens": 800}},
    )
    plain, fast = (identical.train(prepared, path, seed=1, steps=8) for path in identical.PATHS)
    assert len(plain) == 8
    assert plain[-1] < plain[0]
    np.testing.assert_allclose(plain, fast, rtol=1e-4)


def test_one_device_agrees_with_itself() -> None:
    small = {
        "model.d_model": 16,
        "model.d_ff": 16,
        "model.n_heads": 2,
        "data.train_size": 400,
        "tokenizer.vocab_size": 300,
        "train.batch_tokens": 300,
        "train.warmup_steps": 100,
    }
    losses = devices.train("cpu", 5, small)
    assert len(losses) == 5
    assert losses[-1] < losses[0]
    assert devices.train("cpu", 5, small) == losses
