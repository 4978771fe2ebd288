"""Runs on sets: how they begin, how they are opened, and what they report at their end."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from regard.config import Recipe, SetRecipe, resolve_as
from regard.config.set_tasks import ImageSetRecipe
from regard.errors import RegardError
from regard.tasks.anomaly import AnomalyTask
from regard.tasks.clustering import ClusteringTask
from regard.tasks.key_chain import KeyChainTask
from regard.tasks.max_regression import MaxRegressionTask
from regard.tasks.point_clouds import PointCloudsTask
from regard.tasks.set_attention import draw, draw_clusterings
from regard.tasks.set_model import SetModel
from regard.tasks.sets import SetTask
from regard.tasks.unique_characters import UniqueCharactersTask
from regard.training import checkpoint
from regard.training.device import pick
from regard.training.load import check_alike, load_weights
from regard.training.run import Run, write_atomically
from regard.view import loss_curve_png

TASKS: dict[str, type[SetTask[Any]]] = {
    "max_regression": MaxRegressionTask, "unique_characters": UniqueCharactersTask, "clustering": ClusteringTask,
    "anomaly": AnomalyTask, "point_clouds": PointCloudsTask, "key_chain": KeyChainTask,
}  # fmt: skip


def check_data(recipe: Recipe) -> SetTask[Any]:
    """The task of a recipe, with the files of its sets read: what is missing is missed here."""
    task = TASKS[recipe.task](recipe)
    for split in ("train", "valid"):
        task.stream(split)
    return task


def prepare(recipe: SetRecipe, run: Run, parent: Run | None, say: Callable[[str], None]) -> SetTask[Any]:
    """The task, with the weights of the run it starts from, if there is one."""
    task = check_data(recipe)
    if parent:
        theirs = recipe_of(parent)
        check_alike(parent, recipe.model, theirs.model)
        if isinstance(recipe, ImageSetRecipe) and isinstance(theirs, ImageSetRecipe):
            check_alike(parent, recipe.images, theirs.images, "images")
        checkpoint.copy_weights(task.model, load_weights(parent))
    return task


def recipe_of(run: Run) -> SetRecipe:
    return resolve_as(SetRecipe, run.recipe_file)


def open_model(runs: Sequence[Run], weights: str, device: str) -> SetModel:
    if len(runs) > 1:
        raise RegardError("Runs on sets are opened one at a time.")
    recipe = recipe_of(runs[0])
    task = TASKS[recipe.task](recipe)
    checkpoint.copy_weights(task.model, load_weights(runs[0], weights))
    return SetModel(task, pick(device), runs[0].title)


def report(model: SetModel, recipe: SetRecipe, run: Run) -> str:
    """Score the test sets, draw what there is to see, and say it all in text, in the run's `report/`."""
    run.report.mkdir(exist_ok=True)
    scores = model.score("test")
    write_atomically(run.report / "scores.json", json.dumps({"test": scores}, indent=1) + "\n")
    lines = model.score_lines("test", scores)
    curve = run.report / "loss.png"
    loss_curve_png(run.records(), curve, run.title)
    lines += ["", f"loss curve  {curve}"]
    if recipe.task == "clustering":
        picture = run.report / "clusters.png"
        draw_clusterings(model, picture)
        lines.append(f"clusters    {picture}")
    if attends(recipe):
        lines += [f"attention   {path}" for path in draw(model, 0, run.report, "attention")]
    text = "\n".join(lines)
    write_atomically(run.report / "report.txt", text + "\n")
    return text


def attends(recipe: SetRecipe) -> bool:
    return recipe.model.encoder in ("sab", "isab") or recipe.model.pooling in ("pma", "dotprod")
