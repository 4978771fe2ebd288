"""The parsing benchmark: what it tells of a small parser."""

from __future__ import annotations

from pathlib import Path

from benchmarks.parsing import WAYS, lines, measure
from regard.config import ParsingRecipe, resolve_as
from regard.data.treebank import load
from regard.tasks.parsing import judge
from regard.training.parsing import load_parser
from regard.training.start import fit

RECIPE = {
    "task": "parsing",
    "data": {"corpus": "sentences", "train_size": 100, "valid_size": 4, "test_size": 6},
    "tokenizer": {"vocab_size": 120},
    "model": {"n_layers": 1, "d_model": 16, "d_ff": 16, "n_heads": 2, "next_word": True},
    "train": {
        "steps": 2, "batch_tokens": 500, "warmup_steps": 1, "valid_every": 2, "valid_sentences": 2, "save_every": 2,
        "average": 1, "tensorboard": False,
    },
    "decode": {"beam_size": 2, "extra_length": 20},
}  # fmt: skip


def test_figures_are_those_of_the_trees(tmp_path: Path) -> None:
    fit(RECIPE, tmp_path / "run")
    parser, gold = load_parser(tmp_path / "run"), load(resolve_as(ParsingRecipe, RECIPE).data, "test")
    rows = measure(parser, gold, WAYS, rounds=2)
    for way, options in WAYS.items():
        judged = judge(parser, gold, **options)
        assert rows[way]["f1"] == judged.total.labelled.f1
        assert rows[way]["malformed"] == judged.repairs.rate
        assert len(rows[way]["seconds"]) == 2
    assert rows["greedy, constrained"]["malformed"] == 0
    assert len(lines(rows)) == 2 + len(WAYS)
