"""The command line: verbs and their options, nothing else.

Results go to stdout, progress and remarks to stderr. Exit codes: 0 done, 1 something failed, 2 bad input,
130 interrupted.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console

import regard
from regard.config import resolve, shipped, to_toml
from regard.errors import Interrupted, RegardError

app = typer.Typer(
    help="Attention models for sequences: train them, check them, look inside them.",
    epilog="Start with: regard train demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console(stderr=True)

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, e.g. runs/demo.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a recipe key, e.g. train.steps=500. Repeatable."),
]
Beam = Annotated[
    int | None,
    typer.Option("--beam", min=1, help="Beam size; 1 is greedy search. Else the recipe's.", show_default=False),
]
Penalty = Annotated[float | None, typer.Option("--length-penalty", help="α of the length normalisation.")]
Normalization = Annotated[
    str | None, typer.Option("--normalization", help="gnmt: ((5+|Y|)/6)^α (the paper). power: |Y|^α.")
]
BatchSentences = Annotated[int | None, typer.Option("--batch", min=1, help="Sentences translated at once.")]
Weights = Annotated[str, typer.Option("--weights", help="averaged, best, last, or auto: the first of these there is.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


@app.callback(invoke_without_command=True)
def version_option(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(f"regard {regard.__version__}")
        raise typer.Exit


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(help="A shipped recipe or the path of a .toml file.")],
    run: Annotated[Path | None, typer.Option("--run", help="Run directory; runs/NAME by default.")] = None,
    sets: Sets = None,
    extend: Annotated[
        bool, typer.Option("--extend", help="Let a run go on with a larger train.steps than it had.")
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the whole recipe, every key, and stop.")] = False,
) -> None:
    """Train a recipe, or go on with an interrupted run, then score and draw it.

    The same command in the same run directory continues exactly where it stopped. Shipped recipes: RECIPES.

    Examples:  regard train demo

    regard train my.toml --set model.n_layers=3 --set train.steps=20000

    torchrun --nproc-per-node=4 --max-restarts=3 -m -- regard train my.toml --run runs/mine
    """
    resolved = resolve(recipe, sets or ())
    if show:
        print(to_toml(resolved), end="")
        return
    place = run or Path("runs") / resolved.name
    regard.train(resolved, place, console=console, extend=extend)
    if first_rank():
        print((place / "report" / "report.txt").read_text(encoding="utf-8"), end="")


@app.command()
def translate(
    run: RunArgument,
    beam: Beam = None,
    length_penalty: Penalty = None,
    normalization: Normalization = None,
    batch: BatchSentences = None,
    n_best: Annotated[int, typer.Option("--n-best", min=1, help="Translations of each sentence.")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Put the score before each translation.")] = False,
    alignments: Annotated[
        bool, typer.Option("--alignments", help="Add word alignments, source-target from 0 (Pharaoh format).")
    ] = False,
    verify_batch: Annotated[
        bool, typer.Option("--verify-batch", help="Translate each sentence alone too and list differences.")
    ] = False,
    weights: Weights = "auto",
    as_json: AsJson = False,
) -> None:
    """Translate stdin to stdout, one sentence a line, in order.

    With --n-best, lines are NUMBER ||| TRANSLATION ||| SCORE [||| ALIGNMENT], numbered from 0. Otherwise the
    fields that --scores and --alignments add stand before and after the translation, separated by tabs.

    Example:  echo "Is she sleeping?" | regard translate runs/demo
    """
    from regard.decode.stream import LineFormat, Verifier, available_lines
    from regard.decode.translator import pharaoh

    model = regard.load(run, weights)
    model.config = model.options(
        **given(beam_size=beam, length_penalty=length_penalty, normalization=normalization, batch_sentences=batch)
    )
    style = LineFormat(n_best=n_best, scores=scores, as_json=as_json)
    verifier = Verifier(model) if verify_batch else None
    number = 0
    if sys.stdin.isatty():
        warn("Type a sentence and Enter; Ctrl-D ends.")
    for lines in available_lines(sys.stdin.buffer):
        found = model.search(lines, n_best=n_best)
        for i, best in enumerate(found):
            links = [pharaoh(one) for one in model.align(best)] if alignments else []
            print(style.show(number + i, best, links))
        sys.stdout.flush()
        for i, (one, *_) in enumerate(found):
            if one.cut:
                warn(f"line {number + i + 1}: its last {one.cut} tokens are beyond the model's positions and were cut")
        if verifier:
            verifier.check(number, [best[0] for best in found])
        number += len(lines)
    if verifier:
        warn(verifier.summary())
        if verifier.defects:
            raise typer.Exit(1)


@app.command()
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
    from regard.data.corpus import load_required, read_lines, read_pair, test_splits
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


@app.command()
def view(
    run: RunArgument,
    sentence: Annotated[str, typer.Argument(help="The sentence to translate and look into.")],
    output: Annotated[Path | None, typer.Option("--output", help="Folder; RUN/report by default.")] = None,
    name: Annotated[str, typer.Option("--name", help="File name without ending.")] = "view",
    weights: Weights = "auto",
) -> None:
    """Draw every attention head for a sentence: one HTML page that opens offline, and a PNG.

    Example:  regard view runs/demo "The old dog is sleeping in the garden."
    """
    from regard.tasks.attention import alignment_picture, draw
    from regard.training.run import Run

    model = regard.load(run, weights)
    translation = model.search([sentence])[0][0]
    if not translation.target_tokens:
        raise RegardError("The sentence is empty: there is nothing to look at.")
    page, png = draw(model, translation, output or Run.open(run).report, name)
    print(f"{translation.text}\n\n{alignment_picture(model, translation)}\n\n{page}\n{png}")


def first_rank() -> bool:
    """Whether to speak of what all processes under torchrun know."""
    from regard.training import ranks  # here: it loads torch

    return ranks.first()


def warn(text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


train.__doc__ = (train.__doc__ or "").replace("RECIPES", ", ".join(shipped()))


def stop_at_once(number: int, frame: FrameType | None) -> None:
    """End on Ctrl-C. An exception would do, were it not that libraries swallow one in the middle of an import and go on
    with half a module; training has its own way to stop."""
    warn("regard: interrupted. The same command starts again, or goes on from the last checkpoint.")
    sys.stdout.flush()
    os._exit(130)


def main(command: Callable[[], None] = app) -> None:
    """Run the command; a known problem ends in one sentence. Text goes in and out as UTF-8, whatever the locale."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where the caller has it ignored
        signal.signal(signal.SIGINT, stop_at_once)
    try:
        command()
    except RegardError as error:
        interrupted = isinstance(error, Interrupted)
        style = "yellow" if interrupted else "red"
        if not interrupted or first_rank():
            console.print(f"regard: {error}", style=style, highlight=False, markup=False, soft_wrap=True)
        sys.exit(130 if interrupted else 2)
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:  # no room, no permission: the system's own words, and where
        warn(f"regard: {error}")
        sys.exit(1)
