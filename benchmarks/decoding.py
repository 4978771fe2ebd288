"""Decoding speed of our engines and their peers on the same weights and sentences, in one run, as ratios.

    PYTHONPATH=. python benchmarks/decoding.py --model base --text FILE --out results

Raw text goes in and raw text comes out. All systems have the same weights, in which the end symbol is never likely, so
that every output has the same length whoever makes it. Bulk: all sentences at once, each system with the batch and the
threads that suit it best, found before the rounds. Single: one sentence after another, as a user waits for it.

Each system works in a process of its own (`decoders.py`). The parent asks them in turn, another one first each time,
and only one computes at a time: what the machine does in some minute it does to all of them.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from importlib import metadata
from itertools import product
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.decoders import BY_HAND, SYSTEMS, Task, serve, splits
from benchmarks.profiling import page
from benchmarks.setting import MODELS
from benchmarks.training import Worker, WorkerFailed, available, rotated, say

MODES = ("bulk", "single")
OURS, PEER = "regard", "transformers"
COLUMNS = (
    "system", "beam", "sentences/s", f"× {PEER} (min–max)", "× by hand", "processor time: × transformers", "batch",
    "threads", "peak GiB",
)  # fmt: skip
SINGLE_COLUMNS = ("system", "beam", "p50 ms", "p99 ms", f"× {PEER} (min–max)", "× by hand", "threads")
NEVER = -1e4  # the bias of symbols that are not to come out, the end among them
EXPORTS = {PEER: ("marian", "float32"), "ct2": ("ctranslate2", "float32"), "ct2-int8": ("ctranslate2", "int8")}
SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "il", "on", "us")]


# --- what is measured --------------------------------------------------------------------------------------


def generated(count: int, seed: int) -> list[str]:
    """Sentences of made-up words, some much more frequent than others, as long as those of news text."""
    chance = random.Random(seed)
    words = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 4))) for _ in range(60_000)]
    ranks = [1 / (10 + i) for i in range(len(words))]
    lengths = [max(3, min(80, round(chance.lognormvariate(3.0, 0.5)))) for _ in range(count)]
    return [" ".join(chance.choices(words, ranks, k=length)) for length in lengths]


def write_models(options: argparse.Namespace, systems: list[str], text: list[str], folder: Path) -> None:
    """The run and its exports: given or random weights, with a bias that never lets an output end."""
    import torch

    import regard
    from regard.config import resolve, to_dict
    from regard.data.tokenizer import BOS, EOS, PAD, UNK
    from regard.data.tokenizer import train as learn
    from regard.export.formats import export
    from regard.export.runs import write_run
    from regard.tasks.translation import build
    from regard.training.checkpoint import copy_weights, weights
    from regard.training.run import Run

    if options.run:
        given = regard.load(options.run, device="cpu")
        recipe, tokenizers, tensors = Run.open(options.run).pair_recipe, given.tokenizers, weights(given.model)
        if not tokenizers.shared:
            raise SystemExit("CTranslate2 by hand is set up for one vocabulary: give a run with tokenizer.shared.")
    else:
        size, tensors = MODELS[options.model], {}
        model = {name: getattr(size, name) for name in ("n_layers", "d_model", "d_ff", "n_heads")}
        vocab = options.vocab or (32_000 if options.model in ("base", "big") else size.vocab_size)
        recipe = resolve({"name": options.model, "model": model, "tokenizer": {"vocab_size": vocab}})
        tokenizers = learn(recipe.tokenizer, text, text, options.seed)
    recipe = resolve({**to_dict(recipe), "model": {**to_dict(recipe.model), "output_bias": True}})
    torch.manual_seed(options.seed)
    network = build(recipe, tokenizers)
    copy_weights(network, {**weights(network), **tensors})
    with torch.no_grad():
        network.output.bias[[PAD, BOS, UNK, EOS]] = NEVER
    write_run(folder / "run", recipe, tokenizers, weights(network))
    for system, (to, bits) in EXPORTS.items():
        if any(name.removeprefix("regard-") == system for name in systems):
            with export(folder / "run", to, folder / f"{to}-{bits}", bits):
                pass


def write_sentences(options: argparse.Namespace, folder: Path) -> list[str]:
    """The sentences to translate, for the workers; returns text to learn subwords from."""
    if options.text:
        from regard.data.files import read_lines

        text = [line for line in read_lines(options.text) if line.strip()]
    else:
        text = generated(max(options.sentences, 40_000 if options.model in ("base", "big") else 500), options.seed)
    chosen = random.Random(options.seed).sample(text, min(options.sentences, len(text)))
    (folder / "sentences.txt").write_text("\n".join(chosen) + "\n", encoding="utf-8")
    return text


# --- the run -----------------------------------------------------------------------------------------------


class Run:
    """One benchmark: its workers and what they have answered."""

    def __init__(self, options: argparse.Namespace, systems: list[str], folder: Path) -> None:
        self.options, self.folder = options, folder
        self.workers: dict[str, Worker] = {}
        self.result: dict[str, Any] = {
            "setting": {
                name: getattr(options, name) for name in (
                    "model", "device", "dtype", "length", "threads", "sentences", "single", "rounds", "batches", "beams"
                )
            },
            "machine": options.device, "versions": versions(), "errors": {}, "tried": {}, "best": {}, "rounds": [],
        }  # fmt: skip
        for name in systems:
            self.start(name)

    def start(self, name: str) -> None:
        worker = self.workers[name] = Worker(name, self.folder, self.options.threads, __file__)
        try:
            self.result["machine"] = worker.hear()["machine"]
        except WorkerFailed as failure:
            self.drop(name, failure)

    def drop(self, name: str, failure: WorkerFailed) -> None:
        self.result["errors"][name] = str(failure)
        worker = self.workers.pop(name)
        worker.stop()
        say(f"{name}: {failure}")
        if self.options.out:
            self.options.out.mkdir(parents=True, exist_ok=True)
            (self.options.out / f"{name}.log").write_bytes(worker.log.read_bytes())

    def measure(self) -> None:
        for mode, beam in product(self.options.modes.split(","), self.options.beams):
            for name in list(self.workers):
                self.tune(name, mode, beam)
            for number in range(self.options.rounds):
                for name in rotated(list(self.workers), number):
                    self.round(name, mode, beam, number)
                self.keep()

    def tune(self, name: str, mode: str, beam: int) -> None:
        """Find the batch and the threads that a system is fastest with, on some of the sentences. This warms up too."""
        options, found = self.options, []
        batches = options.batches if mode == "bulk" else [1]
        try:
            for batch, split in product(batches, splits(name, options.threads, options.device)):
                lines = min(options.sentences, max(2 * batch, options.tune) if mode == "bulk" else options.single)
                request = {"do": mode, "beam": beam, "batch": batch, "split": split, "lines": [0, lines]}
                self.workers[name].ask(**{**request, "lines": [0, min(lines, 2)]})  # what is opened or compiled first
                answer = self.workers[name].ask(**request)
                found.append((lines / answer["seconds"], batch, split))
        except WorkerFailed as failure:
            if not found:
                self.drop(name, failure)
                return
            self.restart(name, failure)
        speed, batch, split = max(found)
        self.result["tried"][f"{name} {mode} {beam}"] = found
        self.result["best"][f"{name} {mode} {beam}"] = {"batch": batch, "split": split}
        say(f"{mode}, beam {beam}, {name}: batch {batch}, threads {split[0]}×{split[1]}, {speed:,.1f} sentences/s")

    def restart(self, name: str, failure: WorkerFailed) -> None:
        """A batch too large for the memory ends a worker; smaller ones have been measured."""
        say(f"{name}: {failure}; with smaller batches it goes on")
        self.workers.pop(name).stop()
        self.start(name)

    def round(self, name: str, mode: str, beam: int, number: int) -> None:
        lines = self.options.sentences if mode == "bulk" else min(self.options.single, self.options.sentences)
        best = self.result["best"][f"{name} {mode} {beam}"]
        try:
            answer = self.workers[name].ask(do=mode, beam=beam, lines=[0, lines], **best)
        except WorkerFailed as failure:
            self.drop(name, failure)
            return
        record = {"system": name, "mode": mode, "beam": beam, "round": number, **answer}
        self.result["rounds"].append(record)
        say(f"round {number + 1}, {mode}, beam {beam}, {name}: {lines / answer['seconds']:,.1f} sentences/s")

    def profile(self) -> None:
        """Where the time of our torch engine goes; after the rounds, which it would slow down."""
        lines = {"bulk": self.options.sentences, "single": self.options.single}
        pages = []
        for mode, beam in product(self.options.modes.split(","), self.options.beams):
            best = self.result["best"].get(f"{OURS} {mode} {beam}")
            if not best or OURS not in self.workers:
                continue
            found = self.workers[OURS].ask(do=mode, beam=beam, lines=[0, lines[mode]], profile=True, **best)
            pages.append(page(found, title(self.result), f"{lines[mode]:,} sentences, {mode}, beam {beam},"))
        print("\n".join(pages))
        if self.options.out:
            (self.options.out / "profile.md").write_text("\n".join(pages), encoding="utf-8")

    def keep(self) -> None:
        """After every round, so that a run that is stopped leaves what it has."""
        out = self.options.out
        if out:
            out.mkdir(parents=True, exist_ok=True)
            (out / "decoding.json").write_text(json.dumps(self.result, indent=1, ensure_ascii=False) + "\n")
            (out / "decoding.md").write_text(markdown(self.result), encoding="utf-8")

    def close(self) -> None:
        for worker in self.workers.values():
            worker.stop()


def versions() -> dict[str, str]:
    found = {}
    for name in ("torch", "ctranslate2", "transformers", "sentencepiece"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


# --- what was found ----------------------------------------------------------------------------------------


def rounds_of(result: dict[str, Any], name: str, mode: str, beam: int) -> dict[int, dict[str, Any]]:
    chosen = (r for r in result["rounds"] if (r["system"], r["mode"], r["beam"]) == (name, mode, beam))
    return {r["round"]: r for r in chosen}


def ratio(result: dict[str, Any], name: str, other: str, mode: str, beam: int, clock: str = "seconds") -> list[float]:
    """How many times faster than another, round by round: smallest, median, largest. Empty where one is missing."""
    ours, theirs = (rounds_of(result, one, mode, beam) for one in (name, other))
    ratios = sorted(theirs[i][clock] / ours[i][clock] for i in ours if i in theirs)
    return [ratios[0], median(ratios), ratios[-1]] if ratios else []


def shown(found: list[float], spread: bool = True) -> str:
    if not found:
        return "–"
    return f"×{found[1]:.2f}" + (f" ({found[0]:.2f}–{found[2]:.2f})" if spread else "")


def rows(result: dict[str, Any], mode: str) -> list[list[str]]:
    cells = []
    for beam, name in product(result["setting"]["beams"], SYSTEMS):
        rounds = list(rounds_of(result, name, mode, beam).values())
        if not rounds:
            continue
        best = result["best"][f"{name} {mode} {beam}"]
        against = ratio(result, name, PEER, mode, beam) if name != PEER else []
        by_hand = ratio(result, name, BY_HAND[name], mode, beam) if name in BY_HAND else []
        threads = f"{best['split'][0]}×{best['split'][1]}"
        if mode == "bulk":
            work = ratio(result, name, PEER, mode, beam, "cpu_seconds") if name != PEER else []
            speed = median(r["sentences"] / r["seconds"] for r in rounds)
            peak = max(r["peak_gib"] for r in rounds)
            cells.append([
                name, str(beam), f"{speed:,.1f}", shown(against), shown(by_hand), shown(work, spread=False),
                str(best["batch"]), threads, f"{peak:.2f}",
            ])  # fmt: skip
        else:
            each = sorted(1e3 * seconds for r in rounds for seconds in r["each"])
            p99 = quantiles(each, n=100)[98] if len(each) > 1 else each[0]
            cells.append([
                name, str(beam), f"{median(each):,.1f}", f"{p99:,.1f}", shown(against), shown(by_hand), threads
            ])  # fmt: skip
    return cells


def title(result: dict[str, Any]) -> str:
    setting = result["setting"]
    precision = "float32" if setting["device"] == "cpu" else setting["dtype"]
    return f"{result['machine']}, {precision}: {setting['model']}, outputs of {setting['length']} tokens"


def markdown(result: dict[str, Any]) -> str:
    setting, lines = result["setting"], [f"### {title(result)}", ""]
    for mode, columns, what in (
        ("bulk", COLUMNS, "All sentences at once"),
        ("single", SINGLE_COLUMNS, "One at a time"),
    ):
        found = rows(result, mode)
        if found:
            count = setting["sentences"] if mode == "bulk" else setting["single"]
            lines += [
                f"{what} ({count:,} sentences):", "", "| " + " | ".join(columns) + " |",
                "|---|" + "--:|" * (len(columns) - 1), *("| " + " | ".join(row) + " |" for row in found), "",
            ]  # fmt: skip
    lines += [f"{name}: {error}." for name, error in result["errors"].items()]
    names = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return "\n".join([*lines, f"{setting['rounds']} rounds, interleaved. {names}."]) + "\n"


def draw(result: dict[str, Any], path: Path) -> None:
    """Bars of sentences a second in bulk, each with its ratio to transformers."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    bulk = {r["beam"] for r in result["rounds"] if r["mode"] == "bulk"}
    beams = [beam for beam in result["setting"]["beams"] if beam in bulk]
    if not beams:
        return
    figure, every = pyplot.subplots(1, len(beams), figsize=(6.5 * len(beams), 3.6), layout="constrained", squeeze=False)
    for axes, beam in zip(every[0], beams, strict=True):
        found = [(name, list(rounds_of(result, name, "bulk", beam).values())) for name in SYSTEMS]
        speeds = {name: median(r["sentences"] / r["seconds"] for r in rounds) for name, rounds in found if rounds}
        names = sorted(speeds, key=lambda name: speeds[name])
        colours = ["#d1495b" if name.startswith("regard") else "#8d99ae" for name in names]
        bars = axes.barh(names, [speeds[name] for name in names], color=colours)
        labels = [
            f"{speeds[name]:,.1f}  {shown(ratio(result, name, PEER, 'bulk', beam), spread=False)}" for name in names
        ]
        axes.bar_label(bars, labels, padding=4, fontsize=9)
        axes.set_xlim(0, 1.4 * max(speeds.values(), default=1.0))
        axes.set_xlabel("sentences per second, and times transformers")
        axes.set_title("greedy" if beam == 1 else f"beam {beam}", fontsize=9, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title(result), fontsize=9)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


