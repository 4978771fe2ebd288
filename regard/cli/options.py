"""What the verbs share: options they have in common, and how they speak."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.decode.parser import Parser
    from regard.decode.translator import Translator

console = Console(stderr=True)

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, e.g. runs/demo.")]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a recipe key, e.g. train.steps=500; files are those of the current folder. Repeatable.",
    ),
]
SEARCH, PHRASES, DRAWING = "Search", "Prefixes and phrases", "Drawing instead of searching"
DecodeSets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="decode.KEY=VALUE", help="Any key of the recipe's [decode]. Repeatable."),
]
Unmet = Annotated[
    str,
    typer.Option(
        "--unmet",
        metavar="stop|free",
        rich_help_panel=PHRASES,
        help="A line of which no translation is all that is asked: stop there, or translate it without and say so.",
    ),
]
Beam = Annotated[
    int | None,
    typer.Option("--beam", min=1, help="Beam size; 1 is greedy search. Else the recipe's.", show_default=False),
]
Penalty = Annotated[float | None, typer.Option("--length-penalty", help="α of the length normalisation.")]
Normalization = Annotated[
    str | None, typer.Option("--normalization", help="gnmt: ((5+|Y|)/6)^α (the paper). power: |Y|^α.")
]
MinLength = Annotated[
    int | None,
    typer.Option("--min-length", min=0, help="Fewest tokens, the end symbol counted.", rich_help_panel=SEARCH),
]
MaxLength = Annotated[
    int | None,
    typer.Option(
        "--max-length",
        min=1,
        rich_help_panel=SEARCH,
        help="Most tokens, the end symbol counted; an output that comes so far without it is cut off.",
    ),
]
NoRepeat = Annotated[
    int | None,
    typer.Option("--no-repeat-ngram", min=1, help="So many tokens never come twice.", rich_help_panel=SEARCH),
]
CoveragePenalty = Annotated[
    float | None,
    typer.Option("--coverage-penalty", min=0, help="β of the GNMT coverage penalty.", rich_help_panel=SEARCH),
]
Precision = Annotated[
    str | None,
    typer.Option(
        help="auto: float32 on a CPU, bfloat16 on a GPU.",
        metavar="auto|float32|bfloat16|float16",
        rich_help_panel=SEARCH,
    ),
]
Partners = Annotated[
    list[Path] | None,
    typer.Option(
        "--with", metavar="RUN", help="A run that translates together with RUN. Repeatable.", rich_help_panel=SEARCH
    ),
]
GlossaryFile = Annotated[
    Path | None,
    typer.Option(
        "--glossary",
        help="Lines TERM, tab, TRANSLATION, or # a comment: where a source has the term, its translation comes out.",
        rich_help_panel=PHRASES,
    ),
]
Forbid = Annotated[
    list[str] | None,
    typer.Option(
        "--forbid", metavar="PHRASE", help="Never comes out as whole words. Repeatable.", rich_help_panel=PHRASES
    ),
]
ForbidFile = Annotated[
    Path | None, typer.Option("--forbid-file", help="The same, a phrase a line.", rich_help_panel=PHRASES)
]
PrefixText = Annotated[
    str | None, typer.Option("--prefix", metavar="TEXT", help="How every translation begins.", rich_help_panel=PHRASES)
]
PrefixFile = Annotated[
    Path | None,
    typer.Option(
        "--prefixes", help="How each translation begins, exactly a line for each of the input.", rich_help_panel=PHRASES
    ),
]
Sample = Annotated[bool, typer.Option("--sample", help="Draw translations, --n-best of them.", rich_help_panel=DRAWING)]
Temperature = Annotated[
    float | None,
    typer.Option("--temperature", help="Below 1 the probable become more so.", rich_help_panel=DRAWING),
]
TopK = Annotated[
    int | None, typer.Option("--top-k", min=1, help="Draw from the k most probable tokens.", rich_help_panel=DRAWING)
]
TopP = Annotated[
    float | None,
    typer.Option("--top-p", help="Draw from the fewest tokens this probable together.", rich_help_panel=DRAWING),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="Another seed draws others; the same, the same.", rich_help_panel=DRAWING),
]
Iterations = Annotated[
    int | None,
    typer.Option("--iterations", min=1, help="T of mask-predict. Else the recipe's.", show_default=False),
]
LengthCandidates = Annotated[
    int | None,
    typer.Option(
        "--length-candidates", min=1, help="Lengths that mask-predict tries. Else the recipe's.", show_default=False
    ),
]
BatchSentences = Annotated[int | None, typer.Option("--batch", min=1, help="Sentences translated at once.")]
Weights = Annotated[
    str, typer.Option("--weights", help="averaged, ema, best, last, or auto: the first of these there is.")
]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1 …, or auto: a GPU where there is one.")]
Threads = Annotated[
    int | None,
    typer.Option("--threads", min=1, max=1024, help="CPU threads. Else torch's own choice.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def first_rank() -> bool:
    """Whether to speak of what all processes under torchrun know."""
    from regard.training import ranks  # here: it loads torch

    return ranks.first()


def warn(text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def stopping(at_stake: Callable[[], str]) -> Callable[[int, FrameType | None], None]:
    """A way to end on Ctrl-C, with a word on what is lost and kept. An exception would do, were it not that libraries
    swallow one in the middle of an import and go on with half a module; training has its own way to stop."""

    def stop(number: int, frame: FrameType | None) -> None:
        for process in multiprocessing.active_children():  # one that is still starting would complain of our end
            process.kill()
        console.show_cursor()
        warn(f"regard: interrupted. {at_stake()}")
        sys.stdout.flush()
        os._exit(130)

    return stop


@contextmanager
def on_interrupt(at_stake: Callable[[], str]) -> Iterator[None]:
    """Say this on Ctrl-C, where the command line has it in hand."""
    before = signal.getsignal(signal.SIGINT)
    if before in (signal.default_int_handler, signal.SIG_IGN, None):
        yield
        return
    signal.signal(signal.SIGINT, stopping(at_stake))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def let_help_flow(app: typer.Typer) -> None:
    """Give every command its docstring as help, a paragraph a line: typer would keep the line ends of our source and
    break its lines once more at the width of the terminal."""
    for command in app.registered_commands:
        paragraphs = inspect.cleandoc(getattr(command.callback, "__doc__", "") or "").split("\n\n")
        command.help = "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
    for group in app.registered_groups:
        if group.typer_instance:
            let_help_flow(group.typer_instance)


def two_codes(languages: tuple[str, str] | None) -> tuple[str, str] | None:
    """The languages, unless one was left out: what stands next would pass for the second."""
    for language in languages or ():
        if language.startswith("-"):
            raise RegardError(f"--languages needs two codes, e.g. en de; {language} is an option.")
    return languages


def given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def open_model(run: Path, weights: str, device: str, threads: int | None) -> Translator:
    """A run's model on the device asked for."""
    import torch

    from regard.training.pairs import load_translator

    if threads:
        torch.set_num_threads(threads)
    return load_translator(run, weights, device)


def open_parser(run: Path, weights: str, device: str, threads: int | None) -> Parser:
    """A run's parser on the device asked for."""
    import torch

    from regard.training.parsing import load_parser

    if threads:
        torch.set_num_threads(threads)
    return load_parser(run, weights, device)


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
