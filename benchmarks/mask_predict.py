"""Mask-predict against its teacher's greedy search: quality, tokens a call and time, one sentence at a time.

    python benchmarks/mask_predict.py PUPIL --teacher TEACHER --out FOLDER

Both translate the same test text with a batch of 1, the pupil with every --iterations and --length-candidates. In each
round every system translates all of it once, another one first; the ratio is the median of the rounds'. Quality is BLEU
against the references, and against the teacher's own output.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

import regard
from regard.data.corpus import Corpus, load_required, read_pair
from regard.decode.translator import Translator
from regard.evaluate.bleu import bleu
from regard.training.run import Run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pupil", type=Path, help="a run of task = mask_predict")
    parser.add_argument("--teacher", type=Path, required=True, help="a run of task = translation")
    parser.add_argument("--source", type=Path, help="text to translate; else the test text of the pupil's recipe")
    parser.add_argument("--reference", type=Path, help="its translation")
    parser.add_argument("--iterations", type=int, nargs="+", default=[1, 4, 10])
    parser.add_argument("--length-candidates", type=int, nargs="+", default=[1, 3, 5])
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True, help="folder for mask_predict.json and mask_predict.md")
    arguments = parser.parse_args()
    if arguments.source:
        text = read_pair("text", arguments.source, arguments.reference)
    else:
        text = load_required(Run.open(arguments.pupil).pair_recipe.data, "test")
    text = Corpus(text.name, text.source[: arguments.sentences], text.target[: arguments.sentences])
    teacher, pupil = (regard.load(run, device=arguments.device) for run in (arguments.teacher, arguments.pupil))
    systems: dict[str, tuple[Translator, dict[str, Any]]] = {"teacher, greedy": (teacher, {"beam_size": 1})}
    for count in arguments.length_candidates:
        for iterations in arguments.iterations:
            options = {"iterations": iterations, "length_candidates": count}
            systems[f"T = {iterations}, ℓ = {count}"] = pupil, options
    rows = measure(systems, text, arguments.rounds)
    machine = (
        torch.cuda.get_device_name() if teacher.device.type == "cuda" else f"{torch.get_num_threads()} CPU threads"
    )
    table = "\n".join([f"Batch size 1, {len(text):,} sentences, {machine}, float32.", "", *lines(rows)])
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "mask_predict.json").write_text(json.dumps({"machine": machine, "systems": rows}, indent=1) + "\n")
    (arguments.out / "mask_predict.md").write_text(table + "\n")
    print(table)


def measure(systems: dict[str, tuple[Translator, dict[str, Any]]], text: Corpus, rounds: int) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    found = {}
    for model, options in systems.values():  # warm up
        model.search(text.source[:5], batch_sentences=1, **options)
    for round_ in range(rounds):
        names = list(systems)
        for name in names[round_ % len(names) :] + names[: round_ % len(names)]:
            model, options = systems[name]
            began = time.perf_counter()
            found[name] = [best[0] for best in model.search(text.source, batch_sentences=1, **options)]
            seconds[name].append(time.perf_counter() - began)
    first = next(iter(systems))
    theirs = [one.text for one in found[first]]
    rows = {}
    for name, translations in found.items():
        texts = [one.text for one in translations]
        tokens = sum(len(one.target_tokens) for one in translations)
        calls = sum(one.calls or len(one.target_tokens) for one in translations)
        ratios = [a / b for a, b in zip(seconds[first], seconds[name], strict=True)]
        rows[name] = {
            "bleu": bleu(texts, text.target, samples=0).value,
            "exact": sum(a == b for a, b in zip(texts, text.target, strict=True)) / len(texts),
            "bleu_to_teacher": bleu(texts, theirs, samples=0).value,
            "tokens_per_call": tokens / calls,
            "milliseconds": 1000 * statistics.median(seconds[name]) / len(texts),
            "speed_up": statistics.median(ratios),
            "speed_ups": ratios,
        }
    return rows


def lines(rows: dict[str, Any]) -> list[str]:
    told = [
        "| | BLEU | exact match | BLEU to the teacher | tokens a call | ms a sentence | speed-up |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, row in rows.items():
        told.append(
            f"| {name} | {row['bleu']:.2f} | {row['exact']:.1%} | {row['bleu_to_teacher']:.2f} | "
            f"{row['tokens_per_call']:.2f} | {row['milliseconds']:.1f} | ×{row['speed_up']:.2f} "
            f"({min(row['speed_ups']):.2f}–{max(row['speed_ups']):.2f}) |"
        )
    return told


if __name__ == "__main__":
    main()
