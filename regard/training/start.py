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
from torch import nn

from regard.config import Recipe, TransformerConfig, differences, resolve
from regard.data.tokenizer import TokenizerPair
from regard.decode.translator import Translator
from regard.errors import RegardError
from regard.models.transformer import count_parameters
from regard.tasks import translation
from regard.tasks.mask_predict import MaskPredictTask
from regard.training import checkpoint, ranks
from regard.training.device import settle
from regard.training.load import load, load_weights
from regard.training.loop import Loop
from regard.training.progress import say
from regard.training.report import report
from regard.training.run import Run

TASKS: dict[str, translation.Kind] = {"translation": translation.TranslationTask, "mask_predict": MaskPredictTask}
HEADS = "block_heads."  # how the names of their parameters begin


def train(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    run: str | Path | None = None,
    overrides: Mapping[str, Any] | Iterable[str] = (),
    console: Console | None = None,
    extend: bool = False,
) -> Translator:
    """Train a recipe, or go on with a run that was interrupted; score it, draw it, and give the trained model.

    `run` is the run directory, runs/NAME by default; its `report/` has scores, pictures and `report.txt`.
    Progress goes to stderr; `console` redirects it. `extend` lets a run go on with more steps than before. Under
    torchrun every rank calls this alike; rank 0 writes and reports.
    """
    resolved = resolve(recipe, overrides)
    place = Path(run or Path("runs") / resolved.name)
    translator = fit(resolved, place, console=console, extend=extend)
    if ranks.first():
        say(console or Console(stderr=True), "Translating the test text, scoring and drawing …")
        report(translator, resolved, Run.open(place))
    return translator


def fit(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    run: str | Path,
    overrides: Mapping[str, Any] | Iterable[str] = (),
    console: Console | None = None,
    extend: bool = False,
) -> Translator:
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
    initial = TokenizerPair.load(parent.tokenizer) if parent else None
    if parent:
        say(console, f"Starting from the weights and the tokenizer of {parent.path}.")
    kind = TASKS[recipe.task]
    task = translation.prepare(recipe, run.tokenizer, initial, partial(say, console), ranks.lead, kind)
    if parent:
        start_from(parent, recipe.model, task.model)
    if recipe.train.steps < recipe.train.warmup_steps:
        say(
            console,
            f"Note: train.steps = {recipe.train.steps} is less than train.warmup_steps = {recipe.train.warmup_steps}: "
            "the learning rate will not reach its peak.",
        )
    loop = Loop(task, recipe.train, run, console)
    say(
        console,
        f"{recipe.name}: {len(task.order.used):,} pairs, {task.tokenizers.source.vocab_size:,} subwords, "
        f"{count_parameters(task.model):,} parameters, on {where(loop.device)}; run directory {run.path}",
    )
    return loop


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


def start_from(other: Run, ours: TransformerConfig, model: nn.Module) -> None:
    """Take the weights of another run (fine-tuning). Dropout may differ; what the weights mean may not.

    Block heads may differ too: those of another shape, or none, are left aside, and ours begin anew.
    """
    theirs = replace(
        other.recipe.model,
        preset=ours.preset, dropout=ours.dropout, attn_dropout=ours.attn_dropout, ff_dropout=ours.ff_dropout,
        block_heads=ours.block_heads, block_d_ff=ours.block_d_ff,
    )  # fmt: skip
    changed = differences(ours, theirs)
    if changed:
        raise RegardError(f"init = {other.path} is another model, make [model] match it: {'; '.join(changed)}.")
    tensors = load_weights(other)
    if (other.recipe.model.block_heads, other.recipe.model.block_d_ff) != (ours.block_heads, ours.block_d_ff):
        base = {name: tensor for name, tensor in tensors.items() if not name.startswith(HEADS)}
        tensors = base | {name: tensor for name, tensor in checkpoint.weights(model).items() if name.startswith(HEADS)}
    checkpoint.copy_weights(model, tensors)
