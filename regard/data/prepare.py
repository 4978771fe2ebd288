"""From the files people have to clean, tokenised, memory-mapped training data; `prepared.py` says what is written.

Records go through a few processes in chunks; what depends on all that came before, the duplicates, is judged in one
place and in order, so the result is the same whatever the number of processes. Memory holds some chunks, the
validation and test text, the sample a tokenizer is learned from, and the duplicates index, which alone grows with the
corpus.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from regard.config import TokenizerConfig
from regard.data import tokenizer as subwords
from regard.data.cleaning import Cleaning
from regard.data.duplicates import Duplicates
from regard.data.files import conversion, file_hash
from regard.data.filters import Chunk, Cleaned, Cleaner, Known, pair_keys
from regard.data.formats import Fields, Input, Left, find
from regard.data.pool import in_order
from regard.data.prepared import INDEX, SIDES, VERSION, Flat, fingerprint, written_whole
from regard.data.scripts import script_of
from regard.data.tally import HeldOut, InputTally, Tally
from regard.data.tokenizer import UNK, Ragged, TokenizerPair
from regard.errors import RegardError

FEW = 10  # bad records that are nothing to speak of, however small the file
CHUNK_PAIRS, CHUNK_CHARACTERS = 4096, 1 << 22
Progress = Callable[[str, int, float | None], None]  # the stage, pairs done in it, and what part that is, if known


@dataclass(frozen=True)
class Settings:
    """Everything that decides what is written."""

    languages: tuple[str, str]
    train: tuple[str, ...]
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    columns: tuple[int, int] | None = None
    keys: tuple[str, str] | None = None
    cleaning: Cleaning = field(default_factory=Cleaning)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    tokenizer_folder: str = ""  # use this one instead of learning one
    tokenizer_pairs: int = 250_000  # at most so many pairs, evenly spread over the text, to learn it from
    seed: int = 1
    keep_dropped: bool = False
    max_malformed: float = 0.1  # of the records of an input; more than that, and the file is not what it seems

    def inputs(self, split: str) -> list[Input]:
        fields = Fields(self.languages, self.columns, self.keys)
        return [find(text, split, fields) for text in getattr(self, split)]


def silent(stage: str, pairs: int, part: float | None) -> None:
    """No progress."""


def prepare(settings: Settings, out: Path, *, jobs: int = 0, force: bool = False, progress: Progress = silent) -> Tally:
    """Write the folder `out`, whole or not at all. 0 jobs: as many processes as there are cores."""
    if not settings.train:
        raise RegardError("There is nothing to prepare: give training text with --train.")
    train = settings.inputs("train")
    held_out = {split: inputs for split in ("valid", "test") if (inputs := settings.inputs(split))}
    tokenizers = TokenizerPair.load(Path(settings.tokenizer_folder)) if settings.tokenizer_folder else None
    tally = Tally(settings.languages, [tally_of(one) for one in train])
    with written_whole(out, force) as folder:
        work = Preparation(settings, folder, tally, jobs or os.cpu_count() or 1, progress)
        with tally.clock("valid and test"):
            known = work.hold_out(held_out)
        with tally.clock("cleaning"):
            blocks = work.clean(train, known)
        for one in tally.inputs:
            refuse_damage(one, settings.max_malformed)
        with tally.clock("tokenizer"):
            tokenizers = tokenizers or work.learn()
            tokenizers.save(folder / "tokenizer")
        with tally.clock("encoding"):
            work.encode(tokenizers, blocks)
        work.finish()
    return tally


def refuse_damage(one: InputTally, most: float) -> None:
    """A few bad records are left out; a file full of them has another encoding or another form than was thought."""
    if one.malformed > max(FEW, most * (one.pairs + one.malformed)):
        worst = max((kind for kind in one.left_out if kind.malformed), key=lambda kind: kind.count)
        raise RegardError(
            f"{one.name} is damaged or of another form: {worst}, of {one.pairs + one.malformed:,} records. Mend it "
            f"(text of another encoding with {conversion()}), or allow it with --max-malformed."
        )


def no_pairs(one: InputTally) -> str:
    """Why an input has given nothing."""
    why = "; ".join(str(kind) for kind in one.left_out) or "it is empty"
    return f"{one.name} gave no pair: {why}"


def tally_of(one: Input) -> InputTally:
    return InputTally(one.name, [str(file) for file in one.files], one.size)


# --- reading ---------------------------------------------------------------------------------------------


def held_out_pairs(split: str, one: Input, count: InputTally) -> Iterator[tuple[str, str]]:
    """Every pair of validation or test text; a damaged record is an error here."""
    for record in one:
        if not isinstance(record, Left):
            count.pairs += 1
            yield on_one_line(record[1]), on_one_line(record[2])
        elif record.malformed:
            raise RegardError(f"{one.name}, line {record.line}: {record.why}; {split} text must be sound.")
        else:
            count.leave(record.line, record.why, record.malformed)


def on_one_line(text: str) -> str:
    return text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def chunks(inputs: list[Input], report: Callable[[], None]) -> Iterator[Chunk]:
    """Records by the thousand, none of two inputs in one chunk."""
    for number, one in enumerate(inputs):
        sound = size = 0
        damaged: Left | None = None
        chunk = Chunk(number, [], [], [], [])
        for record in one:
            if isinstance(record, Left):
                chunk.left.append((record.line, record.why, record.malformed))
                damaged = damaged or (record if record.malformed else None)
            else:
                line, source, target = record
                chunk.lines.append(line)
                chunk.sources.append(source)
                chunk.targets.append(target)
                size += len(source) + len(target)
            if len(chunk.lines) == CHUNK_PAIRS or size >= CHUNK_CHARACTERS or len(chunk.left) == CHUNK_PAIRS:
                sound += len(chunk.lines)
                yield chunk
                report()
                chunk, size = Chunk(number, [], [], [], []), 0
        if damaged and not sound + len(chunk.lines):
            raise RegardError(f"{one.name} has no sound record; the first is line {damaged.line}: {damaged.why}.")
        yield chunk


# --- cleaning --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """A stretch of the clean text: its bytes in the two files."""

    pairs: int
    spans: tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class Preparation:
    """The stages, one after the other, each writing into the folder and counting in the tally."""

    settings: Settings
    folder: Path
    tally: Tally
    jobs: int
    progress: Progress
    files: dict[str, dict[str, Any]] = field(default_factory=dict)  # written so far: sizes and hashes

    def flat(self, data: str, offsets: str) -> list[Flat]:
        return [Flat(self.folder / f"train.{side}.{data}", self.folder / f"train.{side}.{offsets}") for side in SIDES]

    def hold_out(self, splits: dict[str, list[Input]]) -> Known | None:
        """Copy the validation and test text, and remember what must not be trained on."""
        seen: tuple[list[str], list[str]] = ([], [])
        for split, inputs in splits.items():
            held = HeldOut([tally_of(one) for one in inputs], 0, [])
            sides: tuple[list[str], list[str]] = ([], [])
            for one, count in zip(inputs, held.inputs, strict=True):
                for texts in held_out_pairs(split, one, count):
                    for side, text in zip(sides, texts, strict=True):
                        side.append(text)
            both = enumerate(zip(*sides, strict=True), start=1)
            held.pairs, held.empty_lines = len(sides[0]), [i for i, pair in both if not all(map(str.strip, pair))]
            if len(held.empty_lines) == held.pairs:
                raise RegardError(f"The {split} text ({', '.join(one.name for one in inputs)}) holds no sentence pair.")
            for name, lines, all_lines in zip(SIDES, sides, seen, strict=True):
                (self.folder / f"{split}.{name}").write_bytes("".join(f"{line}\n" for line in lines).encode())
                all_lines += lines
            self.tally.held_out[split] = held
        return Known.of(*seen) if splits else None

    def clean(self, inputs: list[Input], known: Known | None) -> list[Block]:
        """Write the clean text; returns the blocks it was written in."""
        rules, tally = self.settings.cleaning, self.tally
        for language in self.settings.languages:
            if rules.min_script and not script_of(language):
                tally.notes.append(f"the script of {language} is not known here: that side was not judged by it")
        size = sum(one.size for one in inputs) or 1

        def report() -> None:
            self.progress("cleaning", tally.read, sum(one.position for one in inputs) / size)

        cleaner = Cleaner(rules, self.settings.languages, known, self.settings.keep_dropped)
        duplicates = Duplicates(rules.duplicates, rules.targets_per_source)
        writers, blocks = self.flat("text", "lines"), []
        with rejects_file(self.folder if self.settings.keep_dropped else None) as rejects:
            for cleaned in in_order(cleaner, chunks(inputs, report), self.jobs):
                keep, again = judge(cleaned, duplicates)
                count(tally, cleaned, again)
                if rejects:
                    write_rejects(rejects, str(inputs[cleaned.chunk.input].files[0]), cleaned, again)
                starts = [writer.total for writer in writers]
                for writer, lines in zip(writers, (cleaned.sources, cleaned.targets), strict=True):
                    some = list(compress(lines, keep))
                    writer.append(b"".join(some), np.array([len(line) for line in some], dtype=np.int64))
                if keep.any():
                    spans = [(start, writer.total) for start, writer in zip(starts, writers, strict=True)]
                    blocks.append(Block(int(keep.sum()), (spans[0], spans[1])))
        tally.kept = sum(block.pairs for block in blocks)
        tally.index_bytes, tally.index_peak_bytes = duplicates.bytes, duplicates.peak_bytes
        silent_inputs = [no_pairs(one) for one in tally.inputs if not one.pairs]
        if not tally.kept and not tally.read:
            raise RegardError(f"There is no training text: {'; '.join(silent_inputs)}.")
        tally.notes += silent_inputs
        if not tally.kept:
            why = ", ".join(f"{step} {n:,}" for step, n in tally.steps().items() if n)
            raise RegardError(
                f"Nothing is left of the training text: {tally.read:,} pairs read, dropped {why or 'none'}; look at "
                "the input, or loosen or switch off the filters."
            )
        for writer in writers:
            self.files.update(writer.close())
        return blocks

    def learn(self) -> TokenizerPair:
        """Subwords from a bounded sample of the clean text."""
        self.progress("tokenizer", 0, None)  # how long learning takes is not known
        most = self.settings.tokenizer_pairs
        source, target = (sample(self.folder / f"train.{side}.text", self.tally.kept, most) for side in SIDES)
        return subwords.train(self.settings.tokenizer, source, target, self.settings.seed)

    def encode(self, tokenizers: TokenizerPair, blocks: list[Block]) -> None:
        """Write the tokens of the clean text."""
        tally, sizes = self.tally, [tokenizers.source.vocab_size, tokenizers.target.vocab_size]
        tally.vocabulary = f"{sizes[0]:,}" + (
            " subwords for both" if tokenizers.shared else f" and {sizes[1]:,} subwords"
        )
        tally.dtype = "uint16" if max(sizes) <= 1 << 16 else "int32"
        writers, unknown, done = self.flat("tokens", "offsets"), [0, 0], 0
        encoded = in_order(Encoder(self.folder, tally.dtype), blocks, self.jobs)
        for block, sides in zip(blocks, encoded, strict=True):
            for i, (tokens, lengths, strange) in enumerate(sides):
                writers[i].append(tokens, lengths)
                unknown[i] += strange
            done += block.pairs
            self.progress("encoding", done, done / tally.kept)
        tally.tokens, tally.unknown = (writers[0].total, writers[1].total), (unknown[0], unknown[1])
        for writer in writers:
            self.files.update(writer.close())

    def finish(self) -> None:
        """Write the index of the folder and the report."""
        tally, folder = self.tally, self.folder
        for path in sorted((*folder.glob("valid.*"), *folder.glob("test.*"), *folder.glob("tokenizer/*"))):
            self.files[str(path.relative_to(folder))] = {"bytes": path.stat().st_size, "sha256": file_hash(path)}
        index = {
            "version": VERSION, "languages": list(tally.languages), "pairs": tally.kept,
            "tokens": dict(zip(SIDES, tally.tokens, strict=True)), "dtype": tally.dtype,
            "fingerprint": fingerprint(self.files), "read": tally.read, "dropped": tally.steps(),
            "settings": asdict(self.settings),
            "inputs": [{"name": one.name, "files": one.files, "bytes": one.bytes} for one in tally.inputs],
            "files": self.files,
        }  # fmt: skip
        for name, values in ((INDEX, index), ("report.json", tally.plain())):
            (folder / name).write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        (folder / "report.txt").write_text(tally.text(), encoding="utf-8")


def judge(cleaned: Cleaned, duplicates: Duplicates) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Which pairs to keep now that it is known what came before, and the reasons against the others."""
    pairs = pair_keys(cleaned.near_sources, cleaned.near_targets)
    again = duplicates.reasons(cleaned.exact, pairs, cleaned.near_sources)
    keep = np.ones(len(cleaned.lines), dtype=bool)
    for mask in again.values():
        keep &= ~mask
    return keep, again


