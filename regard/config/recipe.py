"""What every recipe has: a name, a task, a seed, and how it trains."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from regard.config.checks import at_least, between
from regard.errors import RegardError


@dataclass(frozen=True)
class TrainConfig:
    """The one loop. Optimiser and schedule: *Attention Is All You Need*, §5.3; averaging: §6.1."""

    steps: int = 100_000
    accumulate: int = 1  # batches per update; the gradient is that of the one big batch
    # The paper's; up and down; up and stay; up, then down in steps
    schedule: Literal["inverse_sqrt", "linear", "constant", "stepped"] = "inverse_sqrt"
    warmup_steps: int = 4_000
    lr_scale: float = 1.0  # times d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5)
    peak_lr: float = 1e-3  # of the other schedules
    decay: float = 0.1  # of the stepped schedule: the factor of the learning rate …
    decay_every: int = 10_000  # … after each so many steps
    beta1: float = 0.9
    beta2: float = 0.98
    adam_eps: float = 1e-9
    weight_decay: float = 0.0  # this many times a weight is added to its gradient
    clip_norm: float = 0.0  # 0: no clipping (the paper)
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # auto: bfloat16 products on a GPU that has them
    recompute: bool = False  # compute layers again in the backward pass: less memory, one more forward pass
    deterministic: bool = False  # bit-exact on a GPU too, at some cost
    device: str = "auto"
    threads: int = 0  # 0: torch's own choice
    report_every: int = 100
    valid_every: int = 1_000
    best_by: str = "loss"
    patience: int = 0  # validations without improvement before stopping; 0: never
    save_every: int = 1_000
    keep: int = 5  # newest checkpoints kept; the best is always kept
    average: int = 5  # newest checkpoints averaged at the end, of the last third of the run; 0: none
    ema: float = 0.0  # decay of a moving average of the weights, kept beside them; 0: none
    tensorboard: bool = True

    def __post_init__(self) -> None:
        at_least(
            self, "train", steps=1, accumulate=1, warmup_steps=1, threads=0, report_every=1, valid_every=1, patience=0,
            save_every=1, keep=1, average=0, lr_scale=0.0, peak_lr=0.0, clip_norm=0.0, adam_eps=0.0,
            decay=0.0, decay_every=1, weight_decay=0.0,
        )  # fmt: skip
        between(self, "train", 0.0, 1.0, "beta1", "beta2", "ema")
        if self.average > self.keep:
            raise RegardError(f"train.average = {self.average} needs train.keep of at least as many.")

    @property
    def averages_early(self) -> bool:
        """Whether the checkpoints to average reach back before the last third of the run, where weights are poor."""
        return 3 * (self.average - 1) * self.save_every > self.steps


@dataclass(frozen=True)
class Recipe:
    """What decides a run, whatever its task. Each task's own recipe adds its sections."""

    PLACES: ClassVar[tuple[str, ...]] = ()  # keys that say where files lie, not what is in them
    VERBS: ClassVar[tuple[str, ...]]  # the commands that its runs are for, two or more

    name: str = "run"
    task: str = ""
    seed: int = 1
    init: str = ""  # another run whose weights this one starts from
    train: TrainConfig = field(default_factory=TrainConfig)
