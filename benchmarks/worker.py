"""One system in a process of its own, so that allocator, compiler caches, threads and peak memory are its own.

It answers the parent in JSON lines: one when the first update is done, one when warmed up, and then one for each
request, `{"do": "round", "batches": [...]}`, `{"do": "profile"}` or `{"do": "peak"}`. Between requests it waits on
its standard input and computes nothing.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import torch

from benchmarks import batches, profiling
from benchmarks.setting import Setting, System

GIB = 2**30


def serve(name: str, folder: Path) -> None:
    """Be the worker `name` of the run whose setting and batches lie in `folder`."""
    # Libraries print to standard output when they please: the parent gets a descriptor of its own.
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        answer_all(name, folder, channel)
    except ModuleNotFoundError as error:
        traceback.print_exc()
        tell(channel, error=f"not installed: {error.name}")
    except torch.OutOfMemoryError:
        traceback.print_exc()
        tell(channel, error="out of memory")
    except Exception as error:
        traceback.print_exc()
        tell(channel, error=f"{type(error).__name__}: {error}".splitlines()[0][:300])


def answer_all(name: str, folder: Path, channel: TextIO) -> None:
    setting = Setting.of(json.loads((folder / "setting.json").read_text()))
    device = torch.device(setting.device)
    if setting.threads:
        torch.set_num_threads(setting.threads)
    torch.manual_seed(setting.seed)
    if name == "peak":
        tell(channel, machine=machine(device), versions=versions())
        answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {"peak": lambda _: {"flops": peak(device)}}
    else:
        runner = Runner(builder(name)(setting, device), batches.load(folder / "batches.npz"), setting, device)
        tell(channel, loss=runner.run(setting.warmup_batches()[:1])["loss"])
        tell(channel, **runner.run(setting.warmup_batches()[1:]))
        answers = {"round": lambda request: runner.run(request["batches"]), "profile": lambda _: runner.profile()}
    for line in sys.stdin:
        request = json.loads(line)
        tell(channel, **answers[request["do"]](request))


def tell(channel: TextIO, **message: Any) -> None:
    channel.write(json.dumps(message) + "\n")


def builder(name: str) -> Callable[[Setting, torch.device], System]:
    """The function that builds a system; a peer's library is imported only in its own process."""
    if name in ("regard", "regard-plain"):
        from benchmarks import ours

        return {"regard": ours.build_ours, "regard-plain": ours.build_plain}[name]
    from benchmarks import peers

    return {
        "torch": peers.build_torch,
        "marian": peers.build_marian,
        "marian-compiled": peers.build_marian_compiled,
        "x-transformers": peers.build_x_transformers,
    }[name]


class Runner:
    """A system with its batches: rounds of updates between two synchronisations of the device."""

    def __init__(self, system: System, corpus: list[batches.Batch], setting: Setting, device: torch.device) -> None:
        self.system, self.corpus, self.setting, self.device = system, corpus, setting, device
        self.prepared: dict[int, Any] = {}

    def run(self, numbers: list[int]) -> dict[str, Any]:
        """Train on the batches `numbers`; making their tensors is not part of the time."""
        tensors = [self.tensors(number) for number in numbers]
        self.synchronise()
        start, worked = time.perf_counter(), time.process_time()
        losses = [self.system.update(batch) for batch in tensors]
        self.synchronise()
        seconds, worked = time.perf_counter() - start, time.process_time() - worked
        return {
            "seconds": seconds,
            "cpu_seconds": worked,  # of all threads; beside `seconds` it shows how much others held this round up
            "source_tokens": sum(self.corpus[number].source_tokens for number in numbers),
            "target_tokens": sum(self.corpus[number].target_tokens for number in numbers),
            "loss": float(losses[-1]) if losses else None,
            "peak_gib": peak_memory(self.device) / GIB,
        }

    def tensors(self, number: int) -> Any:
        """Kept where batches come again, made anew where they do not."""
        if number in self.prepared:
            return self.prepared[number]
        made = self.system.prepare(self.corpus[number])
        if self.setting.shapes == "repeated":
            self.prepared[number] = made
        return made

    def synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def profile(self) -> dict[str, Any]:
        tensors = [self.tensors(number) for number in self.setting.round_batches(0)]
        return profiling.profile(lambda: [self.system.update(batch) for batch in tensors], len(tensors), self.device)


def peak_memory(device: torch.device) -> int:
    """Bytes, at most, so far: what tensors took on the GPU, or what the whole process took."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    try:  # the kernel hands ru_maxrss on from the process that started this one; VmHWM is this one's own
        status = Path("/proc/self/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024
    except (OSError, StopIteration):
        unit = 1 if platform.system() == "Darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def peak(device: torch.device, tries: int = 7) -> float:
    """Operations a second of one large matrix product, the best of a few."""
    cuda = device.type == "cuda"
    n, repeats = (8192, 10) if cuda else (2048, 1)
    a, b = torch.randn(2, n, n, device=device, dtype=torch.bfloat16 if cuda else torch.float32)
    best = float("inf")
    for _ in range(tries):
        if cuda:
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(repeats):
            a @ b
        if cuda:
            torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / repeats)
    return 2 * n**3 / best


def machine(device: torch.device) -> str:
    """In words: `H200`, or `2 threads of Intel(R) Xeon(R) …`."""
    if device.type == "cuda":
        return torch.cuda.get_device_name().removeprefix("NVIDIA ")
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    threads = torch.get_num_threads()
    return f"{threads} thread{'s' if threads > 1 else ''} of {model}"


def versions() -> dict[str, str]:
    from importlib import metadata

    names = ("torch", "transformers", "x-transformers", "triton")
    found = {name: version for name in names if (version := installed(metadata.version, name))}
    return {"python": platform.python_version(), **found}


def installed(version: Callable[[str], str], name: str) -> str | None:
    try:
        return version(name)
    except ModuleNotFoundError:
        return None
