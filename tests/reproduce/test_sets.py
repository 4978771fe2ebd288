"""The tables of the Set Transformer: the paper's rows and orders, and a row really trained."""

from __future__ import annotations

import io
import json
import math
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from regard.config import Recipe, to_dict
from regard.errors import RegardError
from regard.reproduce.experiments import Experiment, carry_out, slug
from regard.reproduce.sets import (
    CLUSTERING,
    INDUCED,
    KEYCHAIN,
    MAX,
    POINTS,
    TABLES,
    UNIQUE,
    draw_best,
    measure,
    of_last_weights,
)
from regard.reproduce.tables import Table, choose, number
from regard.training.load import load

TINY = {
    "train.steps": 3, "train.batch_sets": 4, "data.valid_sets": 10, "data.test_sets": 10, "model.d_model": 8,
    "train.tensorboard": False,
}  # fmt: skip


def written(table: Table, folder: Path, found: dict[str, dict[str, float]], seeds: int = 1) -> list[Experiment]:
    """Experiments with these results on the disk."""
    rows = [row for row in table.rows if row.name in found]
    done = table.experiments(folder, rows, seeds, {})
    for each in done:
        each.run.mkdir(parents=True)
        result = {"measured": found[each.row], "recipe": to_dict(each.recipe)}
        (each.run / "result.json").write_text(json.dumps(result))
    return done


def papers_own(table: Table) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for row in table.rows:
        for column, printed in zip(table.columns, row.paper, strict=False):
            value = number(printed)
            if value is not None:
                found.setdefault(row.name, {})[column.key] = value
    return found


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_every_ordering_that_the_paper_prints_holds_in_it(table: Table, tmp_path: Path) -> None:
    done = written(table, tmp_path, papers_own(table))
    checked = table.verdicts(done)
    assert all(word.startswith("holds") for _, word in checked)
    assert len(checked) == len(table.orderings) or table in (INDUCED, KEYCHAIN)  # of which the paper prints nothing
    assert {row for ordering in table.orderings for row in ordering.rows} <= {row.name for row in table.rows}


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_every_row_is_a_recipe_with_a_directory_of_its_own(table: Table, tmp_path: Path) -> None:
    planned = table.experiments(tmp_path, table.rows, 2, {})
    assert len({each.run for each in planned}) == 2 * len(table.rows)
    recipes = [json.dumps({**to_dict(each.recipe), "name": ""}, sort_keys=True) for each in planned]
    assert len(set(recipes)) == 2 * len(table.rows)
    assert all(len(figures.split()) <= 3 for row in table.rows for figures in row.paper)


def test_folders_have_plain_names() -> None:
    names = ["N = 2", "ε_ls = 0.0", "rFF+Pool (max)", "ISAB16+PMA, 100", "SAB+PMA(2)"]
    assert [slug(name) for name in names] == ["n-2", "eps-ls-0.0", "rff-pool-max", "isab16-pma-100", "sab-pma-2"]


def test_the_papers_likelihoods_are_told_as_gaps() -> None:
    (best,) = (row for row in CLUSTERING.rows if row.name == "ISAB16+PMA")
    assert best.paper == ("-0.0283 ± .0068", "+0.0196 ± .0037", "–", "–", "–")


def test_the_papers_rand_indices_are_of_other_data_and_left_out(tmp_path: Path) -> None:
    found = {"gap0": -0.05, "gap1": 0.01, "ll_oracle": -1.48, "ari0": 0.9, "ari1": 0.91, "ari_oracle": 0.96}
    done = written(CLUSTERING, tmp_path, {"SAB+PMA": found})
    titles = CLUSTERING.markdown(done).splitlines()[0]
    assert "| ARI0 | ARI1 |" in titles
    assert "LL0 − oracle, paper" in titles
    told = CLUSTERING.remarks(done)
    assert not any("ari oracle" in line for line in told)
    assert sum("CIFAR-100" in line for line in told) == 1


def test_a_table_that_no_paper_has_says_nothing_of_a_papers_steps(tmp_path: Path) -> None:
    done = written(KEYCHAIN, tmp_path, {"SAB+PMA, any": {"accuracy": 1.0}})
    assert KEYCHAIN.remarks(done) == ["Trained for 5,000 steps.", *KEYCHAIN.notes]


