"""Classification and tagging in the one loop: learned, used, resumed, evaluated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import regard
from regard.cli import app
from regard.config import resolve_as
from regard.config.labels import LabelRecipe
from regard.data.generated.labels import generate
from regard.data.labels import Example, Vocabulary
from regard.errors import RegardError
from regard.evaluate.accuracy import accuracy
from regard.tasks.labelling import Labelling, LabelTask
from regard.training.run import Run
from regard.training.start import fit

QUIET = Console(quiet=True)
BODIES: dict[str, dict[str, Any]] = {
    "bag": {"family": "bag", "d_model": 32, "dropout": 0.0},
    "cnn": {"family": "cnn", "d_model": 32, "filters": 32, "max_width": 4, "dropout": 0.1},
    "recurrent": {"family": "recurrent", "d_model": 32, "d_hidden": 32, "dropout": 0.0},
    "transformer": {
        "family": "transformer", "n_layers": 2, "d_model": 64, "d_ff": 128, "n_heads": 4, "dropout": 0.0, "norm": "pre",
    },
}  # fmt: skip


def recipe(task: str, body: str, **train: Any) -> dict[str, Any]:
    corpus = "polarity" if task == "classification" else "word-classes"
    return {
        "name": body, "task": task, "data": {"corpus": corpus, "train_size": 3000, "valid_size": 100, "test_size": 300},
        "model": BODIES[body],
        "train": {
            "steps": 160, "batch_tokens": 800, "warmup_steps": 40, "schedule": "linear", "peak_lr": 3e-3,
            "valid_every": 50, "save_every": 50, "average": 0, "tensorboard": False, **train,
        },
    }  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each family that classifies."""
    folder = tmp_path_factory.mktemp("polarity")
    for body in BODIES:
        regard.train(recipe("classification", body), folder / body, console=QUIET)
    return {body: folder / body for body in BODIES}


def scored(run: Path) -> float:
    scores = json.loads((run / "report" / "scores.json").read_text(encoding="utf-8"))
    return float(scores["test"][0]["value"])


def test_order_is_learned_by_all_but_the_bag(runs: dict[str, Path]) -> None:
    found = {body: scored(run) for body, run in runs.items()}
    assert min(found[body] for body in BODIES if body != "bag") > 97
    assert found["bag"] < 85


def test_speed_counts_what_has_a_label(runs: dict[str, Path]) -> None:
    (logged, *_) = [record for record in Run.open(next(iter(runs.values()))).records() if record["kind"] == "train"]
    assert logged["texts_per_second"] > 0


@pytest.mark.parametrize("body", ["bag", "cnn"])
def test_neighbours_tell_what_a_word_is(body: str, tmp_path: Path) -> None:
    model = regard.train(recipe("tagging", body, steps=80), tmp_path / "run", console=QUIET)
    assert (scored(tmp_path / "run") > 97) == (body != "bag")
    if body == "cnn":
        (tags,) = model.predict(["we paint the old paint and open the house"])
        assert tags == ["PRON", "VERB", "DET", "ADJ", "NOUN", "CONJ", "VERB", "DET", "NOUN"]


def test_a_run_is_loaded_and_predicts(runs: dict[str, Path]) -> None:
    model = regard.load(runs["recurrent"])
    texts = ["the film is good but the plot is not good", "the film is bad but the plot is very clever"]
    assert model.predict(texts) == ["negative", "positive"]
    assert model.predict(texts[0]) == ["negative"]
    first, second = model.probabilities([text.split() for text in texts])
    assert first.shape == (1, 2)
    np.testing.assert_allclose(first.sum(), 1, rtol=1e-5)
    assert first.argmax() != second.argmax()
    assert [model.labels[found.argmax()] for found in (first, second)] == model.predict(texts)
    with pytest.raises(RegardError, match="recurrent labels texts and translates none: use predict"):
        model.translate(texts)


def test_predictions_do_not_depend_on_company(runs: dict[str, Path]) -> None:
    model = regard.load(runs["cnn"])
    texts = [" ".join(words[: 3 + i % 8]) for i, (words, _) in enumerate(generate("polarity", "test", 40))]
    together = model.probabilities([text.split() for text in texts])
    for text, found in zip(texts, together, strict=True):
        np.testing.assert_allclose(model.probabilities([text.split()])[0], found, atol=1e-5)


@pytest.mark.parametrize("body", BODIES)
def test_a_text_without_words_has_a_label_alone_and_in_company(body: str, runs: dict[str, Path]) -> None:
    model = regard.load(runs[body])
    (alone,) = model.predict([""])
    assert model.predict(["", "the film is good"])[0] == alone
    for wrong in (None, [3], [["the", 3]]):
        for asked in (model.predict, model.probabilities):
            with pytest.raises(RegardError, match="a list of strings"):
                asked(wrong)


