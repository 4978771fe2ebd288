"""`regard view`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Device, RunArgument, Threads, Weights, bar, open_model, open_parser, warn
from regard.errors import RegardError
from regard.wording import counted

if TYPE_CHECKING:
    from regard.decode.parser import Parser
    from regard.decode.request import Translation
    from regard.decode.translator import Translator

MOST = 500  # sentences of one page
LARGE = 100e6  # bytes


def view(
    run: RunArgument,
    sentences: Annotated[
        list[str] | None,
        typer.Argument(metavar="SENTENCE", help="Sentences to translate and look into.", show_default=False),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", help="The same for one that begins with a dash. Repeatable.", show_default=False),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--input", "-i", help="A file of sentences, one a line. Else stdin.", show_default=False),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            help="An output to look into instead of the model's own, one for each sentence.",
            show_default=False,
        ),
    ] = None,
    targets: Annotated[
        Path | None, typer.Option("--targets", help="A file of such outputs, one a line.", show_default=False)
    ] = None,
    number: Annotated[int, typer.Option("--number", help="Of a model of sets: which test set to look into.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", help="Folder; RUN/report by default.")] = None,
    name: Annotated[str, typer.Option("--name", help="File name without ending.")] = "view",
    weights: Weights = "auto",
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Draw every attention head for sentences: one HTML page that opens offline, and a PNG of the first.

    The page shows encoder, decoder and cross attention as matrices and lines, alignments, rollout, and the steps of
    decoding with the probabilities of the alternatives. Sentences come from the command line, --input, or stdin.

    Of a parser: the tree, with what each bracket attended to when it was opened, here and as a page of its own. Of a
    model of sets: who looks at which element of a test set, and what inducing points and seeds collect.

    Examples:  regard view runs/demo "The old dog is sleeping in the garden."

    regard view runs/demo-parser "the old dog saw a river ."

    regard view runs/set-clustering --number 3
    """
    from regard.training import kinds
    from regard.training.run import Run

    opened = Run.open(run)
    folder, how = output or opened.report, (weights, device, threads)
    kind = kinds.kind_of(opened.recipe.task)
    if kind is kinds.SETS:
        if sentences or text or source or target or targets:
            raise RegardError(f"{run} is about sets: choose one of its test sets with --number, and give no sentences.")
        print("\n".join(str(path) for path in view_set(run, number, folder, name, *how)))
        return
    asked = wanted([*(sentences or ()), *(text or ())], source)
    if kind is kinds.PARSING:
        if target or targets:
            raise RegardError("--target and --targets are for translations: a parser's own trees are drawn.")
        print(view_trees(open_parser(run, *how), asked, folder, name))
    else:
        print(view_texts(open_model(run, *how), asked, forced(target, targets, len(asked)), folder, name))


def view_texts(model: Translator, asked: list[str], outputs: list[str] | None, folder: Path, name: str) -> str:
    """What was drawn of translations; of a single one, its alignment too."""
    from regard.tasks.attention import alignment_picture, draw

    _ = model.alignment_path  # where there is no attention to look at, this says so
    found = look(model, asked, outputs)
    with bar("Looking", len(found)) as progress:
        page, png = draw(model, found, folder, name, progress, warn)
    if page.stat().st_size > LARGE:
        warn(
            f"The page has {page.stat().st_size / 1e6:.0f} MB, which browsers open slowly: fewer sentences are better."
        )
    shown = [one.text for one in found]
    if len(found) == 1:
        shown += ["", alignment_picture(model, found[0])]
    return "\n".join([*shown, "", str(page), str(png)])


def wanted(spoken: list[str], source: Path | None) -> list[str]:
    """The sentences that are asked for, none of them empty."""
    from regard.data.files import decode_lines, read_lines

    if spoken and source:
        raise RegardError("Sentences and --input exclude each other.")
    if spoken:
        lines = spoken
    elif source:
        lines = list(read_lines(source))
    else:
        if sys.stdin.isatty():
            warn("Type sentences, one a line; Ctrl-D ends.")
        lines = list(decode_lines(sys.stdin.buffer, "standard input"))
    if not lines:
        raise RegardError("There is no sentence to look at: give one, or --input, or lines on stdin.")
    if len(lines) > MOST:
        raise RegardError(f"A page holds at most {MOST} sentences, and these are {len(lines)}: look at some of them.")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            which = "The sentence" if len(lines) == 1 else f"Sentence {number}"
            raise RegardError(f"{which} is empty: there is nothing to look at.")
    return lines


def forced(target: list[str] | None, targets: Path | None, count: int) -> list[str] | None:
    """The outputs that are given, one for each sentence, if any are."""
    from regard.data.files import read_lines

    if target and targets:
        raise RegardError("--target and --targets exclude each other.")
    lines = list(read_lines(targets)) if targets else target
    if lines is not None and len(lines) != count:
        raise RegardError(f"{counted(len(lines), 'target')} for {counted(count, 'sentence')}: give one for each.")
    return lines


def look(model: Translator, sentences: list[str], targets: list[str] | None) -> list[Translation]:
    """Translations found, or as they are given; each has tokens to look at."""
    if targets is None:
        found = [best[0] for best in model.search(sentences)]
    else:
        found = [model.given(*pair) for pair in zip(sentences, targets, strict=True)]
    for one in found:
        if not one.target_tokens or len(one.source_tokens) < 2:
            raise RegardError(f"{one.source!r} has no piece that the model knows: there is nothing to look at.")
        if one.cut:
            beyond = counted(one.cut, "token")
            warn(f"{one.source[:40]!r} has {beyond} more than the model reads: left out here.")
    return found


def view_set(
    run: Path, number: int, folder: Path, name: str, weights: str, device: str, threads: int | None
) -> list[Path]:
    """The files of a drawn test set."""
    import torch

    from regard.tasks.set_attention import draw
    from regard.training.load import load

    if threads:
        torch.set_num_threads(threads)
    return draw(load(run, weights, device), number, folder, name)


def view_trees(parser: Parser, asked: list[str], folder: Path, name: str) -> str:
    """Each tree beside its attention, and what was drawn of it."""
    from regard.tasks.attention import draw_tree, tree_beside_attention

    names = [name] if len(asked) == 1 else [f"{name}-{i}" for i in range(1, len(asked) + 1)]
    shown = []
    for (parsed,), file in zip(parser.trees(asked), names, strict=True):
        drawn = draw_tree(parser, parsed, folder, file, warn)
        shown.append("\n".join([tree_beside_attention(parser, parsed), "", *map(str, drawn)]))
    return "\n\n".join(shown)
