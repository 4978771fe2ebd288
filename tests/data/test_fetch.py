"""Named corpora: a real server on loopback, broken lines, changed files, and folders that hold everything or not."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from regard.config import DataConfig
from regard.data import assemble, fetch
from regard.data.corpus import load, load_required
from regard.data.corpus import test_splits as splits_to_report
from regard.data.download import download
from regard.data.files import locked, read_lines
from regard.data.named import IWSLT14_TESTS, Named, Part
from regard.errors import RegardError

QUICK = (0.0, 0.0)
ENGLISH, GERMAN = b"one\ntwo\n" * 5000, b"eins\nzwei\n" * 5000


@dataclass
class Site:
    """A web server on loopback: what it holds, how it behaves, and what it was asked for."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    from_the_start: bool = False  # answer a range with all of the file, and say so
    shift: int = 0  # answer a range with one that begins so much later, and say so
    at_most: int = 0  # bytes of an answer to a range
    breaks: list[int] = field(default_factory=list)  # after how many bytes the next answers break off
    errors: list[int] = field(default_factory=list)  # the next answers, instead of files
    stall: threading.Event | None = None  # after a break, wait for this before closing
    sent: list[tuple[str, str, int]] = field(default_factory=list)  # path, Range, bytes

    def total(self, path: str) -> int:
        return sum(count for name, _, count in self.sent if name == path)


@contextmanager
def serve() -> Iterator[Site]:
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if site.errors:
                self.send_error(site.errors.pop(0))
                return
            body = site.files.get(self.path)
            if body is None:
                self.send_error(404)
                return
            tag, wanted = f'"{hash(body):x}"', self.headers.get("Range", "")
            found = re.fullmatch(r"bytes=(\d+)-", wanted) if site.ranges else None
            start = int(found[1]) if found and self.headers.get("If-Range") == tag else 0
            partial = start > 0
            start = 0 if site.from_the_start else start + site.shift * partial
            end = min(len(body), start + site.at_most) if partial and site.at_most else len(body)
            self.send_response(206 if partial else 200)
            if partial:
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(body)}")
            self.send_header("Content-Length", str(end - start))
            self.send_header("ETag", tag)
            self.end_headers()
            rest = body[start : start + site.breaks.pop(0)] if site.breaks else body[start:end]
            self.wfile.write(rest)
            self.wfile.flush()
            site.sent.append((self.path, wanted, len(rest)))
            if len(rest) < end - start and site.stall:
                site.stall.wait(60)
            self.close_connection = True

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        site.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as site:
        site.files = {"/train.en.gz": gzip.compress(ENGLISH, mtime=0), "/train.de.gz": gzip.compress(GERMAN, mtime=0)}
        yield site


def corpus_at(site: Site, **changes: object) -> Named:
    part = Part((f"{site.address}/train.en.gz", f"{site.address}/train.de.gz"), local=("small/train.{}",))
    return Named(**{"languages": ("en", "de"), "licence": "public domain", "parts": {"train": (part,)}, **changes})


# --- the network -----------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> int:
    """The corpora here are tiny; returns what else is too few pairs."""
    few = fetch.FEWEST
    monkeypatch.setattr(fetch, "FEWEST", 1)
    return few