def test_a_table_says_what_its_rows_were_given(tmp_path: Path) -> None:
    """Or a row named after attention may stand for a network without."""
    given = {"model.encoder": "rff", "data.test_sets": 200}
    for each in (MAX.experiments(tmp_path, MAX.rows[3:], 1, given), MAX.experiments(tmp_path, MAX.rows[:1], 1, {})):
        each[0].run.mkdir()
        result = {"measured": {"mae": 1.0}, "recipe": to_dict(each[0].recipe)}
        (each[0].run / "result.json").write_text(json.dumps(result))
    assert MAX.remarks(MAX.finished(tmp_path)) == [
        "Trained for 20,000 steps, as in the paper.",
        "SAB+PMA: model.encoder = rff (as shipped: sab).",
        "SAB+PMA: data.test_sets = 200 (as shipped: 10000).",
    ]


def test_a_figure_that_is_no_number_settles_no_claim(tmp_path: Path) -> None:
    found = {"rFF+Pool (mean)": {"mae": 0.3}, "SAB+PMA": {"mae": math.nan}, "rFF+Pool (max)": {"mae": 0.1}}
    ((claim, verdict),) = MAX.verdicts(written(MAX, tmp_path, found))
    assert "SAB+PMA nan" in claim
    assert verdict == "cannot be told: a figure is no number"


def test_a_broken_order_and_a_shorter_schedule_are_said(tmp_path: Path) -> None:
    found = {"rFF+Pool (mean)": {"mae": 0.1}, "SAB+PMA": {"mae": 0.2}, "rFF+Pool (max)": {"mae": 0.3}}
    done = written(MAX, tmp_path, found)
    assert [word.split(" (")[0] for _, word in MAX.verdicts(done)] == ["does not hold"]
    assert MAX.remarks(done) == ["Trained for 20,000 steps, as in the paper."]
    short = MAX.experiments(tmp_path / "short", MAX.rows[:1], 1, {"train.steps": 500})
    short[0].run.mkdir(parents=True)
    result = {"measured": {"mae": 1.0}, "recipe": to_dict(short[0].recipe)}
    (short[0].run / "result.json").write_text(json.dumps(result))
    assert MAX.remarks(short) == ["Trained for 500 steps; the paper has 20,000."]


def test_rows_of_other_lengths_stand_in_one_table_which_says_so(tmp_path: Path) -> None:
    for steps, row in ((20_000, MAX.rows[0]), (500, MAX.rows[3])):
        (one,) = MAX.experiments(tmp_path, [row], 1, {"train.steps": steps})
        one.run.mkdir()
        result = {"measured": {"mae": 1.0}, "recipe": to_dict(one.recipe)}
        (one.run / "result.json").write_text(json.dumps(result))
    done = MAX.finished(tmp_path)
    assert [each.row for each in done] == ["rFF+Pool (mean)", "SAB+PMA"]
    assert MAX.markdown(done).count("*not run here*") == 2 * len(MAX.columns)
    assert MAX.remarks(done) == [
        "rFF+Pool (mean): trained for 20,000 steps, as in the paper.",
        "SAB+PMA: trained for 500 steps; the paper has 20,000.",
    ]
    assert UNIQUE.finished(tmp_path) == []  # another table's runs


def test_a_figure_that_some_runs_lack_says_of_how_many_it_is(tmp_path: Path) -> None:
    """An earlier version did not score the last weights."""
    done = written(MAX, tmp_path, {"SAB+PMA": {"mae": 0.05, "mae_last": 0.2}}, seeds=3)
    for runs, shown in ((done[:2], "0.2000 (of 1)"), (done[2:], "not scored")):
        for each in runs:
            path = each.run / "result.json"
            result = json.loads(path.read_text())
            del result["measured"]["mae_last"]
            path.write_text(json.dumps(result))
        assert f"| 0.0500 ± 0.0000 | {shown} | 3 |" in MAX.markdown(done)


