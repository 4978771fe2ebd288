"""Prepared data: mapped and not copied, shared by processes, and checked when it is opened."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext as ok
from pathlib import Path

import numpy as np
import pytest

from regard.config import TokenizerConfig
from regard.data import prepared as module
from regard.data.generated import generate
from regard.data.prepare import Settings, prepare
from regard.data.prepared import Flat, Lines, Prepared
from regard.errors import RegardError

SHARDS = [f"train.{side}.{part}" for side in ("source", "target") for part in ("tokens", "offsets", "text", "lines")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("prepared")
    pairs = generate("en-de", "train", 300)
    text = "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
    for split in ("train", "test"):
        lines = text.splitlines(keepends=True)
        (tmp_path / f"{split}.tsv").write_text("".join(lines[:250] if split == "train" else lines[250:]), "utf-8")
    settings = Settings(
        ("en", "de"), (str(tmp_path / "train.tsv"),), test=(str(tmp_path / "test.tsv"),),
        tokenizer=TokenizerConfig(vocab_size=300),
    )  # fmt: skip
    prepare(settings, tmp_path / "out", jobs=1)
    return tmp_path / "out"


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(made, tmp_path / "out"))


def test_a_folder_tells_what_it_holds(folder: Path) -> None:
    prepared = Prepared.open(folder)
    assert prepared.languages == ("en", "de")
    assert len(prepared) == len(prepared.text("target")) == len(prepared.train[0])
    assert prepared.tokenizers.source.vocab_size == 300
    corpus = prepared.corpus("test")
    assert corpus is not None
    assert len(corpus) == 50
    assert prepared.corpus("valid") is None
    assert len(prepared.fingerprint) == 64
    assert prepared.index["settings"]["languages"] == ["en", "de"]


def test_lines_are_a_sequence(folder: Path) -> None:
    lines = Prepared.open(folder).text("source")
    whole = (folder / "train.source.text").read_text(encoding="utf-8").splitlines()
    assert isinstance(lines, Lines)
    assert list(lines) == whole
    assert lines[-1] == whole[-1]
    assert lines[3:9:2] == whole[3:9:2]
    with pytest.raises(IndexError):
        lines[len(whole)]


def test_arrays_are_maps_that_nobody_can_write(folder: Path) -> None:
    prepared = Prepared.open(folder)
    for tokens in prepared.train:
        for array in (tokens.values, tokens.offsets):
            assert isinstance(array, np.memmap)
            assert not array.flags.writeable
            assert not array.flags.owndata
    source = prepared.train[0]
    assert np.shares_memory(source[7], source.values)
    assert prepared.train[0] is source  # mapped once


def mappings(folder: Path) -> list[list[str]]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line.split() for line in lines if str(folder) in line]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="this system does not tell what is mapped")
def test_two_processes_read_the_same_pages(folder: Path) -> None:
    """Each maps the same file, shared and read-only, and finds the same numbers in it."""
    code = f"""