def test_a_corpus_is_fetched_whole_recorded_and_then_left_alone(site: Site, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    corpus = corpus_at(site)
    lock = fetch.fetch("small", corpus, tmp_path, report=lambda *step: seen.append(step))
    folder = tmp_path / "small"
    assert list(read_lines(folder / "train.de.gz")) == ["eins", "zwei"] * 5000
    assert lock["splits"]["train"]["pairs"] == 10_000
    entry = json.loads((folder / "lock.json").read_text())["origins"][0]
    body = site.files["/train.en.gz"]
    assert entry["sha256"] == hashlib.sha256(body).hexdigest()
    assert (entry["address"], entry["size"]) == (f"{site.address}/train.en.gz", len(body))
    assert seen[-1] == ("train.de.gz", len(site.files["/train.de.gz"]), len(site.files["/train.de.gz"]))
    assert {path.name for path in folder.iterdir()} == {"train.en.gz", "train.de.gz", "lock.json", ".fetching"}
    requests = len(site.sent)
    assert fetch.fetch("small", corpus, tmp_path) == lock
    assert len(site.sent) == requests


def test_a_broken_transfer_goes_on_where_it_stopped(site: Site, tmp_path: Path) -> None:
    site.files["/big"] = os.urandom(300_000)
    site.breaks = [100_000, 50_000]
    said: list[str] = []
    download(f"{site.address}/big", tmp_path / "big", say=said.append, pauses=QUICK)
    assert (tmp_path / "big").read_bytes() == site.files["/big"]
    assert [(asked, count) for _, asked, count in site.sent] == [
        ("", 100_000), ("bytes=100000-", 50_000), ("bytes=150000-", 150_000),
    ]  # fmt: skip
    assert "broke off after 100,000 of 300,000 bytes" in said[0]
    assert [path.name for path in tmp_path.iterdir()] == ["big"]


def test_a_killed_process_leaves_its_part_for_the_next(site: Site, tmp_path: Path) -> None:
    site.files["/big"] = os.urandom(300_000)
    site.breaks, site.stall = [131_072], threading.Event()
    code = "import sys; from pathlib import Path; from regard.data.download import download; "
    code += "download(sys.argv[1], Path(sys.argv[2]))"
    process = subprocess.Popen([sys.executable, "-c", code, f"{site.address}/big", str(tmp_path / "big")])
    part = tmp_path / "big.part"
    for _ in range(1500):
        if part.exists() and part.stat().st_size >= 65_536:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    site.stall.set()
    arrived = part.stat().st_size
    assert 0 < arrived < 300_000
    download(f"{site.address}/big", tmp_path / "big", pauses=QUICK)
    assert (tmp_path / "big").read_bytes() == site.files["/big"]
    # The server may note what it sent the killed process after this.
    assert ("/big", f"bytes={arrived}-", 300_000 - arrived) in site.sent


def test_a_server_without_ranges_sends_everything_again(site: Site, tmp_path: Path) -> None:
    site.files["/big"] = os.urandom(300_000)
    site.ranges, site.breaks = False, [100_000]
    download(f"{site.address}/big", tmp_path / "big", pauses=QUICK)
    assert (tmp_path / "big").read_bytes() == site.files["/big"]
    assert site.total("/big") == 400_000


def test_an_answer_that_begins_elsewhere_is_not_appended(site: Site, tmp_path: Path) -> None:
    site.files["/big"] = os.urandom(300_000)
    site.from_the_start, site.breaks = True, [100_000]
    download(f"{site.address}/big", tmp_path / "big", pauses=QUICK)
    assert (tmp_path / "big").read_bytes() == site.files["/big"]


@pytest.mark.parametrize("shift", [1_000, -1_000])
def test_an_answer_that_begins_at_a_third_place_is_not_taken_for_the_file(
    site: Site, tmp_path: Path, shift: int
) -> None:
    site.files["/big"] = os.urandom(300_000)
    site.shift, site.breaks = shift, [100_000]
    said: list[str] = []
    download(f"{site.address}/big", tmp_path / "big", say=said.append, pauses=QUICK)
    assert (tmp_path / "big").read_bytes() == site.files["/big"]
    assert "another piece of the file than it was asked for" in said[1]


def test_a_server_that_answers_in_small_pieces_is_asked_until_the_file_is_whole(site: Site, tmp_path: Path) -> None:
    site.files["/big"] = os.urandom(300_000)
    site.at_most, site.breaks = 80_000, [100_000]
    download(f"{site.address}/big", tmp_path / "big", pauses=QUICK)
    assert (tmp_path / "big").read_bytes() == site.files["/big"]


def test_a_file_that_changed_in_between_is_not_patched_together(site: Site, tmp_path: Path) -> None:
    site.files["/big"], site.breaks = os.urandom(300_000), [100_000]
    with pytest.raises(RegardError, match="100,000 bytes have arrived; the same command goes on"):
        download(f"{site.address}/big", tmp_path / "big", pauses=())
    site.files["/big"] = os.urandom(200_000)
    download(f"{site.address}/big", tmp_path / "big", pauses=())
    assert (tmp_path / "big").read_bytes() == site.files["/big"]


def test_a_busy_server_is_asked_again_and_a_missing_file_is_not(site: Site, tmp_path: Path) -> None:
    site.errors = [503, 429]
    download(f"{site.address}/train.en.gz", tmp_path / "a", pauses=QUICK)
    said: list[str] = []
    with pytest.raises(RegardError, match=r"/nothing cannot be fetched: the server says 404 Not Found.*--from"):
        download(f"{site.address}/nothing", tmp_path / "b", say=said.append, pauses=QUICK)
    assert said == []


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    with serve() as gone:
        pass
    with pytest.raises(RegardError, match=r"/x could not be fetched: .*refused.*give its folder with --from"):
        download(f"{gone.address}/x", tmp_path / "x", pauses=(0.0,))


def test_a_wrong_checksum_deletes_what_arrived(site: Site, tmp_path: Path) -> None:
    corpus = corpus_at(site, checksums={"train.en.gz": "sha256:" + "0" * 64})
    with pytest.raises(RegardError, match="does not have the checksum"):
        fetch.fetch("small", corpus, tmp_path)
    assert not (tmp_path / "small").exists()
    right = hashlib.md5(site.files["/train.en.gz"]).hexdigest()
    fetch.fetch("small", corpus_at(site, checksums={"train.en.gz": f"md5:{right}"}), tmp_path)


def test_a_fetch_that_fails_leaves_what_has_arrived_and_no_empty_folder(site: Site, tmp_path: Path) -> None:
    del site.files["/train.de.gz"]
    with pytest.raises(RegardError, match="404"):
        fetch.fetch("small", corpus_at(site), tmp_path / "some")
    assert [path.name for path in (tmp_path / "some").rglob("*") if path.is_file()] == ["train.en.gz"]
    del site.files["/train.en.gz"]
    with pytest.raises(RegardError, match="404"):
        fetch.fetch("small", corpus_at(site), tmp_path / "none" / "cache")
    assert not (tmp_path / "none").exists()


def test_bytes_that_differ_from_the_first_fetch_are_an_error(site: Site, tmp_path: Path) -> None:
    fetch.fetch("small", corpus_at(site), tmp_path)
    site.files["/train.de.gz"] = gzip.compress(b"drei\nvier\n" * 5000, mtime=0)
    with pytest.raises(RegardError, match=r"train\.de\.gz has changed since it was first fetched.*delete .*lock\.json"):
        fetch.fetch("small", corpus_at(site), tmp_path, again=True)
    assert "eins" in set(read_lines(tmp_path / "small" / "train.de.gz"))  # the old text is still there
    (tmp_path / "small" / "lock.json").unlink()
    fetch.fetch("small", corpus_at(site), tmp_path)
    assert "drei" in set(read_lines(tmp_path / "small" / "train.de.gz"))


def test_a_text_that_was_lost_is_fetched_again(site: Site, tmp_path: Path) -> None:
    fetch.fetch("small", corpus_at(site), tmp_path)
    (tmp_path / "small" / "train.en.gz").write_bytes(b"cut")
    fetch.fetch("small", corpus_at(site), tmp_path)
    assert set(read_lines(tmp_path / "small" / "train.en.gz")) == {"one", "two"}


def test_two_processes_do_not_fetch_one_corpus_at_once(site: Site, tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    with (
        locked(tmp_path / "small" / ".fetching", "taken"),
        pytest.raises(RegardError, match="Another process is fetching"),
    ):
        fetch.fetch("small", corpus_at(site), tmp_path)


# --- archives and formats --------------------------------------------------------------------------------


def tar(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def test_parts_of_archives_are_joined_and_sgml_becomes_lines(site: Site, tmp_path: Path) -> None:
    site.files["/a.tgz"] = tar({
        "x/a.en": "one\r\ntwo\u2028halves\n".encode(), "x/a.de": b"eins\nzwei\n", "x/a.fr": b"un\n",
        "n/b.en.gz": gzip.compress(b"three\n"), "n/b.de.gz": gzip.compress(b"drei\n"),
        "../../escaped": b"out", "s.en.sgm": b'<doc>\n<seg id="1"> A  dog </seg>\n</doc>\n',
        "s.de.sgm": b'<seg id="1">Ein Hund</seg>\n',
    })  # fmt: skip
    both = (f"{site.address}/a.tgz",) * 2
    parts = {
        "train": (Part(both, ("x/a.en", "x/a.de")), Part(both, ("n/b.en.gz", "n/b.de.gz"))),
        "test": (Part(both, ("s.en.sgm", "s.de.sgm")),),
    }
    lock = fetch.fetch("small", corpus_at(site, parts=parts), tmp_path)
    folder = tmp_path / "small"
    assert list(read_lines(folder / "train.en")) == ["one", "two\u2028halves", "three"]
    assert list(read_lines(folder / "train.de")) == ["eins", "zwei", "drei"]
    assert list(read_lines(folder / "test.en")) == ["A dog"]
    assert {split: entry["pairs"] for split, entry in lock["splits"].items()} == {"train": 3, "test": 1}
    assert len(site.sent) == 1  # one archive, fetched once
    assert not list(tmp_path.parent.rglob("escaped"))
    assert {path.name for path in folder.iterdir()} >= {"lock.json"}
    assert not (folder / "downloads").exists()


def test_archives_that_are_cut_short_or_others_are_named(site: Site, tmp_path: Path) -> None:
    both = (f"{site.address}/a.tgz",) * 2
    corpus = corpus_at(site, parts={"train": (Part(both, ("a.en", "a.de")),)})
    site.files["/a.tgz"] = tar({"a.en": os.urandom(50_000)})[:20_000]
    with pytest.raises(RegardError, match=r"a\.tgz is not a sound archive"):
        fetch.fetch("cut", corpus, tmp_path)
    assert not (tmp_path / "cut").exists()  # the next fetch does not meet it again
    site.files["/a.tgz"] = tar({"a.en": b"one\n"})
    with pytest.raises(RegardError, match=r"does not hold a\.de"):
        fetch.fetch("other", corpus, tmp_path)
    site.files["/a.tgz"] = tar({"a.en": b"one\n", "a.de": b"eins\nzwei\n"})
    with pytest.raises(RegardError, match="has 1 lines but"):
        fetch.fetch("unequal", corpus, tmp_path)


def test_an_archive_that_unpacks_without_end_is_stopped(site: Site, tmp_path: Path) -> None:
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("deu.txt", bytes(3 * assemble.SMALL))
    for name, content in (("a.zip", zipped.getvalue()), ("a.tgz", tar({"deu.txt": bytes(3 * assemble.SMALL)}))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(RegardError, match=r"unpacks to more than 200 times its size"):
            assemble.unpack(tmp_path / name, ["deu.txt"], tmp_path / "out")
        assert sum(path.stat().st_size for path in (tmp_path / "out").iterdir()) <= 2 * assemble.SMALL


def letters(i: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in str(i))


def table() -> str:
    """Of each sentence three translations, one of them by another spelling of it, and another that shares one."""
    names = [letters(i) for i in range(1500)]
    rows = [f"Sentence {name} runs.\tSatz {name} {word}.\tCC-BY" for name in names for word in ("läuft", "rennt")]
    rows += [f"sentence {name} runs!\tSatz {name} saust.\tCC-BY" for name in names]
    return "\n".join([*rows, *(f"Clause {name} goes.\tSatz {name} läuft!\tCC-BY" for name in names)]) + "\n"


def test_tatoeba_is_split_by_english_sentence_without_a_leak_through_either_side(site: Site, tmp_path: Path) -> None:
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("deu.txt", table())
        archive.writestr("_about.txt", "about")
    site.files["/deu-eng.zip"] = zipped.getvalue()
    part = Part((f"{site.address}/deu-eng.zip",), ("deu.txt",))
    corpus = corpus_at(site, parts=dict.fromkeys(("train", "valid", "test"), (part,)), form="tatoeba")
    lock = fetch.fetch("small", corpus, tmp_path)
    english = {split: list(read_lines(tmp_path / "small" / f"{split}.en")) for split in corpus.splits}
    german = {split: list(read_lines(tmp_path / "small" / f"{split}.de")) for split in corpus.splits}
    rows = [line.split("\t") for line in table().splitlines()]
    for split in ("valid", "test"):  # drawn by the English sentence alone, and whole
        assert lock["splits"][split]["pairs"] == sum(assemble.split_of(row[0]) == split for row in rows)
    assert sum(entry["pairs"] for entry in lock["splits"].values()) == 6000 - lock["left_out"]["near valid or test"]
    assert all(len(english[split]) == len(german[split]) > 0 for split in corpus.splits)
    keys = {split: {line.lower().strip(".!") for line in lines} for split, lines in english.items()}
    assert not keys["valid"] & keys["test"]
    for side in (english, german):
        keys = {split: {line.lower().strip(".!") for line in lines} for split, lines in side.items()}
        assert not keys["train"] & (keys["valid"] | keys["test"])
    pairs = {pair for split in corpus.splits for pair in zip(english[split], german[split], strict=True)}
    assert ("Sentence d runs.", "Satz d läuft.") in pairs  # the attribution is no text
    shared = [(f"Sentence {letters(i)} runs.", f"Clause {letters(i)} goes.") for i in range(1500)]
    apart = [{assemble.split_of(one), assemble.split_of(other)} for one, other in shared]
    leaks = sum("train" in splits and len(splits) == 2 for splits in apart)
    assert lock["left_out"] == {"near valid or test": leaks}
    assert 0 < leaks < 300


def test_talks_are_tokenised_cleaned_and_held_out_as_the_literature_does(site: Site, tmp_path: Path) -> None:
    pytest.importorskip("sacremoses")
    lines = ["<url>http://x</url>", "<keywords>a, b</keywords>", "<talkid>1</talkid>", "<title>Der Hund</title>"]
    german = [*lines, *(f"Satz {i}, ja." for i in range(45)), "Ja.", ""]
    english = [*lines, *(f"It's {i}, yes." for i in range(45)), "Yes and very much more than that.", ""]
    segment = '<seg id="1"> It’s 3 o\'clock. </seg>\n'
    members = {"train.de": "\n".join(german).encode(), "train.en": "\n".join(english).encode()}
    members |= {"t.de.xml": segment.encode(), "t.en.xml": segment.encode()}
    site.files["/t.tgz"] = tar({name.replace("train.", "train.tags."): text for name, text in members.items()})
    both = (f"{site.address}/t.tgz",) * 2
    train, test = Part(both, ("train.tags.de", "train.tags.en")), Part(both, ("t.de.xml", "t.en.xml"))
    parts = {"train": (train,), "valid": (train,), "test": (test,)}
    lock = fetch.fetch("small", corpus_at(site, languages=("de", "en"), parts=parts, form="iwslt"), tmp_path)
    folder = tmp_path / "small"
    assert {split: entry["pairs"] for split, entry in lock["splits"].items()} == {"train": 44, "valid": 2, "test": 1}
    assert next(read_lines(folder / "train.de")) == "der hund"
    assert next(iter(read_lines(folder / "valid.en"))) == "it &apos;s 21 , yes ."  # the 23rd line kept
    assert next(read_lines(folder / "test.en")) == "it &apos;s 3 o &apos;clock ."


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train.tags.en": b"One.\nTwo.\n"}, r"train\.tags\.de has 3 lines but .*train\.tags\.en has 2"),
        ({"t.en.xml": b"<seg>a</seg>\n"}, r"t\.de\.xml has 2 lines but .*t\.en\.xml has 1"),
        ({"t.en.xml": b"<seg>a</seg>\n<seg>caf\xe9</seg>\n"}, r"t\.en\.xml, line 2: byte 9 is not UTF-8"),
    ],
)
def test_talks_that_do_not_match_or_are_no_text_are_named(
    site: Site, tmp_path: Path, changes: dict[str, bytes], message: str
) -> None:
    pytest.importorskip("sacremoses")
    members = {f"train.tags.{language}": b"One.\nTwo.\nThree.\n" for language in ("de", "en")}
    members |= {f"t.{language}.xml": b"<seg>a</seg>\n<seg>b</seg>\n" for language in ("de", "en")}
    site.files["/t.tgz"] = tar({**members, **changes})
    both = (f"{site.address}/t.tgz",) * 2
    train, test = Part(both, ("train.tags.de", "train.tags.en")), Part(both, ("t.de.xml", "t.en.xml"))
    parts = {"train": (train,), "valid": (train,), "test": (test,)}
    with pytest.raises(RegardError, match=message):
        fetch.fetch("small", corpus_at(site, languages=("de", "en"), parts=parts, form="iwslt"), tmp_path)


# --- a folder --------------------------------------------------------------------------------------------


def multi30k_folder(folder: Path) -> Path:
    for stem in ("train", "val", "test_2016_flickr"):
        for language in ("en", "de"):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{stem}.{language}.gz").write_bytes(gzip.compress(f"{stem} {language}\n".encode()))
    return folder


@pytest.mark.parametrize("given", [".", "multi30k"])
def test_a_folder_or_the_one_above_it_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "cache"))
    multi30k_folder(tmp_path / "data" / "multi30k")
    (tmp_path / "data" / "other").mkdir()
    (tmp_path / "data" / "other" / "train.en").write_text("another corpus\n")
    said: list[str] = []
    lock = fetch.fetch("multi30k-en-de", origin=tmp_path / "data" / given, say=said.append)
    assert set(lock["splits"]) == {"train", "valid", "test"}
    assert any("without test_2017_flickr" in text for text in said)
    source, target = fetch.files("multi30k-en-de", "valid")
    assert (list(read_lines(source)), list(read_lines(target))) == (["val en"], ["val de"])
    corpus = load_required(DataConfig(corpus="multi30k-en-de"), "test")
    assert (corpus.source, corpus.target) == (["test_2016_flickr en"], ["test_2016_flickr de"])
    assert splits_to_report(DataConfig(corpus="multi30k-en-de")) == ["test"]
    with pytest.raises(RegardError, match="fetched without its split test_2018_flickr"):
        fetch.files("multi30k-en-de", "test_2018_flickr")


