"""The one training loop: *Attention Is All You Need*, §5, for any task.

    for each update:  g = Σ over its batches of ∇ loss(batch) / (tokens of all its batches)
                      Adam step at the schedule's rate
    now and then:     report, validate, save

A task gives batches, a summed loss and metrics; steps, accumulation, precision, checkpoints, resuming and
stopping are here. The division by the tokens of the whole update makes accumulation exact: one batch or
many pieces of it, the gradient is the same.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any, Generic

import torch
from rich.console import Console
from torch import nn

from regard.config import TrainConfig
from regard.errors import Interrupted, RegardError
from regard.tasks.task import B, Task
from regard.training import checkpoint, device
from regard.training.checkpoint import Progress
from regard.training.optim import adam, learning_rate
from regard.training.progress import Display, say
from regard.training.run import Run


class Loop(Generic[B]):
    """One run of one task."""

    def __init__(self, task: Task[B], config: TrainConfig, run: Run, console: Console) -> None:
        self.task, self.config, self.run, self.console = task, config, run, console
        self.device = device.prepare(config)
        self.model = task.model.to(self.device)
        self.optimiser = adam(self.model, config)
        # Only the loss: validation decodes step by step, with shapes that would compile again and again.
        self.loss = task.loss
        if config.compile:
            device.need_compiler(self.device)
            self.loss = torch.compile(task.loss, dynamic=True)
        self.progress = Progress()
        self.unreported = torch.zeros((), device=self.device)  # on the device: adding to it waits for nothing
        self.saved = -1  # the step of the newest checkpoint
        self.stop_asked = False

    def train(self) -> None:
        """Start, or go on where the newest checkpoint ends, until the last step or early stopping."""
        self.run.sweep()
        if self.run.steps():
            self.resume(self.run.steps()[-1])
        self.model.train()
        began, first = time.perf_counter(), self.progress.step
        display = Display(self.run, first, self.config.steps, self.console, self.config.tensorboard)
        with display, self.watching():
            while self.progress.step < self.config.steps and not self.progress.ended:
                self.one_step(display)
                if self.stop_asked:
                    self.save()
                    raise Interrupted(
                        f"Stopped. Saved step {self.progress.step} in {self.run.path}; "
                        "the same command goes on from there."
                    )
            self.save()
            if self.config.average:
                checkpoint.average(self.run, self.scheduled()[-self.config.average :])
        done = self.progress.step - first
        took = f"{done:,} steps in {time.perf_counter() - began:,.0f} s." if done else "This run had already finished."
        say(self.console, took)

    def one_step(self, display: Display) -> None:
        """An update, and whatever is due after it."""
        config, step = self.config, self.progress.step + 1
        numbers, place = self.task.order.take(self.progress.place, config.accumulate)
        batches = [self.task.batch(batch, self.device) for batch in numbers]
        rate = self.update(batches, step)
        self.progress.step, self.progress.place = step, place
        display.advance(step, sum(batch.n_tokens for batch in batches))
        if step % config.report_every == 0:
            loss = float(self.unreported) / config.report_every
            self.unreported.zero_()
            if not math.isfinite(loss):
                raise RegardError(diverged(step, loss, rate, self.run))
            display.report("train", step, {"loss": loss, "learning_rate": rate, "tokens_per_second": display.speed()})
        if step % config.valid_every == 0 or step == config.steps:
            self.validate(display)
        if step % config.save_every == 0:
            self.save()
            display.pause()

    def update(self, batches: list[B], step: int) -> float:
        """One Adam step on the gradient of all `batches` together; gives its learning rate."""
        n_tokens = sum(batch.n_tokens for batch in batches)
        self.optimiser.zero_grad(set_to_none=True)
        for batch in batches:
            with self.precision():
                loss = self.loss(batch) / n_tokens
            loss.backward()
            self.unreported += loss.detach()
        if self.config.clip_norm:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        rate = learning_rate(step, self.task.d_model, self.config.warmup_steps, self.config.lr_scale)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        return rate

    def precision(self) -> Any:
        if self.config.precision == "bfloat16":
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def validate(self, display: Display) -> None:
        """Score held-out data; remember the best; stop where patience ends."""
        progress, step = self.progress, self.progress.step
        with self.precision():
            outcome = self.task.validate(self.device)
        display.report("valid", step, outcome.metrics)
        if outcome.samples:
            self.run.append_samples(step, outcome.samples)
        value = outcome.metrics[self.config.best_by]
        value = -value if self.config.best_by == "loss" else value
        if progress.best is None or value > progress.best:
            progress.best, progress.best_step, progress.stalled = value, step, 0
            self.save()
        else:
            progress.stalled += 1
            if self.config.patience and progress.stalled >= self.config.patience:
                progress.ended = True
                say(
                    self.console,
                    f"Stopped early: {progress.stalled} validations without a better {self.config.best_by}; "
                    f"the best was at step {progress.best_step}.",
                )
        display.pause()

    def save(self) -> None:
        """Write a checkpoint of this step, once, and forget those that need not be kept."""
        progress = self.progress
        if self.saved == progress.step:
            return
        progress.unreported = float(self.unreported)
        if not math.isfinite(progress.unreported):  # never replace a good checkpoint by a ruined one
            raise RegardError(
                diverged(progress.step, progress.unreported, self.optimiser.param_groups[0]["lr"], self.run)
            )
        checkpoint.save(self.run, progress, self.model, self.optimiser, self.task.fingerprints)
        self.saved = progress.step
        if progress.best_step:
            self.run.point_best(progress.best_step)
        self.run.keep({progress.step, progress.best_step, *self.scheduled()[-self.config.keep :]})

    def scheduled(self) -> list[int]:
        """The checkpoints that every run of this recipe has: not those of an interruption, nor of a best."""
        ended = self.progress.ended or self.progress.step == self.config.steps
        last = self.progress.step if ended else 0
        return [step for step in self.run.steps() if step % self.config.save_every == 0 or step == last]

    def resume(self, step: int) -> None:
        folder = self.run.checkpoint(step)
        before = checkpoint.load_state(folder)["machine"]
        for what, value in checkpoint.machine(self.device).items():
            if before[what] != value:
                say(
                    self.console,
                    f"Note: {what} was {before[what]} and is now {value}; the run goes on with the same batches and "
                    "random numbers, but not to the last bit.",
                )
        self.progress = checkpoint.restore(folder, self.model, self.optimiser, self.task.fingerprints)
        self.unreported.fill_(self.progress.unreported)
        self.saved = step
        if self.progress.best_step in self.run.steps():
            self.run.point_best(self.progress.best_step)
        if step < self.config.steps and not self.progress.ended:
            say(self.console, f"Going on from step {step} of {self.config.steps}.")

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Turn Ctrl-C and a polite kill into a wish to stop after the present update; a second one insists."""

        def ask(number: int, frame: FrameType | None) -> None:
            self.stop_asked = True
            signal.signal(number, before[signal.Signals(number)])

        try:
            before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not the main thread: signals are somebody else's
            yield
            return
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def diverged(step: int, loss: float, rate: float, run: Run) -> str:
    return (
        f"The loss is {loss} at step {step}: training has diverged at a learning rate of {rate:.2g}. Lower "
        "train.lr_scale, raise train.warmup_steps or set train.clip_norm"
        + (f"; the last good checkpoint is {run.checkpoint(run.steps()[-1])}." if run.steps() else ".")
    )
