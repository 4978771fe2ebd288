"""The command line on sets: train, look inside, reproduce."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from regard.cli import app
from regard.cli.reproduce import ROWS, SET_TABLES
from regard.config import resolve, shipped
from regard.config.set_tasks import ImageSetRecipe
from regard.errors import RegardError
from regard.reproduce.sets import TABLES
from regard.reproduce.tables import choose
from regard.training.run import Run

RUNNER = CliRunner()
TINY = [
    f"--set={key}={value}"
    for key, value in {
        "train.steps": 3, "train.batch_sets": 4, "data.valid_sets": 10, "data.test_sets": 10, "model.d_model": 8,
        "train.tensorboard": "false",
    }.items()
]  # fmt: skip


def call(*arguments: object) -> str:
    result = RUNNER.invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_run_on_sets_is_trained_and_looked_into(tmp_path: Path) -> None:
    text = call("train", "set-key-chain", "--run", tmp_path / "run", *TINY)
    assert "test instance_auroc" in text
    page, png = call("view", tmp_path / "run", "--number", 2, "--output", tmp_path, "--name", "second").split()
    assert Path(page).name == "second.html"
    assert Path(png).read_bytes().startswith(b"\x89PNG")
    with pytest.raises(RegardError, match="There is no test set 10: they are numbered from 0 to 9"):
        call("view", tmp_path / "run", "--number", 10)


def test_a_clustering_with_few_test_sets_draws_them_all(tmp_path: Path) -> None:
    text = call("train", "set-clustering", "--run", tmp_path / "run", *TINY, "--set=data.test_sets=3")
    assert "clusters.png" in text


def test_a_short_run_on_sets_reports_its_last_step_and_counts_sets(tmp_path: Path) -> None:
    """Though its recipe reports later than it ends."""
    result = RUNNER.invoke(app, ["train", "set-max-regression", "--run", str(tmp_path / "run"), *TINY])
    (line,) = (line for line in result.stderr.splitlines() if "  train  " in line)
    assert line.startswith("step      3/3  train  loss ")
    assert "sets per second" in line


def test_a_run_on_sets_is_scored_again(tmp_path: Path) -> None:
    trained = call("train", "set-max-regression", "--run", tmp_path / "run", *TINY)
    told = call("evaluate", tmp_path / "run")
    assert re.search(r"^test mae   +\d+\.\d{4}  mean absolute error$", told, re.MULTILINE)
    assert told.splitlines() == [line for line in trained.splitlines() if line.startswith("test ")]
    found = json.loads(call("evaluate", tmp_path / "run", "--split", "valid", "--split", "test", "--json"))
    assert f"{found['test']['mae']:.4f}" in told
    assert found["valid"]["mae"] != found["test"]["mae"]
    for wrong, message in (
        (["--split", "dev"], "No split dev"),
        (["--beam", "3"], "--beam means nothing to"),
        (["--reference", "x"], "--reference means nothing to"),
    ):
        with pytest.raises(RegardError, match=message):
            call("evaluate", tmp_path / "run", *wrong)


def test_rows_of_a_table_are_added_to_those_that_are_there(tmp_path: Path) -> None:
    for row in ("SAB+PMA", "rFF+Pool (max)"):
        text = call("reproduce", "set-max", "--out", tmp_path, "--rows", row, *TINY)
    table = (tmp_path / "set-max.md").read_text(encoding="utf-8")
    assert table.count("*not run here*") == 2 * 2, "the best weights and the last"
    assert re.search(r"^\| SAB\+PMA \| 0\.2085 ± 0\.0127 \| \d+\.\d{4} \| \d+\.\d{4} \| 1 \|$", table, re.MULTILINE)
    assert "Trained for 3 steps; the paper has 20,000." in text
    assert (tmp_path / "set-max.png").is_file()
    assert max(len(line) for line in text.splitlines() if str(tmp_path) not in line) <= 80
    again = call("reproduce", "set-max", "--out", tmp_path, "--show", *TINY)
    assert again.split("\n\n")[0] == text.split("\n\n")[0]


def test_a_table_says_how_far_its_unfinished_runs_are(tmp_path: Path) -> None:
    call("reproduce", "set-max", "--out", tmp_path, "--rows", "rFF+Pool (max)", "--seeds", 2, *TINY)
    (tmp_path / "rff-pool-max-2" / "result.json").unlink()
    cut = resolve("set-max-regression", {"train.steps": 3_000, "name": "set-max rFF+Pool (sum)"})
    with (run := Run.claim(tmp_path / "rff-pool-sum-1", cut)).training(cut):
        run.append_log(kind="train", step=1_100, loss=1.0)
    shown = call("reproduce", "set-max", "--out", tmp_path, "--show")
    _, _, told = shown.partition("Not finished:\n")
    assert told.splitlines() == [
        "rFF+Pool (sum), seed 1: 1,100 of 3,000 steps",
        "rFF+Pool (max), seed 2: trained, not scored yet",
    ]
    assert "Not finished" not in call("reproduce", "set-max", "--out", tmp_path, "--show", "--rows", "SAB+PMA")
    other = call("reproduce", "set-unique", "--out", tmp_path, "--show")
    assert "Not finished" not in other, "another table's runs"


def test_a_file_is_no_folder_for_a_table(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("set-max", "table-1", "table-3"):
        with pytest.raises(RegardError, match=r"^--out .*file is a file: give a folder"):
            call("reproduce", name, "--out", tmp_path / "file")


def test_data_that_is_missing_is_said_once(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="reads Omniglot"):
        RUNNER.invoke(app, ["reproduce", "set-unique", "--out", str(tmp_path)], catch_exceptions=False)


@pytest.mark.parametrize("table", ["set-unique", "set-inducing"])
def test_a_folder_is_no_file(tmp_path: Path, table: str) -> None:
    with pytest.raises(RegardError, match=r"^data\.path = .* is a folder: it should be Omniglot as an \.npz file"):
        call("reproduce", table, "--out", tmp_path / "out", "--set", f"data.path={tmp_path}")
    (tmp_path / "text").write_text("no images")
    with pytest.raises(RegardError, match="is a file: it should be the folder of Flickr8k"):
        call("reproduce", "set-anomaly", "--out", tmp_path / "out", "--set", f"data.path={tmp_path / 'text'}")
    with pytest.raises(RegardError, match=r"is no Omniglot file: it should be an \.npz file"):
        call("reproduce", table, "--out", tmp_path / "out", "--set", f"data.path={tmp_path / 'text'}")


def test_no_table_lies_in_the_folder_of_a_recipe() -> None:
    """`regard train NAME` and `regard reproduce NAME` in one place would write over each other."""
    commands = get_command(app).commands["reproduce"].commands  # type: ignore[attr-defined]
    for name in SET_TABLES:
        (out,) = (option.default for option in commands[name].params if option.name == "out")
        assert out == Path("runs/tables") / name
        assert out not in {Path("runs") / resolve(recipe).name for recipe in shipped()}


@pytest.mark.parametrize("name", list(SET_TABLES))
def test_the_examples_of_every_table_are_right(name: str) -> None:
    assert 0 < len(choose(TABLES[name].rows, ROWS[name], name)) < len(TABLES[name].rows)
    needs = isinstance(resolve(TABLES[name].recipe), ImageSetRecipe)
    told = " ".join(call("reproduce", name, "--help").split())
    assert (f"reproduce {name} --set data.path=" in told) == needs


def test_every_table_has_its_command() -> None:
    assert set(SET_TABLES) == set(TABLES)
    text = call("reproduce", "--help")
    assert all(name in text for name in SET_TABLES)