# --- the command line ------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--model", choices=MODELS, default="base", help="the size of random weights")
    add("--run", type=Path, help="a run whose weights to use instead")
    add("--vocab", type=int, help="subwords; 32,000 for base and big")
    add("--text", type=Path, help="source sentences, one a line; else generated ones")
    add("--systems", default=",".join(SYSTEMS), help="which, with commas between; all: %(default)s")
    add("--modes", default=",".join(MODES), help="which; all: %(default)s")
    add("--beams", type=int, nargs="+", default=[1, 4])
    add("--length", type=int, default=32, help="tokens of every output")
    add("--sentences", type=int, help="in bulk; 512 on a CPU, 8,192 on a GPU")
    add("--single", type=int, help="one at a time, a round; 20 on a CPU, 100 on a GPU")
    add("--batches", type=int, nargs="+", help="to choose from; 16 64 256 on a CPU, 64 512 2048 on a GPU")
    add("--tune", type=int, help="sentences at least to choose with; four large batches on a CPU, 2,048 on a GPU")
    add("--rounds", type=int, default=5)
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("--dtype", choices=("float32", "bfloat16", "float16"), help="float32 on a CPU, bfloat16 on a GPU")
    add("--threads", type=int, help="2 on a CPU")
    add("--seed", type=int, default=1)
    add("--profile", action="store_true", help="also show where the time of regard goes")
    add("--out", type=Path, help="a folder for decoding.json, decoding.md, decoding.png and profile.md")
    add("--worker", help=argparse.SUPPRESS)
    add("--folder", type=Path, help=argparse.SUPPRESS)
    return parser


