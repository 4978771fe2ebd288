"""A clean corpus in files and a small run that has learned its language, for faults to be planted in."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from regard.config import DataConfig
from regard.data.corpus import load_required
from regard.doctor.findings import Where
from regard.training.start import fit

Documented = dict[str, dict[str, tuple[str, str]]]  # kind → what is planted → what is named, and its place
SIZES = {"train": 1_500, "valid": 150, "test": 150}
NOUNS = "dog:Hund man:Mann boy:Junge father:Vater teacher:Lehrer brother:Bruder king:König doctor:Arzt friend:Freund"
VERBS = "sees:sieht hears:hört knows:kennt finds:findet needs:braucht helps:hilft calls:ruft follows:folgt"
ADJECTIVES = "old:alte young:junge big:große small:kleine good:gute tired:müde happy:frohe poor:arme"
ENDINGS = "today:heute now:jetzt always:immer here:hier often:oft again:wieder"


def write_splits(folder: Path, splits: dict[str, tuple[list[str], list[str]]]) -> dict[str, tuple[Path, Path]]:
    files = {}
    for split, (source, target) in splits.items():
        files[split] = folder / f"{split}.en", folder / f"{split}.de"
        for path, lines in zip(files[split], (source, target), strict=True):
            path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return files


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clean(tmp_path_factory.mktemp("clean"))


def write_clean(folder: Path) -> Path:
    """train, valid and test of the built-in English–German corpus as files."""
    config = DataConfig(corpus="en-de", **{f"{split}_size": size for split, size in SIZES.items()})
    corpora = {split: load_required(config, split) for split in SIZES}
    write_splits(folder, {split: (corpus.source, corpus.target) for split, corpus in corpora.items()})
    return folder


def simple_pairs(n: int, seed: int) -> tuple[list[str], list[str]]:
    """Sentences translated word by word: `the old dog sees the king today .`"""
    chance = random.Random(seed)
    nouns, verbs, adjectives, endings = (
        [entry.split(":") for entry in entries.split()] for entries in (NOUNS, VERBS, ADJECTIVES, ENDINGS)
    )
    pairs: dict[str, str] = {}
    while len(pairs) < n:
        words = [["The", "Der"], chance.choice(adjectives), chance.choice(nouns), chance.choice(verbs)]
        words += [["the", "der"], chance.choice(adjectives), chance.choice(nouns), chance.choice(endings)]
        pairs[" ".join(en for en, _ in words) + "."] = " ".join(de for _, de in words) + "."
    return list(pairs), list(pairs.values())


RECIPE: dict[str, Any] = {
    "name": "simple",
    "tokenizer": {"vocab_size": 140},
    "model": {"n_layers": 1, "d_model": 48, "d_ff": 96, "n_heads": 2, "dropout": 0.0, "norm": "pre"},
    "train": {
        "steps": 240, "batch_tokens": 500, "schedule": "linear", "warmup_steps": 40, "peak_lr": 8e-3,
        "report_every": 10, "valid_every": 40, "valid_sentences": 0, "save_every": 80, "keep": 1, "average": 0,
        "tensorboard": False, "device": "cpu",
    },
}  # fmt: skip


@pytest.fixture(scope="session")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_run(tmp_path_factory.mktemp("learned"))


def train_run(folder: Path) -> Path:
    """A run that translates its small language well; its text lies beside it."""
    source, target = simple_pairs(2_600, 1)
    cuts = {"train": slice(0, 2_400), "valid": slice(2_400, 2_500), "test": slice(2_500, 2_600)}
    files = write_splits(folder, {split: (source[cut], target[cut]) for split, cut in cuts.items()})
    data = {split: [str(path) for path in pair] for split, pair in files.items()}
    fit({**RECIPE, "data": data}, folder / "run", console=Console(quiet=True))
    return folder / "run"


@pytest.fixture
def few(tmp_path: Path) -> dict[str, Any]:
    """A recipe with far too many steps for its fifteen pairs, though it has dropout."""
    source, target = simple_pairs(300, 1)
    cuts = {"train": slice(0, 15), "valid": slice(200, 300)}
    files = write_splits(tmp_path, {split: (source[cut], target[cut]) for split, cut in cuts.items()})
    return {
        **RECIPE, "data": {split: [str(path) for path in pair] for split, pair in files.items()},
        "model": {**RECIPE["model"], "dropout": 0.1}, "train": {**RECIPE["train"], "steps": 320, "peak_lr": 4e-3},
    }  # fmt: skip


def short_place(where: Where) -> str:
    """A place with the last names of its files, as the results give it."""
    return str(Where(tuple(Path(file).name for file in where.files), where.spans))


@pytest.fixture(scope="session")
def documented() -> Documented:
    """The table of faults in docs/results.md. `python tests/doctor/table.py` makes it again."""
    text = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.split("|")[2:-1]]
        for line in text.partition("## The doctor\n")[2].partition("\n## ")[0].splitlines()
        if line[2:3].isdigit()
    ]
    table: Documented = {}
    for kind, planted, code, where, _ in rows:
        table.setdefault(kind, {})[planted] = code.strip("`"), where
    return table


@pytest.fixture
def place() -> Callable[[Where], str]:
    return short_place
