"""`regard data write`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated

import typer

from regard.errors import RegardError, nearest
from regard.wording import counted


def write(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A built-in corpus: en-de, de-en, copy or reverse.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="A new or empty folder; NAME without it.", show_default=False)
    ] = None,
    train: Annotated[int, typer.Option("--train", help="Training pairs, a million at most.", min=1)] = 100_000,
) -> None:
    """Write a built-in corpus as files, a sentence a line: to try everything that takes files.

    Each split has a file for either side, and one with its word alignments, source-target from 0. They are the
    splits of data.corpus = "NAME"; a recipe takes the first train_size pairs of train, and so on.

    Examples:  regard data write en-de

    regard data write en-de --train 5000 --out small && regard data report small/train.en small/train.de
    """
    from regard.config import DataConfig
    from regard.data import generated
    from regard.data.corpus import built_in
    from regard.data.parallel import Corpus

    if name not in generated.CORPORA:
        raise RegardError(
            f"No built-in corpus {name}{nearest(name, generated.CORPORA)}; there are {', '.join(generated.CORPORA)}. "
            "Public ones come as files: regard data fetch."
        )
    if train > generated.LARGEST["train"]:
        raise RegardError(f"--train {train:,}: a built-in corpus has {generated.LARGEST['train']:,} pairs at most.")
    folder = out or Path(name)
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise RegardError(f"{folder} is there already: give a new or empty folder with --out.")
    writing = folder.with_name(f"{folder.resolve().name}.writing")

    def put(corpus: Corpus, side: str, lines: list[str]) -> None:
        (writing / f"{corpus.name}.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    config = DataConfig(corpus=name, train_size=train)
    shutil.rmtree(writing, ignore_errors=True)
    writing.mkdir(parents=True)
    try:
        for split in generated.splits(name):
            corpus = built_in(config, split)
            for side, lines in zip(generated.sides(name), (corpus.source, corpus.target), strict=True):
                put(corpus, side, lines)
            put(corpus, "align", [" ".join(f"{i}-{j}" for i, j in links) for links in corpus.alignments or ()])
            print(f"{folder / split}.*  {counted(len(corpus), 'pair')}")
        os.replace(writing, folder)
    except BaseException:
        shutil.rmtree(writing, ignore_errors=True)
        raise
