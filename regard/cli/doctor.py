"""`regard doctor`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import AsJson, console, warn
from regard.errors import RegardError

Two = tuple[Path, Path] | None


def doctor(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN | RECIPE | FOLDER | SOURCE TARGET",
            help="A run directory, a .toml file or shipped recipe, a folder of regard data prepare, or two text files.",
        ),
    ] = None,
    train: Annotated[
        Two, typer.Option("--train", metavar="SOURCE TARGET", help="Training text, as two files alone are.")
    ] = None,
    valid: Annotated[Two, typer.Option("--valid", metavar="SOURCE TARGET", help="Validation text.")] = None,
    test: Annotated[
        Two, typer.Option("--test", metavar="SOURCE TARGET", help="Test text, or the text a run is to be used on.")
    ] = None,
    languages: Annotated[
        tuple[str, str] | None,
        typer.Option("--languages", metavar="SOURCE TARGET", help="Language codes, e.g. en de; else by file name."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show notes too: what is normal in real text.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say why a model or a corpus is bad: what is wrong, in which file and line, and what to do.

    It looks for lines that do not belong together or are shifted, damaged characters, wrong languages, copies and
    leaks between the splits; for numbers in a recipe that will not go well; for divergence, overfitting, dead weights
    and bad outputs in a run. Text given with an option stands in for the recipe's. Of very large text the costly checks
    look at a part, and say at how much. Text is two files, a line a sentence; of TMX, PO, TSV and JSONL regard data
    prepare makes a folder, which is given as it is.

    Exit code 0: no errors, though there may be warnings. 1: errors.

    Examples:  regard doctor runs/demo

    regard doctor my.toml

    regard doctor train.en train.de

    regard doctor --train train.en train.de --test test.en test.de --languages en de
    """
    from regard.data.languages import check_code
    from regard.doctor.examine import examine
    from regard.doctor.findings import report

    for language in languages or ():
        if remark := check_code(language, "--languages"):
            warn(remark)
    files = {name: pair for name, pair in (("train", train), ("valid", valid), ("test", test)) if pair}
    subject, two = split_up(what or [])
    if two and train:
        raise RegardError("The training text is given twice: as SOURCE TARGET and with --train.")
    files |= {"train": two} if two else {}
    with console.status("examining") as status:
        found = examine(subject, files, languages or (), lambda what: status.update(f"examining {what} …"))
    if as_json:
        print(json.dumps({"findings": [finding.as_dict() for finding in found]}, ensure_ascii=False))
    else:
        print(report(found, verbose))
    if any(finding.severity == "error" for finding in found):
        raise typer.Exit(1)


def split_up(what: list[str]) -> tuple[str | None, Two]:
    """A run, recipe or folder, or two files; which may be written with a comma, as elsewhere."""
    if len(what) == 1 and "," in what[0] and not Path(what[0]).exists():
        what = what[0].split(",")
    if len(what) > 2:
        raise RegardError("Give one RUN, RECIPE or FOLDER, or two files: SOURCE TARGET.")
    return (None, (Path(what[0]), Path(what[1]))) if len(what) == 2 else (what[0] if what else None, None)
