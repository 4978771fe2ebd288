"""Many runs from one command: all of them, none twice, and a failure that does not stop the others."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from regard.config import Recipe, resolve
from regard.errors import RegardError
from regard.reproduce.experiments import (
    Experiment,
    Figure,
    as_they_end,
    carry_out,
    figures,
    finished,
    last_step,
    run_of,
)
from regard.training.start import fit


def note_and_measure(recipe: Recipe, run: Path) -> dict[str, float]:
    """Instead of training: leave a mark for each call, fail where the seed is 13, and be killed where it is 99."""
    run.mkdir(parents=True, exist_ok=True)
    with (run / "calls").open("a") as file:
        file.write("x")
    if recipe.seed == 13:
        raise RegardError("Unlucky.")
    if recipe.seed == 99:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"bleu": 10.0 * recipe.seed}


def plan(folder: Path, seeds: tuple[int, ...]) -> list[Experiment]:
    return [
        Experiment(row, seed, resolve("demo", {"seed": seed}), folder / f"{row}-{seed}")
        for row in ("a", "b")
        for seed in seeds
    ]


def test_every_experiment_is_done_once_and_several_at_a_time(tmp_path: Path) -> None:
    experiments = plan(tmp_path, (1, 2))
    for _ in range(2):  # the second time there is nothing left to do
        assert carry_out(experiments, note_and_measure, 2, Console(quiet=True)) == []
    assert {e.run.name: (e.run / "calls").read_text() for e in experiments} == dict.fromkeys(
        ("a-1", "a-2", "b-1", "b-2"), "x"
    )
    assert figures(experiments, "bleu") == {row: Figure.of([10.0, 20.0]) for row in "ab"}


def test_results_are_found_whatever_recipe_made_them(tmp_path: Path) -> None:
    done = [
        Experiment(row, seed, resolve("demo", {"seed": seed, "name": f"t {row}", "train.steps": 100 * seed}), run)
        for row, seed in (("a", 10), ("a", 2), ("a b", 1))
        if (run := run_of(tmp_path, row, seed))
    ]
    assert carry_out(done, note_and_measure, 1, Console(quiet=True)) == []
    found = finished(tmp_path, {"a b": "t a b", "a": "t a"})
    assert [(each.row, each.seed) for each in found] == [("a b", 1), ("a", 2), ("a", 10)]
    assert [each.recipe.train.steps for each in found] == [100, 200, 1000]
    assert all(each.result is not None for each in found)
    assert finished(tmp_path, {"a": "another table's a"}) == []
    old = run_of(tmp_path, "a", 2) / "result.json"
    old.write_text(old.read_text().replace('"d_model"', '"d_old"'))  # a key of another version
    assert [each.seed for each in finished(tmp_path, {"a": "t a"})] == [10]
    with pytest.raises(RegardError, match="was made with another recipe"):
        done[1].check()


def test_a_result_outlives_the_move_of_its_files_and_nothing_else(tmp_path: Path) -> None:
    def of(folder: str, file: str) -> Experiment:
        files = {split: [f"{folder}/{file}.en", f"{folder}/{file}.de"] for split in ("train", "valid")}
        return Experiment("a", 1, resolve({"name": "mine", "data": files}), tmp_path / "a-1")

    assert carry_out([of("here", "text")], note_and_measure, 1, Console(quiet=True)) == []
    assert of("there", "text").result == {"bleu": 10.0}
    assert of("here", "other").result is None


def test_a_run_that_was_begun_with_another_recipe_is_refused_before_any_is_trained(
    tmp_path: Path, tiny_recipe: dict[str, Any]
) -> None:
    def of(**changes: object) -> Experiment:
        overrides = {f"train.{key}": value for key, value in changes.items()}
        return Experiment("a", 1, resolve(tiny_recipe, overrides), tmp_path / "a-1")

    fit(of().recipe, of().run, console=Console(quiet=True))
    of().check()  # goes on
    with pytest.raises(RegardError, match="was made with another recipe: give another folder with --out"):
        carry_out([*plan(tmp_path / "other", (1,)), of(steps=13)], note_and_measure, 1, Console(quiet=True))
    assert not (tmp_path / "other").exists()


def test_a_failure_is_told_and_tried_again(tmp_path: Path) -> None:
    experiments = plan(tmp_path, (13, 2))
    for calls in ("x", "xx"):
        failures = carry_out(experiments, note_and_measure, 1, Console(quiet=True))
        assert sorted(failures) == ["a, seed 13: Unlucky.", "b, seed 13: Unlucky."]
        assert (tmp_path / "a-13" / "calls").read_text() == calls
    assert figures(experiments, "bleu")["a"].n == 1


def test_a_process_that_is_killed_takes_no_other_run_with_it(tmp_path: Path) -> None:
    experiments = plan(tmp_path, (99, 2))
    failures = carry_out(experiments, note_and_measure, 2, Console(quiet=True))
    assert sorted(failure.split(":")[0] for failure in failures) == ["a, seed 99", "b, seed 99"]
    assert all("was killed" in failure for failure in failures)
    assert [experiment.result for experiment in experiments if experiment.seed == 2] == [{"bleu": 20.0}] * 2


def last_long(recipe: Recipe, run: Path) -> dict[str, float]:
    """Instead of training: the first seed is done at once, the second takes long."""
    if recipe.seed == 2:
        time.sleep(30)
    run.mkdir(parents=True)
    return {"bleu": 1.0}


def test_a_run_that_has_just_begun_is_stopped_too(tmp_path: Path) -> None:
    experiments = plan(tmp_path, (1, 2))[:2]
    ending = as_they_end(experiments, last_long, 1, lambda running: None)
    assert next(ending) == (experiments[0], "")
    ending.close()  # while the process of the second is being made
    assert not experiments[1].run.exists()


def test_means_come_with_the_sample_standard_deviation() -> None:
    figure = Figure.of([1.0, 2.0, 3.0])
    assert (figure.mean, figure.spread, figure.n) == (2.0, pytest.approx(1.0), 3)
    assert figure.show(1) == "2.0 ± 1.0"
    assert Figure.of([4.25]).show(2) == "4.25"


def log_and_wait(recipe: Recipe, run: Path) -> dict[str, float]:
    """Instead of training: log a step, and go on when somebody has looked."""
    run.mkdir(parents=True, exist_ok=True)
    (run / "log.jsonl").write_text('{"kind": "train", "step": 7}\n{"kind": "tr')
    while not (run / "seen").exists():
        time.sleep(0.01)
    return {"bleu": 1.0}


def test_the_steps_of_a_run_that_goes_on_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.reproduce.experiments.LOOK_SECONDS", 0.05)
    (one, *_) = plan(tmp_path, (1,))
    seen: list[int] = []

    def look(running: Sequence[Experiment]) -> None:
        seen.extend(last_step(each.run) for each in running)
        if 7 in seen:
            (one.run / "seen").touch()

    assert list(as_they_end([one], log_and_wait, 1, look)) == [(one, "")]
    assert seen[-1] == 7
    assert last_step(tmp_path / "nowhere") == 0
