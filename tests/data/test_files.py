"""Compressed text: read as if it were plain, and refused where it is broken."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from regard.data.files import open_bytes, read_lines
from regard.errors import RegardError

LINES = [f"Zeile {i} über etwas" for i in range(5_000)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()
PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}  # fmt: skip


@pytest.mark.parametrize("ending", PACK)
def test_compressed_text_reads_as_plain_text(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"x{ending}").write_bytes(PACK[ending](TEXT))
    assert list(read_lines(tmp_path / f"x{ending}")) == LINES


@pytest.mark.parametrize("ending", PACK)
def test_archives_put_end_to_end_are_one_text(tmp_path: Path, ending: str) -> None:
    half = TEXT.index(b"\n", len(TEXT) // 2) + 1
    (tmp_path / f"x{ending}").write_bytes(PACK[ending](TEXT[:half]) + PACK[ending](TEXT[half:]))
    assert list(read_lines(tmp_path / f"x{ending}")) == LINES


@pytest.mark.parametrize("ending", PACK)
@pytest.mark.parametrize("damage", ["cut", "other bytes", "no archive"])
def test_a_broken_archive_is_an_error(tmp_path: Path, ending: str, damage: str) -> None:
    packed = PACK[ending](TEXT)
    middle = len(packed) // 2
    other = bytes(byte ^ 0x55 for byte in packed[middle : middle + 40])
    broken = {
        "cut": packed[:middle],
        "other bytes": packed[:middle] + other + packed[middle + 40 :],
        "no archive": b"plain text, whatever the name says\n" * 10,
    }[damage]  # fmt: skip
    (tmp_path / f"x{ending}").write_bytes(broken)
    with pytest.raises(RegardError, match=rf"x\{ending} is not a sound (gzip|xz|Zstandard) file: .+\."):  # noqa: SIM117
        with open_bytes(tmp_path / f"x{ending}") as file:
            file.read()


def test_how_far_reading_has_come_is_known(tmp_path: Path) -> None:
    (tmp_path / "x.zst").write_bytes(PACK[".zst"](TEXT))
    opened: list = []
    with open_bytes(tmp_path / "x.zst", opened) as file:
        assert opened[0].tell() == 0
        assert file.read() == TEXT
        assert opened[0].tell() == (tmp_path / "x.zst").stat().st_size
    assert opened[0].closed
