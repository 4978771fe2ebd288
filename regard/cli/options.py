"""What the verbs share: options they have in common, and how they speak."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

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


def first_rank() -> bool:
    """Whether to speak of what all processes under torchrun know."""
    from regard.training import ranks  # here: it loads torch

    return ranks.first()


def warn(text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}