from pathlib import Path
from regard.data.prepared import Prepared
prepared = Prepared.open({str(folder)!r})
source, target = prepared.train
totals = [int(side.values.sum()) for side in prepared.train]
rows = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if {str(folder)!r} in line]
print(sorted({{(row[5], row[4], row[1]) for row in rows}}), totals, prepared.fingerprint)
"""
    commands = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    first, second = (command.communicate()[0] for command in commands)
    assert first == second
    prepared = Prepared.open(folder)
    totals = [int(side.values.sum()) for side in prepared.train]
    here = sorted({(row[5], row[4], row[1]) for row in mappings(folder)})
    assert first.strip() == f"{here} {totals} {prepared.fingerprint}"
    assert {access for _, _, access in here} == {"r--s"}
    assert str(folder / "train.source.tokens") in {path for path, _, _ in here}


SMALL = ["test.source", "tokenizer/shared.model"]


@pytest.mark.parametrize("name", [*SHARDS, *SMALL])
@pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
def test_damage_is_noticed_on_opening(folder: Path, name: str, damage: str) -> None:
    """Of the training text only what can be seen without reading it, unless that is asked for."""
    content = bytearray((folder / name).read_bytes())
    if damage == "gone":
        (folder / name).unlink()
    elif damage == "cut":
        (folder / name).write_bytes(content[:-1])
    else:
        content[len(content) // 2] ^= 1
        (folder / name).write_bytes(content)
    message = {"gone": "is missing", "cut": r"has [\d,]+ bytes instead of", "flipped": "is damaged, its SHA-256"}[
        damage
    ]
    seen = {True: True, None: damage != "flipped" or name in SMALL, False: damage != "flipped"}
    for verify, noticed in seen.items():
        with pytest.raises(RegardError, match=f"{name}.* {message}.*prepare the data again") if noticed else ok():
            Prepared.open(folder, verify=verify)


def test_large_folders_are_read_through_on_demand_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_AT_ONCE", 0)
    content = bytearray((folder / "train.source.tokens").read_bytes())
    content[10] ^= 1
    (folder / "train.source.tokens").write_bytes(content)
    prepared = Prepared.open(folder, verify=True)
    with pytest.raises(RegardError, match="is damaged"):
        prepared.check_all()


def test_which_splits_there_are_is_known_without_their_text(folder: Path) -> None:
    prepared = Prepared.open(folder)
    (folder / "test.source").unlink()
    assert prepared.has("test")
    assert not prepared.has("valid")


# --- writing ---------------------------------------------------------------------------------------------


def test_a_folder_that_fails_goes_before_another_process_can_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one begins at the very moment at which the lock is free."""
    second = module.written_whole(tmp_path / "out", force=False)
    flock, close, locks = fcntl.flock, os.close, []

    def lock_and_remember(lock: int, how: int) -> None:
        flock(lock, how)
        locks.append(lock)

    def close_and_let_in(file: int) -> None:
        close(file)
        if len(locks) == 1 and file == locks[0]:
            (second.__enter__() / "mine").write_text("x")

    monkeypatch.setattr(fcntl, "flock", lock_and_remember)
    monkeypatch.setattr(module.os, "close", close_and_let_in)
    with pytest.raises(KeyError), module.written_whole(tmp_path / "out", force=False):
        raise KeyError
    second.__exit__(None, None, None)
    assert (tmp_path / "out" / "mine").read_text() == "x"


@pytest.mark.parametrize("fails", [True, False])
def test_a_folder_that_went_or_was_renamed_before_it_was_locked_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Another process ends between our opening of the folder and our locking it."""
    first = module.written_whole(tmp_path / "out", force=False)
    (first.__enter__() / "prepared.json").write_text("first")
    flock, ended = fcntl.flock, []

    def end_the_other_and_lock(lock: int, how: int) -> None:
        if not ended:
            ended.append(True)
            with pytest.raises(KeyError) if fails else ok():
                first.__exit__(*((KeyError, KeyError(), None) if fails else (None, None, None)))
                if fails:
                    raise KeyError
        flock(lock, how)

    monkeypatch.setattr(fcntl, "flock", end_the_other_and_lock)
    with (
        ok() if fails else pytest.raises(RegardError, match="exists already"),
        module.written_whole(tmp_path / "out", force=False) as part,
    ):
        (part / "prepared.json").write_text("second")
    assert (tmp_path / "out" / "prepared.json").read_text() == ("second" if fails else "first")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_is_no_prepared_data_is_told_so(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="holds no prepared data: make it with regard data prepare"):
        Prepared.open(tmp_path)
    index = json.loads((folder / "prepared.json").read_text())
    (folder / "prepared.json").write_text(json.dumps({**index, "version": 99}))
    with pytest.raises(RegardError, match="prepared as version 99"):
        Prepared.open(folder)
    (folder / "prepared.json").write_text("{")
    with pytest.raises(RegardError, match="is damaged"):
        Prepared.open(folder)


def test_flat_files_say_where_each_sequence_begins(tmp_path: Path) -> None:
    flat = Flat(tmp_path / "data", tmp_path / "offsets")
    flat.append(b"abcde", np.array([2, 0, 3]))
    flat.append(b"", np.array([], dtype=np.int64))
    flat.append(b"f", np.array([1]))
    entries = flat.close()
    assert np.fromfile(tmp_path / "offsets", "<i8").tolist() == [0, 2, 2, 5, 6]
    assert entries["data"]["bytes"] == 6
    assert entries["offsets"]["sha256"] == module.file_hash(tmp_path / "offsets")
