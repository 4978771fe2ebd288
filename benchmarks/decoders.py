"""What translates in the decoding benchmark: raw text to raw text, on the same weights, which never end an output.

    regard                          our torch engine
    regard-ct2, regard-ct2-int8     our pipeline with the CTranslate2 engine (`regard translate --engine ctranslate2`)
    ct2, ct2-int8                   CTranslate2 driven by hand: SentencePiece, `translate_batch`, SentencePiece
    transformers                    MarianTokenizer, `generate`, MarianTokenizer

Each works in a process of its own, as in `worker.py`, and answers `{"do": "bulk" or "single", "beam": …, "batch": …,
"split": [batches at a time, threads of each], "lines": …}` with seconds; with `"profile": true` it tells where they go.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.profiling import profile
from benchmarks.worker import GIB, machine, peak_memory, tell

SYSTEMS = ("regard", "regard-ct2", "regard-ct2-int8", "transformers", "ct2", "ct2-int8")
BY_HAND = {"regard-ct2": "ct2", "regard-ct2-int8": "ct2-int8"}
ALPHA = 0.6
SHOWN = 8  # texts of each round that are kept, to see that all do the same
Decode = Callable[[list[str]], list[str]]


@dataclass(frozen=True)
class Task:
    """Everything that decides a run, as the parent hands it to the workers."""

    device: str  # cpu, cuda
    dtype: str  # of torch's models and of CTranslate2 on a GPU
    length: int  # tokens of every output
    threads: int

    @classmethod
    def open(cls, folder: Path) -> Task:
        return cls(**json.loads((folder / "task.json").read_text()))

    def save(self, folder: Path) -> None:
        (folder / "task.json").write_text(json.dumps(asdict(self)))


@dataclass(frozen=True)
class Way:
    """One way of asking a system: how wide, how many sentences at once, with which threads."""

    beam: int
    batch: int
    split: tuple[int, int]


class Ours:
    """Our torch engine on the run."""

    def __init__(self, folder: Path, task: Task) -> None:
        import regard

        self.translator = regard.load(folder / "run", device=task.device)
        self.length, self.precision = task.length, task.dtype

    def decode(self, way: Way) -> Decode:
        return lambda lines: self.translator.translate(
            lines, beam_size=way.beam, batch_sentences=way.batch, length_penalty=ALPHA, max_length=self.length,
            extra_length=self.length, precision=self.precision,
        )  # fmt: skip


class OursOnCtranslate2:
    """Our pipeline with the CTranslate2 engine."""

    def __init__(self, folder: Path, task: Task, quantization: str) -> None:
        self.folder, self.task = folder / f"ctranslate2-{quantization}", task
        self.translators: dict[tuple[int, int], Any] = {}

    def decode(self, way: Way) -> Decode:
        if way.split not in self.translators:
            self.translators[way.split] = self.open(way.split)
        translator = self.translators[way.split]
        return lambda lines: translator.translate(
            lines, beam_size=way.beam, batch_sentences=way.batch, length_penalty=ALPHA, max_length=self.task.length,
            extra_length=self.task.length,
        )  # fmt: skip

    def open(self, split: tuple[int, int]) -> Any:
        from regard.export.choice import open_translator
        from regard.export.engines import Settings

        settings = Settings(self.task.device, compute_type(self.task), inter_threads=split[0], intra_threads=split[1])
        return open_translator(self.folder, settings=settings)


class ByHand:
    """CTranslate2 as its documentation drives it."""

    def __init__(self, folder: Path, task: Task, quantization: str) -> None:
        import sentencepiece

        self.folder, self.task = folder / f"ctranslate2-{quantization}", task
        self.pieces = sentencepiece.SentencePieceProcessor(str(self.folder / "tokenizer" / "shared.model"))
        self.translators: dict[tuple[int, int], Any] = {}

    def decode(self, way: Way) -> Decode:
        if way.split not in self.translators:
            self.translators[way.split] = self.open(way.split)
        translator, length = self.translators[way.split], self.task.length

        def translate(lines: list[str]) -> list[str]:
            found = translator.translate_batch(
                self.pieces.encode(lines, out_type=str), beam_size=way.beam, length_penalty=ALPHA,
                max_batch_size=way.batch, batch_type="examples", max_decoding_length=length,
            )  # fmt: skip
            return [self.pieces.decode(one.hypotheses[0]) for one in found]

        return translate

    def open(self, split: tuple[int, int]) -> Any:
        import ctranslate2

        return ctranslate2.Translator(
            str(self.folder), device=self.task.device, compute_type=compute_type(self.task), inter_threads=split[0],
            intra_threads=split[1],
        )  # fmt: skip


class Transformers:
    """transformers' generate on Marian, sentences sorted by length."""

    def __init__(self, folder: Path, task: Task) -> None:
        import transformers

        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        self.task, place = task, folder / "marian-float32"
        self.tokenizer = transformers.MarianTokenizer.from_pretrained(place)
        model = transformers.MarianMTModel.from_pretrained(place, dtype=getattr(torch, task.dtype))
        self.model = model.eval().to(task.device)
        self.model.generation_config.bad_words_ids = None  # it would only cost time
        self.model.generation_config.forced_eos_token_id = None

    def decode(self, way: Way) -> Decode:
        more = {"length_penalty": ALPHA} if way.beam > 1 else {}

        @torch.inference_mode()
        def translate(lines: list[str]) -> list[str]:
            order = sorted(range(len(lines)), key=lambda i: -len(lines[i]))
            found = [""] * len(lines)
            for start in range(0, len(order), way.batch):
                group = order[start : start + way.batch]
                batch = self.tokenizer([lines[i] for i in group], return_tensors="pt", padding=True)
                tokens = self.model.generate(
                    **batch.to(self.task.device), num_beams=way.beam, do_sample=False, max_length=None,
                    max_new_tokens=self.task.length, **more,
                )  # fmt: skip
                for i, text in zip(group, self.tokenizer.batch_decode(tokens, skip_special_tokens=True), strict=True):
                    found[i] = text
            return found

        return translate


