"""Text files, plain or compressed, line by line. A bad byte or a broken archive is named with its place.

Whatever a file holds, reading takes bounded memory: compressed bytes are unpacked a little at a time, and a line may
have so many bytes and no more.
"""

from __future__ import annotations

import codecs
import fcntl
import gzip
import hashlib
import io
import lzma
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any, TypeVar

from regard.errors import RegardError

PACKED = {".gz": "gzip", ".xz": "xz", ".zst": "Zstandard"}
BEGINNINGS = {b"\x1f\x8b": ".gz", b"\xfd7zXZ": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}  # of such files
ENDINGS = ("", *PACKED)
# Compressions that are not read here: beginnings of such files, and endings that are no language's code.
OTHERS = {
    b"BZh91AY&SY": "bzip2",
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf": "7z",
    b'\x04"M\x18': "LZ4",
    b"Rar!\x1a": "RAR",
}
UNKNOWN = (".bz2", ".zip", ".7z", ".lz4", ".lzma")
LONGEST_LINE = 1 << 24  # bytes
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # how a file begins whose every character has two bytes
SKIPPABLE = b"*M\x18"  # Zstandard: the end of the number a frame without text begins with

Line = TypeVar("Line", str, bytes)


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file without their ends; a bad byte is named with its line."""
    with open_bytes(path) as file:
        yield from decode_lines(bounded_lines(file), str(path))


def bounded_lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file with their ends. Of one that is `too_long` only the beginning, so much that it shows."""
    for line in iter(partial(file.readline, LONGEST_LINE + 1), b""):
        yield line
        if too_long(line):
            while not line.endswith(b"\n") and (line := file.readline(LONGEST_LINE)):
                pass


def too_long(line: bytes) -> bool:
    return len(line) > LONGEST_LINE


def endless(name: object, number: int) -> RegardError:
    """The error of a line that is too long."""
    return RegardError(f"{name}, line {number} is longer than {LONGEST_LINE >> 20} MiB: is it text at all?")


def two_bytes_each(name: object) -> RegardError:
    """The error of a file that is UTF-16."""
    return RegardError(f"{name} is UTF-16, not UTF-8; convert it with {conversion('utf-16')}.")


def conversion(encoding: str = "windows-1252") -> str:
    """The command that makes UTF-8 of another encoding: where nothing tells which, of the commonest."""
    return f"iconv -f {encoding} -t utf-8"


def decode_lines(lines: Iterable[bytes], name: str, first: int = 1) -> Iterator[str]:
    """Lines end at \\n or \\r\\n alone: other separators of Unicode occur inside sentences."""
    for number, line in enumerate(lines, start=first):
        if too_long(line):
            raise endless(name, number)
        if number == 1:
            check_beginning(name, line)
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            if b"\0" in line:
                raise RegardError(f"{name}, line {number} has a zero byte: it is no text.") from None
            raise RegardError(
                f"{name}, line {number}: byte {error.start + 1} is not UTF-8; convert the file, e.g. with "
                f"{conversion()}."
            ) from None
        yield text.removeprefix("\ufeff").rstrip("\r\n") if number == 1 else text.rstrip("\r\n")


def check_beginning(name: str, line: bytes) -> None:
    """Whether a file begins as text does that may be UTF-8."""
    if line.startswith(UTF16):
        raise two_bytes_each(name)
    if packed := next((ending for begin, ending in BEGINNINGS.items() if line.startswith(begin)), ""):
        raise RegardError(
            f"{name} is compressed by {PACKED[packed]}: unpack it, or give a file whose name ends in {packed}."
        )
    if other := next((what for begin, what in OTHERS.items() if line.startswith(begin)), ""):
        known = ", ".join(PACKED.values())
        raise RegardError(
            f"{name} is compressed by {other}, which is not known here: unpack it, or compress it by {known}."
        )


def in_step(left: Iterable[Line], right: Iterable[Line], names: tuple[object, object]) -> Iterator[tuple[Line, Line]]:
    """Two texts line by line. Where one goes on after the other has ended, the error says how long they are."""
    left, right = iter(left), iter(right)
    for number, (a, b) in enumerate(zip_longest(left, right)):
        if a is None or b is None:
            longer = number + 1 + sum(1 for _ in (right if a is None else left))
            raise unequal(names, (number, longer) if a is None else (longer, number))
        yield a, b


