"""Big jobs: any file, in order, in constant memory; killed anywhere, they end with the bytes of one never killed."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import random
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from regard.data.files import read_lines
from regard.decode.jobs import Job, run
from regard.errors import RegardError

SCRIPT = Path(__file__).with_name("killable_job.py")
LINES = [f"line {i} {'ü' * (i % 5)}" for i in range(23)]  # three chunks of seven, and two lines


def turned(first: int, lines: list[str]) -> list[str]:
    return [f"{first + i} {line[::-1]}" for i, line in enumerate(lines)]


EXPECTED = turned(0, LINES)


def failing(after: int) -> object:
    """A translation that breaks off once so many lines are done."""

    def translate(first: int, lines: list[str]) -> list[str]:
        if first >= after:
            raise InterruptedError
        return turned(first, lines)

    return translate


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "in.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return Job(tmp_path / "in.txt", tmp_path / "out.txt", 7, {"beam_size": 4})


def interrupt(job: Job, after: int = 14) -> None:
    with pytest.raises(InterruptedError):
        run(job, failing(after))  # type: ignore[arg-type]


def leftovers(job: Job) -> list[str]:
    return sorted(path.name for path in job.output.parent.iterdir() if path not in (job.input, job.output))


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_lines_come_out_in_order_and_nothing_else_is_left(job: Job, at_once: int) -> None:
    def slow_at_first(first: int, lines: list[str]) -> list[str]:
        time.sleep(0.05 if first == 0 else 0.0)
        return turned(first, lines)

    told: list[tuple[int, float]] = []
    assert run(job, slow_at_first, at_once, progress=lambda lines, part: told.append((lines, part))) == len(LINES)
    assert job.output.read_text(encoding="utf-8").splitlines() == EXPECTED
    assert [lines for lines, _ in told] == [0, 7, 14, 21, 23]
    assert told[-1][1] == 1.0
    assert leftovers(job) == []


@pytest.mark.parametrize("at_once", [1, 2])
def test_killed_before_anything_it_does_to_the_disk_a_job_ends_with_the_same_bytes(job: Job, at_once: int) -> None:
    run(job, turned)
    whole = job.output.read_bytes()
    job.output.unlink()
    killed = 0
    for count in range(1, 100):
        command = [sys.executable, str(SCRIPT), str(job.input), str(job.output), str(at_once)]
        code = subprocess.run([*command, str(count)], check=False, timeout=60).returncode
        assert not job.output.exists() or job.output.read_bytes() == whole  # nobody sees half an output
        if code == 0:
            break
        assert code == -signal.SIGKILL
        killed += 1
        subprocess.run([*command, "0"], check=True, timeout=60)
        assert job.output.read_bytes() == whole, count
        assert leftovers(job) == [], count
        job.output.unlink()
    assert killed > 15


@pytest.mark.parametrize("again", range(1, 5))
def test_killed_before_its_first_record_and_once_more_it_ends_with_the_same_bytes(job: Job, again: int) -> None:
    command = [sys.executable, str(SCRIPT), str(job.input), str(job.output), "1"]
    assert subprocess.run([*command, "6"], check=False, timeout=60).returncode == -signal.SIGKILL
    assert job.part.stat().st_size, "a chunk is on the disk, and its record is not"
    assert subprocess.run([*command, str(again)], check=False, timeout=60).returncode == -signal.SIGKILL
    subprocess.run([*command, "0"], check=True, timeout=60)
    assert job.output.read_text(encoding="utf-8").splitlines() == EXPECTED
    assert leftovers(job) == []


def broken_off(*arguments: object) -> None:
    raise InterruptedError


def test_a_restart_that_is_killed_can_be_repeated(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(job)
    for name in ("flush_folder", "note"):  # before and after the journal is emptied
        with monkeypatch.context() as patch:
            patch.setattr(f"regard.decode.jobs.{name}", broken_off)
            with pytest.raises(InterruptedError):
                run(job, turned, restart=True)
    assert run(job, turned) == len(LINES)
    assert job.output.read_text(encoding="utf-8").splitlines() == EXPECTED


@pytest.mark.parametrize("chunk", [1, 7, 23])
def test_a_job_killed_when_all_is_written_is_only_renamed(
    job: Job, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = replace(job, chunk=chunk)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", broken_off)
        with pytest.raises(InterruptedError):
            run(job, turned)
    assert run(job, failing(23)) == len(LINES)  # type: ignore[arg-type]
    assert job.output.read_text(encoding="utf-8").splitlines() == EXPECTED


def test_a_job_goes_on_where_it_was(job: Job) -> None:
    interrupt(job)
    assert leftovers(job) == ["out.txt.journal", "out.txt.part"]
    assert not job.output.exists()
    done: list[int] = []
    remarks: list[str] = []

    def watched(first: int, lines: list[str]) -> list[str]:
        done.append(first)
        return turned(first, lines)

    assert run(job, watched, remark=remarks.append) == len(LINES)
    assert done == [14, 21]
    assert remarks == ["Going on after line 14."]
    assert job.output.read_text(encoding="utf-8").splitlines() == EXPECTED


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_record_cut_short_is_made_again(job: Job, cut: int) -> None:
    interrupt(job)
    content = job.journal.read_bytes()
    job.journal.write_bytes(content[:-cut])
    with job.part.open("ab") as part:
        part.write(b"half a line that no record ")
    run(job, turned)
    assert job.output.read_text(encoding="utf-8").splitlines() == EXPECTED


def test_an_input_that_grew_is_translated_as_if_it_had_always_been_so(job: Job) -> None:
    """Killed just after the last chunk, which was not full: with more lines, it is another chunk."""
    interrupt(job, 21)
    with job.part.open("ab") as part:
        part.write("".join(f"{line}\n" for line in EXPECTED[21:]).encode())
    record = {
        "lines": 23, "input": hashlib.sha256(job.input.read_bytes()).hexdigest(), "output": job.part.stat().st_size
    }  # fmt: skip
    with job.journal.open("a") as journal:
        journal.write(json.dumps(record) + "\n")
    more = [*LINES, *(f"more {i}" for i in range(9))]
    job.input.write_text("\n".join(more) + "\n", encoding="utf-8")
    run(job, turned)
    assert job.output.read_text(encoding="utf-8").splitlines() == turned(0, more)


def test_another_input_or_request_is_refused_until_restarted(job: Job, tmp_path: Path) -> None:
    interrupt(job)
    other = Job(job.input, job.output, 7, {"beam_size": 5})
    with pytest.raises(RegardError, match=r"begun otherwise: beam_size was 4, now 5.*--restart"):
        run(other, turned)
    with pytest.raises(RegardError, match="chunk was 7, now 8"):
        run(Job(job.input, job.output, 8, job.decides), turned)
    (tmp_path / "other.txt").write_text("\n".join(["other", *LINES[1:]]) + "\n", encoding="utf-8")
    with pytest.raises(RegardError, match=r"first 14 lines have been translated, and they have changed.*--restart"):
        run(Job(tmp_path / "other.txt", job.output, 7, job.decides), turned)
    job.input.write_text("line 0\n", encoding="utf-8")
    with pytest.raises(RegardError, match="they have changed"):
        run(job, turned)
    assert run(other, turned, restart=True) == 1
    assert job.output.read_text(encoding="utf-8") == "0 0 enil\n"


def test_another_machine_is_announced(job: Job) -> None:
    two = Job(job.input, job.output, 7, job.decides, {"threads": 2})
    interrupt(two)
    remarks: list[str] = []
    run(Job(job.input, job.output, 7, job.decides, {"threads": 3}), turned, remark=remarks.append)
    assert "threads was 2, now 3" in remarks[0]
    assert job.output.read_text(encoding="utf-8").splitlines() == EXPECTED


def test_nothing_is_overwritten_unasked(job: Job, tmp_path: Path) -> None:
    job.output.write_text("precious\n")
    with pytest.raises(RegardError, match=r"there already.*--restart"):
        run(job, turned)
    assert job.output.read_text() == "precious\n"
    assert leftovers(job) == []
    with pytest.raises(InterruptedError):
        run(job, failing(7), restart=True)  # type: ignore[arg-type]
    assert job.output.read_text() == "precious\n"  # until the new one is whole
    run(job, turned)
    assert job.output.read_text(encoding="utf-8").splitlines() == EXPECTED
    with pytest.raises(RegardError, match="its own translation"):
        run(Job(job.input, job.input, 7), turned, restart=True)
    with pytest.raises(RegardError, match="No such file"):
        run(Job(tmp_path / "none", tmp_path / "new", 7), turned)
    with pytest.raises(RegardError, match="no folder"):
        run(Job(job.input, tmp_path / "none" / "new", 7), turned)
    (tmp_path / "new.part").write_text("of somebody else")
    with pytest.raises(RegardError, match="lost its journal"):
        run(Job(job.input, tmp_path / "new", 7), turned)


def test_damage_is_said(job: Job) -> None:
    interrupt(job)
    job.part.write_bytes(job.part.read_bytes()[:20])
    with pytest.raises(RegardError, match=r"shorter than its journal says.*--restart"):
        run(job, turned)


def test_an_output_of_unknown_compression_is_refused_before_anything_is_done(job: Job) -> None:
    with pytest.raises(RegardError, match=r"out\.ZIP: \.ZIP is a compression that is not known here"):
        run(replace(job, output=job.output.with_suffix(".ZIP")), turned)
    assert leftovers(job) == []


@pytest.mark.parametrize("line", [0, 1, 2])
@pytest.mark.parametrize("damage", [b"garbage\n", b"\n", b"{}\n", b"[]\n"])
def test_what_a_damaged_journal_cannot_tell_is_not_thrown_away_unasked(job: Job, line: int, damage: bytes) -> None:
    interrupt(job)
    lines = job.journal.read_bytes().splitlines(keepends=True)
    job.journal.write_bytes(b"".join([*lines[:line], damage, *lines[line:]]))
    done = job.part.read_bytes(), job.journal.read_bytes()
    for _ in range(2):
        with pytest.raises(RegardError, match=r"out\.txt\.journal is damaged.*--restart"):
            run(job, turned)
        assert (job.part.read_bytes(), job.journal.read_bytes()) == done
    run(job, turned, restart=True)
    assert job.output.read_text(encoding="utf-8").splitlines() == EXPECTED
    assert leftovers(job) == []


def test_a_part_whose_journal_is_empty_is_not_thrown_away_unasked(job: Job) -> None:
    interrupt(job)
    job.journal.write_bytes(b"")
    with pytest.raises(RegardError, match=r"out\.txt\.journal is damaged"):
        run(job, turned)
    assert job.part.stat().st_size
    run(job, turned, restart=True)
    assert job.output.read_text(encoding="utf-8").splitlines() == EXPECTED
    assert leftovers(job) == []


def test_a_second_process_is_kept_out(job: Job) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def waiting(first: int, lines: list[str]) -> list[str]:
        entered.set()
        assert go_on.wait(30)
        return turned(first, lines)

    thread = threading.Thread(target=run, args=(job, waiting))
    thread.start()
    assert entered.wait(30)
    with pytest.raises(RegardError, match="Another process is writing"):
        run(job, turned)
    go_on.set()
    thread.join()
    assert job.output.read_text(encoding="utf-8").splitlines() == EXPECTED


def test_a_bad_byte_costs_what_comes_after_it_alone(job: Job) -> None:
    good = job.input.read_bytes()
    lines = good.splitlines(keepends=True)
    job.input.write_bytes(b"".join([*lines[:16], b"\xff\n", *lines[17:]]))
    with pytest.raises(RegardError, match=r"in\.txt, line 17: byte 1 is not UTF-8"):
        run(job, turned)
    job.input.write_bytes(good)
    firsts: list[int] = []
    run(job, lambda first, lines: firsts.append(first) or turned(first, lines))  # type: ignore[func-returns-value]
    assert firsts == [14, 21]
    assert job.output.read_text(encoding="utf-8").splitlines() == EXPECTED


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_compressed_files_are_read_and_written_and_resumed(tmp_path: Path, ending: str) -> None:
    if ending == ".zst":
        zstandard = pytest.importorskip("zstandard")
    pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(ending) or zstandard.ZstdCompressor().compress
    job = Job(tmp_path / f"in.txt{ending}", tmp_path / f"out.txt{ending}", 7)
    job.input.write_bytes(pack("\n".join(LINES).encode()))
    run(job, turned)
    whole = job.output.read_bytes()
    assert list(read_lines(job.output)) == EXPECTED
    job.output.unlink()
    interrupt(job)
    run(job, turned)
    assert job.output.read_bytes() == whole


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_nothing_translates_to_nothing(tmp_path: Path, ending: str) -> None:
    job = Job(tmp_path / "in", tmp_path / f"out{ending}", 7)
    job.input.write_bytes(b"")
    assert run(job, turned) == 0
    assert list(read_lines(job.output)) == []


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    peaks = []
    for chunks in (10, 100):
        job = Job(tmp_path / f"in-{chunks}", tmp_path / f"out-{chunks}", 100)
        job.input.write_text("a line of some length, so that it counts\n" * 100 * chunks)
        tracemalloc.start()
        run(job, turned, at_once=2)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


def test_random_interruptions_change_no_byte(job: Job) -> None:
    chance = random.Random(time.time_ns())
    many = [f"{i} {chance.random()}" for i in range(200)]
    job.input.write_text("\n".join(many), encoding="utf-8")
    for _ in range(20):
        try:
            run(job, failing(chance.randrange(0, 200)), chance.choice((1, 2)))  # type: ignore[arg-type]
        except InterruptedError:
            continue
        break
    else:
        run(job, turned)
    assert job.output.read_text(encoding="utf-8").splitlines() == turned(0, many)
