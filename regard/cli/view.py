"""`regard view`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Device, RunArgument, Threads, Weights, open_model
from regard.errors import RegardError


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

    Examples:  regard view runs/demo "The old dog is sleeping in the garden."

    regard view runs/set-clustering --number 3
    """
    from regard.config import SetRecipe
    from regard.tasks.attention import alignment_picture, draw
    from regard.training.run import Run

    if isinstance(Run.open(run).recipe, SetRecipe):
        print("\n".join(str(path) for path in view_set(run, number, output, name, weights, device, threads)))
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
