"""What a person sees while a run goes on: a bar on a terminal, plain lines in a file; always on stderr.

Of several ranks the first alone shows and logs.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from regard.config import TrainConfig
from regard.training import ranks
from regard.training.run import Run


class Display:
    """Progress of one run, and its log: `log.jsonl` and TensorBoard."""

    def __init__(self, run: Run, first: int, config: TrainConfig, console: Console, unit: str) -> None:
        """Steps `first` to the last; what was logged after `first` is forgotten, since it comes again. `unit`: of what
        so many are learned from in a second."""
        self.silent = not ranks.first()
        if not self.silent:
            run.rewind(first)
        self.run, self.total, self.console, self.unit = run, config.steps, console, unit
        self.bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TextColumn("{task.fields[loss]}  {task.fields[speed]}"),
            TimeElapsedColumn(), TextColumn("so far,"), TimeRemainingColumn(), TextColumn("left"),
            console=console, disable=self.silent or not console.is_terminal,
        )  # fmt: skip
        self.task = self.bar.add_task("training", total=self.total, completed=first, loss="", speed="")
        self.writer = open_tensorboard(run, first, console) if config.tensorboard and not self.silent else None
        self.tokens, self.since = 0, time.perf_counter()
        self.last = self.since  # when the last step ended
        self.worked = 0.0  # seconds of steps since the last report

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()
        if self.writer:
            self.writer.close()

    def advance(self, step: int, tokens: int) -> None:
        self.tokens += tokens
        self.last = time.perf_counter()
        self.bar.update(self.task, completed=step)

    def speed(self) -> dict[str, float]:
        """Target tokens, or what else the loss has terms of, a second; and seconds of training since the last call."""
        now = time.perf_counter()
        speed = self.tokens / max(now - self.since, 1e-9)
        seconds = self.worked + now - self.since
        self.tokens, self.since, self.last, self.worked = 0, now, now, 0.0
        return {f"{self.unit}_per_second": speed, "seconds": seconds}

    def pause(self) -> None:
        """Leave what was done since the last step (validation, saving) out of the speed and the seconds."""
        self.worked += max(self.last - self.since, 0.0)
        self.tokens, self.since = 0, time.perf_counter()

    def report(self, kind: str, step: int, values: dict[str, float]) -> None:
        """One line in the log, one point in every TensorBoard curve, one line for the reader."""
        if self.silent:
            return
        rounded = {name: round(value, 6) for name, value in values.items()}
        self.run.append_log(kind=kind, step=step, **rounded)
        if self.writer:
            for name, value in values.items():
                self.writer.add_scalar(f"{kind}/{name}", value, step)
        if (speed := values.get(f"{self.unit}_per_second")) is not None:
            unit = "tok" if self.unit == "tokens" else self.unit
            self.bar.update(self.task, loss=f"loss {values['loss']:.3f}", speed=f"{speed:,.0f} {unit}/s")
        if kind == "valid" or not self.console.is_terminal:
            told = {name: value for name, value in values.items() if name != "seconds"}  # the speed says it
            shown = "  ".join(f"{name.replace('_', ' ')} {show(value)}" for name, value in told.items())
            say(self.console, f"step {step:>6}/{self.total}  {kind}  {shown}")


def say(console: Console, text: str) -> None:
    """A line as it is: no colours guessed, no brackets read as markup, no folding."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def show(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def open_tensorboard(run: Run, first: int, console: Console) -> Any:
    """TensorBoard's writer, where the package is installed."""
    try:
        from torch.utils.tensorboard.writer import SummaryWriter
    except ImportError:
        say(console, "TensorBoard is not installed (pip install 'regard[tensorboard]'): log.jsonl has the curves.")
        return None
    return SummaryWriter(run.tensorboard, purge_step=first + 1)
