"""`regard evaluate`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import regard
from regard.cli.options import AsJson, Beam, Weights, given, warn
from regard.errors import RegardError


def evaluate(
    run: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="A run directory.")] = None,
    source: Annotated[Path | None, typer.Option("--source", help="Source text, instead of the recipe's.")] = None,
    reference: Annotated[Path | None, typer.Option("--reference", help="Reference text.")] = None,
    hypotheses: Annotated[Path | None, typer.Option("--hypotheses", help="Score this text; no run is needed.")] = None,
    weights: Weights = "auto",
    beam: Beam = None,
    as_json: AsJson = False,
) -> None:
    """Score a run on its recipe's test sets or on files, or score a text against its references.

    Examples:  regard evaluate runs/demo

    regard evaluate runs/demo --source test.en --reference test.de

    regard evaluate --hypotheses output.de --reference test.de
    """
    from regard.data.corpus import load_required, read_pair, test_splits
    from regard.data.files import read_lines
    from regard.evaluate.bleu import Score
    from regard.tasks import scoring
    from regard.training.run import Run

    results: dict[str, list[Score]] = {}
    if hypotheses and reference and not (run or source):
        results[hypotheses.name] = scoring.score_texts(list(read_lines(hypotheses)), list(read_lines(reference)))
    elif run and bool(source) == bool(reference) and not hypotheses:
        recipe, model = Run.open(run).recipe, regard.load(run, weights)
        model.config = model.options(**given(beam_size=beam))
        if source and reference:
            corpora = [read_pair(source.name, source, reference)]
        else:
            corpora = [load_required(recipe.data, split) for split in test_splits(recipe.data) or ["test"]]
        for corpus in corpora:
            evaluation = scoring.evaluate(model, corpus)
            results[corpus.name] = evaluation.scores
            cut = sum(translation.cut > 0 for translation in evaluation.translations)
            if cut:
                warn(f"{cut} sentences of {corpus.name} were longer than the model's positions and were cut")
    else:
        missing = "--reference is missing. " if (source or hypotheses) and not reference else ""
        raise RegardError(
            f"{missing}Give a RUN, or RUN with --source and --reference, or --hypotheses with --reference."
        )
    if as_json:
        print(json.dumps({name: [asdict(score) for score in scores] for name, scores in results.items()}))
    else:
        print("\n".join(f"{name} {score}" for name, scores in results.items() for score in scores))
