"""Runs of parsing: how they begin, how they are opened, and what they report at their end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from regard.config import ParsingRecipe, resolve_as
from regard.data.tokenizer import TokenizerPair
from regard.data.treebank import load, test_splits
from regard.data.trees import write_trees
from regard.decode.parser import Parser
from regard.tasks import parsing
from regard.tasks.attention import draw_tree
from regard.tasks.parsing_report import Report
from regard.training import checkpoint, ranks
from regard.training.device import pick
from regard.training.load import load_weights
from regard.training.pairs import check_together, start_from
from regard.training.run import Run
from regard.view.trees import tree_text

N_SHOWN = 3


def recipe_of(run: Run) -> ParsingRecipe:
    """Of a run that parses; a clear word where it does not."""
    return resolve_as(ParsingRecipe, run.recipe_file)


def prepare(recipe: ParsingRecipe, run: Run, parent: Run | None, say: Callable[[str], None]) -> parsing.ParsingTask:
    """The task, with the weights and the vocabularies of the run it starts from, if there is one."""
    initial = TokenizerPair.load(parent.tokenizer) if parent else None
    if recipe.data.test:
        load(recipe.data, "test")  # a mistake in it must not wait for the end of training
    task = parsing.prepare(recipe, run.tokenizer, initial, say, ranks.lead)
    if parent:
        theirs = replace(recipe_of(parent).model, word_dropout=recipe.model.word_dropout)
        start_from(parent, recipe.model, task.model, theirs)
    return task


def open_parser(runs: Sequence[Run], weights: str, device: str) -> Parser:
    """One run, or several that parse together."""
    first, *others = runs
    recipe, tokenizers = recipe_of(first), TokenizerPair.load(first.tokenizer)
    for other in others:
        check_together(first, other, tokenizers, "parsing")
    models = []
    for run in runs:
        model = parsing.build(recipe_of(run), tokenizers)
        checkpoint.copy_weights(model, load_weights(run, weights))
        models.append(model.to(pick(device)))
    return Parser(first.title, models[0], tokenizers, recipe.decode, models[1:], recipe.data.unary == "join")


def load_parser(run: str | Path, weights: str = "auto", device: str = "auto") -> Parser:
    """As `regard.load`, with a clear word where a run does not parse."""
    return open_parser([Run.open(run)], weights, device)


def report(parser: Parser, recipe: ParsingRecipe, run: Run) -> str:
    """Score the test trees, draw what there is to see, and say it all in text.

    Everything is written to the run's `report/`, the text as `report.txt`.
    """
    run.report.mkdir(exist_ok=True)
    (split,) = test_splits(recipe.data)
    treebank = load(recipe.data, split)
    told = Report.of(parser, treebank, recipe.data.form)
    write_trees(run.report / f"{split}.trees", told.judged.trees)
    run.write_scores({split: told.record()})
    lines = [*told.lines(by_label=True, by_length=True), ""]
    parsed = told.judged.parsed
    shown = [one for one in parsed if len(one.tree.words) <= 20][:N_SHOWN] or parsed[:1]
    for one in shown:
        lines += [tree_text(one.tree), ""]
    tree, page, png, svg = draw_tree(parser, shown[0], run.report, "attention")
    told.draw(run.report / "lengths.png", run.title)
    lines += [f"tree page       {tree}", f"attention page  {page}", f"attention PNG   {png}", f"tree SVG        {svg}"]
    lines.append(f"F1 by length    {run.report / 'lengths.png'}")
    return run.write_report(lines, recipe.train.label_smoothing)
