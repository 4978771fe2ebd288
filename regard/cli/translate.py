"""`regard translate`."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import (
    AsJson,
    BatchSentences,
    Beam,
    CoveragePenalty,
    DecodeSets,
    Device,
    Forbid,
    ForbidFile,
    GlossaryFile,
    Iterations,
    LengthCandidates,
    MaxLength,
    MinLength,
    NoRepeat,
    Normalization,
    Partners,
    Penalty,
    Precision,
    PrefixFile,
    PrefixText,
    Sample,
    Seed,
    Temperature,
    Threads,
    TopK,
    TopP,
    Unmet,
    Weights,
    console,
    given,
    on_interrupt,
    warn,
)
from regard.errors import RegardError
from regard.wording import counted

if TYPE_CHECKING:
    from regard.decode.stream import Asked, LineTranslator

LINE_SECONDS = 60.0  # between lines on the progress of a job whose stderr is no terminal
BATCHES = 32  # of a chunk, so that each is filled with sentences of like length


def translate(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="A run directory, or an export of one to ctranslate2 or safetensors."),
    ],
    source: Annotated[
        Path | None,
        typer.Option("--input", "-i", help="A text file, plain, .gz, .xz or .zst. Else stdin.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file to write; it appears when it is whole.", show_default=False),
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Begin --output anew, whatever there is of it.")] = False,
    chunk: Annotated[
        int | None,
        typer.Option(min=1, help="Lines of --input kept at once; a kill loses at most so many.", show_default=False),
    ] = None,
    engine: Annotated[str, typer.Option(help="What searches: see above.", metavar="auto|torch|ctranslate2")] = "auto",
    quantization: Annotated[
        str,
        typer.Option(help="Bits for CTranslate2; a run has float32 unless asked.", metavar="float32|int16|int8"),
    ] = "",
    compute_type: Annotated[
        str, typer.Option(help="CTranslate2's own setting, e.g. float16 on a GPU (not measured here).")
    ] = "default",
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
    coverage_penalty: CoveragePenalty = None,
    min_length: MinLength = None,
    max_length: MaxLength = None,
    no_repeat_ngram: NoRepeat = None,
    precision: Precision = None,
    partners: Partners = None,
    iterations: Iterations = None,
    length_candidates: LengthCandidates = None,
    glossary: GlossaryFile = None,
    forbid: Forbid = None,
    forbid_file: ForbidFile = None,
    prefix: PrefixText = None,
    prefixes: PrefixFile = None,
    unmet: Unmet = "stop",
    sample: Sample = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    sets: DecodeSets = None,
    weights: Weights = "auto",
    device: Device = "auto",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Translate stdin to stdout, or a file to a file, one sentence a line, in order.

    With --n-best, lines are NUMBER ||| TRANSLATION ||| SCORE [||| ALIGNMENT], numbered from 0. Otherwise the
    fields that --scores and --alignments add stand before and after the translation, separated by tabs.

    A file of any size goes through --input and --output in constant memory. Killed at any moment, the same command goes
    on where it was and ends with the same bytes; until then OUTPUT.part and OUTPUT.journal hold what there is.

    Engines: torch has every feature, in float32. ctranslate2 is faster on a CPU; a run is exported for it on first use,
    under RUN/exports. It ranks by |Y|^α and stops by its own rule, so for gnmt all that its beam has found is ranked
    again here: the best of those, not of all. auto is torch for a run, ctranslate2 for an export to it or with
    --quantization. What an engine cannot do is refused by name; but for an export under RUN/exports auto takes the
    run's own weights and torch instead, and says so.

    Phrases of --glossary come out and those of --forbid do not, whatever the beam, as whole words in the letters given;
    give each form of a word that matters. A glossary's terms are found in the source whatever their case.

    Examples:  echo "Is she sleeping?" | regard translate runs/demo

    echo "Is she sleeping?" | regard translate runs/demo --sample --temperature 0.8 --n-best 5

    regard translate runs/demo --engine ctranslate2 --quantization int8 -i corpus.en.gz -o corpus.de.gz
    """
    from regard.data.assemble import count_lines
    from regard.decode import jobs

    check(source, output, chunk, restart, verify_batch, unmet)
    chosen = decode_keys(sets)
    if source and output:
        jobs.check_paths(jobs.Job(source, output), restart)  # before a model is loaded
    asked = demands(glossary, forbid, forbid_file, prefix, prefixes)
    if prefixes and source and source.is_file():
        asked.check_lines(count_lines(source))
    import torch

    from regard.decode.stream import LineFormat, LineTranslator, Verifier
    from regard.export.choice import open_translator
    from regard.export.engines import Settings

    if threads:
        torch.set_num_threads(threads)
    typed = source is None and sys.stdin.isatty()
    settings = Settings(device="cpu" if device == "auto" else device, compute_type=compute_type)
    settings = settings.spread(torch.get_num_threads(), side_by_side=not typed)
    model = open_translator(
        run, engine, quantization, weights, device, settings, alignments=alignments, partners=partners or (),
        phrases=bool(asked), remark=warn, **given(
            blockwise=blockwise or None, beam_size=beam or (1 if blockwise else None), length_penalty=length_penalty,
            normalization=normalization, batch_sentences=batch,
            coverage_penalty=coverage_penalty, min_length=min_length, max_length=max_length, precision=precision,
            no_repeat_ngram=no_repeat_ngram, sample=sample or None, temperature=temperature, top_k=top_k, top_p=top_p,
            seed=seed, iterations=iterations, length_candidates=length_candidates,
        ) | chosen,
    )  # fmt: skip
    check_drawing(model.config.sample, beam, seed)
    if unmet == "stop":
        asked.check_glossary(model.spelling)
    if verify_batch and not model.engine and model.settled(model.config.precision) != "float32":
        raise RegardError("--verify-batch tells rounding from defects in float32 alone: add --precision float32.")
    style = LineFormat(n_best=n_best, scores=scores, as_json=as_json)
    verifier = Verifier(model) if verify_batch else None
    lines = LineTranslator(model, style, alignments, asked, unmet == "free", verifier, remark=warn)
    chunk = chunk or BATCHES * model.config.batch_sentences
    if source and output:
        where = settings.device if model.engine else model.device
        job = jobs.Job(source, output, chunk, deciding(lines), machine(where))
        with meter() as shown, on_interrupt(shown.at_stake):
            lines = replace(lines, progress=shown.line)
            n = jobs.run(job, lines, model.engine.at_once if model.engine else 1, restart, shown.chunk, warn)
        tell(lines)
        warn(f"{counted(n, 'line')} translated to {output}.")
        return
    if typed:
        warn("Type a sentence and Enter; Ctrl-D ends.")
    stream(source, chunk, lines)
    tell(lines)
    if verifier:
        warn(verifier.summary())
        if verifier.defects:
            raise typer.Exit(1)


