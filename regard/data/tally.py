"""What became of the training text on its way: counts by step, by input, and the time it took."""

from __future__ import annotations

import os
import resource
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from regard.data.cleaning import STEPS

EXAMPLES = 10  # lines named for each kind of left-out record


@dataclass
class LeftOut:
    """Records of an input that gave no pair, for one reason."""

    why: str
    malformed: bool
    count: int = 0
    lines: list[int] = field(default_factory=list)  # the first of them

    def __str__(self) -> str:
        places = ", ".join(map(str, self.lines)) + (", …" if self.count > len(self.lines) else "")
        return f"{self.count:,} {self.why} (line{'s' if self.count > 1 else ''} {places})"


@dataclass
class InputTally:
    """One input: where it lies and what was in it."""

    name: str
    files: list[str]
    bytes: int
    pairs: int = 0
    left_out: list[LeftOut] = field(default_factory=list)

    def leave(self, line: int, why: str, malformed: bool) -> None:
        kind = next((one for one in self.left_out if one.why == why), None)
        if kind is None:
            kind = LeftOut(why, malformed)
            self.left_out.append(kind)
        kind.count += 1
        if len(kind.lines) < EXAMPLES:
            kind.lines.append(line)

    @property
    def malformed(self) -> int:
        return sum(kind.count for kind in self.left_out if kind.malformed)


@dataclass
class HeldOut:
    """A validation or test set, which is looked at but never changed."""

    inputs: list[InputTally]
    pairs: int
    empty_lines: list[int]  # of the written files, from 1


class Clock:
    """Seconds on the wall and of processors, by stage; children count once they have ended."""

    def __init__(self) -> None:
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), sum(os.times()[:4])
        yield
        self.wall[stage] = time.perf_counter() - wall
        self.cpu[stage] = sum(os.times()[:4]) - cpu


@dataclass
class Tally:
    """The report of a preparation."""

    languages: tuple[str, str]
    inputs: list[InputTally]
    held_out: dict[str, HeldOut] = field(default_factory=dict)
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    normalized: Counter[str] = field(default_factory=Counter)  # sides changed
    tokens: tuple[int, int] = (0, 0)
    unknown: tuple[int, int] = (0, 0)
    vocabulary: str = ""
    dtype: str = ""
    index_bytes: int = 0  # of the duplicates index at the end
    index_peak_bytes: int = 0
    notes: list[str] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)

    @property
    def read(self) -> int:
        """Records that could have been pairs."""
        return sum(one.pairs + one.malformed for one in self.inputs)

    @property
    def pairs_per_minute(self) -> float:
        """From files to files, learning the tokenizer apart."""
        seconds = sum(spent for stage, spent in self.clock.wall.items() if stage != "tokenizer")
        return 60 * self.read / seconds if seconds else 0.0

    def steps(self) -> dict[str, int]:
        return {step: self.dropped[step] for step in STEPS}

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "languages": list(self.languages), "read": self.read, "kept": self.kept,
            "steps": [{"step": k, "dropped": n, "what": STEPS[k]} for k, n in self.steps().items()],
            "normalized_sides": dict(sorted(self.normalized.items())),
            "inputs": [asdict(one) for one in self.inputs],
            "held_out": {split: asdict(one) for split, one in self.held_out.items()},
            "tokens": dict(zip(("source", "target"), self.tokens, strict=True)),
            "unknown_tokens": dict(zip(("source", "target"), self.unknown, strict=True)),
            "vocabulary": self.vocabulary, "dtype": self.dtype,
            "duplicates_index": {
                "bytes": self.index_bytes, "bytes_per_pair": self.index_bytes / max(1, self.kept),
                "peak_bytes": self.index_peak_bytes, "peak_bytes_per_pair": self.index_peak_bytes / max(1, self.kept),
            },
            "notes": self.notes, "seconds": self.clock.wall, "cpu_seconds": self.clock.cpu,
            "pairs_per_minute": self.pairs_per_minute,
            "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,  # of the main process
        }  # fmt: skip

    def text(self) -> str:
        """As a table to read."""
        source, target = self.languages
        read, kept = max(1, self.read), max(1, self.kept)
        lines = [f"{source} → {target}: {self.read:,} pairs read, {self.kept:,} kept ({self.kept / read:.1%})", ""]
        lines += [f"{'step':<16} {'dropped':>11} {'share':>8}"] if any(self.steps().values()) else []
        lines += [f"{step:<16} {n:>11,} {n / read:>8.2%}  {STEPS[step]}" for step, n in self.steps().items() if n]
        nothing = ", ".join(step for step, n in self.steps().items() if not n)
        lines += [f"{'without effect':<16} {nothing}"] if nothing else []
        changed = ", ".join(f"{n:,} {what}" for what, n in sorted(self.normalized.items()))
        lines += ["", f"{'normalised':<16} {changed or 'nothing'} (sides changed)"]
        lines.append(
            f"{'tokens':<16} {source} {self.tokens[0]:,} ({self.tokens[0] / kept:.1f} a sentence), {target} "
            f"{self.tokens[1]:,} ({self.tokens[1] / kept:.1f}); {sum(self.unknown):,} unknown; {self.vocabulary}, "
            f"{self.dtype}"
        )
        for one in (*self.inputs, *(one for held in self.held_out.values() for one in held.inputs)):
            lines += [f"{'left out':<16} {one.name}: {kind}" for kind in one.left_out]
        for split, held in self.held_out.items():
            some = ", ".join(map(str, held.empty_lines[:EXAMPLES])) + (
                "" if len(held.empty_lines) <= EXAMPLES else ", …"
            )
            empty = f"{len(held.empty_lines):,} with an empty side: lines {some}" if held.empty_lines else "none empty"
            lines.append(f"{split:<16} {held.pairs:,} pairs, {empty}")
        lines += [f"{'note':<16} {note}" for note in self.notes]
        spent = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in self.clock.wall.items())
        lines.append(f"{'time':<16} {spent}; {sum(self.clock.cpu.values()):.1f} s of processors")
        lines.append(f"{'speed':<16} {self.pairs_per_minute:,.0f} pairs a minute, without learning the tokenizer")
        lines.append(
            f"{'duplicates index':<16} {self.index_bytes / kept:.1f} bytes a pair, at most "
            f"{self.index_peak_bytes / kept:.1f} while it grew"
        )
        return "\n".join(lines) + "\n"
