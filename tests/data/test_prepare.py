"""From files to prepared data: every step counted, the same bytes from any number of processes, whole or not at all."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from regard.config import TokenizerConfig
from regard.data import prepare as preparing
from regard.data.cleaning import Cleaning
from regard.data.generated import generate
from regard.data.prepare import Settings, prepare, sample
from regard.data.prepared import Prepared
from regard.data.tally import Tally
from regard.errors import RegardError

LANGUAGES = ("en", "de")
SUBWORDS = TokenizerConfig(vocab_size=300)


def pairs_of(split: str, n: int) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in generate("en-de", split, n)]


def write_pairs(stem: Path, pairs: list[tuple[str, str]]) -> str:
    for language, side in zip(LANGUAGES, zip(*pairs, strict=True), strict=True):
        Path(f"{stem}.{language}").write_bytes("".join(f"{text}\n" for text in side).encode())
    return str(stem)


def write_all_kinds(folder: Path, pairs: list[tuple[str, str]]) -> tuple[str, ...]:
    """The pairs, a fifth in each of the formats."""
    parts = [pairs[i::5] for i in range(5)]
    tsv = "".join(f"{a}\t{b}\n" for a, b in parts[1]).encode()
    jsonl = "".join(json.dumps({"translation": dict(zip(LANGUAGES, pair, strict=True))}) + "\n" for pair in parts[2])
    units = "".join(
        f'<tu><tuv xml:lang="en-GB"><seg>{a}</seg></tuv><tuv xml:lang="DE"><seg>{b}</seg></tuv></tu>\n'
        for a, b in parts[3]
    )
    entries = "\n".join(f'msgid "{a}"\nmsgstr "{b}"\n' for a, b in parts[4])
    (folder / "b.tsv.gz").write_bytes(gzip.compress(tsv))
    (folder / "c.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(jsonl.encode()))
    (folder / "d.tmx").write_text(f"<tmx><body>{units}</body></tmx>", encoding="utf-8")
    (folder / "e.po").write_text(f'msgid ""\nmsgstr "Language: de\\n"\n\n{entries}', encoding="utf-8")
    names = ("b.tsv.gz", "c.jsonl.zst", "d.tmx", "e.po")
    return write_pairs(folder / "a", parts[0]), *(str(folder / name) for name in names)


def quickly(folder: Path, pairs: list[tuple[str, str]], **changes: Any) -> tuple[Tally, Prepared]:
    """Prepare pairs in this process."""
    train = write_pairs(folder / "train", pairs)
    settings = Settings(**{"languages": LANGUAGES, "train": (train,), "tokenizer": SUBWORDS, **changes})
    return prepare(settings, folder / "out", jobs=1), Prepared.open(folder / "out")


def contents(folder: Path) -> dict[str, bytes]:
    """All that is written but for the report, which tells the time."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.stem != "report")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_every_format_in_one_preparation(tmp_path: Path) -> None:
    pairs = pairs_of("train", 400)
    settings = Settings(LANGUAGES, write_all_kinds(tmp_path, pairs), tokenizer=SUBWORDS)
    tally = prepare(settings, tmp_path / "out", jobs=1)
    prepared = Prepared.open(tmp_path / "out")
    assert tally.kept == len(prepared) == 400
    assert [one.pairs for one in tally.inputs] == [80] * 5
    assert sorted(zip(prepared.text("source"), prepared.text("target"), strict=True)) == sorted(pairs)


def test_tokens_are_the_tokenizers_own_of_the_clean_text(tmp_path: Path) -> None:
    tally, prepared = quickly(tmp_path, pairs_of("train", 300))
    for side, tokens in zip(("source", "target"), prepared.train, strict=True):
        expected = getattr(prepared.tokenizers, side).encode_corpus(list(prepared.text(side)))
        assert np.array_equal(tokens.values, expected.values)
        assert np.array_equal(tokens.offsets, expected.offsets)
        assert tokens.values.dtype == np.uint16
    assert tally.tokens == tuple(len(tokens.values) for tokens in prepared.train)


