"""From a recipe to a trained run: everything `regard train` and `regard.train` do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from regard.config import Recipe, TrainConfig, resolve
from regard.errors import RegardError
from regard.models.transformer import count_parameters
from regard.training import ranks
from regard.training.device import settle
from regard.training.kinds import kind_of
from regard.training.load import load
from regard.training.loop import Loop
from regard.training.progress import say
from regard.training.run import Run


def train(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    run: str | Path | None = None,
    overrides: Mapping[str, Any] | Iterable[str] = (),
    console: Console | None = None,
    extend: bool = False,
) -> Any:
    """Train a recipe, or go on with a run that was interrupted; score it, draw it, and give the trained model.

    `run` is the run directory, runs/NAME by default; its `report/` has scores, pictures and `report.txt`.
    Progress goes to stderr; `console` redirects it. `extend` lets a run go on with more steps than before. Under
    torchrun every rank calls this alike; rank 0 writes and reports.
    """
    console = (console or Console(stderr=True)) if ranks.first() else Console(quiet=True)
    resolved = resolve(recipe, overrides, partial(say, console))
    place = Path(run or Path("runs") / resolved.name)
    trained, kind = fit(resolved, place, console=console, extend=extend), kind_of(resolved.task)
    if ranks.first():
        say(console, kind.last_words)
        kind.report(trained, resolved, Run.open(place))
    return trained


def fit(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    run: str | Path,
    overrides: Mapping[str, Any] | Iterable[str] = (),
    console: Console | None = None,
    extend: bool = False,
) -> Any:
    """The training alone, without the report at its end. Under torchrun, one rank's part of it."""
    console = (console or Console(stderr=True)) if ranks.first() else Console(quiet=True)
    resolved = resolve(recipe, overrides)
    with ranks.joined(resolved.train.device), ExitStack() as held:
        begun = Run(run).recipe.train if Run(run).steps() else None
        resolved = replace(resolved, train=settle(resolved.train, begun))

        def claim() -> None:
            held.enter_context(Run.claim(run, resolved, extend).training(resolved))

        ranks.lead(claim)
        prepare(resolved, Run(run), console).train()
    return load(run)


def prepare(recipe: Recipe, run: Run, console: Console) -> Loop[Any]:
    """Task and loop, with a word on what they are."""
    parent = parent_of(recipe) if not run.steps() else None
    if parent:
        say(console, f"Starting from {parent.path}.")
    task = kind_of(recipe.task).prepare(recipe, run, parent, partial(say, console))
    if recipe.train.steps < recipe.train.warmup_steps:
        say(
            console,
            f"Note: train.steps = {recipe.train.steps} is less than train.warmup_steps = {recipe.train.warmup_steps}: "
            "the learning rate will not reach its peak.",
        )
    if recipe.train.averages_early and 3 * recipe.train.save_every <= recipe.train.steps:
        say(console, early_average(recipe.train))
    loop = Loop(task, recipe.train, run, console)
    say(
        console,
        f"{recipe.name}: {task.extent}, {count_parameters(task.model):,} parameters, on {where(loop.device)}; "
        f"run directory {run.path}",
    )
    return loop


def early_average(train: TrainConfig) -> str:
    """A mean of weights that still change much may be worse than the last of them."""
    return (
        f"Note: train.average = {train.average} checkpoints with train.save_every = {train.save_every} reach back over "
        f"{(train.average - 1) * train.save_every:,} of {train.steps:,} steps: those of the last third are averaged, "
        "and their mean may be worse than the last weights. Set train.save_every to about "
        f"{max(1, train.steps // (4 * train.average)):,}."
    )


def where(device: torch.device) -> str:
    return str(device) if ranks.size() == 1 else f"{ranks.size()} ranks ({device.type})"


def parent_of(recipe: Recipe) -> Run | None:
    try:
        parent = Run.open(recipe.init) if recipe.init else None
    except RegardError as error:
        raise RegardError(f"init = {recipe.init} cannot be used: {error}") from None
    if parent and parent.recipe.task != recipe.task:
        raise RegardError(f'init = {recipe.init} is a run of task = "{parent.recipe.task}", not "{recipe.task}".')
    return parent
