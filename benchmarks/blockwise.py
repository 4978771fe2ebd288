"""Blockwise decoding beside greedy search: are the outputs equal, and how much sooner are they there?

    python benchmarks/blockwise.py RUN [--sentences 1000] [--batch 1] [--device cpu] [--threads 2] [--out FOLDER]

RUN has block heads. Its test text, or `--source FILE`, is translated both ways in turn, a few sentences each time, raw
text to raw text. Outputs may differ only where two tokens were so close that rounding decides
(`regard.decode.margins`), or it fails. What is reported: tokens a call of the decoder; k̂, the mean block that a call
after the first accepts; the ratio of wall-clock times, and on a CPU of processor times, which other processes on the
machine disturb less.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.decode.request import Translation
    from regard.decode.translator import Translator

TURNS = 20  # times that each way has its turn, at least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run with model.block_heads of at least 2")
    parser.add_argument("--source", type=Path, help="sentences, one a line; else the test text of the run's recipe")
    parser.add_argument("--sentences", type=int, default=1_000)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=0, help="0: torch's own choice")
    parser.add_argument("--precision", default="float32", help="outputs are promised to be equal in float32 alone")
    parser.add_argument("--weights", default="auto")
    parser.add_argument("--out", type=Path, help="folder for blockwise.json")
    arguments = parser.parse_args()

    import torch

    import regard

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    translator = regard.load(arguments.run, arguments.weights, arguments.device)
    sources, references = text(arguments.run, arguments.source, arguments.sentences)
    translator.config = replace(translator.config, precision=arguments.precision)
    outcome = compare(translator, sources, references, arguments.batch)
    print(show(outcome))
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "blockwise.json").write_text(json.dumps(outcome, indent=1) + "\n")
    if outcome["beyond_margin"]:
        sys.exit("Blockwise decoding is not greedy search.")


def text(run: Path, source: Path | None, n: int) -> tuple[list[str], list[str]]:
    from regard.data.corpus import load_required
    from regard.training.run import Run

    if source:
        return source.read_text(encoding="utf-8").splitlines()[:n], []
    corpus = load_required(Run.open(run).pair_recipe.data, "test")
    return corpus.source[:n], corpus.target[:n]


def compare(translator: Translator, sources: Sequence[str], references: Sequence[str], batch: int) -> dict[str, Any]:
    """Both ways over the same sentences, in turn."""
    import torch

    from regard.decode.margins import MARGIN, greedy_margin
    from regard.evaluate.bleu import bleu

    size = max(batch, len(sources) // TURNS)
    found: dict[bool, list[Translation]] = {False: [], True: []}
    seconds: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for blockwise in (False, True):  # unmeasured: the first calls allocate and compile
        translator.search(sources[:size], beam_size=1, batch_sentences=batch, blockwise=blockwise)
    for turn, first in enumerate(range(0, len(sources), size)):
        for blockwise in (False, True)[:: 1 if turn % 2 else -1]:
            wall, processor = time.perf_counter(), time.process_time()
            for group in range(first, min(first + size, len(sources)), batch):
                sentences = sources[group : group + batch]
                best = translator.search(sentences, beam_size=1, batch_sentences=batch, blockwise=blockwise)
                found[blockwise] += [one for one, *_ in best]
            seconds[blockwise].append((time.perf_counter() - wall, time.process_time() - processor))
    greedy, blocks = found[False], found[True]
    pairs = zip(blocks, greedy, strict=True)
    apart = [
        greedy_margin(translator, theirs.source_tokens, ours.target_tokens, theirs.target_tokens)
        for ours, theirs in pairs
        if ours.target_tokens != theirs.target_tokens
    ]
    tokens, calls, n = (
        sum(len(one.target_tokens) for one in blocks), sum(one.calls for one in blocks),
        sum(one.calls > 0 for one in blocks),
    )  # fmt: skip
    wall, processor = (
        statistics.median(a[i] / b[i] for a, b in zip(seconds[False], seconds[True], strict=True)) for i in (0, 1)
    )
    return {
        "run": translator.name,
        "k": translator.model.config.block_heads,
        "device": str(translator.device),
        "precision": translator.config.precision,
        "threads": torch.get_num_threads(),
        "batch": batch,
        "sentences": len(sources),
        "identical": len(sources) - len(apart),
        "within_margin": sum(gap < MARGIN for gap in apart),
        "beyond_margin": sum(not gap < MARGIN for gap in apart),
        "tokens": tokens,
        "calls": calls,
        "tokens_per_call": tokens / max(1, calls),
        "accepted_block": (tokens - n) / max(1, calls - n),
        "bleu": bleu([one.text for one in blocks], list(references)).value if references else None,
        "greedy_seconds": sum(a for a, _ in seconds[False]),
        "blockwise_seconds": sum(a for a, _ in seconds[True]),
        "wall_clock_ratio": wall,
        "processor_ratio": processor if translator.device.type == "cpu" else None,
    }


def show(outcome: dict[str, Any]) -> str:
    o = outcome
    scores = "" if o["bleu"] is None else f"; BLEU {o['bleu']:.2f}"
    processor = "" if o["processor_ratio"] is None else f", {o['processor_ratio']:.2f}× the processor time"
    return (
        f"{o['run']}, {o['k']} heads, {o['device']}, {o['precision']}, {o['threads']} threads, batch {o['batch']}\n"
        f"outputs       {o['identical']:,} of {o['sentences']:,} identical to greedy search, {o['within_margin']} "
        f"within the margin, {o['beyond_margin']} beyond it{scores}\n"
        f"calls         {o['tokens']:,} tokens in {o['calls']:,} calls, {o['tokens_per_call']:.2f} a call; accepted "
        f"block {o['accepted_block']:.2f}\n"
        f"speed         {o['greedy_seconds']:.1f} s greedy, {o['blockwise_seconds']:.1f} s by blocks: "
        f"{o['wall_clock_ratio']:.2f}× the wall clock{processor}"
    )


if __name__ == "__main__":
    main()