def test_what_a_folder_lacks_is_named(tmp_path: Path) -> None:
    folder = multi30k_folder(tmp_path / "multi30k")
    (folder / "val.de.gz").unlink()
    with pytest.raises(RegardError, match=r"does not hold all of multi30k-en-de; missing: val\.en, val\.de\."):
        fetch.fetch("multi30k-en-de", root=tmp_path / "cache", origin=folder)
    with pytest.raises(RegardError, match="There is no folder"):
        fetch.fetch("multi30k-en-de", root=tmp_path / "cache", origin=tmp_path / "nowhere")
    with pytest.raises(
        RegardError, match=r"missing: training-parallel-europarl-v7\.tgz, training-parallel-commoncrawl"
    ):
        fetch.fetch("wmt14-en-de", root=tmp_path / "cache", origin=folder)


def test_files_that_cannot_be_the_corpus_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toys: int
) -> None:
    names = [f"{stem}.{side}" for stem in ("train", "val", "test_2016_flickr") for side in ("en", "de")]

    def fetched(**sizes: int) -> list[str]:
        said: list[str] = []
        for name in names:
            (tmp_path / name).write_text("a line\n" * sizes.get(name.split(".")[0], 5))
        fetch.fetch("multi30k-en-de", root=tmp_path / "cache", origin=tmp_path, again=True, say=said.append)
        return said

    monkeypatch.setattr(fetch, "FEWEST", toys)
    with pytest.raises(RegardError, match="The valid text of multi30k-en-de is empty in en"):
        fetched(train=500, val=0)
    with pytest.raises(RegardError, match="has 1 pairs, multi30k-en-de about 29,000: these are not its files"):
        fetched(train=1)
    assert not (tmp_path / "cache" / "multi30k-en-de" / "lock.json").exists()
    assert "multi30k-en-de: train has 500 pairs, the whole corpus about 29,000" in fetched(train=500)