def count(tally: Tally, cleaned: Cleaned, again: dict[str, np.ndarray]) -> None:
    one = tally.inputs[cleaned.chunk.input]
    one.pairs += cleaned.n_read
    for line, why, malformed in cleaned.chunk.left:
        one.leave(line, why, malformed)
        tally.dropped["malformed"] += malformed
    tally.dropped.update(reason for _, reason, _, _ in cleaned.dropped)
    tally.dropped.update({reason: int(mask.sum()) for reason, mask in again.items()})
    tally.normalized += cleaned.normalized


@contextmanager
def rejects_file(folder: Path | None) -> Iterator[gzip.GzipFile | None]:
    """Where the pairs left out are written, if they are; the same pairs give the same bytes."""
    if folder is None:
        yield None
    else:
        with gzip.GzipFile(folder / "dropped.tsv.gz", "wb", 6, mtime=0) as file:
            yield file


def write_rejects(file: gzip.GzipFile, name: str, cleaned: Cleaned, again: dict[str, np.ndarray]) -> None:
    """A line for each pair left out: reason, file, line, source, target."""
    rows = [(line, f"{'malformed: ' * malformed}{why}", "", "") for line, why, malformed in cleaned.chunk.left]
    rows += cleaned.dropped
    for reason, mask in again.items():
        for i in np.flatnonzero(mask):
            rows.append((cleaned.lines[i], reason, cleaned.sources[i].decode(), cleaned.targets[i].decode()))
    for line, reason, *texts in sorted(rows):
        cells = (reason, name, str(line), *(" ".join(text.split()) for text in texts))
        file.write(("\t".join(cells) + "\n").encode())


