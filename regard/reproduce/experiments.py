"""Many runs from one command: several at once, each in a run directory of its own, and nothing done twice.

A run that has its `result.json` is finished; one that was interrupted goes on from its checkpoint. So the same command
again does what is left.
"""

from __future__ import annotations

import json
import multiprocessing
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from regard.config import Recipe, flatten, resolve, to_dict
from regard.data.pool import end_with_parent
from regard.errors import Interrupted, RegardError
from regard.training.device import settle
from regard.training.progress import show
from regard.training.run import Run, write_atomically

Result = dict[str, float]
RESULT = "result.json"
LOOK_SECONDS = 2.0  # between two looks at the runs that are going on
STOP_SECONDS = 0.1  # until a run is told to stop


@dataclass(frozen=True)
class Experiment:
    """One row with one seed."""

    row: str
    seed: int
    recipe: Recipe
    run: Path

    @property
    def result(self) -> Result | None:
        """What it measured, once it has."""
        path = self.run / RESULT
        if not path.is_file():
            return None
        written = json.loads(path.read_text(encoding="utf-8"))
        result: Result = written["measured"]
        return result if written["recipe"] == to_dict(self.recipe) or alike(recipe_in(path), self.recipe) else None

    def check(self) -> None:
        """A folder that holds something else, finished or begun, is nobody's to overwrite."""
        if self.result is None and ((self.run / RESULT).is_file() or self.begun_otherwise()):
            raise RegardError(f"{self.run} was made with another recipe: give another folder with --out, or remove it.")

    def begun_otherwise(self) -> bool:
        """Whether the folder has checkpoints from which this recipe cannot go on."""
        run = Run(self.run)
        try:
            if run.steps():
                Run.claim(self.run, replace(self.recipe, train=settle(self.recipe.train, run.recipe.train)))
        except RegardError:
            return True
        return False


def recipe_in(result: Path) -> Recipe | None:
    """What a result was made with; None where its keys are those of another version."""
    return readable(json.loads(result.read_text(encoding="utf-8"))["recipe"])


def readable(recipe: Path | dict[str, Any]) -> Recipe | None:
    try:
        return resolve(recipe)
    except RegardError:
        return None


def alike(a: Recipe | None, b: Recipe) -> bool:
    """Whether two recipes differ in nothing but the folders that their files lie in."""
    return a is not None and unplaced(a) == unplaced(b)


def unplaced(recipe: Recipe) -> dict[str, Any]:
    """The keys of a recipe; of files, their names without their folders."""
    values = flatten(to_dict(recipe))
    for key in recipe.PLACES:
        files = values.get(key) or ()
        values[key] = [Path(file).name for file in ([files] if isinstance(files, str) else files)]
    return values


def slug(name: str) -> str:
    """The name of a row in that of a folder."""
    return re.sub(r"[ =,_+()]+", "-", name.replace("ε", "eps")).strip("-").lower()


def run_of(folder: Path, row: str, seed: int) -> Path:
    return folder / f"{slug(row)}-{seed}"


def finished(folder: Path, names: dict[str, str]) -> list[Experiment]:
    """Whatever rows and seeds have a result in the folder, each with the recipe that it was made with: rows of one
    table may have been trained for longer or shorter. Results of versions whose recipes had other keys are left out.

    names: of every row, what its runs are called in their recipes, so that another table's runs are left aside
    """
    found = []
    for row, name in names.items():
        for path in folder.glob(f"{slug(row)}-*/{RESULT}"):
            seed = path.parent.name.removeprefix(f"{slug(row)}-")
            if seed.isdecimal():  # else it is the run of a row whose name begins alike
                recipe = recipe_in(path)
                found += [Experiment(row, int(seed), recipe, path.parent)] if recipe and recipe.name == name else []
    order = list(names)
    return sorted(found, key=lambda each: (order.index(each.row), each.seed))


def unfinished(folder: Path, names: dict[str, str]) -> list[str]:
    """How far the runs of these rows have come that have no result yet, a line each. names: as of `finished`"""
    lines = []
    for row, name in names.items():
        for path in sorted(folder.glob(f"{slug(row)}-*/recipe.toml")):
            seed = path.parent.name.removeprefix(f"{slug(row)}-")
            recipe = None if (path.parent / RESULT).is_file() or not seed.isdecimal() else readable(path)
            if recipe is None or recipe.name != name:
                continue
            step, steps = last_step(path.parent), recipe.train.steps
            told = f"{step:,} of {steps:,} steps" if step < steps else "trained, not scored yet"
            lines.append(f"{row}, seed {seed}: {told}")
    return lines


