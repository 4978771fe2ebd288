"""Training for those who never see a run: the one loop, in a folder that is gone afterwards."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from regard.config import Recipe, TrainConfig
from regard.config.checks import at_least
from regard.errors import Diverged, Interrupted, RegardError
from regard.tasks.arrays import ArrayTask
from regard.training import checkpoint
from regard.training.load import load_weights
from regard.training.loop import Loop
from regard.training.run import Run


class PassingRun(Run):
    """A run whose recipe was never a file."""

    def __init__(self, path: Path, recipe: Recipe) -> None:
        super().__init__(path)
        self.told = recipe

    @property
    def recipe(self) -> Recipe:
        return self.told


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
    """Leave the model with the weights that validated best; gives the loss after every epoch."""
    batches = len(task.order.plan(0))
    config = pace.train_config(batches)
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        run = PassingRun(Path(folder), Recipe(name=name, task="arrays", seed=task.seed, train=config))
        try:
            Loop(task, config, run, Console(stderr=True) if pace.verbose else Console(quiet=True)).train()
        except Interrupted:
            raise KeyboardInterrupt from None
        except Diverged:
            raise RegardError(
                f"Training has diverged at learning_rate = {pace.learning_rate:g}: lower it, and look for extreme "
                "values in the sets or targets."
            ) from None
        checkpoint.copy_weights(task.model, load_weights(run, "best"))
        return by_epoch(run, batches)


def by_epoch(run: Run, batches: int) -> list[dict[str, float]]:
    """The log, a record for each epoch: its number, the loss in training and, where there was one, in validation."""
    epochs: dict[int, dict[str, float]] = {}
    for record in run.records():
        epoch = record["step"] // batches
        key = {"train": "loss", "valid": "validation_loss"}[record["kind"]]
        epochs.setdefault(epoch, {"epoch": epoch})[key] = record["loss"]
    return list(epochs.values())