def test_rows_that_were_not_run_say_so(tmp_path: Path) -> None:
    done = written(CLUSTERING, tmp_path, {"SAB+PMA": {"gap0": -0.05, "ll_oracle": -1.48, "ari0": 0.9}}, seeds=2)
    lines = CLUSTERING.markdown(done).splitlines()
    assert sum("*not run here*" in line for line in lines) == len(CLUSTERING.rows) - 1
    assert "| SAB+PMA | -0.0419 ± .0046 | -0.0500 ± 0.0000 | +0.0107 ± .0048 | – |" in "\n".join(lines)
    assert "ll oracle on the same sets: -1.4800 (paper −1.4726)." in CLUSTERING.remarks(done)
    assert max(len(line) for line in CLUSTERING.narrow(done).splitlines()) <= 80
    assert CLUSTERING.picture(done) == (["SAB+PMA"], [(-0.05, 0.0)], [(pytest.approx(-0.0419), 0.0046)])


def test_rows_are_chosen_by_name_or_group() -> None:
    assert [row.name for row in choose(POINTS.rows, "100", "set-points")] == [
        "rFFp-max+Pool, 100", "rFF+Pool, 100", "rFF+PMA, 100", "ISAB16+Pool, 100", "ISAB16+PMA, 100",
    ]  # fmt: skip
    names = [row.name for row in choose(POINTS.rows, "rFF+PMA, 100, rFF+PMA, 5000", "set-points")]
    assert names == ["rFF+PMA, 100", "rFF+PMA, 5000"]
    assert len(choose(UNIQUE.rows, "", "set-unique")) == len(UNIQUE.rows)
    with pytest.raises(RegardError, match=r"no row or group sab\+pma \(did you mean SAB\+PMA\?\)"):
        choose(UNIQUE.rows, "sab+pma", "set-unique")
    with pytest.raises(RegardError, match="set-unique has no row or group SBA"):
        choose(UNIQUE.rows, "SBA+PMA", "set-unique")
    with pytest.raises(RegardError, match=r'there are "100", "1000", "5000", "ISAB16\+PMA, 100", "ISAB16\+PMA, 1000"'):
        choose(POINTS.rows, "10", "set-points")


def test_a_row_that_has_ended_is_told_in_plain_numbers(tmp_path: Path) -> None:
    done = MAX.experiments(tmp_path, MAX.rows[:1], 1, {})
    console = Console(file=io.StringIO(), width=200)
    assert carry_out(done, plain_numbers, 1, console) == []
    assert "seed 1: mae 1.234, accuracy 0.9998, parameters 17,793\n" in console.file.getvalue()  # type: ignore[attr-defined]


def test_a_table_may_have_the_last_weights_too(tmp_path: Path) -> None:
    """Those of the last step, however good earlier ones were on the validation sets."""
    last = of_last_weights(MAX)
    assert (last, of_last_weights(CLUSTERING)) == ({"mae_last": "mae"}, {})
    changes = {**TINY, "data.highest": 100.0, "train.steps": 30, "train.valid_every": 10, "train.peak_lr": 0.1}
    planned = MAX.experiments(tmp_path, choose(MAX.rows, "rFF+Pool (max)", "set-max"), 1, changes)
    assert carry_out(planned, partial(measure, last=last), 1, Console(quiet=True)) == []
    result, run = planned[0].result, planned[0].run
    assert result is not None
    assert result["mae"] < result["mae_last"], "a rate of 0.1 soon spoils what was learned"
    assert result["mae_last"] == load(run, "last").score("test")["mae"]


def plain_numbers(recipe: Recipe, run: Path) -> dict[str, float]:
    """In the place of `measure`."""
    run.mkdir(parents=True)
    return {"mae": 1.23412, "accuracy": 0.9998, "parameters": 17_793}


def test_a_row_is_trained_and_scored(tmp_path: Path) -> None:
    changes = {**TINY, "data.smallest": 5, "data.largest": 9, "model.n_inducing": 2}
    planned = CLUSTERING.experiments(tmp_path, choose(CLUSTERING.rows, "ISAB16+PMA", "set-clustering"), 1, changes)
    assert carry_out(planned, partial(measure, last={}), 1, Console(quiet=True)) == []
    result = planned[0].result
    assert result is not None
    assert {"gap0", "gap1", "ari0", "ari1", "ari_oracle", "ll_oracle", "parameters"} <= set(result)
    assert result["gap0"] < 0
    assert draw_best(planned, tmp_path / "clusters.png")
    assert (tmp_path / "clusters.png").read_bytes().startswith(b"\x89PNG")