def test_texts_are_strings_or_words_whatever_is_asked(runs: dict[str, Path]) -> None:
    model, text = regard.load(runs["cnn"]), "the film is hardly good"
    assert model.predict([text.split()]) == model.predict([text]) == model.predict(text)
    for given in ([text], text, [text.split()]):
        (found,) = model.probabilities(given)
        assert np.array_equal(found, model.probabilities([text.split()])[0])


@pytest.mark.parametrize("body", ["cnn", "recurrent"])
def test_a_resumed_run_ends_with_the_same_weights(body: str, tmp_path: Path) -> None:
    values = recipe("classification", body, steps=12, save_every=4, valid_every=6)
    values["model"] = {**values["model"], "dropout": 0.3}
    fit(values, tmp_path / "whole", console=QUIET)
    shorter = {**values, "train": {**values["train"], "steps": 12}}
    fit(shorter, tmp_path / "parts", console=QUIET)
    for step in (8, 12):  # as if it had been killed after step 4
        folder = tmp_path / "parts" / "checkpoints" / f"step-{step:06d}"
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    fit(shorter, tmp_path / "parts", console=QUIET)
    files = [tmp_path / run / "checkpoints" / "step-000012" / "model.safetensors" for run in ("whole", "parts")]
    assert files[0].read_bytes() == files[1].read_bytes()


def task(layout: str = "padded") -> LabelTask:
    values = recipe("tagging", "recurrent", layout=layout)
    resolved = resolve_as(LabelRecipe, values)
    train = [Example(*drawn) for drawn in generate("word-classes", "train", 50)]
    return LabelTask(resolved, Vocabulary.of(train, resolved.data), train, train[:5])


def test_the_loss_is_a_sum_over_labels() -> None:
    one, cpu = task(), torch.device("cpu")
    numbers = np.arange(10)
    whole = one.batch(numbers, cpu)
    assert (
        whole.n_tokens == one.n_tokens(numbers) == sum(len(tags) for _, tags in generate("word-classes", "train", 10))
    )
    one.model.eval()
    parts = [one.loss(one.batch(part, cpu)) for part in (numbers[:3], numbers[3:])]
    torch.testing.assert_close(sum(parts), one.loss(whole))
    packed = task("packed").batch(numbers, cpu)
    torch.testing.assert_close(one.loss(packed), one.loss(whole))


def test_a_test_file_is_missed_before_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("good\tit is good\nbad\tit is bad\n" * 10)
    files = {"train": [str(tmp_path / "text")], "valid": [str(tmp_path / "text")], "test": [str(tmp_path / "nowhere")]}
    with pytest.raises(RegardError, match=r"No such file: .*nowhere"):
        fit({**recipe("classification", "bag"), "data": files}, tmp_path / "run", console=QUIET)


def test_a_label_that_training_never_saw_is_never_right() -> None:
    one = task()
    labelling = Labelling("one", one.recipe, one.model, one.vocabulary)
    _, score = labelling.evaluate([Example(("we", "paint"), ("NEW", "NEW"))])
    assert score.value == 0.0


def test_accuracy_has_an_interval_over_texts() -> None:
    right = [["a"], ["b"]] * 200
    found = [["a"], ["a"]] * 200
    score = accuracy(found, right)
    assert score.value == 50.0
    assert score.interval == pytest.approx(1.96 * 50 / 20, rel=0.15)  # that of 400 coin flips
    assert accuracy(right, right).value == 100.0
    with pytest.raises(RegardError, match="not as many"):
        accuracy([["a"]], [["a", "b"]])


def test_evaluate_prints_accuracy_and_saves_labels(runs: dict[str, Path], tmp_path: Path) -> None:
    run, call = str(runs["cnn"]), CliRunner().invoke
    told = call(app, ["evaluate", run, "--device", "cpu", "--save", str(tmp_path / "out.txt")])
    assert told.exit_code == 0, told.output
    assert f"test accuracy = {scored(runs['cnn']):.2f}" in told.stdout
    assert len((tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()) == 300
    told = call(app, ["evaluate", run, "--split", "valid", "--json"])
    assert json.loads(told.stdout)["valid"][0]["name"] == "accuracy"
    told = call(app, ["evaluate", run, "--baseline", run])
    assert isinstance(told.exception, RegardError)


def test_other_verbs_say_that_labels_are_no_translations(runs: dict[str, Path]) -> None:
    told = CliRunner().invoke(app, ["translate", str(runs["bag"])], input="hello\n")
    assert isinstance(told.exception, RegardError)
    assert 'task = "classification"' in str(told.exception)


def test_another_run_gives_its_weights_and_words(runs: dict[str, Path], tmp_path: Path) -> None:
    values = {**recipe("classification", "cnn", steps=1, peak_lr=0.0), "init": str(runs["cnn"])}
    regard.train(values, tmp_path / "run", console=QUIET)
    assert scored(tmp_path / "run") == scored(runs["cnn"])
    with pytest.raises(RegardError, match="is another model"):
        fit({**values, "model": {**BODIES["cnn"], "filters": 8}}, tmp_path / "other", console=QUIET)