def test_archives_in_a_folder_serve_as_well_as_text(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "deu-eng.zip", "w") as archive:
        archive.writestr("deu.txt", table())
    lock = fetch.fetch("tatoeba-en-de", root=tmp_path / "a", origin=tmp_path)
    (tmp_path / "deu-eng.zip").unlink()
    (tmp_path / "deu-eng.tsv.xz").write_bytes(lzma.compress(table().encode()))
    again = fetch.fetch("tatoeba-en-de", root=tmp_path / "b", origin=tmp_path)
    assert lock["splits"] == again["splits"]


def test_europarl_has_no_address_and_takes_its_test_set_from_beside(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="no public address: regard data fetch europarl-en-de --from FOLDER"):
        fetch.fetch("europarl-en-de", root=tmp_path / "cache")
    for name in ("europarl_ende/train.{}", "europarl_ende/valid.{}", "wmt_newstest/newstest2014.en-de.{}"):
        for language in ("en", "de"):
            path = tmp_path / f"{name.format(language)}.xz"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(lzma.compress(f"{path.stem}\n".encode()))
    lock = fetch.fetch("europarl-en-de", root=tmp_path / "cache", origin=tmp_path / "europarl_ende")
    assert set(lock["splits"]) == {"train", "valid", "test"}
    assert list(read_lines(tmp_path / "cache" / "europarl-en-de" / "test.de.xz")) == ["newstest2014.en-de.de"]


