"""`regard data` as people use it: real processes, files and folders."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import regard.data.generated as generated


def run(*arguments: str | Path, cache: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "regard", "data", *map(str, arguments)]
    environment = {**os.environ, "REGARD_DATA": str(cache), "COLUMNS": "200"}
    return subprocess.run(
        command, capture_output=True, check=False, timeout=240, cwd=cache, env=environment, encoding="utf-8"
    )


def refused(result: subprocess.CompletedProcess[str], *words: str) -> None:
    """One sentence on stderr, exit code 2, no traceback."""
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr, result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder laid out as Multi30k is, with other sentences."""
    place = tmp_path_factory.mktemp("corpora") / "multi30k"
    place.mkdir()
    for stem, split, size in (("train", "train", 400), ("val", "valid", 20), ("test_2016_flickr", "test", 20)):
        pairs = generated.generate("en-de", split, size)
        for language, lines in (("en", [p.source for p in pairs]), ("de", [p.target for p in pairs])):
            (place / f"{stem}.{language}.gz").write_bytes(gzip.compress("".join(f"{x}\n" for x in lines).encode()))
    return place


@pytest.fixture(scope="module")
def cache(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with one corpus in it, put there by the command."""
    place = tmp_path_factory.mktemp("cache")
    result = run("fetch", "multi30k-en-de", "--from", folder, cache=place)
    assert result.returncode == 0, result.stderr
    assert "train 400, valid 20, test 20 pairs" in result.stdout
    assert "licence: " in result.stdout
    assert "without test_2017_flickr" in result.stderr
    return place


def test_without_a_name_the_corpora_are_listed(cache: Path) -> None:
    lines = run("fetch", cache=cache).stdout.splitlines()
    assert next(line for line in lines if line.startswith("multi30k-en-de ")).split()[1:4] == [
        "400",
        "pairs",
        "fetched",
    ]
    assert "--from only" in next(line for line in lines if line.startswith("europarl-en-de"))
    listed = json.loads(run("fetch", "--json", cache=cache).stdout)
    rows = {row["name"]: row for row in listed["corpora"]}
    assert rows["multi30k-en-de"]["fetched"]
    assert not rows["wmt14-en-de"]["fetched"]
    assert rows["wmt14-en-fr"]["languages"] == ["en", "fr"]
    assert all(row["licence"] for row in rows.values())


def test_a_corpus_that_is_there_is_left_alone(cache: Path, folder: Path) -> None:
    lock = cache / "multi30k-en-de" / "lock.json"
    before = lock.stat().st_mtime_ns
    result = run("fetch", "multi30k-en-de", "--from", folder, "--json", cache=cache)
    assert "there already" in result.stderr
    assert json.loads(result.stdout)["splits"]["test"]["pairs"] == 20
    assert lock.stat().st_mtime_ns == before


def test_mistakes_in_fetching_are_told_in_a_sentence(cache: Path, tmp_path: Path) -> None:
    refused(run("fetch", "multi30k-en-d", cache=cache), "No corpus named multi30k-en-d (did you mean multi30k-en-de?)")
    refused(run("fetch", "multi30k-en-fr", "--from", tmp_path, cache=cache), "missing: train.en, train.fr, val.en")
    refused(run("fetch", "europarl-en-fr", cache=cache), "no public address", "--from FOLDER")
    (tmp_path / "file").touch()
    refused(run("fetch", "multi30k-en-de", "--to", tmp_path / "file", cache=cache), "is a file: a cache is a folder")


def test_several_corpora_are_fetched_by_one_command_or_none(cache: Path, folder: Path, tmp_path: Path) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
        (tmp_path / path.name.replace(".de.", ".fr.")).write_bytes(path.read_bytes())
    other = tmp_path / "cache"
    refused(run("fetch", "multi30k-en-de", "multi30k-en-fx", "--from", tmp_path, "--to", other, cache=cache), "en-fr?")
    assert not other.exists()
    result = run("fetch", "multi30k-en-de", "multi30k-en-fr", "--from", tmp_path, "--to", other, "--json", cache=cache)
    assert [json.loads(line)["name"] for line in result.stdout.splitlines()] == ["multi30k-en-de", "multi30k-en-fr"]


def test_another_cache_can_be_named(folder: Path, cache: Path, tmp_path: Path) -> None:
    result = run("fetch", "multi30k-en-de", "--from", folder.parent, "--to", tmp_path / "other", cache=cache)
    assert (tmp_path / "other" / "multi30k-en-de" / "train.de.gz").exists()
    assert f"export REGARD_DATA={tmp_path / 'other'}" in result.stderr.replace("\n", "")
    result = run("fetch", "multi30k-en-de", "--from", folder.parent, "--to", "beside", cache=cache)
    assert f"export REGARD_DATA={cache / 'beside'}" in result.stderr.replace("\n", "")
    assert "export" not in run("fetch", "multi30k-en-de", "--to", ".", cache=cache).stderr


def test_a_fetched_corpus_is_reported_on_with_all_its_splits(cache: Path) -> None:
    result = run("report", "multi30k-en-de", cache=cache)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("multi30k-en-de: en → de\n")
    assert "leakage: also in train" in result.stdout
    found = json.loads((cache / "report" / "report.json").read_text(encoding="utf-8"))
    assert {name: split["pairs"] for name, split in found["splits"].items()} == {"train": 400, "valid": 20, "test": 20}
    for name in ("report.png", "report.html"):
        assert (cache / "report" / name).stat().st_size > 10_000


def test_two_files_are_reported_on_with_held_out_text(cache: Path, folder: Path, tmp_path: Path) -> None:
    train, test = ([folder / f"{stem}.{side}.gz" for side in ("en", "de")] for stem in ("train", "val"))
    result = run("report", *train, "--test", *test, "--out", tmp_path / "here", "--json", cache=cache)
    found = json.loads(result.stdout)
    assert found["languages"] == ["en", "de"]
    assert list(found["splits"]) == ["train", "test"]
    assert found["leakage"][0]["out_of"] == 20
    assert found == json.loads((tmp_path / "here" / "report.json").read_text(encoding="utf-8"))


def test_given_text_does_not_take_the_place_of_the_corpus_s_own_test_set(cache: Path, folder: Path) -> None:
    given = [folder / f"train.{side}.gz" for side in ("en", "de")]
    found = json.loads(run("report", "multi30k-en-de", "--test", *given, "--json", cache=cache).stdout)
    assert {name: split["pairs"] for name, split in found["splits"].items()} == {
        "train": 400, "valid": 20, "test": 20, "given": 400
    }  # fmt: skip


def test_a_prepared_folder_is_reported_on_with_its_own_subwords(cache: Path, folder: Path, tmp_path: Path) -> None:
    made = run(
        "prepare", "--train", folder / "train", "--valid", folder / "val", "--languages", "en", "de",
        "--vocab-size", "300", "--out", tmp_path / "prepared", cache=cache,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    found = json.loads(run("report", tmp_path / "prepared", "--out", tmp_path / "out", "--json", cache=cache).stdout)
    assert found["languages"] == ["en", "de"]
    assert list(found["splits"]) == ["train", "valid"]
    assert found["splits"]["valid"]["source"]["subwords"]["per_word"] > 1


def test_whatever_prepare_takes_is_reported_on(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("A dog.\nA cat.\n")
    (tmp_path / "a.de").write_text("Ein Hund.\nEine Katze.\n")
    (tmp_path / "a.tsv").write_text("en\tde\nA dog.\tEin Hund.\nA cat.\tEine Katze.\n")
    codes = ("--languages", "en", "de")
    ways = [(tmp_path / "a.en", tmp_path / "a.de"), (f"{tmp_path / 'a.en'},{tmp_path / 'a.de'}",)]
    ways += [(tmp_path / "a", *codes), (tmp_path / "a.tsv", *codes)]
    found = [json.loads(run("report", *way, "--json", "--out", tmp_path / "o", cache=cache).stdout) for way in ways]
    assert all(one["splits"] == found[0]["splits"] for one in found)
    assert [one["languages"] for one in found] == [["en", "de"]] * 4
    refused(run("report", tmp_path / "a.tsv", cache=cache), "say --languages")


def test_mistakes_in_reporting_are_told_in_a_sentence(cache: Path, folder: Path, tmp_path: Path) -> None:
    refused(run("report", "multi30k-en-fr", cache=cache), "not here yet: regard data fetch multi30k-en-fr")
    refused(run("report", "multi30k-en-dee", cache=cache), "is no corpus (did you mean multi30k-en-de?)")
    refused(run("report", folder / "train.en.gz", cache=cache), "is one file: give two")
    refused(
        run("report", folder / "train.en.gz", folder / "val.de.gz", cache=cache),
        "train.en.gz has 400 lines but",
        "val.de.gz has 20: line by line",
    )
    refused(run("report", "multi30k-en-de", "--tokenizer", tmp_path / "no", cache=cache), "no tokenizer folder")
    refused(run("report", "multi30k-en-de", "--languages", "de", "en", cache=cache), "leave --languages out")
    refused(run("report", "multi30k-en-de", "--languages", "en", "--json", cache=cache), "--languages needs two codes")


def test_built_in_corpora_come_as_files_that_other_commands_take(tmp_path: Path) -> None:
    result = run("write", "en-de", "--train", "30", "--out", "text", cache=tmp_path)
    assert result.returncode == 0, result.stderr
    pairs = generated.generate("en-de", "combinations", 1_000)
    text = tmp_path / "text"
    assert (text / "combinations.en").read_text(encoding="utf-8").splitlines() == [pair.source for pair in pairs]
    assert (text / "combinations.de").read_text(encoding="utf-8").splitlines() == [pair.target for pair in pairs]
    links = (text / "combinations.align").read_text(encoding="utf-8").splitlines()
    assert tuple(tuple(map(int, link.split("-"))) for link in links[0].split()) == pairs[0].alignment
    assert len((text / "train.en").read_text(encoding="utf-8").splitlines()) == 30
    assert run("report", "text/train.en", "text/train.de", cache=tmp_path).returncode == 0


def test_symbols_have_two_sides_without_languages_and_what_is_there_stays(tmp_path: Path) -> None:
    assert run("write", "reverse", "--train", "5", cache=tmp_path).returncode == 0
    source, target = ((tmp_path / "reverse" / f"test.{side}").read_text().splitlines() for side in ("source", "target"))
    assert [line.split()[::-1] for line in source] == [line.split() for line in target]
    refused(run("write", "reverse", cache=tmp_path), "reverse is there already", "--out")
    (tmp_path / "empty").mkdir()
    assert run("write", "copy", "--train", "5", "--out", "empty", cache=tmp_path).returncode == 0
    assert (tmp_path / "empty" / "train.source").is_file()
    refused(run("write", "en-fr", cache=tmp_path), "did you mean en-de", "regard data fetch")
    refused(run("write", "en-de", "--train", "2000000", cache=tmp_path), "--train 2,000,000", "1,000,000")
    assert not (tmp_path / "en-de").exists()


def test_a_corpus_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """The disk is full before the last file: nothing is left that the same command would stumble over."""
    (tmp_path / "limited.py").write_text(
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))\n"
        "import regard.cli\n"
        "sys.argv = ['regard', 'data', 'write', 'en-de', '--train', '2000', '--out', 'text']\n"
        "regard.cli.main()\n"
    )
    result = subprocess.run([sys.executable, "limited.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "File too large" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["limited.py"]