def check(
    source: Path | None, output: Path | None, chunk: int | None, restart: bool, verify_batch: bool, unmet: str
) -> None:
    if output and not source:
        raise RegardError("--output needs --input, to be read again after a kill; without it, redirect stdout.")
    if chunk and not source:
        raise RegardError("--chunk is for --input: what comes on stdin is translated as it comes.")
    if restart and not output:
        raise RegardError("--restart is for --output.")
    if verify_batch and output:
        raise RegardError("--verify-batch is for a look at a few sentences: leave --output out.")
    if unmet not in ("stop", "free"):
        raise RegardError(f"--unmet {unmet}: choose stop or free.")


def decode_keys(sets: list[str] | None) -> dict[str, Any]:
    """What `--set` says, by keys of [decode]."""
    from regard.config.reading import parse_override

    pairs = dict(parse_override(text) for text in sets or ())
    for key in pairs:
        if not key.startswith("decode."):
            raise RegardError(
                f"--set {key}: of a finished run the keys of [decode] can be set, e.g. decode.max_source."
            )
    return {key.removeprefix("decode."): value for key, value in pairs.items()}


def check_drawing(sample: bool, beam: int | None, seed: int | None) -> None:
    if sample and beam:
        raise RegardError(
            "--sample draws and --beam searches: leave one of them out; --n-best says how many are drawn."
        )
    if seed is not None and not sample:
        raise RegardError("--seed is for drawing: add --sample.")


