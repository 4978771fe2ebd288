"""`regard reproduce table-1` and `forgetting`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.errors import RegardError


def as_a_terminal_has_it(told: str, markdown: str) -> None:
    """No Markdown and no line that is too long; every cell of the file's tables, in its row."""
    *text, md, figures, picture = told.splitlines()
    assert [Path(path).suffix for path in (md, figures, picture)] == [".md", ".json", ".png"]
    assert not any(line.startswith("|") for line in text)
    assert max(map(len, text)) <= 80
    rows = [line for line in markdown.splitlines() if line.startswith("|") and "---" not in line and "--:" not in line]
    assert len(rows) > 10
    for row in rows:
        name, *cells = [cell.strip() for cell in row.strip("|").split("|")]
        own = " ".join(line for line in text if line.startswith(name) or not name)
        assert all(cell in own for cell in cells), row


def test_table_1_is_printed_and_written(tmp_path: Path) -> None:
    sizes = ["--sizes", "16,32", "--widths", "8,16", "--paths", "4,9", "--k", "3", "--r", "4", "--repeats", "1"]
    sizes += ["--width", "8", "--length", "16"]
    told = CliRunner().invoke(
        app, ["reproduce", "table-1", "--device", "cpu", *sizes, "--batch", "2", "--out", str(tmp_path / "out")]
    )
    assert told.exit_code == 0, told.output
    as_a_terminal_has_it(told.stdout, (tmp_path / "out" / "table-1.md").read_text(encoding="utf-8"))
    record = json.loads((tmp_path / "out" / "table-1.json").read_text(encoding="utf-8"))
    assert (record["sizes"]["batch"], record["sizes"]["width"], record["sizes"]["length"]) == (2, 8, 16)
    assert [layer["maximum_path"]["9"] for layer in record["layers"]] == [1, 9, 4, 2, 4]


def test_forgetting_is_printed_and_written(tmp_path: Path) -> None:
    told = CliRunner().invoke(
        app, ["reproduce", "forgetting", "--device", "cpu", "--distance", "12", "--width", "8", "--seeds", "1",
              "--out", str(tmp_path)],
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    assert (tmp_path / "forgetting.png").stat().st_size > 1000
    as_a_terminal_has_it(told.stdout, (tmp_path / "forgetting.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("wrong", ["a,b", "8", "16,8"])
def test_sizes_that_are_none_are_named(wrong: str, tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["reproduce", "table-1", "--sizes", wrong, "--out", str(tmp_path)])
    assert isinstance(told.exception, RegardError)
    assert "--sizes" in str(told.exception)
