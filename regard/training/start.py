"""From a recipe to a trained run: everything `regard train` and `regard.train` do."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from regard.config import Recipe, differences, resolve
from regard.data import tokenizer as subwords
from regard.data.corpus import Corpus, load_required
from regard.data.tokenizer import TokenizerPair
from regard.decode.translator import Translator
from regard.errors import RegardError
from regard.models.transformer import Transformer, count_parameters
from regard.tasks.translation import TranslationTask, build
from regard.training import checkpoint
from regard.training.device import pick
from regard.training.loop import Loop
from regard.training.report import report as write_report
from regard.training.run import Run


def train(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    run: str | Path | None = None,
    overrides: Mapping[str, Any] | Iterable[str] = (),
    console: Console | None = None,
    report: bool = True,
) -> Translator:
    """Train a recipe, or go on with a run that was interrupted, and give the trained model.

    `run` is the run directory, runs/NAME by default. Progress goes to stderr; `console` redirects it. With
    `report`, the run is scored and drawn at the end, in its folder `report/`.
    """
    console = console or Console(stderr=True)
    resolved = resolve(recipe, overrides)
    place = Run.create(run or Path("runs") / resolved.name, resolved)
    with place.locked():
        loop = prepare(resolved, place, console)
        loop.train()
        if resolved.train.average:
            checkpoint.average(place, place.steps()[-resolved.train.average :])
    translator = load(place.path)
    if report:
        write_report(translator, resolved, place)
    return translator


def prepare(recipe: Recipe, run: Run, console: Console) -> Loop[Any]:
    """Corpora, tokenizer, model and loop, with a word on what was found."""
    corpus, valid = load_required(recipe.data, "train"), load_required(recipe.data, "valid")
    for part in (corpus, valid):
        report_empty_lines(part, console)
    tokenizers = prepare_tokenizer(recipe, run, corpus, console)
    task = TranslationTask(recipe, tokenizers, corpus, valid)
    if task.too_long:
        first = ", ".join(str(number + 1) for number in task.too_long[:3])
        console.print(
            f"{len(task.too_long):,} of {len(corpus):,} training pairs are longer than data.max_length = "
            f"{recipe.data.max_length} tokens and are left out (pairs {first} …).", highlight=False,
        )  # fmt: skip
    if recipe.init:
        start_from(Run.open(recipe.init), recipe, task.model)
    loop = Loop(task, recipe, run, tokenizers.hash, console)
    console.print(
        f"{recipe.name}: {len(corpus):,} pairs, {tokenizers.source.vocab_size:,} subwords, "
        f"{count_parameters(task.model):,} parameters, on {loop.device}; run directory {run.path}", highlight=False,
    )  # fmt: skip
    return loop


def report_empty_lines(corpus: Corpus, console: Console) -> None:
    if corpus.empty_lines:
        first = ", ".join(map(str, corpus.empty_lines[:3]))
        console.print(
            f"{len(corpus.empty_lines):,} {corpus.name} pairs have an empty side and are left out (lines {first} …).",
            highlight=False,
        )


def prepare_tokenizer(recipe: Recipe, run: Run, corpus: Corpus, console: Console) -> TokenizerPair:
    """The run's tokenizer: its own if it has one, that of the run it starts from, or one trained now."""
    if run.tokenizer.is_dir():
        return TokenizerPair.load(run.tokenizer)
    if recipe.init:
        tokenizers = TokenizerPair.load(Run.open(recipe.init).tokenizer)
    else:
        console.print(f"Learning {recipe.tokenizer.vocab_size:,} subwords …", highlight=False)
        tokenizers = subwords.train(recipe.tokenizer, corpus.source, corpus.target, recipe.seed)
    new = run.path / ".tokenizer.new"
    shutil.rmtree(new, ignore_errors=True)
    tokenizers.save(new)
    new.rename(run.tokenizer)
    return tokenizers


def start_from(other: Run, recipe: Recipe, model: Transformer) -> None:
    """Take the weights of another run (fine-tuning). Dropout may differ; what the weights mean may not."""
    ours, theirs = recipe.model, other.recipe.model
    theirs = replace(
        theirs, preset=ours.preset, dropout=ours.dropout, attn_dropout=ours.attn_dropout, ff_dropout=ours.ff_dropout
    )
    changed = differences(ours, theirs)
    if changed:
        raise RegardError(f"init = {other.path} is another model: {'; '.join(changed)}.")
    checkpoint.copy_weights(model, load_weights(other))


def load(run: str | Path, weights: str = "auto", device: str = "auto") -> Translator:
    """A trained model, ready to translate.

    `weights`: "averaged", "best", "last", or "auto" for the first of these that the run has.
    """
    place = Run.open(run)
    recipe, tokenizers = place.recipe, TokenizerPair.load(place.tokenizer)
    model = build(recipe, tokenizers)
    checkpoint.copy_weights(model, load_weights(place, weights))
    return Translator(recipe.name, model.to(pick(device)), tokenizers, recipe.decode)


def load_weights(run: Run, which: str = "auto") -> dict[str, torch.Tensor]:
    if which not in ("auto", "averaged", "best", "last"):
        raise RegardError(f"There are no weights called {which}: choose averaged, best, last or auto.")
    if which == "averaged" or (which == "auto" and run.averaged.exists()):
        return checkpoint.load_averaged(run)
    if not run.steps():
        raise RegardError(f"{run.path} has no checkpoint yet: train it with regard train.")
    folder = run.best if which in ("auto", "best") and run.best.exists() else run.checkpoint(run.steps()[-1])
    state = checkpoint.load_state(folder)
    return checkpoint.load_tensors(folder / "model.safetensors", state["checksums"]["model.safetensors"])
