"""Compressed text: read as if it were plain, and refused where it is broken."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from regard.data.files import LONGEST_LINE, bounded_lines, in_step, open_bytes, read_lines
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


def test_zstandard_frames_without_text_are_passed_over(tmp_path: Path) -> None:
    skippable = bytes.fromhex("5a2a4d18") + (100_000).to_bytes(4, "little") + bytes(100_000)
    content = skippable + PACK[".zst"](TEXT) + skippable + zstandard.ZstdCompressor().compress(b"") + PACK[".zst"](TEXT)
    (tmp_path / "x.zst").write_bytes(content)
    assert list(read_lines(tmp_path / "x.zst")) == LINES * 2
    (tmp_path / "x.zst").write_bytes(content + skippable[:-1])
    with pytest.raises(RegardError, match="it ends in the middle"):
        list(read_lines(tmp_path / "x.zst"))


@pytest.mark.parametrize("cut", [1, 2, 4, 5, 6, 9, 12, 1000, -1, -3, -5])
def test_a_zstandard_file_cut_anywhere_is_an_error(tmp_path: Path, cut: int) -> None:
    (tmp_path / "x.zst").write_bytes(PACK[".zst"](TEXT)[:cut])
    with pytest.raises(RegardError, match=r"x\.zst is not a sound Zstandard file"):
        list(read_lines(tmp_path / "x.zst"))


@pytest.mark.parametrize("ending", PACK)
def test_a_small_file_that_unpacks_without_end_takes_little_memory(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"x{ending}").write_bytes(PACK[ending](bytes(50 << 20)))
    tracemalloc.start()
    with open_bytes(tmp_path / f"x{ending}") as file:
        assert file.read(100) == bytes(100)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 << 20


def test_a_line_without_end_is_cut_and_the_next_ones_stay_whole(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(
        b"one\n" + b"a" * (LONGEST_LINE - 1) + b"\n" + b"b" * 3 * LONGEST_LINE + b"\ntwo\nthree"
    )
    with open_bytes(tmp_path / "x") as file:
        assert [len(line) for line in bounded_lines(file)] == [4, LONGEST_LINE, LONGEST_LINE + 1, 4, 5]
    with pytest.raises(RegardError, match="x, line 3 is longer than 16 MiB"):
        list(read_lines(tmp_path / "x"))


def test_texts_in_step_have_as_many_lines() -> None:
    assert list(in_step(["a", ""], ["x", "y"], ("A", "B"))) == [("a", "x"), ("", "y")]
    for left, right, words in ((["a"] * 5, ["x"], "A has 5 lines but B has 1"), ([], ["x"], "A has 0 .* B has 1")):
        with pytest.raises(RegardError, match=f"{words}: line by line they must be translations of each other"):
            list(in_step(left, right, ("A", "B")))


@pytest.mark.parametrize("ending", PACK)
def test_a_compressed_file_without_its_ending_is_named(tmp_path: Path, ending: str) -> None:
    (tmp_path / "x").write_bytes(PACK[ending](TEXT))
    with pytest.raises(
        RegardError, match=rf"x is compressed by \w+: unpack it, or give a file whose name ends in \{ending}\."
    ):
        list(read_lines(tmp_path / "x"))


def test_an_unknown_compression_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.BZ2").write_bytes(bz2.compress(b"a\n"))
    with pytest.raises(RegardError, match=r"x\.BZ2 is compressed by bzip2, .* or compress it by gzip, xz, Zstandard\."):
        list(read_lines(tmp_path / "x.BZ2"))
    with zipfile.ZipFile(tmp_path / "x", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", TEXT)
    with pytest.raises(RegardError, match="x is compressed by zip"):
        list(read_lines(tmp_path / "x"))
    (tmp_path / "corpus.br").write_text("Demat d'an holl!\n")  # Breton is no Brotli
    assert list(read_lines(tmp_path / "corpus.br")) == ["Demat d'an holl!"]


def test_a_file_with_zero_bytes_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a\n\xb1\0\0\n")
    with pytest.raises(RegardError, match="line 2 has a zero byte: it is no text"):
        list(read_lines(tmp_path / "x"))


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_utf16_is_named_with_its_conversion(tmp_path: Path, mark: bytes) -> None:
    (tmp_path / "x").write_bytes(mark + b"a\x00\n\x00")
    with pytest.raises(RegardError, match=r"x is UTF-16, not UTF-8; convert it with iconv -f utf-16 -t utf-8\."):
        list(read_lines(tmp_path / "x"))
    (tmp_path / "x").write_bytes(b"fine\n" + mark + b"\n")
    with pytest.raises(RegardError, match="line 2: byte 1 is not UTF-8"):
        list(read_lines(tmp_path / "x"))
