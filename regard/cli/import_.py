"""`regard import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import warn
from regard.errors import RegardError, nearest

FORMATS = ("marian", "fairseq")


def import_(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the model lies.")],
    source: Annotated[str, typer.Option("--from", help="The format.", metavar="marian|fairseq")],
    run: Annotated[Path, typer.Option(help="The run directory to make.", show_default=False)],
    tokenizer: Annotated[
        Path | None,
        typer.Option(help="fairseq: the SentencePiece model that made the dictionaries' pieces.", show_default=False),
    ] = None,
) -> None:
    """Make a run of a model that another program has trained: it translates, and can be trained further.

    marian is a folder of transformers' MarianMT, such as OPUS-MT publishes. fairseq is a Transformer checkpoint with
    its dict.*.txt beside it. Pickled files are read without executing anything in them; one that asks for more is
    refused.

    Examples:  regard import opus-mt-en-de --from marian --run runs/opus-en-de

    regard train my.toml --set init=runs/opus-en-de --run runs/tuned
    """
    from regard.export import fairseq, marian

    if source not in FORMATS:
        raise RegardError(f"There is no format {source}{nearest(source, FORMATS)}: choose {' or '.join(FORMATS)}.")
    if not folder.exists():
        raise RegardError(f"There is no {folder}.")
    look_at_export(folder, source)
    if tokenizer and source != "fairseq":
        raise RegardError("--tokenizer is for fairseq; a MarianMT folder has its own.")
    if source == "fairseq":
        folder = fairseq.checkpoint_in(folder)
    made = marian.read(folder, run) if source == "marian" else fairseq.read(folder, run, tokenizer)
    recipe = made.pair_recipe
    warn(
        f"Made {made.path} of {folder}: {recipe.model.n_layers} layers of {recipe.model.d_model}, "
        f"{recipe.tokenizer.vocab_size:,} subwords. Translate with: regard translate {made.path}"
    )


def look_at_export(folder: Path, source: str) -> None:
    """What is to be said of a folder that `regard export` has made. Another program may have trained it further."""
    from regard.export.manifest import Manifest
    from regard.training.run import MANIFEST

    if not (folder / MANIFEST).is_file():
        return
    manifest = Manifest.open(folder)
    if manifest.format != source:
        raise RegardError(f"{folder} is an export in the format {manifest.format}, not {source}.")
    for path in manifest.altered(folder):
        warn(f"{path} is not the one that was exported: taken as it is.")
