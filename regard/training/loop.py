"""The one training loop: *Attention Is All You Need*, §5, for any task.

    for each update:  g = Σ over its batches of ∇ loss(batch) / (tokens of all its batches)
                      Adam step at the schedule's rate
    now and then:     report, validate, save

A task gives batches, a summed loss and metrics; steps, accumulation, precision, checkpoints, resuming and
stopping are here. The division by the tokens of the whole update makes accumulation exact: one batch or
many pieces of it, in one process or in several (`ranks`), whole or cut to fit (`memory`), the gradient is the same.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any, Generic

import numpy as np
import torch
from rich.console import Console
from torch import nn

from regard.config import TrainConfig
from regard.data.batching import Place
from regard.errors import Diverged, Interrupted
from regard.tasks.task import B, Task, move
from regard.training import checkpoint, device, ranks
from regard.training.captured import Captured
from regard.training.checkpoint import Progress, Snapshot
from regard.training.memory import Fitting
from regard.training.optim import Adam, learning_rate
from regard.training.prefetch import ahead
from regard.training.progress import Display, say
from regard.training.run import Run
from regard.training.writer import Writer
from regard.wording import counted


@dataclass(frozen=True)
class Update(Generic[B]):
    """What one step is computed from."""

    batches: list[B]  # this rank's part
    n_tokens: int  # of all ranks' batches
    place: Place  # in the data, after them


class Loop(Generic[B]):
    """One run of one task."""

    def __init__(self, task: Task[B], config: TrainConfig, run: Run, console: Console) -> None:
        self.task, self.config, self.run, self.console = task, config, run, console
        self.device = device.prepare(config)
        self.model = task.model.to(self.device)
        self.optimiser = Adam(self.model.parameters(), config)
        self.captured = None
        if self.device.type == "cuda" and not (config.deterministic or config.recompute):
            self.captured = Captured(task.loss, self.model, self.precision)
        self.fitting = Fitting(task, self.device, partial(say, console), self.captured.clear if self.captured else None)
        self.progress = Progress()
        # On the device: adding to them waits for nothing.
        self.update_loss = torch.zeros((), device=self.device)
        self.unreported = torch.zeros((), device=self.device)
        self.saved = -1  # the step of the newest checkpoint
        self.writer = Writer()
        self.stop_asked = False
        self.stop_signal = 0  # which of them asked

    def train(self) -> None:
        """Start, or go on where the newest checkpoint ends, until the last step or early stopping."""
        newest = int(ranks.lead(self.newest))
        if newest:
            self.resume(newest)
        ranks.same_weights(self.model)
        self.model.train()
        if not self.done:
            self.rehearse()
        began, first = time.perf_counter(), self.progress.step
        with (
            self.watching(),  # first: whoever sees the log begin may interrupt
            Display(self.run, first, self.config, self.console, self.task.unit) as display,
            self.writer,
            ahead(self.updates(), self.device) as updates,
        ):
            while not self.done:
                self.one_step(next(updates), display)
                if ranks.any_of(self.stop_asked):
                    self.save()
                    ranks.lead(self.writer.wait)
                    raise Interrupted(
                        f"Stopped. Saved step {self.progress.step} in {self.run.path}; "
                        "the same command goes on from there."
                    )
            self.save()
            ranks.lead(self.writer.wait)
            if self.config.average:
                ranks.lead(lambda: checkpoint.average(self.run, self.averaged()))
        done = self.progress.step - first
        took = (
            f"{counted(done, 'step')} in {time.perf_counter() - began:,.0f} s."
            if done
            else "This run had already finished."
        )
        say(self.console, took)
        if self.config.average:
            say(self.console, used(self.averaged()))

    @property
    def done(self) -> bool:
        return self.progress.step >= self.config.steps or self.progress.ended

    def updates(self) -> Iterator[Update[B]]:
        """All that is to come from here on. Every rank knows the whole update and makes its own part."""
        place = self.progress.place
        while True:
            numbers, place = self.task.order.take(place, self.config.accumulate)
            mine = ranks.share(numbers, ranks.rank(), ranks.size())
            batches = [self.task.batch(batch, self.device) for batch in mine]
            yield Update(batches, self.task.n_tokens(np.concatenate(numbers)), place)

    def rehearse(self) -> None:
        """Try the largest batch of the epoch, so that a lack of memory shows before the first step."""
        largest = [self.task.order.largest(self.progress.place.epoch)] * self.config.accumulate
        for numbers in ranks.share(largest, ranks.rank(), ranks.size())[:1]:
            batch = self.task.batch(numbers, self.device)
            moments = 0 if self.optimiser.state else 2 * sum(p.numel() for p in self.optimiser.parameters)
            with unchanged(self.model):
                self.fitting.rehearse(batch, self.forget, partial(self.gradient, n_tokens=batch.n_tokens), moments)

    def one_step(self, update: Update[B], display: Display) -> None:
        """An update, and whatever is due after it."""
        config, step = self.config, self.progress.step + 1
        rate = self.update(update.batches, step, update.n_tokens)
        self.progress.step, self.progress.place = step, update.place
        display.advance(step, update.n_tokens)
        since = step % config.report_every or config.report_every  # steps since the last report
        if since == config.report_every or step == config.steps:
            loss = float(self.unreported) / since
            if since == config.report_every:  # else a run that is extended has the rest of them to come
                self.unreported.zero_()
            if not math.isfinite(loss):
                raise Diverged(diverged(step, loss, rate, self.run))
            display.report("train", step, {"loss": loss, "learning_rate": rate, **display.speed()})
        if step % config.valid_every == 0 or step == config.steps:
            self.validate(display)
        if step % config.save_every == 0:
            self.save()
            display.pause()

    def update(self, batches: list[B], step: int, n_tokens: int | None = None) -> float:
        """One Adam step on the gradient of all `batches` together; gives its learning rate.

        n_tokens: of the batches of all ranks; without it, of these.
        """
        if n_tokens is None:
            n_tokens = sum(batch.n_tokens for batch in batches)
        ranks.reseed(self.task.order.seed, step)
        self.fitting.each(batches, self.forget, partial(self.gradient, n_tokens=n_tokens))
        ranks.add_up(self.optimiser.parameters, self.update_loss)
        self.unreported += self.update_loss
        if self.config.clip_norm:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        self.optimiser.lr = learning_rate(step, self.task.d_model, self.config)
        self.optimiser.step()
        return self.optimiser.lr

    def forget(self) -> None:
        """Begin a gradient: nothing has been added yet."""
        self.optimiser.zero_grad()
        self.update_loss.zero_()

    def gradient(self, batch: B, n_tokens: int) -> None:
        """Add a batch's part of an update of `n_tokens` to the gradient and to the loss."""
        if self.captured is not None and batch.shape is not None:
            self.update_loss += self.captured.gradient(batch, n_tokens)
            return
        with self.precision():
            loss = self.task.loss(move(batch, self.device)) / n_tokens
        loss.backward()
        self.update_loss += loss.detach()

    def precision(self) -> Any:
        if self.config.precision == "bfloat16":
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def validate(self, display: Display) -> None:
        """Score held-out data; remember the best; stop where patience ends."""
        progress, step = self.progress, self.progress.step
        value = ranks.lead(lambda: self.look(display))
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

    def look(self, display: Display) -> float:
        """Validate and show; gives the metric that decides, higher is better."""
        with self.precision():
            outcome = self.task.validate(self.device)
        display.report("valid", self.progress.step, outcome.metrics)
        if outcome.samples:
            self.run.append_samples(self.progress.step, outcome.samples)
        value = outcome.metrics[self.config.best_by]
        return -value if self.config.best_by == "loss" else value

    def save(self) -> None:
        """Write a checkpoint of this step, once, and forget those that need not be kept."""
        progress = self.progress
        if self.saved == progress.step:
            return
        progress.unreported = float(self.unreported)
        if not math.isfinite(progress.unreported):  # never replace a good checkpoint by a ruined one
            raise Diverged(diverged(progress.step, progress.unreported, self.optimiser.lr, self.run))
        ranks.lead(self.write)
        self.saved = progress.step

    def write(self) -> None:
        """Take note of everything now; the disk may take its time."""
        self.writer.wait()
        snapshot = Snapshot.take(self.progress, self.model, self.optimiser, self.task.fingerprints)
        self.writer.begin(partial(self.put_down, snapshot))

    def put_down(self, snapshot: Snapshot) -> None:
        progress = snapshot.progress
        checkpoint.save(self.run, snapshot)
        if progress.best_step:
            self.run.point_best(progress.best_step)
        self.run.keep({progress.step, progress.best_step, *self.scheduled(progress)[-self.config.keep :]})

    def scheduled(self, progress: Progress) -> list[int]:
        """The checkpoints that every run of this recipe has: not those of an interruption, nor of a best."""
        ended = progress.ended or progress.step == self.config.steps
        last = progress.step if ended else 0
        return [step for step in self.run.steps() if step % self.config.save_every == 0 or step == last]

    def averaged(self) -> list[int]:
        """The newest of them, none from before the last third of the run: weights that have hardly been trained would
        spoil the mean."""
        late = [step for step in self.scheduled(self.progress) if 3 * step >= 2 * self.progress.step]
        return late[-self.config.average :]

    def newest(self) -> int:
        """The step to go on from; 0 at the start."""
        self.run.sweep()
        return max(self.run.steps(), default=0)

    def resume(self, step: int) -> None:
        folder = self.run.checkpoint(step)
        before = checkpoint.load_state(folder)["machine"]
        for what, value in checkpoint.machine(self.device).items():
            if before.get(what, value) != value:
                same = "batches" if what == "ranks" else "batches and random numbers"
                say(
                    self.console,
                    f"Note: {what} was {before[what]} and is now {value}; the run goes on with the same {same}, but "
                    "not to the last bit.",
                )
        self.progress = checkpoint.restore(folder, self.model, self.optimiser, self.task.fingerprints)
        self.unreported.fill_(self.progress.unreported)
        self.saved = step
        if ranks.first() and self.progress.best_step in self.run.steps():
            self.run.point_best(self.progress.best_step)
        if not self.done:
            say(self.console, f"Going on from step {step} of {self.config.steps}.")

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Turn Ctrl-C and a polite kill into a wish to stop after the present update; a second one insists."""

        def ask(number: int, frame: FrameType | None) -> None:
            self.stop_asked, self.stop_signal = True, number
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


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Put back what a pass of the model changes beside gradients: running statistics, which are not trained."""
    before = {parameter: parameter.clone() for parameter in model.parameters() if not parameter.requires_grad}
    yield
    for parameter, value in before.items():
        parameter.copy_(value)


def diverged(step: int, loss: float, rate: float, run: Run) -> str:
    return (
        f"The loss is {loss} at step {step}: training has diverged at a learning rate of {rate:.2g}. Lower "
        "train.lr_scale, raise train.warmup_steps or set train.clip_norm"
        + (f"; the last good checkpoint is {run.checkpoint(run.steps()[-1])}." if run.steps() else ".")
    )


def used(steps: Sequence[int]) -> str:
    """Which weights the run gives, said at its end."""
    told = ", ".join(f"{step:,}" for step in steps)
    mean = "the mean of " if len(steps) > 1 else ""
    return f"The weights that are used are {mean}those at step {told} (train.average)."
