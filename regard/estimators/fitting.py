"""Training for those who never see a run: the one loop, in a folder that is gone afterwards."""

from __future__ import annotations

import signal
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from regard.config import Recipe, TrainConfig
from regard.config.checks import at_least
from regard.errors import Diverged, Interrupted, RegardError
from regard.tasks.arrays import ArrayTask
from regard.training import checkpoint
from regard.training.checkpoint import Progress
from regard.training.load import load_weights
from regard.training.loop import Loop
from regard.training.progress import say
from regard.training.run import Run
from regard.wording import counted


class PassingRun(Run):
    """A run whose recipe was never a file, and whose log is for those who think in epochs."""

    def __init__(self, path: Path, recipe: Recipe, batches: int, console: Console) -> None:
        """batches: of one epoch"""
        super().__init__(path)
        self.told, self.batches, self.console = recipe, batches, console

    @property
    def recipe(self) -> Recipe:
        return self.told

    def append_log(self, **record: Any) -> None:
        """Note what is reported, and say it once an epoch: after the validation, where one follows."""
        super().append_log(**record)
        config = self.recipe.train
        if self.console.quiet:
            return
        if record["kind"] == "valid" or record["step"] % config.valid_every:
            say(self.console, line(self.epochs()[-1], config.steps // self.batches))

    def epochs(self) -> list[dict[str, float]]:
        """The log, a record for each epoch: its number, the loss in training and, if there was one, in validation."""
        epochs: dict[int, dict[str, float]] = {}
        for record in self.records():
            epoch = record["step"] // self.batches
            key = {"train": "loss", "valid": "validation_loss"}[record["kind"]]
            epochs.setdefault(epoch, {"epoch": epoch})[key] = record["loss"]
        return list(epochs.values())


@dataclass(frozen=True)
class Pace:
    """How an estimator is trained: parameters of the same names, checked. Epochs are passes over the sets."""

    max_epochs: int
    batch_size: int
    learning_rate: float
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int
    standardise: bool
    device: str
    verbose: bool

    def __post_init__(self) -> None:
        at_least(self, "", max_epochs=1, batch_size=1, n_iter_no_change=1)
        if not self.learning_rate > 0:
            raise RegardError(f"learning_rate = {self.learning_rate} must be above 0.")
        if self.early_stopping and not 0 < self.validation_fraction < 1:
            raise RegardError(f"validation_fraction = {self.validation_fraction} must lie between 0 and 1.")

    @property
    def patience(self) -> int:
        """Epochs without a better validation that end the training; 0: train to the end and validate once."""
        return self.n_iter_no_change if self.early_stopping else 0

    def split(self, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Which sets are learned from and which are validated on; without early stopping all are both."""
        if not self.early_stopping:
            return np.arange(n), np.arange(n)
        order = np.random.default_rng(seed).permutation(n)
        held_out = min(n - 1, max(1, round(self.validation_fraction * n)))
        return np.sort(order[held_out:]), np.sort(order[:held_out])

    def train_config(self, batches: int) -> TrainConfig:
        """batches: of one epoch."""
        steps = self.max_epochs * batches
        return TrainConfig(
            steps=steps, schedule="linear", warmup_steps=max(1, min(200, steps // 20)), peak_lr=self.learning_rate,
            beta2=0.999, adam_eps=1e-8, clip_norm=1.0, precision="float32", device=self.device,
            report_every=batches, valid_every=batches if self.patience else steps, patience=self.patience,
            save_every=steps, keep=1, average=0, tensorboard=False,
        )  # fmt: skip


def train(task: ArrayTask, pace: Pace, name: str) -> list[dict[str, float]]:
    """Leave the model with the weights that validated best; gives the losses of every epoch.

    Ctrl-C ends the training early, as patience does: with the best weights, if there are any yet. A polite kill is no
    such wish, since whoever sends one wants the process to end.
    """
    batches = len(task.order.plan(0))
    config = pace.train_config(batches)
    console = Console(stderr=True, quiet=not pace.verbose)
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        recipe = Recipe(name=name, task="arrays", seed=task.seed, train=config)
        run = PassingRun(Path(folder), recipe, batches, console)
        loop = Loop(task, config, run, console)  # which says so where a batch does not fit into memory
        loop.console = Console(quiet=True)  # what it says of steps is said of epochs here
        try:
            loop.train()
        except Interrupted:
            if not loop.progress.best_step or loop.stop_signal == signal.SIGTERM:
                raise KeyboardInterrupt from None
            warnings.warn(interrupted(loop.progress, batches), stacklevel=4)
        except Diverged:
            raise RegardError(
                f"Training has diverged at learning_rate = {pace.learning_rate:g}: lower it, and look for extreme "
                "values in the sets or targets."
            ) from None
        if loop.progress.ended:
            say(console, stopped(loop.progress, batches))
        checkpoint.copy_weights(task.model, load_weights(run, "best"))
        return run.epochs()


def line(epoch: dict[str, float], epochs: int) -> str:
    """`epoch 11/30: loss 0.1234, validation 0.2345`"""
    validation = f", validation {epoch['validation_loss']:.4g}" if "validation_loss" in epoch else ""
    return f"epoch {epoch['epoch']}/{epochs}: loss {epoch['loss']:.4g}{validation}"


def stopped(progress: Progress, batches: int) -> str:
    return (
        f"Stopped early: {counted(progress.stalled, 'epoch')} without a better validation; the best was epoch "
        f"{progress.best_step // batches}."
    )


def interrupted(progress: Progress, batches: int) -> str:
    return (
        f"Training was interrupted after {counted(progress.step // batches, 'epoch')}: the model has the weights of "
        f"epoch {progress.best_step // batches}, the best so far."
    )
