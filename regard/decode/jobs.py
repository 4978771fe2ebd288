"""Big jobs: a file of any size translated to another, in constant memory, and killed without loss.

Chunks of so many lines are translated one after the other, so that what is translated together follows from line
numbers alone. OUTPUT.part grows by a chunk at a time, and OUTPUT.journal by a line that says how far both files are:

    {"job": {…}, "machine": {…}}                               what decides the output, and what may round otherwise
    {"lines": 4096, "input": "sha256 …", "output": 250112}     after each chunk, once its text is on the disk
    {"done": 5000}                                             after the last

A job that is started again reads the journal, makes sure that the input so far is still the same, cuts OUTPUT.part
where the last line of the journal says, and goes on there. OUTPUT appears under its name when all of it is on the disk.
A compressed output has a part of its own for each chunk, which the formats allow, so that it can be cut as well.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import lzma
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any

from regard.data.files import PACKED, UNKNOWN, bounded_lines, decode_lines, open_bytes, open_file
from regard.errors import RegardError

Translate = Callable[[int, list[str]], list[str]]  # the number of the first line, from 0, and lines → what is written
DIGEST = re.compile("[0-9a-f]{64}")
Progress = Callable[[int, float], None]  # lines done, and the part of the input that they are, where that is known


@dataclass(frozen=True)
class Job:
    """A file to be translated to another."""

    input: Path
    output: Path
    chunk: int = 2048  # lines translated together
    decides: dict[str, Any] = field(default_factory=dict)  # all that decides the output beside the input
    machine: dict[str, Any] = field(default_factory=dict)  # what may round otherwise, where candidates are close

    @property
    def part(self) -> Path:
        return self.output.with_name(f"{self.output.name}.part")

    @property
    def journal(self) -> Path:
        return self.output.with_name(f"{self.output.name}.journal")

    def head(self) -> dict[str, Any]:
        """The first line of the journal, as it is read again."""
        head = {"job": {**self.decides, "chunk": self.chunk}, "machine": self.machine}
        plain: dict[str, Any] = json.loads(json.dumps(head))
        return plain


@dataclass(frozen=True)
class Place:
    """How far a job has come."""

    lines: int = 0
    input: str = hashlib.sha256().hexdigest()  # of the input's lines so far
    output: int = 0  # bytes of OUTPUT.part


@dataclass(frozen=True)
class Chunk:
    """Lines to be translated together, and the place after them."""

    first: int
    lines: list[str]
    digest: str
    part: float  # of the input that has been read


def run(
    job: Job,
    translate: Translate,
    at_once: int = 1,
    restart: bool = False,
    progress: Progress | None = None,
    remark: Callable[[str], None] = lambda text: None,
) -> int:
    """Translate the input to the output, going on where a killed job was; returns the number of lines.

    `at_once` chunks are translated by as many threads, and written in their order.
    """
    check_paths(job, restart)
    with claimed(job) as journal:
        if restart:  # in this order: a journal that says nothing of a part would be a damaged one
            job.part.unlink(missing_ok=True)
            flush_folder(job.part)
            journal.truncate(0)
        records = whole_records(job, journal)
        place = resume(job, journal, records, remark)
        lines = records[-1]["done"] if records and "done" in records[-1] else None
        if progress:
            progress(place.lines, 0.0)
        if lines is None:
            lines = write(job, journal, place, translated(chunks(job, place), translate, at_once), progress)
        if job.part.exists():  # else a kill came after it had got its name
            job.part.replace(job.output)
            flush_folder(job.output)
        job.journal.unlink()
    return int(lines)


def write(
    job: Job,
    journal: IO[bytes],
    place: Place,
    results: Iterable[tuple[Chunk, list[str]]],
    progress: Progress | None,
) -> int:
    """Write chunks as they come, each before the journal says so; returns the number of lines."""
    with job.part.open("r+b" if job.part.exists() else "w+b") as out:
        flush_folder(job.part)
        out.truncate(place.output)
        out.seek(place.output)
        for chunk, texts in results:
            content = packed(job.output, "".join(f"{text}\n" for text in texts))
            place = Place(chunk.first + len(chunk.lines), chunk.digest, place.output + len(content))
            out.write(content)
            settle(out)
            note(journal, vars(place))
            if progress:
                progress(place.lines, chunk.part)
        if not place.output:
            out.write(packed(job.output, ""))
            settle(out)
    note(journal, {"done": place.lines})
    return place.lines


def check_paths(job: Job, restart: bool) -> None:
    """Before anything is written: can the input be read, does the output have a place, does it overwrite nothing?"""
    open_file(job.input).close()
    if not job.output.parent.is_dir():
        raise RegardError(f"There is no folder {job.output.parent} for the output: make it first.")
    if job.output.is_dir():
        raise RegardError(f"{job.output} is a folder, not a file to write.")
    if job.output.exists() and job.output.samefile(job.input):
        raise RegardError(f"{job.input} cannot be its own translation: give another --output.")
    packed(job.output, "")
    if restart or job.journal.exists():
        return
    if job.output.exists():
        raise RegardError(f"{job.output} is there already: give another --output, or --restart to write it anew.")
    if job.part.exists():
        raise RegardError(f"{job.part} has lost its journal, so nothing can go on there: give --restart to begin anew.")


@contextmanager
def claimed(job: Job) -> Iterator[IO[bytes]]:
    """The journal of a job, which no other process may have at the same time."""
    with job.journal.open("a+b") as journal:
        try:
            fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(journal.fileno()).st_ino != job.journal.stat().st_ino:
                raise FileNotFoundError
        except (BlockingIOError, FileNotFoundError):  # at work, or just done
            raise RegardError(f"Another process is writing {job.output}.") from None
        yield journal


def resume(job: Job, journal: IO[bytes], records: list[dict[str, Any]], remark: Callable[[str], None]) -> Place:
    """The place after the last full chunk. Where there is none, the journal is begun."""
    size = job.part.stat().st_size if job.part.exists() else 0
    if size and not records:
        raise damaged(job)
    if len(records) <= 1:
        if records != [job.head()]:
            if size:  # of a chunk without a record
                os.truncate(job.part, 0)
            journal.truncate(0)
            note(journal, job.head())
            flush_folder(job.journal)
        return Place()
    # A chunk that is not full was the last. Perhaps the input has grown since, and it would be fuller now.
    full = [record for record in records[1:] if "lines" in record and record["lines"] % job.chunk == 0]
    check_head(job, records[0], remark)
    place = Place(**full[-1]) if full else Place()
    if size < place.output and "done" not in records[-1]:
        raise RegardError(f"{job.part} is shorter than its journal says: give --restart to begin anew.")
    if place.lines:
        remark(f"Going on after line {place.lines:,}.")
    return place


def whole_records(job: Job, journal: IO[bytes]) -> list[dict[str, Any]]:
    """The records of a journal. One that a kill has cut short is taken away; any other damage leaves all as it is."""
    journal.seek(0)
    *lines, rest = journal.read().split(b"\n")
    records: list[dict[str, Any]] = []
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            raise damaged(job) from None
        keys = ({"lines", "input", "output"}, {"done"}) if records else ({"job", "machine"},)
        if not isinstance(record, dict) or set(record) not in keys:
            raise damaged(job)
        records.append(record)
    if rest:
        journal.truncate(journal.tell() - len(rest))
    return records


def damaged(job: Job) -> RegardError:
    return RegardError(f"{job.journal} is damaged, so nothing can go on there: give --restart to begin anew.")


def check_head(job: Job, before: dict[str, Any], remark: Callable[[str], None]) -> None:
    now = job.head()
    other = changes(before.get("job", {}), now["job"])
    if other:
        raise RegardError(
            f"{job.part} was begun otherwise: {'; '.join(other)}. Give the same command to go on with it, or --restart "
            "to begin anew."
        )
    odd = changes(before.get("machine", {}), now["machine"])
    if odd:
        remark(f"Going on otherwise than begun ({'; '.join(odd)}): candidates that are very close may be swapped.")


def changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What differs, digests without their values."""
    return [
        f"other {key}"
        if any(DIGEST.match(str(one.get(key))) for one in (before, now))
        else f"{key} was {before.get(key)!s:.16}, now {now.get(key)!s:.16}"
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key)
    ]


