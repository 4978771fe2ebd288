"""One to many: a text generated from a class label is a translation whose source is one word."""

from __future__ import annotations

from pathlib import Path
from random import Random

from rich.console import Console

from regard.data.generated.labels import BLAME, PRAISE, THINGS
from regard.training.start import fit


def test_a_label_becomes_a_text_that_deserves_it(tmp_path: Path) -> None:
    data, chance, words = {}, Random(1), {"praise": PRAISE, "blame": BLAME}
    for split, size in (("train", 1000), ("valid", 20), ("test", 20)):
        labels = [chance.choice(list(words)) for _ in range(size)]
        texts = [f"the {chance.choice(THINGS)} is {chance.choice(words[label])}" for label in labels]
        data[split] = [str(tmp_path / f"{split}.{side}") for side in ("label", "text")]
        for file, lines in zip(data[split], (labels, texts), strict=True):
            Path(file).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    recipe = {
        "name": "one-to-many", "data": data, "tokenizer": {"vocab_size": 100},
        "model": {"n_layers": 1, "d_model": 64, "d_ff": 128, "n_heads": 4, "dropout": 0.0, "norm": "pre"},
        "train": {
            "steps": 250, "batch_tokens": 800, "warmup_steps": 40, "schedule": "linear", "peak_lr": 3e-3,
            "label_smoothing": 0.0, "valid_every": 250, "valid_sentences": 0, "save_every": 250, "average": 0,
            "tensorboard": False,
        },
    }  # fmt: skip
    writer = fit(recipe, tmp_path / "run", console=Console(quiet=True))
    drawn = [writer.search(list(words), sample=True, temperature=0.5, beam_size=1, seed=seed) for seed in range(15)]
    pairs = [(label, best[0].text) for both in drawn for label, best in zip(words, both, strict=True)]
    assert len(set(pairs)) > 15  # drawn, not one text for each label
    assert sum(text.split()[-1] in words[label] for label, text in pairs) >= 27