def unequal(names: tuple[object, object], counts: tuple[int, int]) -> RegardError:
    """The error of two texts that cannot be aligned."""
    return RegardError(
        f"{names[0]} has {counts[0]:,} lines but {names[1]} has {counts[1]:,}: line by line they must be translations "
        "of each other."
    )


@contextmanager
def open_bytes(path: Path, opened: list[IO[bytes]] | None = None) -> Iterator[IO[bytes]]:
    """A file's bytes, decompressed by its ending: .gz, .xz or .zst. A broken archive is said in a sentence.

    `opened` gets the file itself, whose place tells how far reading has come.
    """
    with open_file(path) as file:
        if opened is not None:
            opened.append(file)
        try:
            yield unpack(file, path)
        except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
            raise RegardError(f"{path} is not a sound {PACKED[path.suffix]} file: {error}.") from None


def file_hash(path: Path, algorithm: str = "sha256") -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def lock(path: Path, refusal: str) -> int:
    """An open handle of a file, made where there is none, or of a folder, that no other process has at this moment; or
    the sentence that says so. The lock goes with the handle, or with the process."""
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise RegardError(refusal) from None
    return handle


@contextmanager
def locked(path: Path, refusal: str) -> Iterator[None]:
    """Nobody else has the lock meanwhile."""
    handle = lock(path, refusal)
    try:
        yield
    finally:
        os.close(handle)


def missing_folders(folder: Path) -> list[Path]:
    """A folder and those above it that do not exist, the innermost first."""
    return [one for one in (folder, *folder.parents) if not one.exists()]


def remove_empty(folders: Iterable[Path]) -> None:
    """These, up to the first that is not empty."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def open_file(path: Path) -> IO[bytes]:
    """The bytes of a file as they are."""
    if path.is_dir():
        raise RegardError(f"{path} is a folder, not a text file.")
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise RegardError(f"No such file: {path}.") from None


def unpack(file: IO[bytes], path: Path) -> IO[bytes]:
    """The decompressed bytes of an open file named `path`. Buffered once more: lines come faster that way."""
    if path.suffix == ".gz":
        return io.BufferedReader(gzip.GzipFile(fileobj=file))
    if path.suffix == ".xz":
        return io.BufferedReader(lzma.LZMAFile(file))
    return io.BufferedReader(Zstandard(file, path)) if path.suffix == ".zst" else file


class Zstandard(io.RawIOBase):
    """A .zst file, frame after frame. The library's own reader takes a file cut short for one that has ended.

    A few bytes can stand for any amount of text, but a block stands for 128 KiB at most (RFC 8878), so the blocks are
    unpacked one by one.
    """

    def __init__(self, file: IO[bytes], path: Path) -> None:
        try:
            import zstandard
        except ImportError:
            raise RegardError(f'{path} is Zstandard-compressed: pip install "regard[corpora]" to read it.') from None
        self.file, self.library = file, zstandard
        self.frame: Any = None  # the one we are in
        self.checksum = 0  # bytes of it after the last block
        self.text = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            while not self.text:
                packed = self.block() if self.frame else self.head()
                if not packed:
                    return 0
                self.text = memoryview(self.frame.decompress(packed)) if self.frame else self.text
                if self.frame and self.frame.eof:
                    self.frame = None
        except self.library.ZstdError as error:
            raise EOFError(error) from None
        count = min(len(buffer), len(self.text))
        buffer[:count], self.text = self.text[:count], self.text[count:]
        return count

    def head(self) -> bytes:
        """What a frame begins with, or nothing where the file ends; a frame without text is passed over."""
        start = self.file.read(5)
        if start[1:4] == SKIPPABLE and start[0] >> 4 == 5:
            left = int.from_bytes(start[4:] + self.take(3), "little")
            while left:
                left -= len(self.take(min(left, 1 << 16)))
        elif start:
            start += self.take(self.library.frame_header_size(start) - len(start))
            self.checksum = 4 if self.library.get_frame_parameters(start).has_checksum else 0
            self.frame = self.library.ZstdDecompressor().decompressobj()
        return start

    def block(self) -> bytes:
        """The next block, with the checksum after the last."""
        start = self.take(3)
        bits = int.from_bytes(start, "little")
        last, kind, size = bits & 1, bits >> 1 & 3, bits >> 3
        return start + self.take((1 if kind == 1 else size) + (self.checksum if last else 0))  # kind 1: a byte repeated

    def take(self, count: int) -> bytes:
        content = self.file.read(count)
        if len(content) < count:
            raise EOFError("it ends in the middle")
        return content