def settle(options: argparse.Namespace) -> list[str]:
    """Fill in what depends on the device; returns the systems."""
    options.device = available() if options.device == "auto" else options.device
    cpu = options.device == "cpu"
    options.dtype = options.dtype or ("float32" if cpu else "bfloat16")
    options.threads = options.threads or 2
    options.sentences = options.sentences or (512 if cpu else 8192)
    options.single = options.single or (20 if cpu else 100)
    options.batches = options.batches or ([16, 64, 256] if cpu else [64, 512, 2048])
    options.tune = options.tune or (4 * max(options.batches) if cpu else 2048)  # fewer do not tell (docs/log.md)
    systems = str(options.systems).split(",")
    if unknown := set(systems) - set(SYSTEMS):
        raise SystemExit(f"No system {', '.join(sorted(unknown))}; there are {', '.join(SYSTEMS)}.")
    if unknown := set(options.modes.split(",")) - set(MODES):
        raise SystemExit(f"No mode {', '.join(sorted(unknown))}; there are {', '.join(MODES)}.")
    return systems


def main() -> None:
    options = parser().parse_args()
    if options.worker:
        serve(options.worker, options.folder)
        return
    systems = settle(options)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        Task(options.device, options.dtype, options.length, options.threads).save(folder)
        write_models(options, systems, write_sentences(options, folder), folder)
        run = Run(options, systems, folder)
        try:
            run.measure()
            print(markdown(run.result), end="")
            if options.out:
                draw(run.result, options.out / "decoding.png")
            if options.profile:
                run.profile()
        finally:
            run.close()
    if run.result["errors"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