def test_two_corpora_are_never_joined(tmp_path: Path) -> None:
    """Both have train.en; a folder that lacks a language is not filled up from another one."""
    for pair, target in (("ende", "de"), ("enfr", "fr")):
        folder = tmp_path / "data" / f"europarl_{pair}"
        folder.mkdir(parents=True)
        for split in ("train", "valid"):
            for language in ("en", target):
                (folder / f"{split}.{language}").write_text(f"{split} {pair} {language}\n")
    fetch.fetch("europarl-en-fr", root=tmp_path / "cache", origin=tmp_path / "data" / "europarl_ende")
    assert list(read_lines(tmp_path / "cache" / "europarl-en-fr" / "train.en")) == ["train enfr en"]
    (tmp_path / "data" / "europarl_enfr" / "train.en").unlink()
    for given in ("europarl_ende", "europarl_enfr", "."):
        with pytest.raises(RegardError, match=r"missing: train\.en, train\.fr\."):
            fetch.fetch("europarl-en-fr", root=tmp_path / "other", origin=tmp_path / "data" / given)


def test_a_name_that_two_folders_have_is_not_guessed(tmp_path: Path) -> None:
    for place in ("one", "two"):
        multi30k_folder(tmp_path / place / "captions")
    with pytest.raises(RegardError, match=r"could both be multi30k/train\.en: give the folder of one of them"):
        fetch.fetch("multi30k-en-de", root=tmp_path / "cache", origin=tmp_path)
    (tmp_path / "two" / "captions" / "train.de.gz").unlink()
    (tmp_path / "two" / "captions" / "val.de.gz").unlink()
    (tmp_path / "two" / "captions" / "test_2016_flickr.de.gz").unlink()
    lock = fetch.fetch("multi30k-en-de", root=tmp_path / "cache", origin=tmp_path)
    assert all("one" in Path(entry["address"]).parts for entry in lock["origins"])