@dataclass(frozen=True)
class Figure:
    """A mean over seeds and their sample standard deviation."""

    mean: float
    spread: float  # 0 for a single seed
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Figure:
        return cls(mean(values), stdev(values) if len(values) > 1 else 0.0, len(values))

    def show(self, digits: int) -> str:
        return f"{self.mean:.{digits}f}" + (f" ± {self.spread:.{digits}f}" if self.n > 1 else "")


def figures(experiments: Sequence[Experiment], key: str) -> dict[str, Figure]:
    """Of every row that has a result, in the order of the rows."""
    found: dict[str, list[float]] = {}
    for experiment in experiments:
        if experiment.result is not None and key in experiment.result:
            found.setdefault(experiment.row, []).append(experiment.result[key])
    return {row: Figure.of(values) for row, values in found.items()}


Measure = Callable[[Recipe, Path], Result]


def carry_out(experiments: Sequence[Experiment], measure: Measure, jobs: int, console: Console) -> list[str]:
    """Have every experiment measured that has no result, `jobs` at a time. Gives a sentence for each that failed.

    `measure` trains and scores in a process of its own, so it must be a module's function, or a partial of one.
    """
    for experiment in experiments:
        experiment.check()
    left = [experiment for experiment in experiments if experiment.result is None]
    failures: list[str] = []
    columns = (
        TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn(), TextColumn("elapsed"),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("runs", total=len(experiments), completed=len(experiments) - len(left))
        inside: dict[Path, TaskID] = {}

        def look(running: Sequence[Experiment]) -> None:
            """A bar of steps for each run that is going on."""
            for each in running:
                if each.run not in inside:
                    inside[each.run] = progress.add_task(f"{each.row}, {each.seed}", total=each.recipe.train.steps)
                progress.update(inside[each.run], completed=last_step(each.run))

        for experiment, error in as_they_end(left, measure, jobs, look):
            progress.advance(bar)
            if experiment.run in inside:
                progress.remove_task(inside.pop(experiment.run))
            outcome = error or ", ".join(f"{key} {show(value)}" for key, value in (experiment.result or {}).items())
            progress.console.print(f"{experiment.row}, seed {experiment.seed}: {outcome}", highlight=False)
            if error:
                failures.append(f"{experiment.row}, seed {experiment.seed}: {error}")
    return failures


def last_step(run: Path) -> int:
    """How far a run has logged; 0 where it has not begun."""
    records = Run(run).records()
    return int(records[-1].get("step", 0)) if records else 0


def as_they_end(
    left: list[Experiment], measure: Measure, jobs: int, look: Callable[[Sequence[Experiment]], None]
) -> Iterator[tuple[Experiment, str]]:
    """Experiments as they end, each with an error or without; now and then `look` is shown those that are running."""
    stop = threading.Event()
    with interruptible(), ThreadPoolExecutor(jobs) as pool:
        try:
            waiting = {pool.submit(apart, each, measure, stop): each for each in left}
            while waiting:
                done, _ = wait(waiting, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
                for future in done:
                    yield waiting.pop(future), future.result()
                look([each for future, each in waiting.items() if future.running()])
        except BaseException:
            stop.set()  # runs that are training save their step, and the pool waits for that
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def apart(experiment: Experiment, measure: Measure, stop: threading.Event) -> str:
    """One experiment in a process that nobody else has, until it is to stop; gives what went wrong.

    What an error leaves of a GPU's context is of no use to the next run, and a process that is killed takes no other
    with it.
    """
    context = multiprocessing.get_context("spawn")  # a forked process cannot use a GPU
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=serve, args=(experiment, measure, theirs))
    process.start()
    theirs.close()
    with ours:
        while not ours.poll(STOP_SECONDS):
            if stop.is_set():
                process.terminate()  # once: a second time would insist
                break
        try:
            error: str = ours.recv()
        except EOFError:
            error = "Its process was killed, for want of memory perhaps: try fewer --jobs."
    process.join()
    return error


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end what is inside, where the runs that are going on can save what they have, in a sentence."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("Stopped. Runs that were training have saved their step; the same command goes on.") from None
    finally:
        signal.signal(signal.SIGINT, before)


def begin() -> None:
    """Leave Ctrl-C to the parent, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()


def serve(experiment: Experiment, measure: Measure, told: Connection) -> None:
    """In a new process: measure, and tell what went wrong."""
    begin()
    error = ""
    try:
        one(experiment, measure)
    except Exception as problem:
        error = sentence(problem)
    told.send(error)


def one(experiment: Experiment, measure: Measure) -> None:
    result = measure(experiment.recipe, experiment.run)
    written = {"measured": result, "recipe": to_dict(experiment.recipe)}
    write_atomically(experiment.run / RESULT, json.dumps(written, indent=1) + "\n")


def sentence(error: BaseException) -> str:
    return str(error) if isinstance(error, RegardError) else f"{type(error).__name__}: {error}"
