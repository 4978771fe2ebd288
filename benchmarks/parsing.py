"""Sentences a minute that a parser parses, greedy and by beam, with the grammar and without.

    python benchmarks/parsing.py RUN --threads 2 --out FOLDER

The sentences are the test part of the run's recipe, or of --trees. Every way of searching parses all of them once a
round, another one first in each round; the speed is that of the median round. F1 and malformed outputs are told beside
it, so that nobody compares the speed of nonsense.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from regard.data.treebank import Treebank, load
from regard.data.trees import read_trees
from regard.decode.parser import Parser
from regard.tasks.parsing import Judged
from regard.training.parsing import load_parser, recipe_of
from regard.training.run import Run

WAYS: dict[str, dict[str, Any]] = {
    "greedy, free": {"beam_size": 1, "constrained": False},
    "greedy, constrained": {"beam_size": 1, "constrained": True},
    "beam, constrained": {"constrained": True},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run of task = parsing")
    parser.add_argument("--trees", type=Path, help="gold trees; else the test part of the recipe")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--out", type=Path, required=True, help="folder for parsing.json and parsing.md")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    recipe = recipe_of(Run.open(arguments.run))
    gold = Treebank.of("trees", read_trees(arguments.trees)) if arguments.trees else load(recipe.data, "test")
    gold = Treebank(gold.name, gold.gold[: arguments.sentences])
    model = load_parser(arguments.run, device=arguments.device)
    model.config = model.options(batch_sentences=arguments.batch)
    ways = {way: WAYS[way] for way in arguments.ways}
    rows = measure(model, gold, ways, arguments.rounds)
    machine = torch.cuda.get_device_name() if model.device.type == "cuda" else f"{arguments.threads} CPU threads"
    words = sum(map(len, gold.words)) / len(gold)
    head = f"{len(gold):,} sentences of {words:.1f} words on average, {arguments.batch} at a time, {machine}."
    table = "\n".join([head, "", *lines(rows)])
    arguments.out.mkdir(parents=True, exist_ok=True)
    record = {"machine": machine, "sentences": len(gold), "words": words, "ways": rows}
    (arguments.out / "parsing.json").write_text(json.dumps(record, indent=1) + "\n")
    (arguments.out / "parsing.md").write_text(table + "\n")
    print(table)


def measure(model: Parser, gold: Treebank, ways: dict[str, dict[str, Any]], rounds: int) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    judged: dict[str, Judged] = {}
    for options in ways.values():  # warm up
        model.trees(gold.words[:4], **options)
    for round_ in range(rounds):
        names = list(ways)
        for way in names[round_ % len(names) :] + names[: round_ % len(names)]:
            began = time.perf_counter()
            found = model.trees(gold.words, **ways[way])
            seconds[way].append(time.perf_counter() - began)
            judged[way] = Judged.of_parses(gold.gold, [best[0] for best in found])
    return {
        way: {
            "sentences_per_minute": 60 * len(gold) / statistics.median(seconds[way]),
            "symbols_per_sentence": sum(len(one.symbols) for one in judged[way].parsed) / len(gold),
            "f1": judged[way].total.labelled.f1,
            "malformed": judged[way].repairs.rate,
            "seconds": seconds[way],
        }
        for way in ways
    }


def lines(rows: dict[str, Any]) -> list[str]:
    told = ["| | sentences a minute | symbols a sentence | F1 | malformed, % |", "|---|--:|--:|--:|--:|"]
    for way, row in rows.items():
        told.append(
            f"| {way} | {row['sentences_per_minute']:,.0f} | {row['symbols_per_sentence']:.1f} | {row['f1']:.2f} | "
            f"{row['malformed']:.1f} |"
        )
    return told


if __name__ == "__main__":
    main()
