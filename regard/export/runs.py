"""A model from elsewhere as a run directory, from which one translates and trains like from any other."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from regard.config import PairRecipe, to_toml
from regard.data.tokenizer import BOS, EOS, PAD, UNK, TokenizerPair
from regard.errors import RegardError
from regard.tasks.translation import build
from regard.training import checkpoint
from regard.training.checkpoint import Progress, Snapshot
from regard.training.device import settle
from regard.training.optim import Adam
from regard.training.run import Run

SPECIAL = {PAD: "<pad>", BOS: "<s>", EOS: "</s>", UNK: "<unk>"}
FIRST = 1  # the step under which imported weights stand: a run of no steps would begin with random ones


def write_run(path: Path, recipe: PairRecipe, tokenizers: TokenizerPair, tensors: dict[str, Tensor]) -> Run:
    """A run with one checkpoint, of these weights and an optimiser that has seen nothing.

    The recipe says what the model is; where its text lies it does not know. Training in this directory goes on with the
    recipe as it is and text files of one's own; any other recipe starts from it with `init`.
    """
    if path.exists() and (path.is_file() or any(path.iterdir())):
        raise RegardError(f"{path} is there already: give another directory with --run.")
    new = Run(path.with_name(f".{path.name}.new"))
    shutil.rmtree(new.path, ignore_errors=True)
    new.path.mkdir(parents=True)
    try:
        recipe = replace(recipe, train=settle(recipe.train, None))
        new.recipe_file.write_text(to_toml(recipe), encoding="utf-8")
        tokenizers.save(new.tokenizer)
        torch.manual_seed(recipe.seed)
        model = build(recipe, tokenizers)
        checkpoint.copy_weights(model, tensors)
        optimiser = Adam(model.parameters(), recipe.train)
        for parameter in optimiser.parameters:
            optimiser.begin(parameter)
        progress = Progress(step=FIRST, best_step=FIRST)
        checkpoint.save(new, Snapshot.take(progress, model, optimiser, {"tokenizer": tokenizers.hash}))
        new.point_best(FIRST)
        if path.exists():
            path.rmdir()
        new.path.rename(path)
    except BaseException:
        shutil.rmtree(new.path, ignore_errors=True)
        raise
    return Run.open(path)


def our_order(pieces: list[str], specials: dict[int, int | None]) -> tuple[list[str], list[int | None]]:
    """A foreign vocabulary with our four symbols first: the pieces, and the row of each in the foreign matrices.

    `specials`: our number of a symbol → its row there, None where that vocabulary has no such symbol.
    """
    taken = {row for row in specials.values() if row is not None}
    rows: list[int | None] = [specials[number] for number in range(len(SPECIAL))]
    rows += [row for row in range(len(pieces)) if row not in taken]
    named = [SPECIAL[number] for number in range(len(SPECIAL))]
    named += [pieces[row] for row in range(len(pieces)) if row not in taken]
    if len(set(named)) < len(named):
        twice = next(piece for piece in named if named.count(piece) > 1)
        raise RegardError(f"The vocabulary has {twice!r} twice: remove one of them.")
    return named, rows


def take_rows(matrix: Tensor, rows: list[int | None], missing: float = 0.0) -> Tensor:
    """The rows of a matrix or vector in our order; `missing` where there is none."""
    taken = matrix[[row or 0 for row in rows]].clone()
    taken[[row is None for row in rows]] = missing
    return taken
