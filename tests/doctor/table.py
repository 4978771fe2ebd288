"""Plants every fault of the tests and prints the table of docs/results.md: python tests/doctor/table.py"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import test_recipe_faults as recipes
import test_run_faults as runs
import test_text_faults as texts
from conftest import short_place, train_run, write_clean

from regard.doctor.examine import examine
from regard.doctor.findings import Finding

Row = tuple[str, str, str, Finding | None]  # in what, what is planted, the code to be named, what was found


def text_rows(folder: Path) -> Iterator[Row]:
    clean = write_clean(folder)
    for name, fault in texts.FAULTS.items():
        with TemporaryDirectory() as other:
            yield "text", name, fault.code, texts.named(fault, texts.diagnose(name, clean, Path(other)))
    for name, (code, changes) in recipes.FAULTS.items():
        with TemporaryDirectory() as other:
            found = recipes.diagnose(recipes.SOUND, changes, clean, Path(other))
        yield "recipe", name, code, next((finding for finding in found if finding.code == code), None)


def run_rows(folder: Path) -> Iterator[Row]:
    learned = train_run(folder)
    for name, fault in runs.FAULTS.items():
        with TemporaryDirectory() as other:
            run = runs.copy(learned, Path(other))
            where = runs.expected(fault, run)
            fault.damage(run)
            found = [one for one in examine(run) if one.code == fault.code and one.where.files == (where,)]
            yield "run", name, fault.code, next(iter(found), None)


def table() -> Iterator[str]:
    with TemporaryDirectory() as clean, TemporaryDirectory() as learned:
        rows = [*text_rows(Path(clean)), *run_rows(Path(learned))]
    yield f"<details><summary>{len(rows)} faults, {sum(bool(row[3]) for row in rows)} named</summary>\n"
    yield "| | in | planted | named | place | |"
    yield "|--:|---|---|---|---|---|"
    for number, (kind, planted, code, finding) in enumerate(rows, start=1):
        where = short_place(finding.where) if finding else ""
        yield f"| {number} | {kind} | {planted} | `{code}` | {where} | {'found' if finding else 'missed'} |"
    yield "\n</details>"


if __name__ == "__main__":
    print("\n".join(table()))
