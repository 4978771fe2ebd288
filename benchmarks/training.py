"""Training speed of our Transformer and its peers on the same batches, in one run, interleaved, as ratios.

    PYTHONPATH=. python benchmarks/training.py --model base --out results

Each system works in a process of its own (`worker.py`). The parent asks them for rounds in turn, another one first
each time, and only one computes at a time: what the machine does in some minute it does to all of them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import batches, profiling, report
from benchmarks.setting import CPU_VOCAB, MODELS, SYSTEMS, Setting

ROOT = Path(__file__).resolve().parent.parent
MEMORY_MARGIN = 1.5  # waiting workers keep what they have, and a machine that runs out of memory measures nothing


class WorkerFailed(Exception):
    """A system cannot go on; the others can."""


class Worker:
    """The parent's end of a worker process."""

    def __init__(self, name: str, folder: Path, threads: int, script: str = __file__) -> None:
        self.name, self.log = name, folder / f"{name}.log"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *old_path()])}
        if threads:
            environment["OMP_NUM_THREADS"] = str(threads)
        command = [sys.executable, script, "--worker", name, "--folder", str(folder)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # its last words, if any, are still to be read
        return self.hear()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            raise WorkerFailed(f"killed by signal {-code}" if code < 0 else f"ended with status {code}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkerFailed(answer["error"])
        return answer

    def stop(self) -> None:
        """Closing its input ends a worker that waits; one that still computes is ended."""
        assert self.process.stdin
        try:
            self.process.stdin.close()
            self.process.wait(timeout=20)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


def old_path() -> list[str]:
    return [path for path in [os.environ.get("PYTHONPATH", "")] if path]


class Run:
    """One benchmark: its workers and what they have answered."""

    def __init__(self, setting: Setting, corpus: list[batches.Batch], folder: Path, out: Path | None) -> None:
        self.setting, self.folder, self.out = setting, folder, out
        (folder / "setting.json").write_text(json.dumps(setting.plain()))
        batches.save(folder / "batches.npz", corpus)
        self.workers: dict[str, Worker] = {}
        self.result: dict[str, Any] = {
            "setting": setting.plain(), "machine": setting.device, "versions": {}, "peak_flops": None,
            "padding": batches.padding(corpus), "summary": {},
            "systems": {name: {"error": None, "rounds": []} for name in setting.systems},
        }  # fmt: skip

    def measure(self) -> None:
        peak = self.start_peak()
        for name in self.setting.systems:
            self.start(name)
        for number in range(self.setting.rounds):
            order = rotated(list(self.workers), number)
            for place, name in enumerate(order):
                self.round(name, number, place)
            self.keep()
        if peak:
            self.measure_peak(peak)  # again: a machine shared with others may have been held up the first time
        self.keep()

    def start(self, name: str) -> None:
        """Start a system and warm it up. The first step is timed from before the process exists."""
        largest = max((s["warmup"]["peak_gib"] for s in self.result["systems"].values() if "warmup" in s), default=0.0)
        if self.setting.device == "cpu" and free_gib() < MEMORY_MARGIN * largest:
            reason = f"not started: {free_gib():.1f} GiB free, and another system took {largest:.1f}"
            self.result["systems"][name]["error"] = reason
            say(f"{name}: {reason}; name fewer --systems")
            return
        began = time.perf_counter()
        worker = self.workers[name] = Worker(name, self.folder, self.setting.threads)
        system = self.result["systems"][name]
        try:
            system["first_loss"] = worker.hear()["loss"]
            system["first_step_s"] = time.perf_counter() - began
            system["warmup"] = worker.hear()
            first, warm = system["first_step_s"], time.perf_counter() - began
            say(f"{name}: first step after {first:.1f} s, warm after {warm:.1f} s")
        except WorkerFailed as failure:
            self.drop(name, failure)

    def round(self, name: str, number: int, place: int) -> None:
        try:
            answer = self.workers[name].ask(do="round", batches=self.setting.round_batches(number))
        except WorkerFailed as failure:
            self.drop(name, failure)
            return
        self.result["systems"][name]["rounds"].append(report.record(self.setting, answer, number, place))
        speed = answer["target_tokens"] / answer["seconds"]
        say(f"round {number + 1}, {name}: {speed:,.0f} target tok/s, loss {answer['loss']:.3f}")

    def drop(self, name: str, failure: WorkerFailed) -> None:
        self.result["systems"][name]["error"] = str(failure)
        worker = self.workers.pop(name)
        worker.stop()
        say(f"{name}: {failure}")
        if self.out:
            self.out.mkdir(parents=True, exist_ok=True)
            (self.out / f"{name}.log").write_bytes(worker.log.read_bytes())

    def start_peak(self) -> Worker | None:
        worker = self.workers["peak"] = Worker("peak", self.folder, self.setting.threads)
        try:
            self.result |= worker.hear()
            self.measure_peak(worker)
        except WorkerFailed as failure:
            say(f"no matrix product could be measured: {failure}")
            worker.stop()
        return self.workers.pop("peak") if self.result["peak_flops"] else None

    def measure_peak(self, worker: Worker) -> None:
        found = worker.ask(do="peak")["flops"]
        self.result["peak_flops"] = max(found, self.result["peak_flops"] or 0.0)

    def keep(self) -> None:
        self.result["summary"] = report.summary(self.setting, self.result["systems"], self.result["peak_flops"])
        if self.out:
            report.save(self.result, self.out)

    def profile(self) -> None:
        """Where the time of our fast path goes; after the rounds, which it would slow down."""
        try:
            found = self.workers[report.OURS].ask(do="profile")
        except (KeyError, WorkerFailed) as failure:
            say(f"no profile of {report.OURS}: {failure}")
            return
        page = profiling.page(found, report.title(self.setting, self.result["machine"]))
        print(page)
        if self.out:
            (self.out / "profile.md").write_text(page, encoding="utf-8")

    def close(self) -> None:
        for worker in self.workers.values():
            worker.stop()


def free_gib() -> float:
    """Main memory that could be had now; without end where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return math.inf
    return next((int(line.split()[1]) / 2**20 for line in lines if line.startswith("MemAvailable")), math.inf)


def rotated(names: list[str], number: int) -> list[str]:
    first = number % len(names) if names else 0
    return names[first:] + names[:first]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# --- the command line ------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--model", choices=MODELS, default="base")
    add("--systems", default=",".join(SYSTEMS), help="which, with commas between; all: %(default)s")
    add("--shapes", choices=("repeated", "real"), default="repeated",
        help="few batches again and again, or every batch of a shape of its own, as in a real corpus")  # fmt: skip
    add("--sentences", choices=tuple(batches.LENGTHS), default="short", help="lengths of generated sentences")
    add("--data", type=Path, help="a folder with parallel text, train.en and train.de, to use instead")
    add("--languages", default="en,de", help="of --data; source first")
    add("--cache", type=Path, help="where the tokens of --data are kept; the system's temporary folder")
    add("--budget", type=int, help="real tokens of a batch, per side; 25,088 on a GPU, 4,100 on a CPU")
    add("--batches", type=int, help="for repeated shapes; 24 on a GPU, 4 on a CPU")
    add("--rounds", type=int, default=9)
    add("--updates", type=int, help="per round; 10 on a GPU, on a CPU 2 for small models and 1 for others")
    add("--dropout", type=float, help="0.1; 0.3 for big")
    add("--vocab", type=int, help="37,000; 8,000 for small, and for base on a CPU")
    add("--threads", type=int, default=0)
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("--seed", type=int, default=1)
    add("--profile", action="store_true", help="also show where the time of regard goes")
    add("--out", type=Path, help="a folder for training.json, training.md, training.png and profile.md")
    add("--worker", help=argparse.SUPPRESS)
    add("--folder", type=Path, help=argparse.SUPPRESS)
    return parser


def setting_of(options: argparse.Namespace) -> Setting:
    device = options.device if options.device != "auto" else available()
    cpu = device == "cpu"
    model = MODELS[options.model]
    vocab = options.vocab or (CPU_VOCAB.get(options.model) if cpu else None) or model.vocab_size
    model = replace(model, vocab_size=vocab, dropout=model.dropout if options.dropout is None else options.dropout)
    updates = options.updates or ((2 if options.model in ("toy", "small") else 1) if cpu else 10)
    repeated = options.batches or (4 if cpu else 24)
    warmup = repeated if options.shapes == "repeated" else (3 if cpu else 10)
    systems = tuple(options.systems.split(","))
    if unknown := set(systems) - set(SYSTEMS):
        raise SystemExit(f"No system {', '.join(sorted(unknown))}; there are {', '.join(SYSTEMS)}.")
    return Setting(
        options.model, model, device, systems, options.shapes,
        options.data.name if options.data else options.sentences,
        options.budget or (4_100 if cpu else 25_088),
        repeated if options.shapes == "repeated" else warmup + options.rounds * updates,
        options.rounds, updates, warmup, options.threads, seed=options.seed,
    )  # fmt: skip


def available() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def corpus_of(options: argparse.Namespace, setting: Setting) -> list[batches.Batch]:
    if options.data:
        languages = options.languages.split(",")
        pairs = batches.real(options.data, languages, setting.model.vocab_size, options.cache)
    else:
        pairs = batches.generated(setting.sentences, setting.budget, setting.seed)
    return batches.choose(pairs, setting)


def main() -> None:
    options = parser().parse_args()
    if options.worker:
        from benchmarks import worker

        worker.serve(options.worker, options.folder)
        return
    setting = setting_of(options)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(setting, corpus_of(options, setting), Path(folder), options.out)
        try:
            run.measure()
            report.show(run.result)
            if options.out:
                report.draw(run.result, options.out / "training.png")
            if options.profile:
                run.profile()
        finally:
            run.close()


if __name__ == "__main__":
    main()
