"""Reading parallel text: what is accepted, and what a bad file is told."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from regard.config import DataConfig, resolve
from regard.data.corpus import load, load_required, read_pair, without_empty
from regard.data.files import read_lines
from regard.errors import RegardError


def files(folder: Path, source: bytes, target: bytes) -> tuple[Path, Path]:
    (folder / "a.en").write_bytes(source)
    (folder / "a.de").write_bytes(target)
    return folder / "a.en", folder / "a.de"


def test_plain_and_gzipped_text_read_the_same(tmp_path: Path) -> None:
    text = "eins\nzwei\u2028drei\nvier\x85fünf\n".encode()  # separators inside a sentence end no line
    plain, packed = tmp_path / "x.txt", tmp_path / "x.txt.gz"
    plain.write_bytes(text)
    packed.write_bytes(gzip.compress(text))
    assert list(read_lines(plain)) == list(read_lines(packed)) == ["eins", "zwei\u2028drei", "vier\x85fünf"]


def test_line_ends_and_byte_order_marks_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree")
    assert list(read_lines(tmp_path / "x")) == ["one", "two", "three"]


def test_files_of_unequal_length_name_both_counts(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"a\.en has 3 lines but .*a\.de has 2"):
        read_pair("train", *files(tmp_path, b"a\nb\nc\n", b"x\ny\n"))


def test_invalid_utf8_names_file_line_and_byte(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"a\.de, line 2: byte 3 is not UTF-8"):
        read_pair("train", *files(tmp_path, b"a\nb\n", b"x\nab\xff\n"))


def test_pairs_with_an_empty_side_are_left_out_of_training_and_remembered(tmp_path: Path) -> None:
    whole = read_pair("train", *files(tmp_path, b"a\n\nc\nd\n", b"w\nx\n  \nz\n"))
    assert len(whole) == 4  # a score counts every line
    corpus = without_empty(whole)
    assert (corpus.source, corpus.target) == (["a", "d"], ["w", "z"])
    assert corpus.empty_lines == (2, 3)
    assert [corpus.line(0), corpus.line(1)] == [1, 4]


@pytest.mark.parametrize("text", [b"", b"\n\n"])
def test_an_empty_corpus_is_refused(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(RegardError, match="no sentence pair"):
        read_pair("train", *files(tmp_path, text, text))


def test_missing_files_folders_and_broken_archives_are_named(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"No such file: .*nowhere\.en"):
        list(read_lines(tmp_path / "nowhere.en"))
    with pytest.raises(RegardError, match="is a folder"):
        list(read_lines(tmp_path))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"text " * 1000)[:40])
    with pytest.raises(RegardError, match="not a sound gzip file"):
        list(read_lines(tmp_path / "cut.gz"))


def test_a_recipe_without_training_text_says_what_to_set() -> None:
    with pytest.raises(RegardError, match=r"no train text: set data\.train"):
        load_required(DataConfig(), "train")
    assert load(DataConfig(), "test") is None


def test_an_unknown_built_in_corpus_names_the_nearest() -> None:
    with pytest.raises(RegardError, match=r"No built-in corpus en-ed \(did you mean en-de\?\)"):
        load(resolve({"data": {"corpus": "en-ed"}}).data, "train")


def test_built_in_corpora_come_with_their_alignments() -> None:
    corpus = load_required(DataConfig(corpus="de-en", test_size=5), "test")
    assert len(corpus) == 5
    assert corpus.alignments is not None
    assert all(corpus.alignments)