@pytest.fixture
def messy(tmp_path: Path) -> Settings:
    """Inputs with something for every step to drop."""
    pairs = pairs_of("train", 260)
    held_out = pairs_of("valid", 20)
    pairs[10] = ("", pairs[10][1])
    pairs[20] = ("word " * 300, pairs[20][1])
    pairs[30] = ("one two three four five six seven eight nine ten eleven twelve", "eins")
    pairs[40] = (pairs[40][0], "Это предложение написано по-русски.")
    pairs[50] = (pairs[50][0], pairs[50][0].upper())
    pairs[15] = (held_out[3][0].upper(), "Etwas ganz anderes.")
    pairs[70] = pairs[5]
    pairs[80] = (pairs[6][0].lower() + " !", pairs[6][1] + "…")
    pairs += [(pairs[7][0], f"{word}.") for word in ("Anders", "Wieder anders", "Nochmals anders")]
    (tmp_path / "more.tsv").write_text("only one column\nThis is fine.\tDas ist gut.\n")
    return Settings(
        LANGUAGES, (write_pairs(tmp_path / "train", pairs), str(tmp_path / "more.tsv")),
        valid=(write_pairs(tmp_path / "valid", held_out),), cleaning=Cleaning(targets_per_source=2),
        tokenizer=SUBWORDS, keep_dropped=True,
    )  # fmt: skip


