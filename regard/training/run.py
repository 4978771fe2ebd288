"""The run directory, which passes between verbs and explains itself.

recipe.toml            everything resolved
tokenizer/             one or two SentencePiece models
checkpoints/step-000100/{model.safetensors, training.safetensors, state.json}
best -> checkpoints/…  averaged.safetensors
log.jsonl              one line per report; tensorboard/ beside it
samples.txt            the same sentences at each validation
report/                scores, plots, attention pages
exports/               what regard translate --engine ctranslate2 has made of the weights; may be deleted
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.config import PairRecipe, Recipe, differences, resolve, resolve_as, to_toml
from regard.data.files import locked, missing_folders, remove_empty
from regard.errors import RegardError

MANIFEST = "export.json"  # what an exported folder says of itself
ESTIMATOR = "estimator.json"  # what a saved estimator of sets says of itself; it is no run

# What may change when a run is trained longer: how far, on what machine, and how it makes do with its memory.
EXTENDABLE = ("train.steps:", "train.threads:", "train.device:", "train.recompute:")
MAY_DIFFER = {"preset", "dropout", "attn_dropout", "ff_dropout", "block_heads", "block_d_ff"}  # from the run init names


class Run:
    """One run directory."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.recipe_file = self.path / "recipe.toml"
        self.tokenizer = self.path / "tokenizer"
        self.checkpoints = self.path / "checkpoints"
        self.best = self.path / "best"
        self.averaged = self.path / "averaged.safetensors"
        self.log = self.path / "log.jsonl"
        self.samples = self.path / "samples.txt"
        self.report = self.path / "report"
        self.tensorboard = self.path / "tensorboard"
        self.manifest = self.path / MANIFEST  # in an export alone, which has weights and was not trained here

    @property
    def title(self) -> str:
        """What it is called in pictures and messages: its folder, which tells the runs of a recipe apart."""
        return self.path.resolve().name

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """An existing run."""
        run = cls(path)
        if not run.path.exists():
            raise RegardError(f"There is no run {path}: train one with regard train.")
        if not run.recipe_file.is_file():
            if (run.path / ESTIMATOR).is_file():
                kind = estimator_in(run.path)
                raise RegardError(f"{path} is a saved {kind}, not a run: open it in Python with {kind}.load.")
            hint = "train one with regard train"
            if "checkpoints" in run.path.parts:
                hint = "give the run directory and --weights"
            elif run.manifest.is_file():
                hint = "it is an export for another program, so give the run that it was made of"
            raise RegardError(f"{path} is not a run directory: it has no recipe.toml; {hint}.")
        return run

    @classmethod
    def claim(cls, path: str | Path, recipe: Recipe, extend: bool = False) -> Run:
        """A directory in which `recipe` may train: a new one, one whose start never came to a checkpoint, or a
        run of the same recipe; with `extend`, also one that differs in nothing but EXTENDABLE keys.

        Where text files lie may differ: what is in them is checked on resuming.
        """
        run = cls(path)
        if run.path.is_file():
            raise RegardError(f"{path} is a file: give a directory with --run.")
        if not run.recipe_file.is_file() and run.path.is_dir() and any(run.visible()):
            raise RegardError(f"{path} is not empty and not a run directory: give another one with --run.")
        if run.steps():
            theirs, places = run.recipe, tuple(f"{key}:" for key in recipe.PLACES)
            changed = [line for line in differences(recipe, theirs) if not line.startswith(places)]
            longer = extend and recipe.train.steps >= theirs.train.steps
            extendable = all(line.startswith(EXTENDABLE) for line in changed)
            if longer and changed and theirs.train.schedule == "linear":
                raise RegardError(
                    f"{path} was planned to end at step {theirs.train.steps}, where its linear schedule ends: it "
                    f"cannot be extended. {elsewhere(path, changed)}."
                )
            if changed and not (longer and extendable):
                advice = ""
                if extend:
                    advice = " --extend lets a run grow in steps and change in nothing but the machine it runs on."
                elif extendable and recipe.train.steps > theirs.train.steps and theirs.train.schedule != "linear":
                    advice = " To train it longer, add --extend."
                raise RegardError(
                    f"{path} holds a run of another recipe. It differs in: {'; '.join(changed)}. "
                    f"{elsewhere(path, changed)}.{advice}"
                )
        return run

    @contextmanager
    def training(self, recipe: Recipe) -> Iterator[None]:
        """Keep a second training out of this directory, and write down what is trained here. An error before anything
        is trained leaves nothing of a new run."""
        new, begun = missing_folders(self.path), self.recipe_file.is_file()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / ".lock").touch()
        except OSError as error:
            raise RegardError(f"The run directory {self.path} cannot be written: {error.strerror}.") from None
        with locked(self.path / ".lock", f"Another process is training in {self.path}."):
            if not self.steps():  # what a start without a checkpoint left belongs to another recipe, perhaps
                shutil.rmtree(self.tokenizer, ignore_errors=True)
            write_atomically(self.recipe_file, to_toml(recipe))
            try:
                yield
            except BaseException:
                if not begun and {path.name for path in self.visible()} <= {self.recipe_file.name, self.tokenizer.name}:
                    self.forget(new)
                raise

    def forget(self, new: Sequence[Path]) -> None:
        """Remove what a start has made, and those of the new folders that are empty then."""
        for folder in (self.tokenizer, self.path / ".tokenizer.new"):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (self.recipe_file, self.path / ".lock"):
            file.unlink()
        remove_empty(new)

    def visible(self) -> Iterator[Path]:
        """What lies in the directory, beside leftovers of our own."""
        return (path for path in self.path.iterdir() if not path.name.startswith("."))

    @property
    def recipe(self) -> Recipe:
        return resolve(self.recipe_file)

    @property
    def pair_recipe(self) -> PairRecipe:
        """Of a run that translates; a clear word where it does not."""
        return resolve_as(PairRecipe, self.recipe_file)

    def steps(self) -> list[int]:
        """The steps of the complete checkpoints, oldest first."""
        names = (path.name for path in self.checkpoints.glob("step-*"))
        return sorted(int(name.removeprefix("step-")) for name in names)

    def checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"step-{step:06d}"

    def point_best(self, step: int) -> None:
        """Let `best` lead to the checkpoint of `step`, without a moment in which it leads nowhere."""
        new = self.path / ".best.new"
        new.unlink(missing_ok=True)
        new.symlink_to(Path("checkpoints") / self.checkpoint(step).name)
        new.replace(self.best)

    def append_log(self, **record: Any) -> None:
        with self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def records(self) -> list[dict[str, Any]]:
        """The log so far; a last line cut off by a kill does not count."""
        records = []
        if self.log.exists():
            for line in self.log.read_text(encoding="utf-8").splitlines():
                try:
                    records.append(json.loads(line))
                except json.JSONDecodeError:
                    break
        return records

    def training_seconds(self) -> float | None:
        """How long the updates of the last checkpoint took, validation and saving left out, and so what was done twice
        because of a kill. Steps after the last report are taken to be as fast as those before."""
        told = [record for record in self.records() if record["kind"] == "train" and "seconds" in record]
        if not told or not self.steps():
            return None
        return float(sum(record["seconds"] for record in told)) * self.steps()[-1] / int(told[-1]["step"])

    def write_scores(self, scores: Mapping[str, Any]) -> None:
        """For machines: by split, in the run's report/."""
        write_atomically(self.report / "scores.json", json.dumps(scores, indent=1, ensure_ascii=False) + "\n")

    def write_report(self, lines: Sequence[str], smoothing: float = 0.0) -> str:
        """For people: the lines, and where the loss curve is, which is drawn here. Gives the text.

        smoothing: of the labels in training, which makes its loss another one than that of validation
        """
        from regard.view import loss_curve_png  # here: it loads matplotlib

        curve = self.report / "loss.png"
        note = f" (training with label smoothing {smoothing:g}, validation without)" if smoothing else ""
        loss_curve_png(self.records(), curve, self.title + note)
        text = "\n".join([*lines, f"loss curve      {curve}"])
        write_atomically(self.report / "report.txt", text + "\n")
        return text

    def rewind(self, step: int) -> None:
        """Forget what was logged after `step`: a resumed run logs it again."""
        kept = [record for record in self.records() if record["step"] <= step]
        write_atomically(self.log, "".join(json.dumps(record) + "\n" for record in kept))
        if self.samples.exists():
            blocks = self.samples.read_text(encoding="utf-8").split("=== step ")[1:]
            kept_blocks = [block for block in blocks if int(block.split(maxsplit=1)[0]) <= step]
            write_atomically(self.samples, "".join(f"=== step {block}" for block in kept_blocks))

    def append_samples(self, step: int, samples: list[str]) -> None:
        with self.samples.open("a", encoding="utf-8") as file:
            file.write("\n".join([f"=== step {step}", *samples]) + "\n")

    def remove(self, step: int) -> None:
        """Delete a checkpoint: first its name, so that a kill half-way leaves no half checkpoint."""
        gone = self.checkpoints / f".gone-{step}"
        self.checkpoint(step).rename(gone)
        shutil.rmtree(gone)

    def sweep(self) -> None:
        """Remove what a kill left half-written or half-deleted."""
        for leftover in self.checkpoints.glob(".*"):
            shutil.rmtree(leftover, ignore_errors=True)

    def keep(self, steps: set[int]) -> None:
        """Delete all checkpoints but these."""
        for step in self.steps():
            if step not in steps:
                self.remove(step)


def elsewhere(path: str | Path, changed: Sequence[str]) -> str:
    """What to do with a recipe that a run differs from in these lines. The run's weights serve the same model alone."""
    other = any(
        line.startswith(("task:", "model.")) and line.split(":")[0].removeprefix("model.") not in MAY_DIFFER
        for line in changed
    )
    advice = "Give another directory with --run"
    return advice if other else f"{advice}, and to start from these weights there, --set init={path}"


def estimator_in(folder: Path) -> str:
    """Of which class an estimator is that was saved in a folder; one of them, where its record is damaged."""
    try:
        return str(json.loads((folder / ESTIMATOR).read_bytes())["estimator"])
    except (OSError, ValueError, KeyError, TypeError):
        return "SetTransformerRegressor"


def write_atomically(path: Path, text: str) -> None:
    """Write a whole file or nothing, and survive a power cut."""
    new = path.with_name(f".{path.name}.new")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
