"""The five-minute race: how good a translator can be trained from nothing in five minutes of wall clock?

    regard data prepare --languages en de --train FOLDER/train --valid FOLDER/valid --vocab-size 32000 --out PREPARED
    python benchmarks/race.py --prepared PREPARED --out OUT [--minutes 5]

Europarl English → German, the paper's base model (N = 6, d_model 512, d_ff 2048, 8 heads) with one tied vocabulary of
32,000, tokenised beforehand. The clock starts with the process and includes imports, compilation and everything else;
it stops when the weights are on the disk. These final weights then translate the whole of `valid` with a beam of 4, and
sacreBLEU scores the result. Nothing in a run depends on `valid`: its loss is reported once, at the last step.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

BEGAN = time.time()  # torch and regard are imported later, with the clock running
RECIPE: dict[str, Any] = {
    "name": "race",
    "tokenizer": {"vocab_size": 32_000},
    "model": {"norm": "pre", "dropout": 0.3},
    "train": {
        "batch_tokens": 25_088, "layout": "packed", "precision": "bfloat16",
        "schedule": "linear", "warmup_steps": 1_500, "peak_lr": 1.5e-3, "clip_norm": 1.0,
        "valid_sentences": 0, "valid_every": 1_000_000, "save_every": 1_000_000, "report_every": 200,
        "keep": 1, "average": 0, "tensorboard": False,
    },
    "decode": {"beam_size": 4, "length_penalty": 0.6, "batch_sentences": 500},
}  # fmt: skip
MARGIN = 10.0  # seconds for recording the rarer shapes, the last look at the loss and writing the weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepared", type=Path, required=True, help="a folder made by regard data prepare")
    parser.add_argument("--out", type=Path, required=True, help="folder for race.json, the translations and the log")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="another recipe value")
    run(parser.parse_args())


def rehearse(loop: Any) -> tuple[float, float]:
    """Seconds until the first update is done, and for one of the later ones; the weights stay as they are."""
    from itertools import islice

    updates = list(islice(loop.updates(), 24))

    def go(n: int) -> None:
        for update in updates[:n]:
            loop.update(update.batches, 0, update.n_tokens)  # the rate of step 0 is 0
        float(loop.update_loss)  # waits for the device

    go(1)
    first = time.time() - BEGAN
    go(24)  # these shapes have been recorded
    before = time.time()
    go(24)
    loop.optimiser.state.clear()
    loop.unreported.zero_()
    return first, (time.time() - before) / 24


def run(arguments: argparse.Namespace) -> None:
    from rich.console import Console

    from regard.config import resolve
    from regard.data.prepared import Prepared
    from regard.evaluate.bleu import bleu
    from regard.tasks.translation import Pairs, TranslationTask
    from regard.training.loop import Loop
    from regard.training.pairs import load_translator
    from regard.training.run import Run

    prepared, seconds = Prepared.open(arguments.prepared), 60 * arguments.minutes
    recipe = resolve(RECIPE, arguments.set)
    console = Console(stderr=True)
    valid = prepared.corpus("valid")
    if valid is None:
        raise SystemExit(f"{prepared.folder} has no validation text: prepare it with --valid.")
    task = TranslationTask(recipe, prepared.tokenizers, Pairs(*prepared.train), valid)
    shutil.rmtree(arguments.out, ignore_errors=True)
    place = Path(tempfile.mkdtemp()) / "run"
    with Run.claim(place, recipe, False).training(recipe):
        shutil.copytree(prepared.folder / "tokenizer", place / "tokenizer")
        loop = Loop(task, recipe.train, Run(place), console)
        first, pace = rehearse(loop)
        steps = int((seconds - MARGIN - (time.time() - BEGAN)) / (1.03 * pace))
        loop.config = dataclasses.replace(recipe.train, steps=steps)
        console.print(f"First step after {first:.1f} s; {pace * 1e3:.1f} ms a step: {steps:,} steps.")
        loop.train()
        took = time.time() - BEGAN
    if took > seconds:
        raise SystemExit(f"The weights were ready after {took:.1f} s, which is too late.")
    translator = load_translator(place, weights="last")
    translations = translator.translate(valid.source)
    score = bleu(translations, valid.target)
    outcome = {
        "bleu": score.value, "signature": score.signature, "steps": steps, "ms_per_step": 1e3 * pace,
        "seconds_to_first_step": first, "seconds": took, "device": str(loop.device),
        "recipe": dataclasses.asdict(recipe),
    }  # fmt: skip
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "race.json").write_text(json.dumps(outcome, indent=1) + "\n")
    (arguments.out / "translations.txt").write_text("\n".join(translations) + "\n", encoding="utf-8")
    shutil.copy(place / "log.jsonl", arguments.out / "log.jsonl")
    print(f"{score}   {steps:,} steps in {took:.1f} s, the first after {first:.1f} s")


if __name__ == "__main__":
    main()
