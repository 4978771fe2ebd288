"""`regard export`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import AsJson, RunArgument, Threads, Weights, bar, warn
from regard.errors import RegardError


def export(
    run: RunArgument,
    to: Annotated[str, typer.Option(help="The format.", metavar="ctranslate2|onnx|marian|safetensors")],
    out: Annotated[Path, typer.Option(help="The folder to write.", show_default=False)],
    check: Annotated[
        Path | None,
        typer.Option(help="A file of source sentences: both models must translate it alike.", show_default=False),
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(help="Their translations, to score fewer bits by.", show_default=False)
    ] = None,
    quantization: Annotated[
        str, typer.Option(help="Numbers of how many bits.", metavar="float32|int16|int8")
    ] = "float32",
    weights: Weights = "auto",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Write a run's model in the format of another program, and prove that it gives the same answers.

    With --check the file is translated by both, greedily and with a beam of 4. The export passes where all tokens are
    the same, save where two candidates lie within 1e-4 of each other (at most 0.2 % of the sentences); otherwise it is
    renamed OUT.refused and the exit code is 1. With fewer bits, BLEU and chrF are compared instead.

    Examples:  regard export runs/demo --to ctranslate2 --out demo-ct2 --check held-out.en

    regard export runs/demo --to ctranslate2 --quantization int8 --out demo-int8 --check test.en --reference test.de
    """
    import torch

    from regard.export import formats
    from regard.export.check import SEARCHES, read_sentences
    from regard.export.check import check as compare
    from regard.export.engines import Settings

    if threads:
        torch.set_num_threads(threads)
    if reference and not check:
        raise RegardError("--reference needs --check with the sentences that it translates.")
    sentences = read_sentences(check) if check else None
    references = read_sentences(reference) if reference else None
    with formats.export(run, to, out, quantization, weights) as exported:
        report = None
        if sentences is not None:
            with bar("Checking", len(sentences) * len(SEARCHES)) as progress:
                report = compare(exported, sentences, references, progress, Settings(intra_threads=threads or 0))
            exported.accepted = report.passed
        size = formats.size_on_disk(exported.folder)
    place = out if exported.accepted else out.with_name(f"{out.name}.refused")
    if as_json:
        outcome = {"folder": str(place), "format": to, "quantization": quantization, "bytes": size}
        print(json.dumps({**outcome, "check": report.plain() if report else None}, ensure_ascii=False))
    else:
        print(report.text() if report else f"{size / 1e6:,.1f} MB", end="" if report else "\n")
        warn(f"Written to {place}.")
    if not exported.accepted:
        raise typer.Exit(1)
