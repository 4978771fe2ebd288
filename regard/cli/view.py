"""`regard view`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Device, RunArgument, Threads, Weights, open_model, open_parser
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.decode.parser import Parser


def view(
    run: RunArgument,
    sentence: Annotated[str, typer.Argument(help="The sentence to translate and look into.")] = "",
    number: Annotated[int, typer.Option("--number", help="Of a model of sets: which test set to look into.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", help="Folder; RUN/report by default.")] = None,
    name: Annotated[str, typer.Option("--name", help="File name without ending.")] = "view",
    weights: Weights = "auto",
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Draw every attention head for a sentence: one HTML page that opens offline, and a PNG. For a model of sets, draw
    what it looks at in a test set: who looks at which element, and what inducing points and seeds collect.

    Of a parser: the tree, with what each bracket attended to when it was opened, here and as a page of its own.

    Examples:  regard view runs/demo "The old dog is sleeping in the garden."

    regard view runs/demo-parser "the old dog saw a river ."

    regard view runs/set-clustering --number 3
    """
    from regard.config import SetRecipe
    from regard.tasks.attention import alignment_picture, draw
    from regard.training.run import Run

    if isinstance(Run.open(run).recipe, SetRecipe):
        print("\n".join(str(path) for path in view_set(run, number, output, name, weights, device, threads)))
        return
    if Run.open(run).recipe.task == "parsing":
        print(view_tree(sentence, output or Run.open(run).report, name, open_parser(run, weights, device, threads)))
        return
    model = open_model(run, weights, device, threads)
    translation = model.search([sentence])[0][0]
    if not translation.target_tokens:
        raise RegardError("The sentence is empty: there is nothing to look at.")
    picture = alignment_picture(model, translation)
    page, png = draw(model, translation, output or Run.open(run).report, name)
    print(f"{translation.text}\n\n{picture}\n\n{page}\n{png}")


def view_set(
    run: Path, number: int, output: Path | None, name: str, weights: str, device: str, threads: int | None
) -> list[Path]:
    """The files of a drawn test set."""
    import torch

    from regard.tasks.set_attention import draw
    from regard.training.load import load
    from regard.training.run import Run

    if threads:
        torch.set_num_threads(threads)
    return draw(load(run, weights, device), number, output or Run.open(run).report, name)


def view_tree(sentence: str, folder: Path, name: str, parser: Parser) -> str:
    from regard.tasks.attention import draw_tree, tree_beside_attention

    parsed = parser.trees([sentence])[0][0]
    if not parsed.tree.words:
        raise RegardError("The sentence is empty: there is nothing to look at.")
    drawn = draw_tree(parser, parsed, folder, name)
    return "\n".join([tree_beside_attention(parser, parsed), "", *map(str, drawn)])