def demands(
    glossary: Path | None, forbid: list[str] | None, forbid_file: Path | None, prefix: str | None, prefixes: Path | None
) -> Asked:
    """What is asked of translations, files read."""
    from regard.data.files import read_lines
    from regard.decode.phrases import Glossary
    from regard.decode.stream import Asked

    if prefix and prefixes:
        raise RegardError("--prefix and --prefixes exclude each other.")
    if any(not phrase.strip() for phrase in forbid or ()):
        raise RegardError("--forbid is empty: give a phrase.")
    forbidden = [*(forbid or ()), *(read_lines(forbid_file) if forbid_file else ())]
    return Asked(
        Glossary.read(glossary) if glossary else Glossary(),
        tuple(phrase.strip() for phrase in forbidden if phrase.strip()),
        prefix or "",
        tuple(read_lines(prefixes)) if prefixes else None,
    )


def stream(source: Path | None, chunk: int, lines: LineTranslator) -> None:
    """Print translations as they come."""
    from regard.data.files import read_lines
    from regard.decode.stream import available_lines

    number = 0
    groups = available_lines(sys.stdin.buffer) if source is None else in_groups(read_lines(source), chunk)
    for group in groups:
        for text in lines(number, group):
            print(text)
        sys.stdout.flush()
        number += len(group)
    lines.asked.check_lines(number)


def tell(lines: LineTranslator) -> None:
    for remark in lines.tally.remarks():
        warn(remark)


def in_groups(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    while group := list(islice(lines, size)):
        yield group


def deciding(lines: LineTranslator) -> dict[str, Any]:
    """All that decides the output of a job beside its input."""
    from regard.export.engines import TorchEngine

    model = lines.model
    engine, asked = model.engine or TorchEngine(model), lines.asked
    return {
        **engine.identity(), **vars(model.config), **vars(lines.style), "alignments": lines.alignments,
        "phrases": digest(asked.glossary.entries, asked.forbidden), "prefixes": digest(asked.prefix, asked.prefixes),
    }  # fmt: skip


def digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def machine(device: object) -> dict[str, Any]:
    """What may round otherwise."""
    import torch

    return {"torch": torch.__version__, "threads": torch.get_num_threads(), "device": str(device)}


class Meter:
    """Lines, lines a second and time left: of this process, whatever an earlier one has done."""

    def __init__(self, show: Callable[..., None]) -> None:
        self.show, self.began, self.before = show, time.monotonic(), -1
        self.lines, self.per_line = 0, 0.0  # the part of the input that a line is, as far as is known
        self.kept = 0  # lines on the disk

    def at_stake(self) -> str:
        """What an interrupted user should know."""
        if not self.kept:
            return "No line is kept yet: the same command starts again."
        return f"{counted(self.kept, 'line')} {'is' if self.kept == 1 else 'are'} kept: the same command goes on there."

    def chunk(self, lines: int, part: float) -> None:
        self.kept = lines
        self.before = lines if self.before < 0 else self.before
        self.per_line = part / lines if lines else 0.0
        self.line(lines)

    def line(self, lines: int) -> None:
        self.lines = max(self.lines, lines)
        part, passed = min(1.0, self.lines * self.per_line), time.monotonic() - self.began
        speed = (self.lines - self.before) / passed if passed else 0.0
        left = (1 - part) / self.per_line / speed if speed and self.per_line else None
        clock = "" if left is None else f"{timedelta(seconds=round(left))} left"
        self.show(completed=part, lines=self.lines, speed=speed, left=clock)


@contextmanager
def meter() -> Iterator[Meter]:
    """A bar on stderr, or where that is no terminal a line now and then."""
    from rich import progress as rich

    columns = (
        rich.TextColumn("Translating"), rich.BarColumn(), rich.TextColumn("{task.percentage:>3.0f}%"),
        rich.TextColumn("{task.fields[lines]:,} sentences"),
        rich.TextColumn("{task.fields[speed]:,.1f}/s"), rich.TimeElapsedColumn(),
        rich.TextColumn("{task.fields[left]}"),
    )  # fmt: skip
    with rich.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("", total=1.0, lines=0, speed=0.0, left="")
        told = time.monotonic()

        def show(completed: float, lines: int, speed: float, left: str) -> None:
            nonlocal told
            shown.update(task, completed=completed, lines=lines, speed=speed, left=left)
            if not console.is_terminal and time.monotonic() - told >= LINE_SECONDS:
                told = time.monotonic()
                warn(f"{completed:.0%}, {counted(lines, 'line')}, {speed:,.1f} a second{left and f', {left}'}")

        yield Meter(show)
