"""`regard doctor`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import AsJson, console, warn

Two = tuple[Path, Path] | None


def doctor(
    subject: Annotated[
        str | None, typer.Argument(metavar="[RUN | RECIPE]", help="A run directory, a .toml file or a shipped recipe.")
    ] = None,
    train: Annotated[Two, typer.Option("--train", metavar="SRC TGT", help="Training text.")] = None,
    valid: Annotated[Two, typer.Option("--valid", metavar="SRC TGT", help="Validation text.")] = None,
    test: Annotated[
        Two, typer.Option("--test", metavar="SRC TGT", help="Test text, or the text a run is to be used on.")
    ] = None,
    languages: Annotated[
        tuple[str, str] | None,
        typer.Option("--languages", metavar="SRC TGT", help="Which languages they are, e.g. en de."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show notes too: what is normal in real text.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say why a model or a corpus is bad: what is wrong, in which file and line, and what to do.

    It looks for lines that do not belong together or are shifted, damaged characters, wrong languages, copies and
    leaks between the splits; for numbers in a recipe that will not go well; for divergence, overfitting, dead weights
    and bad outputs in a run. Text given with an option stands in for the recipe's. Of very large text the costly checks
    look at a part, and say at how much.

    Exit code 0: no errors, though there may be warnings. 1: errors.

    Examples:  regard doctor runs/demo

    regard doctor my.toml

    regard doctor --train train.en train.de --test test.en test.de --languages en de
    """
    from regard.data.languages import check_code
    from regard.doctor.examine import examine
    from regard.doctor.findings import report

    for language in languages or ():
        if remark := check_code(language, "--languages"):
            warn(remark)
    files = {name: pair for name, pair in (("train", train), ("valid", valid), ("test", test)) if pair}
    with console.status("examining") as status:
        found = examine(subject, files, languages or (), lambda what: status.update(f"examining {what} …"))
    if as_json:
        print(json.dumps({"findings": [finding.as_dict() for finding in found]}, ensure_ascii=False))
    else:
        print(report(found, verbose))
    if any(finding.severity == "error" for finding in found):
        raise typer.Exit(1)