def compute_type(task: Task) -> str:
    """CTranslate2's: what the folder has on a CPU, the precision of the run on a GPU."""
    return "default" if task.device == "cpu" else task.dtype


def build(name: str, folder: Path, task: Task) -> Any:
    if name == "regard":
        return Ours(folder, task)
    if name == "transformers":
        return Transformers(folder, task)
    kind = OursOnCtranslate2 if name.startswith("regard") else ByHand
    return kind(folder, task, "int8" if name.endswith("int8") else "float32")


def splits(name: str, threads: int, device: str) -> list[tuple[int, int]]:
    """The ways to spread threads that a system offers: batches at a time, threads of each."""
    if "ct2" not in name or device != "cpu" or threads == 1:
        return [(1, threads)]
    return [(threads, 1), (1, threads)]


# --- a system's process ------------------------------------------------------------------------------------


def serve(name: str, folder: Path) -> None:
    """Be the worker `name` of the run that lies in `folder`."""
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        task = Task.open(folder)
        torch.set_num_threads(task.threads)
        sentences = (folder / "sentences.txt").read_text(encoding="utf-8").splitlines()
        system = build(name, folder, task)
        tell(channel, machine=machine(torch.device(task.device)))
        for line in sys.stdin:
            request = json.loads(line)
            way = Way(request["beam"], request["batch"], tuple(request["split"]))
            lines = sentences[slice(*request["lines"])]
            run, device = {"bulk": bulk, "single": single}[request["do"]], torch.device(task.device)
            decode = system.decode(way)
            if request.get("profile"):
                tell(channel, **profile(partial(run, decode, lines), 1, device))
            else:
                tell(channel, **run(decode, lines), peak_gib=peak_memory(device) / GIB)
    except ModuleNotFoundError as error:
        traceback.print_exc()
        tell(channel, error=f"not installed: {error.name}")
    except Exception as error:
        traceback.print_exc()
        tell(channel, error=f"{type(error).__name__}: {error}".splitlines()[0][:300])


def bulk(decode: Decode, lines: list[str]) -> dict[str, Any]:
    """All lines at once."""
    start, worked = time.perf_counter(), time.process_time()
    texts = decode(lines)
    seconds, worked = time.perf_counter() - start, time.process_time() - worked
    assert len(texts) == len(lines)
    return {"seconds": seconds, "cpu_seconds": worked, "sentences": len(lines), "texts": texts[:SHOWN]}


def single(decode: Decode, lines: Sequence[str]) -> dict[str, Any]:
    """One line after another."""
    taken, worked = [], time.process_time()
    for line in lines:
        start = time.perf_counter()
        decode([line])
        taken.append(time.perf_counter() - start)
    return {"seconds": sum(taken), "each": taken, "cpu_seconds": time.process_time() - worked, "sentences": len(lines)}
