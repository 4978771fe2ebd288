"""`regard view`: sentences from anywhere, one page, and a sentence for every mistake."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.cli.view import MOST
from regard.errors import RegardError

Call = Callable[..., str]


@pytest.fixture
def view(reverser: Path, tmp_path: Path) -> Call:
    def call(*arguments: str | Path, text: str = "") -> str:
        words = ["view", reverser, "--output", tmp_path, "--device", "cpu", *arguments]
        result = CliRunner().invoke(app, [str(word) for word in words], input=text)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.stdout

    return call


def sources(page: Path) -> list[str]:
    return re.findall(r'"source":"([^"]*)"', page.read_text(encoding="ascii"))


def test_sentences_come_from_the_command_a_file_or_a_pipe(view: Call, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("a b\nc d\n")
    assert "view.html" in view("a b")
    assert sources(tmp_path / "view.html") == ["a b"]
    view("a b", "c d", "--text", "- e", "--name", "three")
    assert sources(tmp_path / "three.html") == ["a b", "c d", "- e"]
    view("--input", lines, "--name", "file")
    printed = view("--name", "pipe", text="a b\nc d\n")
    assert sources(tmp_path / "file.html") == sources(tmp_path / "pipe.html") == ["a b", "c d"]
    assert (tmp_path / "pipe.png").read_bytes().startswith(b"\x89PNG")
    assert len(printed.split("\n\n")[0].splitlines()) == 2


def test_a_target_is_looked_into_as_it_is_given(view: Call, tmp_path: Path) -> None:
    assert view("a b", "--target", "a a a").startswith("a a a\n")
    outputs = tmp_path / "outputs.txt"
    outputs.write_text("x\ny z\n")
    assert view("a b", "c d", "--targets", outputs).startswith("x\ny z\n")


@pytest.mark.parametrize(
    ("arguments", "text", "said"),
    [
        (["  "], "", "The sentence is empty"),
        (["a", " "], "", "Sentence 2 is empty"),
        ([], "", "There is no sentence to look at"),
        ([], "a\n\nb\n", "Sentence 2 is empty"),
        ([], "a\n" * (MOST + 1), f"at most {MOST} sentences, and these are {MOST + 1}"),
        (["a", "--input", "x.txt"], "", "exclude each other"),
        (["--input", "nowhere.txt"], "", "nowhere.txt"),
        (["a", "b", "--target", "c"], "", "1 target for 2 sentences"),
        (["a", "--target", "b", "--targets", "x.txt"], "", "exclude each other"),
    ],
)
def test_mistakes_get_a_sentence(view: Call, arguments: list[str], text: str, said: str) -> None:
    with pytest.raises(RegardError, match=re.escape(said)):
        view(*arguments, text=text)


def test_bytes_that_are_no_text_are_named(view: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.cli.view import wanted

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a b\n\xff\n")))
    with pytest.raises(RegardError, match="standard input, line 2: byte 1 is not UTF-8"):
        wanted([], None)
