"""Table 4: the paper's rows, and ours really trained on small treebanks."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.config import ParsingRecipe
from regard.data.generated.trees import trees
from regard.data.trees import read_trees
from regard.errors import RegardError
from regard.reproduce.experiments import one
from regard.reproduce.table4 import (
    FILES,
    PAPER,
    ROWS,
    SELF_TRAINED,
    Parsers,
    Record,
    Text,
    check_files,
    check_text,
    choose,
    experiments,
    measure,
    measure_again,
)

SMALL = {
    "tokenizer.vocab_size": 150, "tokenizer.sampling": 0.0, "model.n_layers": 1, "model.n_decoder_layers": 1,
    "model.d_model": 16, "model.d_ff": 16, "model.n_heads": 2, "train.steps": 3, "train.warmup_steps": 1,
    "train.batch_tokens": 1000, "train.valid_every": 3, "train.valid_sentences": 4, "train.save_every": 3,
    "train.average": 1, "train.r_drop": 0.0, "train.tensorboard": False, "decode.beam_size": 1,
    "data.valid_documents": ["d01"], "data.test_documents": ["d02"], "train.device": "cpu", "decode.extra_length": 20,
}  # fmt: skip


@pytest.fixture
def treebanks(tmp_path: Path) -> Path:
    """The three files, each of a few generated trees in twenty-one documents."""
    folder = tmp_path / "treebanks"
    folder.mkdir()
    for seed, name in enumerate(FILES.values()):
        drawn = trees("train", 84, seed)
        lines = [f"d{i % 21 + 1:02d}\t{tree}" for i, tree in enumerate(drawn)]
        (folder / name).write_bytes(lzma.compress(("\n".join(lines) + "\n").encode()))
    return folder


def test_the_papers_rows_are_the_papers() -> None:
    ours = [row.f1 for row in PAPER if row.parser.startswith("Transformer")]
    assert ours == [91.3, 92.7]
    assert len(PAPER) == 12
    assert all(row.training for row in PAPER)


def test_rows_are_trained_scored_and_shown_beside_the_papers(treebanks: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    planned = experiments([ROWS[0], ROWS[3]], treebanks, out, 1, SMALL)
    for experiment in planned:
        one(experiment, measure)
    result = planned[1].result
    assert result is not None
    assert {f"{test} f1" for test in FILES} < set(result)
    assert all(result[f"{test} malformed"] == 0 for test in FILES)
    assert result["training_trees"] == 76 + 76 + 68  # of 21 documents of four trees, 2, 2 and 4 are held out
    (again,) = experiments(SELF_TRAINED[:1], treebanks, out, 1, SMALL)
    text = tmp_path / "text"
    text.write_text("the dog slept .\n\nAnna saw a river .\n")
    one(again, lambda recipe, run: measure_again(recipe, run, Text(text, 0.0), out))
    assert len(list(read_trees(out / "wsj-1.parses"))) == 2
    assert again.result is not None
    assert again.result["training_trees"] == 2 * 76 + 2
    assert again.result["parses_kept"] == 2
    assert Record.beside(out / "wsj-1.parses").sentences == 2
    check_text([again], Text(text, 0.0))
    with pytest.raises(RegardError, match=r"wsj-1.parses was made of another text or with another --least-confidence"):
        check_text([again], Text(text, 0.1))
    text.write_text("the dog slept .\n")
    with pytest.raises(RegardError, match="was made of another text"):
        check_text([again], Text(text, 0.0))
    table, done = Parsers(), Parsers().finished(out)
    assert [each.row for each in done] == ["wsj", "joint", "wsj-self"]
    written = table.markdown(done)
    assert "WSJ sample and its own parses, 154 trees, of them 2 parses |" in written
    ours = [line for line in written.splitlines() if "here" in line]
    assert len(ours) == 1 + 3 + 1
    assert all("trees" in line for line in ours)
    assert sum("WSJ 23" in line for line in written.splitlines()) == 12
    assert "GUM" in table.narrow(done)
    assert max(map(len, table.narrow(done).splitlines())) <= 80
    claims = [claim.split(" (")[0] for claim, _ in table.verdicts(done)]
    assert claims == ["more treebanks help", "its own parses help"]


def test_each_recipe_has_the_split_the_table_says(treebanks: Path, tmp_path: Path) -> None:
    for experiment in experiments(ROWS, treebanks, tmp_path, 1, {}):
        assert isinstance(experiment.recipe, ParsingRecipe)
        names = [Path(file).name for file in experiment.recipe.data.files]
        rules = dict(zip(names, experiment.recipe.data.splits, strict=True))
        assert {FILES["wsj"]: "every 20", FILES["gum"]: "named", FILES["craft"]: "every 10"}.items() >= rules.items()


def test_mistakes_are_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="no row or group ptb"):
        choose("wsj, ptb")
    with pytest.raises(RegardError, match="is missing: give its folder with --treebanks"):
        check_files(ROWS, tmp_path)
    with pytest.raises(RegardError, match=r"data\.files cannot be set: the row wsj has its own"):
        experiments(ROWS, tmp_path, tmp_path, 1, {"data.files": ["mine.trees"]})


def test_the_command_shows_the_papers_rows_before_anything_is_trained(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["reproduce", "table-4", "--show", "--out", str(tmp_path)])
    assert found.exit_code == 0, found.output
    assert "92.7" in found.stdout
    assert not list(tmp_path.iterdir())


def test_the_command_trains_and_shows_again_whatever_was_trained(treebanks: Path, tmp_path: Path) -> None:
    """`--show` needs neither the --set nor the --treebanks of the training; a folder that has moved is the same."""
    out, text = tmp_path / "out", tmp_path / "text"
    text.write_text("the dog slept .\n\nAnna saw a river .\n")
    sets = [f"--set={key}={json.dumps(value)}" for key, value in SMALL.items()]

    def call(*options: str) -> str:
        found = CliRunner().invoke(app, ["reproduce", "table-4", "--out", str(out), *options])
        assert found.exit_code == 0, found.output
        return found.stdout

    learned = "--rows=gum", f"--text={text}", "--least-confidence=0", *sets
    trained = call(f"--treebanks={treebanks}", *learned)
    assert "GUM and its own parses" in trained
    assert (out / "table-4.md").is_file()
    shown = call("--show")
    assert shown.strip() == trained.split(f"\n\n{out}")[0].strip()
    moved = treebanks.rename(tmp_path / "moved")
    before = (out / "gum-1" / "result.json").stat().st_mtime_ns
    call(f"--treebanks={moved}", *learned)
    assert (out / "gum-1" / "result.json").stat().st_mtime_ns == before  # nothing is done twice
