"""The documentation: commands run, snippets run, links lead somewhere, named tests exist."""

from __future__ import annotations

import gzip
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the README's reader has it: a trained demo (shortened), and text files of her own."""
    from regard.data.generated import generate

    folder = tmp_path_factory.mktemp("reader")
    for split, size in (("train", 3000), ("valid", 20), ("test", 20)):
        pairs = generate("en-de", split, size)
        (folder / f"{split}.en").write_text("".join(pair.source + "\n" for pair in pairs), encoding="utf-8")
        (folder / f"{split}.de").write_text("".join(pair.target + "\n" for pair in pairs), encoding="utf-8")
    for split, name in (("train", "train"), ("valid", "val"), ("test", "test_2016_flickr")):  # a fetched corpus's names
        for language in ("en", "de"):
            text = (folder / f"{split}.{language}").read_bytes()
            (folder / f"{name}.{language}.gz").write_bytes(gzip.compress(text))
    (folder / "terms.tsv").write_text("doctor\tLehrer\n", encoding="utf-8")
    (recipe,) = blocks(ROOT / "README.md", "toml")
    (folder / "mine.toml").write_text(recipe, encoding="utf-8")
    sets = ("train.steps=40", "train.average=1", "data.train_size=5000", "data.test_size=30")
    call(["regard", "train", "demo", *(f"--set={item}" for item in sets)], folder)
    return folder


def call(command: list[str], folder: Path, text: str = "") -> str:
    assert command[0] in ("regard", "torchrun")
    module = ["torch.distributed.run", *command[1:]] if command[0] == "torchrun" else command
    command = [sys.executable, "-m", *module]
    environment = {**os.environ, "REGARD_DATA": str(folder / "cache")}
    result = subprocess.run(
        command, cwd=folder, input=text, capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


# What the README trains at full length is shortened here, and its vocabulary fits the smaller text.
SHORT = [
    "train.steps=2",
    "train.average=1",
    "tokenizer.vocab_size=800",
    "model.d_model=32",
    "model.d_ff=32",
    "model.n_heads=4",
]


def test_every_command_of_the_readme_runs(workplace: Path) -> None:
    commands = [line[2:] for block in blocks(ROOT / "README.md", "console") for line in block.splitlines()]
    assert len(commands) >= 5
    for command in commands:
        if command == "make demo":
            assert "regard train demo" in (ROOT / "Makefile").read_text()
            continue
        words = shlex.split(command)
        if words[0] == "echo":
            assert words[2:5] == ["|", "regard", "translate"]
            assert call(words[3:], workplace, words[1] + "\n").strip()
        elif words[:3] == ["regard", "data", "fetch"]:  # not from the network
            assert call([*words, "--from", "."], workplace).strip()
        elif words[:2] == ["regard", "train"] or words[0] == "torchrun":
            assert "test BLEU = " in call([*words, *(f"--set={item}" for item in SHORT)], workplace)
        else:
            assert call(words, workplace).strip()


def test_every_python_snippet_of_the_readme_runs(workplace: Path) -> None:
    snippets = blocks(ROOT / "README.md", "python")
    assert len(snippets) >= 2
    for snippet in snippets:
        subprocess.run([sys.executable, "-c", snippet], cwd=workplace, check=True, capture_output=True)


def test_every_python_snippet_of_the_page_on_sets_runs(tmp_path: Path) -> None:
    """One after the other, as a reader types them."""
    snippets = blocks(ROOT / "docs" / "sets.md", "python")
    assert len(snippets) >= 7
    subprocess.run([sys.executable, "-c", "\n".join(snippets)], cwd=tmp_path, check=True, capture_output=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_ledger_names_tests_that_exist() -> None:
    names = re.findall(r"`([\w/]+\.py)::(\w+)`", (ROOT / "docs" / "fidelity.md").read_text(encoding="utf-8"))
    assert len(names) > 30
    for file, function in names:
        assert f"def {function}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), function


def test_the_readme_names_test_files_and_rooms_that_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for file in re.findall(r"`(tests/[\w/]+\.py)`", text):
        assert (ROOT / file).is_file(), file
    plan = next(block for block in blocks(ROOT / "README.md", "text") if block.startswith("regard/"))
    for name in re.findall(r"^  (\w+)/ ", plan, flags=re.M):
        assert (ROOT / "regard" / name).is_dir(), name


@pytest.mark.soak
def test_the_demo_reaches_what_the_readme_says(tmp_path: Path) -> None:
    printed = call(["regard", "train", "demo"], tmp_path)
    assert float(re.search(r"^test BLEU = ([\d.]+)", printed, flags=re.M)[1]) >= 95  # type: ignore[index]
    assert float(re.search(r"^test exact match = ([\d.]+)", printed, flags=re.M)[1]) >= 90  # type: ignore[index]
