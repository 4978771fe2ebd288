"""Text files, plain or compressed, line by line. A bad byte or a broken archive is named with its place."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from regard.errors import RegardError

PACKED = {".gz": "gzip", ".xz": "xz", ".zst": "Zstandard"}


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file without their ends; a bad byte is named with its line."""
    with open_bytes(path) as file:
        yield from decode_lines(file, str(path))


def decode_lines(lines: Iterable[bytes], name: str, first: int = 1) -> Iterator[str]:
    """Lines end at \\n or \\r\\n alone: other separators of Unicode occur inside sentences."""
    for number, line in enumerate(lines, start=first):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise RegardError(
                f"{name}, line {number}: byte {error.start + 1} is not UTF-8; convert the file, e.g. with "
                "iconv -f latin1 -t utf-8."
            ) from None
        yield text.removeprefix("\ufeff").rstrip("\r\n") if number == 1 else text.rstrip("\r\n")


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
    """A .zst file, frame after frame. The library's own reader takes a file cut short for one that has ended."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        try:
            import zstandard
        except ImportError:
            raise RegardError(f'{path} is Zstandard-compressed: pip install "regard[corpora]" to read it.') from None
        self.file = file
        self.broken: type[Exception] = zstandard.ZstdError
        self.new_frame: Any = zstandard.ZstdDecompressor().decompressobj
        self.frame: Any = None
        self.text = memoryview(b"")
        self.rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.text:
            packed = self.rest or self.file.read(1 << 14)
            if not packed:
                if self.frame is not None:
                    raise EOFError("it ends in the middle")
                return 0
            if self.frame is None:
                self.frame = self.new_frame()
            try:
                self.text = memoryview(self.frame.decompress(packed))
            except self.broken as error:
                raise EOFError(error) from None
            self.rest = b""
            if self.frame.eof:
                self.frame, self.rest = None, self.frame.unused_data
        count = min(len(buffer), len(self.text))
        buffer[:count], self.text = self.text[:count], self.text[count:]
        return count
