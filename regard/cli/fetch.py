"""`regard data fetch`."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from regard.cli.options import AsJson, bars, warn
from regard.errors import RegardError
from regard.wording import counted


def fetch(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Corpora; without one, all are listed.")
    ] = None,
    origin: Annotated[Path | None, typer.Option("--from", help="Take the files from this folder instead.")] = None,
    to: Annotated[Path | None, typer.Option("--to", help="The cache, instead of $REGARD_DATA or the user's.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Fetch it even if it is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fetch public corpora by name, or list what there is.

    A transfer that breaks off goes on where it stopped when the command is given again. A recipe then says
    data.corpus = "NAME". The licences are those of the corpora's makers and are listed. With --json a line for each.

    Examples:  regard data fetch

    regard data fetch multi30k-en-de

    regard data fetch europarl-en-de europarl-en-fr --from downloads
    """
    from regard.data import fetch as corpora

    root = to or corpora.cache()
    if root.is_file():
        raise RegardError(f"{root} is a file: a cache is a folder, given with --to or in $REGARD_DATA.")
    if not names:
        print_corpora(root, as_json)
        return
    for name in names:
        corpora.named(name)  # a mistyped one is told before the others are fetched
    for name in names:
        fetch_one(name, root, origin, again, as_json)
    if root.resolve() != corpora.cache().resolve():
        warn(f"for recipes to find it: export REGARD_DATA={quote(str(root.resolve()))}")


def fetch_one(name: str, root: Path, origin: Path | None, again: bool, as_json: bool) -> None:
    from regard.data import fetch as corpora

    here = None if again else corpora.fetched(root / name)
    if here:
        warn(f"{name} is there already; --again fetches it anew")
    with bars("kB") as show:

        def report(file: str, done: int, total: int | None) -> None:
            show(file, done // 1000, done / total if total else None)

        lock = here or corpora.fetch(name, root=root, origin=origin, again=again, report=report, say=warn)
    if as_json:
        print(json.dumps({"folder": str(root / name), **lock}, ensure_ascii=False))
        return
    counts = ", ".join(f"{split} {entry['pairs']:,}" for split, entry in lock["splits"].items())
    print(f"{root / name}\n{counts} pairs")
    for why, pairs in lock.get("left_out", {}).items():
        print(f"left out of train: {counted(pairs, 'pair')}, {why}")
    print(f"licence: {lock['licence']}")


def print_corpora(root: Path, as_json: bool) -> None:
    from regard.data import fetch as corpora

    rows = []
    for name, corpus in corpora.CORPORA.items():
        lock = corpora.fetched(root / name)
        pairs = lock["splits"]["train"]["pairs"] if lock else corpus.pairs or None
        rows.append({
            "name": name, "languages": corpus.languages, "pairs": pairs, "splits": corpus.splits,
            "licence": corpus.licence, "public": corpus.public, "fetched": bool(lock),
        })  # fmt: skip
    if as_json:
        print(json.dumps({"cache": str(root), "corpora": rows}, ensure_ascii=False))
        return
    for row in rows:
        state = "fetched" if row["fetched"] else "" if row["public"] else "--from only"
        pairs = f"{row['pairs']:,}" if row["pairs"] else "?"
        print(f"{row['name']:<20} {pairs:>11} pairs  {state:<12} {row['licence']}")
    warn(f"cache: {root}")
