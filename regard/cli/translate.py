"""`regard translate`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from regard.cli.options import (
    AsJson,
    BatchSentences,
    Beam,
    Device,
    Normalization,
    Penalty,
    RunArgument,
    Threads,
    Weights,
    given,
    open_model,
    warn,
)


def translate(
    run: RunArgument,
    beam: Beam = None,
    length_penalty: Penalty = None,
    normalization: Normalization = None,
    batch: BatchSentences = None,
    blockwise: Annotated[
        bool, typer.Option("--blockwise", help="Greedy search by blocks of tokens; needs a model with block heads.")
    ] = False,
    n_best: Annotated[int, typer.Option("--n-best", min=1, help="Translations of each sentence.")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Put the score before each translation.")] = False,
    alignments: Annotated[
        bool, typer.Option("--alignments", help="Add word alignments, source-target from 0 (Pharaoh format).")
    ] = False,
    verify_batch: Annotated[
        bool, typer.Option("--verify-batch", help="Translate each sentence alone too and list differences.")
    ] = False,
    weights: Weights = "auto",
    device: Device = "auto",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Translate stdin to stdout, one sentence a line, in order.

    With --n-best, lines are NUMBER ||| TRANSLATION ||| SCORE [||| ALIGNMENT], numbered from 0. Otherwise the
    fields that --scores and --alignments add stand before and after the translation, separated by tabs.

    Example:  echo "Is she sleeping?" | regard translate runs/demo
    """
    from regard.decode.stream import LineFormat, Verifier, available_lines
    from regard.decode.translator import pharaoh

    model = open_model(run, weights, device, threads)
    model.config = model.options(
        **given(beam_size=beam, length_penalty=length_penalty, normalization=normalization, batch_sentences=batch),
        **blocks(blockwise, beam),
    )
    style = LineFormat(n_best=n_best, scores=scores, as_json=as_json)
    verifier = Verifier(model) if verify_batch else None
    number = calls = tokens = 0
    if sys.stdin.isatty():
        warn("Type a sentence and Enter; Ctrl-D ends.")
    for lines in available_lines(sys.stdin.buffer):
        found = model.search(lines, n_best=n_best)
        for i, best in enumerate(found):
            links = [pharaoh(one) for one in model.align(best)] if alignments else []
            print(style.show(number + i, best, links))
        sys.stdout.flush()
        for i, (one, *_) in enumerate(found):
            if one.cut:
                warn(f"line {number + i + 1}: its last {one.cut} tokens are beyond the model's positions and were cut")
        if verifier:
            verifier.check(number, [best[0] for best in found])
        number += len(lines)
        calls, tokens = calls + sum(t.calls for t, *_ in found), tokens + sum(len(t.target_tokens) for t, *_ in found)
    if calls:
        warn(f"{tokens:,} tokens in {calls:,} calls of the decoder: {tokens / calls:.2f} a call")
    if verifier:
        warn(verifier.summary())
        if verifier.defects:
            raise typer.Exit(1)


def blocks(blockwise: bool, beam: int | None) -> dict[str, Any]:
    """The keys that --blockwise changes: without --beam it is greedy."""
    if not blockwise:
        return {}
    return {"blockwise": True} if beam else {"blockwise": True, "beam_size": 1}
