"""What the verbs share: options they have in common, and how they speak."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

import regard

if TYPE_CHECKING:
    from regard.decode.translator import Translator

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
Weights = Annotated[
    str, typer.Option("--weights", help="averaged, ema, best, last, or auto: the first of these there is.")
]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1 …, or auto: a GPU where there is one.")]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="CPU threads. Else torch's own choice.", show_default=False)
]
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


def open_model(run: Path, weights: str, device: str, threads: int | None) -> Translator:
    """A run's model on the device asked for."""
    import torch

    if threads:
        torch.set_num_threads(threads)
    return regard.load(run, weights, device)


Show = Callable[[str, int, float | None], None]  # which bar, how many are done, and what part of all that is, if known


@contextmanager
def bars(unit: str) -> Iterator[Show]:
    """Bars on stderr, where that is a terminal: how many of a unit are done, how many a second, and the time left.
    Where a new one begins, those before it have ended; all go at the end."""
    from rich import progress as rich

    columns = (
        rich.TextColumn("{task.description}"), rich.BarColumn(), rich.TextColumn("{task.fields[done]:>11,} " + unit),
        rich.TextColumn("{task.fields[speed]:>9,.0f}/s"), rich.TimeElapsedColumn(), rich.TextColumn("left"),
        rich.TimeRemainingColumn(),
    )  # fmt: skip
    with rich.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        tasks: dict[str, rich.TaskID] = {}

        def show(name: str, done: int, part: float | None) -> None:
            if name not in tasks:
                for task in tasks.values():
                    shown.update(task, total=1.0, completed=1.0)
                tasks[name] = shown.add_task(name, total=None, done=0, speed=0.0)
            elapsed = shown.tasks[shown.task_ids.index(tasks[name])].elapsed or 0.0
            total = None if part is None else 1.0
            speed = done / elapsed if elapsed else 0.0
            shown.update(tasks[name], total=total, completed=part or 0.0, done=done, speed=speed)

        yield show


@contextmanager
def bar(what: str, total: int, unit: str = "sentences") -> Iterator[Callable[[int], None]]:
    """A single bar, which is told how many are done."""
    with bars(unit) as show:
        yield lambda done: show(what, done, done / max(total, 1))