def test_tokenised_talks_and_their_archive_do_not_mix(tmp_path: Path) -> None:
    """A folder with half of the tokenised text and the archive beside it is read from the archive."""
    pytest.importorskip("sacremoses")
    folder = tmp_path / "iwslt14_deen"
    folder.mkdir()
    for language in ("de", "en"):
        for split in ("train", "test"):
            (folder / f"{split}.tok.lc.{language}").write_text("tokenised already .\n")
    with pytest.raises(RegardError, match=r"missing: valid\.tok\.lc\.de, valid\.tok\.lc\.en\."):
        fetch.fetch("iwslt14-de-en", root=tmp_path / "cache", origin=folder)
    talks = "".join(f"Sentence, {i}.\n" for i in range(46)).encode()
    tests = [f"de-en/IWSLT14.{name}.de-en.{{}}.xml" for name in IWSLT14_TESTS]
    members = {f"de-en/train.tags.de-en.{language}": talks for language in ("de", "en")}
    members |= {name.format(language): b"<seg>Test, yes.</seg>\n" for name in tests for language in ("de", "en")}
    (folder / "de-en.tgz").write_bytes(tar(members))
    lock = fetch.fetch("iwslt14-de-en", root=tmp_path / "cache", origin=folder)
    assert {split: entry["pairs"] for split, entry in lock["splits"].items()} == {"train": 44, "valid": 2, "test": 5}
    assert next(read_lines(tmp_path / "cache" / "iwslt14-de-en" / "valid.en")) == "sentence , 22 ."


