"""`regard evaluate`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.evaluate_labels import evaluate_labels
from regard.cli.evaluate_parser import evaluate_parser
from regard.cli.evaluate_sets import evaluate_sets
from regard.cli.evaluate_texts import evaluate_texts
from regard.cli.evaluating import Request
from regard.cli.options import (
    AsJson,
    BatchSentences,
    Beam,
    Device,
    Iterations,
    LengthCandidates,
    Penalty,
    Threads,
    Weights,
    given,
    warn,
)

COMPARING, OLDER, MORE = "Comparing", "BLEUs of older papers", "More to see and keep"
PARSING = "Of a parser"


def evaluate(
    run: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="A run directory.")] = None,
    split: Annotated[
        list[str] | None, typer.Option("--split", help="A part of the recipe's text, e.g. valid. Repeatable.")
    ] = None,
    source: Annotated[Path | None, typer.Option("--source", help="Source text, instead of the recipe's.")] = None,
    reference: Annotated[
        list[Path] | None, typer.Option("--reference", help="Reference text; repeat it for several references.")
    ] = None,
    hypotheses: Annotated[Path | None, typer.Option("--hypotheses", help="Score this text; no run is needed.")] = None,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", help="Another run, or a text: is the difference real?", rich_help_panel=COMPARING),
    ] = None,
    tokenized_lowercase: Annotated[
        bool,
        typer.Option("--tokenized-lowercase", help="Moses-tokenised, lower-cased BLEU.", rich_help_panel=OLDER),
    ] = False,
    compound_split: Annotated[
        bool,
        typer.Option(
            "--compound-split", help="Tokenised BLEU, words split at hyphens (##AT##-##AT##).", rich_help_panel=OLDER
        ),
    ] = False,
    language: Annotated[
        str | None,
        typer.Option("--language", help="Of the references, e.g. de; else by recipe or file name."),
    ] = None,
    by_length: Annotated[
        bool, typer.Option("--by-length", help="Scores by words of the reference.", rich_help_panel=MORE)
    ] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw the scores by length as a PNG.", rich_help_panel=MORE)
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", help="Write the translations to this file.", rich_help_panel=MORE)
    ] = None,
    trees: Annotated[
        Path | None,
        typer.Option(
            "--trees", help="Gold trees, instead of the recipe's; with RUN or --hypotheses.", rich_help_panel=PARSING
        ),
    ] = None,
    treebank: Annotated[
        str,
        typer.Option("--treebank", help="One of several of the recipe, as its file begins.", rich_help_panel=PARSING),
    ] = "",
    constrained: Annotated[
        bool | None,
        typer.Option(
            "--constrained/--free",
            help="Only trees come out, or whatever comes.",
            show_default=False,
            rich_help_panel=PARSING,
        ),
    ] = None,
    log_probs: Annotated[
        bool,
        typer.Option(
            "--log-probs", help="Instead: how probable the model finds each given pair.", rich_help_panel=MORE
        ),
    ] = False,
    weights: Weights = "auto",
    beam: Beam = None,
    length_penalty: Penalty = None,
    iterations: Iterations = None,
    length_candidates: LengthCandidates = None,
    batch: BatchSentences = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Score a run on its recipe's test sets or on files, or score a text against its references.

    BLEU, chrF and TER are sacreBLEU's, with their signatures and 95 % intervals by bootstrap. BLEU splits Chinese as
    the sacrebleu command does; Japanese and Korean into words where MeCab is installed, without which that command
    refuses, and else into characters; Thai, Lao, Khmer, Burmese and Tibetan into characters, where that command takes
    13a. Its signature says how, and --language names the language where recipe and file names do not.

    With --baseline each difference gets p-values by paired bootstrap and by approximate randomisation, and is believed
    where both are below 0.05: they speak of the choice of test sentences, not of the luck of one training. The BLEUs of
    older papers depend on the tokenisation: their lines say how long the reference is. What other verbs call
    --test SOURCE TARGET is --source SOURCE --reference TARGET here.

    A run of classification or tagging is scored by its accuracy on --split, test by default; a run on sets by the
    figures of its task.

    --log-probs (forced decoding) prints a line per pair: log-probability, tokens, log-probability per token, with tabs.

    Examples:  regard evaluate runs/demo

    regard evaluate runs/demo --split valid --by-length --save valid.out

    regard evaluate runs/demo --source test.en --reference test.de --baseline runs/old

    regard evaluate --hypotheses output.de --reference test.de --baseline other.de --plot lengths.png

    regard evaluate runs/demo --source test.en --reference test.de --log-probs

    A run that parses is scored by labelled F1 as EVALB counts it, with all its figures, by label and by length:

    regard evaluate runs/demo-parser --split valid --by-length --plot lengths.png --baseline runs/old-parser

    regard evaluate --trees gold.trees --hypotheses output.trees
    """
    options = given(beam_size=beam, length_penalty=length_penalty, batch_sentences=batch, constrained=constrained)
    options |= given(iterations=iterations, length_candidates=length_candidates)
    asked = Request(
        run, split or [], source, reference or [], hypotheses, baseline, tokenized_lowercase, compound_split, language,
        by_length, plot, save, trees, treebank, log_probs, weights, device, threads, as_json, options,
    )  # fmt: skip
    for path in (run, baseline):
        if path and path.is_dir():
            warn_of_unfinished(path)
    scoring(asked)(asked)


def warn_of_unfinished(path: Path) -> None:
    from regard.training.checkpoint import unfinished  # here: it loads torch
    from regard.training.run import Run

    if remark := unfinished(Run.open(path)):
        warn(remark)


def scoring(asked: Request) -> Callable[[Request], None]:
    """By the kind of run, or of what is scored without one."""
    if asked.trees:
        return evaluate_parser
    if not asked.run:
        return evaluate_texts
    from regard.training import kinds  # here: it loads torch
    from regard.training.run import Run

    ways = {
        kinds.PAIRS: evaluate_texts, kinds.PARSING: evaluate_parser, kinds.SETS: evaluate_sets,
        kinds.LABELS: evaluate_labels,
    }  # fmt: skip
    return ways[kinds.kind_of(Run.open(asked.run).recipe.task)]
