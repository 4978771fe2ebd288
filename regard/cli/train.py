"""`regard train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import regard
from regard.cli.options import Sets, console, first_rank, warn
from regard.config import resolve, shipped, to_toml


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

    regard train set-unique-characters --set data.path=omniglot_28x28.npz

    torchrun --nproc-per-node=4 --max-restarts=3 -m -- regard train my.toml --run runs/mine
    """
    resolved = resolve(recipe, sets or (), warn if first_rank() else lambda text: None)
    if show:
        print(to_toml(resolved), end="")
        return
    place = run or Path("runs") / resolved.name
    regard.train(resolved, place, console=console, extend=extend)
    if first_rank():
        print((place / "report" / "report.txt").read_text(encoding="utf-8"), end="")


train.__doc__ = (train.__doc__ or "").replace("RECIPES", ", ".join(shipped()))
