"""Training for those who never see a run: the one loop, in a folder that is gone afterwards."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from regard.config import Recipe, TrainConfig
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
    """How long to train, and when to stop; epochs are passes over the sets."""

    max_epochs: int
    learning_rate: float
    patience: int  # epochs without a better validation; 0: train to the end and validate once
    device: str

    def train_config(self, batches: int) -> TrainConfig:
        """batches: of one epoch."""
        steps = self.max_epochs * batches
        return TrainConfig(
            steps=steps, schedule="linear", warmup_steps=max(1, min(200, steps // 20)), peak_lr=self.learning_rate,
            beta2=0.999, adam_eps=1e-8, clip_norm=1.0, precision="float32", device=self.device,
            report_every=batches, valid_every=batches if self.patience else steps, patience=self.patience,
            save_every=steps, keep=1, average=0, tensorboard=False,
        )  # fmt: skip


def train(task: ArrayTask, pace: Pace, name: str, verbose: bool) -> list[dict[str, float]]:
    """Leave the model with the weights that validated best; gives the loss after every epoch."""
    batches = len(task.order.plan(0))
    config = pace.train_config(batches)
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        run = PassingRun(Path(folder), Recipe(name=name, task="arrays", seed=task.seed, train=config))
        try:
            Loop(task, config, run, Console(stderr=True) if verbose else Console(quiet=True)).train()
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
