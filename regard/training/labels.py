"""Runs of classification and tagging: how they begin, how they are opened, and what they report at their end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict

from regard.config import LabelRecipe, resolve_as
from regard.data.labels import Example, Vocabulary, has, load
from regard.errors import RegardError
from regard.evaluate.bleu import Score
from regard.tasks.labelling import Labelling, LabelTask, build
from regard.training import checkpoint, ranks
from regard.training.device import pick
from regard.training.load import check_alike, load_weights
from regard.training.run import Run, write_atomically
from regard.view import loss_curve_png

WORDS = "words.json"
N_SHOWN = 5


def prepare(recipe: LabelRecipe, run: Run, parent: Run | None, say: Callable[[str], None]) -> LabelTask:
    """The task, with the weights and words of the run it starts from, if there is one."""
    train = load(recipe, "train")
    if recipe.data.test:
        load(recipe, "test")  # a mistake in it must not wait for the end of training

    def keep_words() -> None:
        if not (run.tokenizer / WORDS).is_file():
            run.tokenizer.mkdir(exist_ok=True)
            ours = words_of(parent) if parent else Vocabulary.of(train, recipe.data)
            write_atomically(run.tokenizer / WORDS, ours.dump())

    ranks.lead(keep_words)
    task = LabelTask(recipe, words_of(run), train, load(recipe, "valid"))
    if parent:
        check_alike(parent, recipe.model, recipe_of(parent).model)
        checkpoint.copy_weights(task.model, load_weights(parent))
    return task


def recipe_of(run: Run) -> LabelRecipe:
    return resolve_as(LabelRecipe, run.recipe_file)


def words_of(run: Run) -> Vocabulary:
    return Vocabulary.load(run.tokenizer / WORDS)


def open_labelling(runs: Sequence[Run], weights: str, device: str) -> Labelling:
    if len(runs) > 1:
        raise RegardError("Labels are found by one run alone: give a single one.")
    (run,) = runs
    recipe, vocabulary = recipe_of(run), words_of(run)
    model = build(recipe, vocabulary)
    checkpoint.copy_weights(model, load_weights(run, weights))
    return Labelling(run.title, recipe, model.to(pick(device)).eval(), vocabulary)


def scores(labelling: Labelling, split: str) -> tuple[list[Example], list[list[str]], list[Score]]:
    """A split's texts, the labels found, and how good they are, beside what always saying the same would give."""
    examples = load(labelling.recipe, split)
    found, score = labelling.evaluate(examples)
    count = Counter(label for each in examples for label in each.labels)
    (label, most), total = count.most_common(1)[0], sum(count.values())
    return examples, found, [score, Score("the commonest label", 100.0 * most / total, signature=label)]


def report(labelling: Labelling, recipe: LabelRecipe, run: Run) -> str:
    """Score the test text and say it all in text, in the run's `report/`."""
    run.report.mkdir(exist_ok=True)
    split = "test" if has(recipe.data, "test") else "valid"
    examples, found, told = scores(labelling, split)
    write_atomically(run.report / f"{split}.labels.txt", "".join(" ".join(labels) + "\n" for labels in found))
    written = {split: [asdict(score) for score in told]}
    write_atomically(run.report / "scores.json", json.dumps(written, indent=1, ensure_ascii=False) + "\n")
    lines = [f"{split} {score}" for score in told] + [""]
    for example, labels in list(zip(examples, found, strict=True))[:N_SHOWN]:
        verdict = "=" if list(example.labels) == labels else f"≠ {' '.join(example.labels)}"
        lines += [" ".join(example.words), f"  → {' '.join(labels)}  {verdict}"]
    curve = run.report / "loss.png"
    loss_curve_png(run.records(), curve, run.title)
    text = "\n".join([*lines, "", f"loss curve      {curve}"])
    write_atomically(run.report / "report.txt", text + "\n")
    return text
