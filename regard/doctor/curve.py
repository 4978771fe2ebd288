"""What a run's log tells: divergence, spikes, a rate too high, learning by heart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median, median_low
from typing import Any

from regard.doctor.findings import Finding, at_lines

Record = dict[str, Any]
WINDOW = 7  # reports around a spike


def of_kind(records: Sequence[Record], kind: str) -> list[tuple[int, int, float]]:
    """(line of the log, step, loss) of each report of a kind."""
    return [
        (i, int(record["step"]), float(record["loss"]))
        for i, record in enumerate(records, start=1)
        if record.get("kind") == kind and "loss" in record
    ]


def divergence(records: Sequence[Record], file: str) -> Iterator[Finding]:
    points = of_kind(records, "train")
    broken = [(line, step) for line, step, loss in points if not math.isfinite(loss)]
    if broken:
        yield Finding(
            "diverged", "error", at_lines(file, [broken[0][0]]), f"The loss is no number at step {broken[0][1]:,}.",
            "Lower the learning rate, raise train.warmup_steps or set train.clip_norm = 1.",
        )  # fmt: skip
        return
    lowest = min(range(len(points)), key=lambda i: points[i][2], default=0)
    later = points[lowest + 1 :]
    if len(later) < 2:
        return
    _, step, least = points[lowest]
    last = median_low(loss for _, _, loss in later[-3:])  # of two the lower: one report alone is a spike
    if last > least + max(0.7, 0.25 * least):
        after = next(line for line, _, loss in later if loss > least + (last - least) / 2)
        yield Finding(
            "diverged", "error", at_lines(file, [after]),
            f"The training loss was {least:.2f} at step {step:,} and has gone up to {last:.2f}.",
            "Lower the learning rate (train.lr_scale or train.peak_lr), raise train.warmup_steps or set "
            f"train.clip_norm = 1; the weights of step {step:,} were better.",
        )  # fmt: skip


def spikes(records: Sequence[Record], file: str) -> Iterator[Finding]:
    """Single reports far above those around them."""
    points = [point for point in of_kind(records, "train") if math.isfinite(point[2])]
    changes = [abs(b[2] - a[2]) for a, b in pairwise(points)]
    usual = median(changes) if changes else 0.0
    spiked = []
    for i, (line, step, loss) in enumerate(points):
        around = [p[2] for p in points[max(0, i - WINDOW // 2) : i + WINDOW // 2 + 1] if p[1] != step]
        before = [p[2] for p in points[max(0, i - WINDOW) : i]]
        if len(before) >= 2 and len(around) >= 3 and i + 1 < len(points):
            level = max(median(around), median(before[-3:]))
            if loss > level + max(0.3, 0.15 * level, 8 * usual):
                spiked.append((line, step, loss, level))
    if spiked:
        _, step, loss, level = spiked[0]
        yield Finding(
            "loss-spikes", "warning", at_lines(file, [point[0] for point in spiked]),
            f"The training loss jumps {len(spiked)} time{'s' if len(spiked) > 1 else ''}, first at step {step:,} from "
            f"{level:.2f} to {loss:.2f}.",
            "Set train.clip_norm = 1 or lower the learning rate; look for broken lines in the training text.",
        )  # fmt: skip


def rate_too_high(records: Sequence[Record], file: str) -> Iterator[Finding]:
    """A loss that falls while the rate is small, and rises or stands still once it is large."""
    points = [
        (i, int(r["step"]), float(r["loss"]), float(r["learning_rate"]))
        for i, r in enumerate(records, start=1)
        if r.get("kind") == "train" and "learning_rate" in r and math.isfinite(float(r.get("loss", math.nan)))
    ]
    if len(points) < 8:
        return
    peak = max(range(len(points)), key=lambda i: points[i][3])
    before, after = points[:peak], points[peak : peak + max(3, len(points) // 4)]
    if len(before) < 2 or len(after) < 3:
        return
    best = min(before, key=lambda point: point[2])
    later = median(point[2] for point in after)
    if later > best[2] + max(0.15, 0.04 * best[2]):
        yield Finding(
            "learning-rate-high", "error", at_lines(file, [after[0][0]]),
            f"The loss had come down to {best[2]:.2f} at step {best[1]:,}, at a rate of {best[3]:.2g}, and stands at "
            f"{later:.2f} where the rate reaches {points[peak][3]:.2g}.",
            f"Train again with a peak rate of {min(best[3] / 2, points[peak][3] / 5):.1g} or less (train.lr_scale or "
            "train.peak_lr).",
        )  # fmt: skip


def overfitting(records: Sequence[Record], file: str) -> Iterator[Finding]:
    """Validation gets worse while training gets better."""
    valid, train = of_kind(records, "valid"), of_kind(records, "train")
    if len(valid) < 3 or len(train) < 3:
        return
    line, step, least = min(valid, key=lambda point: point[2])
    later = [point for point in valid if point[1] > step]
    then = [loss for _, at, loss in train if at <= step][-1:] or [train[0][2]]
    rise = (valid[-1][2] - least) / max(least, 0.1)
    if len(later) >= 2 and rise > 0.03 and train[-1][2] < then[0] - 0.02:
        yield Finding(
            "overfitting", "error" if rise > 0.3 else "warning", at_lines(file, [line]),
            f"The validation loss was best at step {step:,} ({least:.3f}) and has risen to {valid[-1][2]:.3f}, while "
            f"the training loss fell from {then[0]:.3f} to {train[-1][2]:.3f}.",
            "Use --weights best, raise model.dropout, stop earlier (train.patience), make the model smaller or find "
            "more text.",
        )  # fmt: skip


def no_learning(records: Sequence[Record], file: str) -> Iterator[Finding]:
    points = of_kind(records, "train")
    if len(points) >= 5 and all(math.isfinite(loss) for _, _, loss in points):
        first, last = points[0][2], median(loss for _, _, loss in points[-3:])
        steady = median(loss for _, _, loss in points[len(points) // 2 :])
        if last > 0.97 * first and abs(last - steady) < 0.05 * steady and last > 1.0:
            yield Finding(
                "no-learning", "error", at_lines(file), f"The training loss has stayed near {last:.2f} from the start.",
                "Check that source and target belong together, and the learning rate.",
            )  # fmt: skip


CHECKS = (divergence, spikes, rate_too_high, overfitting, no_learning)
