"""`regard data write`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.errors import RegardError, nearest
from regard.wording import counted


def write(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A built-in corpus: en-de, de-en, copy or reverse.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="A folder that is not there yet; NAME without it.", show_default=False)
    ] = None,
    train: Annotated[int, typer.Option("--train", help="Training pairs.", min=1)] = 100_000,
) -> None:
    """Write a built-in corpus as files, a sentence a line: to try everything that takes files.

    Each split has a file for either side, and one with its word alignments, source-target from 0. Recipes with
    data.corpus = "NAME" learn from these sentences and are tested on them.

    Examples:  regard data write en-de

    regard data write en-de --train 5000 --out small && regard data report small/train.en small/train.de
    """
    from regard.config import DataConfig
    from regard.data import generated
    from regard.data.corpus import built_in

    if name not in generated.CORPORA:
        raise RegardError(
            f"No built-in corpus {name}{nearest(name, generated.CORPORA)}; there are {', '.join(generated.CORPORA)}. "
            "Public ones come as files: regard data fetch."
        )
    folder = out or Path(name)
    if folder.exists():
        raise RegardError(f"{folder} is there already: give another folder with --out.")
    config = DataConfig(corpus=name, train_size=train)
    corpora = [built_in(config, split) for split in generated.splits(name)]
    folder.mkdir(parents=True)
    for corpus in corpora:
        for side, lines in zip(generated.sides(name), (corpus.source, corpus.target), strict=True):
            (folder / f"{corpus.name}.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        pairs = (" ".join(f"{i}-{j}" for i, j in links) for links in corpus.alignments or ())
        (folder / f"{corpus.name}.align").write_text("".join(f"{line}\n" for line in pairs), encoding="utf-8")
        print(f"{folder / corpus.name}.*  {counted(len(corpus), 'pair')}")
