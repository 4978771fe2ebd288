"""The command line: verbs and their options, nothing else. A verb is a file.

Results go to stdout, progress and remarks to stderr. Exit codes: 0 done, 1 something failed, 2 bad input,
130 interrupted.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

import regard
from regard.cli import data, reproduce
from regard.cli.doctor import doctor
from regard.cli.evaluate import evaluate
from regard.cli.export import export
from regard.cli.import_ import import_
from regard.cli.label import label
from regard.cli.options import console, first_rank, let_help_flow, stopping, warn
from regard.cli.parse import parse
from regard.cli.serve import keys_app, serve
from regard.cli.train import train
from regard.cli.translate import translate
from regard.cli.view import view
from regard.errors import Interrupted, RegardError

AGAIN = "The same command starts again, or goes on where there is something to go on from."

app = typer.Typer(
    help="Attention models for sequences and sets: train them, check them, look inside them.",
    epilog="Start with: regard train demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def version_option(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(f"regard {regard.__version__}")
        raise typer.Exit


for verb in (train, translate, parse, label, evaluate, view, doctor, export, serve):
    app.command()(verb)
app.command(name="import")(import_)
app.add_typer(data.app, name="data")
app.add_typer(reproduce.app, name="reproduce")
app.add_typer(keys_app, name="keys")
let_help_flow(app)


WRONG_USE: Any  # the parser's own errors, which typer has no name for
(WRONG_USE,) = typer.BadParameter.__bases__


def parsed() -> None:
    """The verb that is asked for. What is wrong with its options is said as all else that is wrong."""
    try:
        code = app(standalone_mode=False)
    except WRONG_USE as error:
        message = error.format_message()
        if not message:  # there was nothing but `regard`, and its help has been printed
            sys.exit(2)
        verb = error.ctx.command_path if error.ctx else "regard"
        raise RegardError(f"{message} ({verb} --help says more)") from None
    except typer.Abort:
        sys.exit(1)
    sys.exit(code or 0)


def main(command: Callable[[], None] = parsed) -> None:
    """Run the command; a known problem ends in one sentence. Text goes in and out as UTF-8, whatever the locale."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where the caller has it ignored
        signal.signal(signal.SIGINT, stopping(lambda: AGAIN))
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
