"""Text files, plain or compressed, line by line. A bad byte or a broken archive is named with its place."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from regard.errors import RegardError


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file without their ends; a bad byte is named with its line."""
    if path.is_dir():
        raise RegardError(f"{path} is a folder, not a text file.")
    try:
        with open_bytes(path) as file:
            yield from decode_lines(file, str(path))
    except FileNotFoundError:
        raise RegardError(f"No such file: {path}.") from None
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise RegardError(f"{path} is not a sound {path.suffix} file: {error}.") from None


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


def open_bytes(path: Path) -> IO[bytes]:
    """A file's bytes, decompressed by its ending: .gz, .xz or .zst."""
    if path.suffix == ".gz":
        return gzip.open(path)  # type: ignore[return-value]
    if path.suffix == ".xz":
        return lzma.open(path)
    return open_zstandard(path) if path.suffix == ".zst" else path.open("rb")


def open_zstandard(path: Path) -> IO[bytes]:
    try:
        import zstandard
    except ImportError:
        raise RegardError(f'{path} is compressed with Zstandard: pip install "regard[corpora]" to read it.') from None
    return io.BufferedReader(zstandard.open(path, "rb"))
