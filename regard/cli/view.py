"""`regard view`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Device, RunArgument, Threads, Weights, open_model
from regard.errors import RegardError


def view(
    run: RunArgument,
    sentence: Annotated[str, typer.Argument(help="The sentence to translate and look into.")],
    output: Annotated[Path | None, typer.Option("--output", help="Folder; RUN/report by default.")] = None,
    name: Annotated[str, typer.Option("--name", help="File name without ending.")] = "view",
    weights: Weights = "auto",
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Draw every attention head for a sentence: one HTML page that opens offline, and a PNG.

    Example:  regard view runs/demo "The old dog is sleeping in the garden."
    """
    from regard.tasks.attention import alignment_picture, draw
    from regard.training.run import Run

    model = open_model(run, weights, device, threads)
    translation = model.search([sentence])[0][0]
    if not translation.target_tokens:
        raise RegardError("The sentence is empty: there is nothing to look at.")
    picture = alignment_picture(model, translation)
    page, png = draw(model, translation, output or Run.open(run).report, name)
    print(f"{translation.text}\n\n{picture}\n\n{page}\n{png}")