# --- subwords --------------------------------------------------------------------------------------------


def sample(path: Path, n: int, most: int) -> Iterator[str]:
    """At most so many of a file's `n` lines, evenly spread."""
    some = min(n, most)
    with path.open("rb") as file:
        for i, line in enumerate(file):
            if i * some // n != (i + 1) * some // n:
                yield line.decode().rstrip("\n")


class Encoder:
    """Blocks of clean text in; token numbers and lengths of both sides out."""

    def __init__(self, folder: Path, dtype: str) -> None:
        self.folder, self.dtype = folder, dtype
        self.tokenizers: TokenizerPair | None = None  # loaded in the process that uses it

    def __call__(self, block: Block) -> list[tuple[bytes, np.ndarray, int]]:
        self.tokenizers = self.tokenizers or TokenizerPair.load(self.folder / "tokenizer")
        little = np.dtype(self.dtype).newbyteorder("<")
        found = []
        for side, (start, end) in zip(SIDES, block.spans, strict=True):
            with (self.folder / f"train.{side}.text").open("rb") as file:
                file.seek(start)
                lines = file.read(end - start).decode().split("\n")[:-1]
            tokens = Ragged.of(getattr(self.tokenizers, side).encode(lines, threads=1))
            unknown = int((tokens.values == UNK).sum())
            found.append((tokens.values.astype(little).tobytes(), tokens.lengths, unknown))
        return found