def test_every_step_is_counted_and_every_dropped_pair_can_be_looked_up(messy: Settings, tmp_path: Path) -> None:
    tally = prepare(messy, tmp_path / "out", jobs=1)
    assert tally.steps() == {
        "malformed": 1, "empty": 1, "length": 1, "ratio": 1, "script": 1, "copy": 1, "leakage": 1,
        "exact duplicate": 1, "near duplicate": 1, "targets": 2,
    }  # fmt: skip
    assert tally.read == 265
    assert tally.kept == 265 - sum(tally.steps().values())
    with gzip.open(tmp_path / "out" / "dropped.tsv.gz", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    train, more = messy.train
    assert [(reason, int(line)) for reason, name, line, _, _ in rows if name == f"{train}.en"] == [
        ("empty", 11), ("leakage", 16), ("length", 21), ("ratio", 31), ("script", 41), ("copy", 51),
        ("exact duplicate", 71), ("near duplicate", 81), ("targets", 262), ("targets", 263),
    ]  # fmt: skip
    assert [row for row in rows if row[1] == more] == [["malformed: fewer than 2 columns", more, "1", "", ""]]
    assert rows[4][4] == "Это предложение написано по-русски."
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert {step["step"]: step["dropped"] for step in report["steps"]} == tally.steps()
    assert report["duplicates_index"]["bytes_per_pair"] >= 16
    assert report["inputs"][1]["left_out"][0]["lines"] == [1]
    text = (tmp_path / "out" / "report.txt").read_text(encoding="utf-8")
    assert "265 pairs read, 254 kept" in text
    assert "more.tsv: 1 fewer than 2 columns (line 1)" in text


def test_an_input_that_gives_nothing_is_mentioned_with_the_reason(tmp_path: Path) -> None:
    pairs = [(pair.source, pair.target) for pair in generate("en-de", "train", 200)]
    unit = '<tu><tuv xml:lang="en"><seg>A dog.</seg></tuv><tuv xml:lang="fr"><seg>Un chien.</seg></tuv></tu>'
    (tmp_path / "memory.tmx").write_text(f'<tmx version="1.4"><body>{unit}</body></tmx>')
    (tmp_path / "empty.tsv").write_text("")
    silent = (str(tmp_path / "memory.tmx"), str(tmp_path / "empty.tsv"))
    settings = Settings(LANGUAGES, (write_pairs(tmp_path / "train", pairs), *silent), tokenizer=SUBWORDS)
    tally = prepare(settings, tmp_path / "out", jobs=1)
    assert tally.notes == [
        f"{silent[0]} gave no pair: 1 not in both en and de, but en, fr (line 1)",
        f"{silent[1]} gave no pair: it is empty",
    ]
    assert tally.notes[0] in (tmp_path / "out" / "report.txt").read_text(encoding="utf-8")
    with pytest.raises(RegardError, match=r"no training text: .*memory\.tmx gave no pair.*but en, fr"):
        prepare(replace(settings, train=silent), tmp_path / "other", jobs=1)


def test_the_number_of_processes_and_the_size_of_chunks_change_no_byte(
    messy: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(messy, tmp_path / "whole", jobs=1)
    expected = contents(tmp_path / "whole")
    monkeypatch.setattr(preparing, "CHUNK_PAIRS", 25)
    for jobs in (1, 2, 3):
        prepare(messy, tmp_path / f"jobs{jobs}", jobs=jobs)
        assert contents(tmp_path / f"jobs{jobs}") == expected


def test_no_training_pair_is_near_the_held_out_text(tmp_path: Path) -> None:
    held_out = pairs_of("train", 30)
    twins = [(a.upper(), b) for a, b in held_out[:10]] + [("Some other text here.", b) for _, b in held_out[10:20]]
    pairs = pairs_of("train", 200)[30:] + twins
    (tmp_path / "held.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in held_out), encoding="utf-8")
    tally, prepared = quickly(tmp_path, pairs, test=(str(tmp_path / "held.tsv"),))
    assert tally.dropped["leakage"] >= 20
    for side, known in zip(("source", "target"), zip(*held_out, strict=True), strict=True):
        assert not {text.lower() for text in prepared.text(side)} & {text.lower() for text in known}


def test_held_out_text_is_left_as_it_is_and_its_empty_lines_reported(tmp_path: Path) -> None:
    odd = [("  Two  spaces ", "Zwei\u00a0Leerzeichen"), ("", "Leer."), ("Twice.", "Zweimal."), ("Twice.", "Zweimal.")]
    valid = write_pairs(tmp_path / "valid", odd)
    tally, prepared = quickly(tmp_path, pairs_of("train", 200), valid=(valid,))
    corpus = prepared.corpus("valid")
    assert corpus is not None
    assert list(zip(corpus.source, corpus.target, strict=True)) == odd
    assert tally.held_out["valid"].empty_lines == [2]
    assert "valid            4 pairs, 1 with an empty side: lines 2" in tally.text()
    assert prepared.corpus("test") is None


def test_damage_in_held_out_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "valid.tsv").write_text("a\tb\nc\n")
    with pytest.raises(RegardError, match=r"valid\.tsv, line 2: fewer than 2 columns; valid text must be sound"):
        quickly(tmp_path, pairs_of("train", 200), valid=(str(tmp_path / "valid.tsv"),))
    (tmp_path / "valid.tsv").write_text("\t\n")
    with pytest.raises(RegardError, match="holds no sentence pair"):
        quickly(tmp_path, pairs_of("train", 200), valid=(str(tmp_path / "valid.tsv"),))


def test_nothing_left_is_an_error_that_says_why(tmp_path: Path) -> None:
    pairs = [(f"Same text number {word}.", f"Same text number {word}.") for word in "abcde"]
    with pytest.raises(RegardError, match="Nothing is left of the training text: 5 pairs read, dropped copy 5"):
        quickly(tmp_path, pairs)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.de", "train.en"]


def test_a_file_without_a_sound_record_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("no\nno\n")
    with pytest.raises(RegardError, match=r"bad\.jsonl has no sound record; the first is line 1: not JSON"):
        quickly(tmp_path, pairs_of("train", 100), train=(str(tmp_path / "bad.jsonl"),))


def test_an_existing_folder_is_replaced_only_by_force(tmp_path: Path) -> None:
    quickly(tmp_path, pairs_of("train", 200))
    settings = Settings(LANGUAGES, (str(tmp_path / "train"),), tokenizer=SUBWORDS)
    write_pairs(tmp_path / "train", pairs_of("train", 150))
    with pytest.raises(RegardError, match=r"out exists already: .*--force"):
        prepare(settings, tmp_path / "out", jobs=1)
    assert len(Prepared.open(tmp_path / "out")) == 200
    prepare(settings, tmp_path / "out", jobs=1, force=True)
    assert len(Prepared.open(tmp_path / "out")) == 150
    assert not list(tmp_path.glob(".out*"))


def test_force_does_not_replace_what_is_not_prepared_data(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("ten years of work")
    settings = Settings(LANGUAGES, (write_pairs(tmp_path / "train", pairs_of("train", 100)),), tokenizer=SUBWORDS)
    with pytest.raises(RegardError, match="is no prepared data"):
        prepare(settings, tmp_path / "out", jobs=1, force=True)
    assert (tmp_path / "out" / "thesis.txt").exists()


def test_a_failure_leaves_the_old_folder_and_nothing_else(tmp_path: Path) -> None:
    quickly(tmp_path, pairs_of("train", 200))
    before = contents(tmp_path / "out")
    settings = Settings(LANGUAGES, (str(tmp_path / "train"),), tokenizer=TokenizerConfig(vocab_size=60_000))
    with pytest.raises(RegardError, match="more than this text can fill"):
        prepare(settings, tmp_path / "out", jobs=1, force=True)
    assert contents(tmp_path / "out") == before
    assert not list(tmp_path.glob(".out*"))


def test_two_processes_do_not_prepare_one_folder_and_a_dead_ones_remains_are_cleared(tmp_path: Path) -> None:
    part = tmp_path / ".out.part"
    part.mkdir()
    for side in ("source", "target"):
        (part / f"test.{side}").write_text("left by a killed process\n")
    held = os.open(part, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(RegardError, match="Another process is preparing"):
        quickly(tmp_path, pairs_of("train", 200))
    os.close(held)
    _, prepared = quickly(tmp_path, pairs_of("train", 200))
    assert len(prepared) == 200
    assert prepared.corpus("test") is None


def test_a_tokenizer_can_be_given_and_vocabularies_be_separate(tmp_path: Path) -> None:
    apart = TokenizerConfig(vocab_size=200, shared=False, kind="unigram")
    _, prepared = quickly(tmp_path, pairs_of("train", 300), tokenizer=apart)
    assert not prepared.tokenizers.shared
    (tmp_path / "again").mkdir()
    given = str(tmp_path / "out" / "tokenizer")
    _, again = quickly(tmp_path / "again", pairs_of("train", 300), tokenizer_folder=given)
    assert again.tokenizers.hash == prepared.tokenizers.hash
    assert again.fingerprint == prepared.fingerprint
    with pytest.raises(RegardError, match="no tokenizer folder"):
        quickly(tmp_path, pairs_of("train", 300), tokenizer_folder=str(tmp_path / "nowhere"))


def test_a_tokenizer_is_learned_from_a_bounded_sample_spread_over_the_text(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("".join(f"{i}\n" for i in range(1000)))
    some = [int(line) for line in sample(tmp_path / "x", 1000, 100)]
    assert len(some) == 100
    assert set(np.diff(some)) == {10}
    assert len(list(sample(tmp_path / "x", 1000, 2000))) == 1000


def test_the_fingerprint_is_that_of_the_tokens(tmp_path: Path) -> None:
    for name, n in (("one", 200), ("two", 200), ("three", 201)):
        (tmp_path / name).mkdir()
        quickly(tmp_path / name, pairs_of("train", n))
    one, two, three = (Prepared.open(tmp_path / name / "out").fingerprint for name in ("one", "two", "three"))
    assert one == two != three


def test_progress_ends_at_the_whole_and_counts_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "CHUNK_PAIRS", 20)
    seen: dict[str, list[tuple[int, float]]] = {}
    settings = Settings(LANGUAGES, (write_pairs(tmp_path / "train", pairs_of("train", 100)),), tokenizer=SUBWORDS)
    prepare(
        settings, tmp_path / "out", jobs=1,
        progress=lambda stage, pairs, part: seen.setdefault(stage, []).append((pairs, part)),
    )  # fmt: skip
    assert list(seen) == ["cleaning", "tokenizer", "encoding"]
    assert seen["encoding"][-1] == (100, 1.0)
    for steps in (seen["cleaning"], seen["encoding"]):
        assert len(steps) > 2
        assert steps == sorted(steps)


def test_a_language_of_unknown_script_is_noted(tmp_path: Path) -> None:
    tally, _ = quickly(tmp_path, pairs_of("train", 200), languages=("en", "tlh"), train=(
        f"{tmp_path}/train.en,{tmp_path}/train.de",))  # fmt: skip
    assert "the script of tlh is not known" in tally.text()


def test_a_file_full_of_damage_is_refused_and_a_little_is_left_out(tmp_path: Path) -> None:
    pairs = pairs_of("train", 100)
    for damaged, stem in ((5, "little"), (40, "much")):
        write_pairs(tmp_path / stem, pairs)
        lines = Path(tmp_path / f"{stem}.de").read_bytes().split(b"\n")
        lines[:damaged] = [b"Stra\xdfe " + line for line in lines[:damaged]]
        Path(tmp_path / f"{stem}.de").write_bytes(b"\n".join(lines))
    little, much = (Settings(LANGUAGES, (str(tmp_path / stem),), tokenizer=SUBWORDS) for stem in ("little", "much"))
    assert prepare(little, tmp_path / "a", jobs=1).dropped["malformed"] == 5
    with pytest.raises(
        RegardError, match=r"much.* is damaged or of another form: 40 .*of 100 records.*--max-malformed"
    ):
        prepare(much, tmp_path / "b", jobs=1)
    assert prepare(replace(much, max_malformed=0.5), tmp_path / "b", jobs=1).dropped["malformed"] == 40
