"""The comparison of the fast path with the plain one, and the numbers it reads."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

from benchmarks import europarl, identical
from regard.config import TokenizerConfig
from regard.data import tokenizer as subwords
from regard.data.generated import generate


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as europarl.py leaves it, of the built-in corpus and with a small vocabulary."""
    data, out = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("prepared")
    for split, size in (("train", 600), ("valid", 5)):
        pairs = generate("en-de", split, size)
        for language, side in (("en", "source"), ("de", "target")):
            text = "".join(getattr(pair, side) + "\n" for pair in pairs)
            (data / f"{split}.{language}.xz").write_bytes(lzma.compress(text.encode()))
    sides = [[getattr(pair, side) for pair in generate("en-de", "train", 600)] for side in ("source", "target")]
    subwords.train(TokenizerConfig(vocab_size=400), *sides, seed=1).save(out / "tokenizer")
    europarl.prepare(data, out)
    return out


def test_numbers_are_those_of_the_text(prepared: Path) -> None:
    tokenizers, pairs, valid = europarl.load(prepared)
    first = generate("en-de", "train", 600)[0]
    assert pairs.source[0].tolist() == tokenizers.source.encode([first.source])[0]
    assert pairs.target[0].tolist() == tokenizers.target.encode([first.target])[0]
    assert len(pairs.source) == 600
    assert len(valid) == 5


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