def test_a_corpus_that_is_not_here_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    with pytest.raises(
        RegardError, match=r"^The corpus iwslt14-de-en is not here yet: regard data fetch iwslt14-de-en\.$"
    ):
        load(DataConfig(corpus="iwslt14-de-en"), "train")
    with pytest.raises(
        RegardError, match="regard data fetch europarl-en-fr --from FOLDER, for it has no public address"
    ):
        load(DataConfig(corpus="europarl-en-fr"), "train")
    with pytest.raises(RegardError, match=r"No corpus named multi30k-en-ed \(did you mean multi30k-en-de\?\)"):
        fetch.files("multi30k-en-ed", "train")
    with pytest.raises(RegardError, match=r"no public one: built in are en-de.*fetch gets multi30k-en-de"):
        load(DataConfig(corpus="multi30k-en-ed"), "train")


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_DATA", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    assert fetch.cache() == Path("/a")
    monkeypatch.delenv("REGARD_DATA")
    assert fetch.cache() == Path("/b/regard")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert fetch.cache() == Path.home() / ".cache" / "regard"


def test_every_named_corpus_has_text_to_train_and_to_check_and_sound_addresses() -> None:
    for name, corpus in fetch.CORPORA.items():
        assert corpus.splits[:3] == ("train", "valid", "test"), name
        assert corpus.licence
        names = [address.rpartition("/")[2] for address in corpus.addresses]
        assert len(set(names)) == len(names)  # they share one folder
        assert all(address.startswith("https://") for address in corpus.addresses)
        assert all(not part.members or len(part.members) == len(part.addresses) for parts in corpus.parts.values()
                   for part in parts)  # fmt: skip
        if not name.startswith("europarl"):
            assert corpus.public