def chunks(job: Job, place: Place) -> Iterator[Chunk]:
    """The chunks of the input from a place on. What lies before it is read again and must be what it was."""
    opened: list[IO[bytes]] = []
    digest, size = hashlib.sha256(), max(1, job.input.stat().st_size)
    with open_bytes(job.input, opened) as file:
        lines = bounded_lines(file)
        for line in islice(lines, place.lines):
            digest.update(line)
        if digest.hexdigest() != place.input:
            raise RegardError(
                f"{job.input} is not what it was: its first {place.lines:,} lines have been translated, and they have "
                "changed. Give --restart to begin anew."
            )
        first = place.lines
        while raw := list(islice(lines, job.chunk)):
            for line in raw:
                digest.update(line)
            texts = list(decode_lines(raw, str(job.input), first + 1))
            yield Chunk(first, texts, digest.hexdigest(), min(1.0, opened[0].tell() / size))
            first += len(raw)


def translated(todo: Iterable[Chunk], translate: Translate, at_once: int) -> Iterator[tuple[Chunk, list[str]]]:
    """Chunks with their translations, in their order."""
    if at_once == 1:
        for chunk in todo:
            yield chunk, translate(chunk.first, chunk.lines)
        return
    pool, waiting = ThreadPoolExecutor(at_once, "chunks"), deque[tuple[Chunk, Future[list[str]]]]()
    try:
        for chunk in todo:
            waiting.append((chunk, pool.submit(translate, chunk.first, chunk.lines)))
            if len(waiting) > at_once:
                done, texts = waiting.popleft()
                yield done, texts.result()
        for done, texts in waiting:
            yield done, texts.result()
    finally:
        pool.shutdown(cancel_futures=True)


def packed(output: Path, text: str) -> bytes:
    """Text as bytes, compressed by the output's ending; such pieces one after another are a file of its format."""
    content = text.encode()
    if output.suffix.lower() in UNKNOWN:
        known = ", ".join(PACKED)
        raise RegardError(f"{output}: {output.suffix} is a compression that is not known here; {known} are.")
    if output.suffix == ".gz":
        return gzip.compress(content, mtime=0)  # without the time, so that the same text is the same bytes
    if output.suffix == ".xz":
        return lzma.compress(content)
    if output.suffix == ".zst":
        try:
            import zstandard
        except ImportError:
            raise RegardError(f'{output} is to be Zstandard: pip install "regard[corpora]" to write it.') from None
        return zstandard.ZstdCompressor(write_checksum=True).compress(content)
    return content


def note(journal: IO[bytes], record: dict[str, Any]) -> None:
    journal.seek(0, os.SEEK_END)
    journal.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
    settle(journal)


def settle(file: IO[bytes]) -> None:
    """Have what was written on the disk before going on."""
    file.flush()
    os.fsync(file.fileno())


def flush_folder(path: Path) -> None:
    """Have the name of a file on the disk."""
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
