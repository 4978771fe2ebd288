"""*Attention Is All You Need*, Table 1: what attention, recurrence, convolution and restricted attention cost.

The paper's table is of formulas. Here every column is measured on the layers of this house (`sequences`): time, memory
and operations as in `measuring`, with the exponents that fit the largest sizes; sequential steps and path lengths as
counted on the autograd graph (`paths`). Departure: the paper's path of a convolution is that of dilated ones; the row
of contiguous ones has what the text beside the table says of them. Dilated ones are k^l apart in layer l, which is
where the paper's log_k n comes from; those of `model.dilated` are 2^l apart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from regard.errors import RegardError
from regard.reproduce.fits import exponent, fitted
from regard.reproduce.measuring import Cost, one_thread, operations, peak_memory, seconds
from regard.reproduce.paths import maximum_path, sequential_steps
from regard.reproduce.sequences import Row, rows
from regard.view.curves import Panel, curves_png

WIDTH_OF_PATHS = 4  # a path has no width
TOO_SHORT = 5e-3  # seconds, of which too much goes to starting the work


@dataclass(frozen=True)
class Sizes:
    """What is measured: growing n at one d, growing d at one n, and paths at some n."""

    lengths: tuple[int, ...] = (512, 1024, 2048, 4096)
    width: int = 128
    widths: tuple[int, ...] = (128, 256, 512, 1024)
    length: int = 256
    paths: tuple[int, ...] = (16, 64, 256)
    k: int = 3
    r: int = 32
    repeats: int = 5
    batch: int = 1

    @property
    def counted(self) -> tuple[int, ...]:
        """Lengths at which operations are counted: exact at any, and a recurrence is slow to count."""
        return self.r, 2 * self.r, 4 * self.r

    def __post_init__(self) -> None:
        for name, numbers in (("--sizes", self.lengths), ("--widths", self.widths), ("--paths", self.paths)):
            if len(numbers) < 2 or min(numbers) < 2 or list(numbers) != sorted(set(numbers)):
                raise RegardError(f"{name} needs two or more growing numbers of at least 2, e.g. 512,1024,2048.")
        for name, number in (("--k", self.k), ("--r", self.r)):
            if number < 2:
                raise RegardError(f"{name} {number} must be at least 2: one position alone never reaches another.")


@dataclass(frozen=True)
class Measured:
    """A row of the table, as found."""

    row: Row
    by_length: list[Cost]
    by_width: list[Cost]
    operations_by_length: dict[int, tuple[int, int]]  # forward and backward, at `Sizes.width`
    operations_by_width: dict[int, tuple[int, int]]  # at the least of `Sizes.counted`
    steps: dict[int, int]  # sequential, by n
    path: dict[int, int]  # by n

    def exponent(self, what: str, in_width: bool = False) -> float:
        """Of time, forward, backward, memory or operations, in n or in d."""
        if what == "operations":
            counted = self.operations_by_width if in_width else self.operations_by_length
            return exponent(list(counted), [sum(pair) for pair in counted.values()])
        costs = self.by_width if in_width else self.by_length
        return exponent([cost.d if in_width else cost.n for cost in costs], [getattr(cost, what) for cost in costs])

    def as_dict(self) -> dict[str, Any]:
        row, whats = self.row, ("operations", "forward", "backward", "time", "memory")
        paper = {"complexity": row.complexity, "sequential": row.sequential, "path": row.path_order}
        found = {"layer": row.name, "paper": paper, "sequential_steps": self.steps, "maximum_path": self.path}
        if not row.costs:
            return found
        return found | {
            "by_length": [asdict(cost) for cost in self.by_length],
            "by_width": [asdict(cost) for cost in self.by_width],
            "operations_by_length": self.operations_by_length,
            "operations_by_width": self.operations_by_width,
            "exponents_in_n": {what: self.exponent(what) for what in whats},
            "exponents_in_d": {what: self.exponent(what, in_width=True) for what in whats},
        }


def measure(sizes: Sizes, device: torch.device, say: Callable[[str], None] = lambda _: None) -> list[Measured]:
    with one_thread():
        return [measure_row(row, sizes, device, say) for row in rows(sizes.k, sizes.r)]


def measure_row(row: Row, sizes: Sizes, device: torch.device, say: Callable[[str], None]) -> Measured:
    def one(n: int, d: int) -> Cost:
        say(f"{row.name}: n = {n:,}, d = {d:,}")
        return cost(row, n, d, device, sizes)

    lengths, widths = (sizes.lengths, sizes.widths) if row.costs else ((), ())
    by_length, by_width = [one(n, sizes.width) for n in lengths], [one(sizes.length, d) for d in widths]
    counted = {n: counted_operations(row, n, sizes.width) for n in sizes.counted if row.costs}
    counted_by_width = {d: counted_operations(row, sizes.counted[0], d) for d in widths}
    say(f"{row.name}: paths")
    width = WIDTH_OF_PATHS
    steps = {n: sequential_steps(row.layer(width, 0).double().applied, n, width) for n in sizes.paths}
    path = {n: maximum_path(lambda level: row.layer(width, level).double().applied, n, width) for n in sizes.paths}
    return Measured(row, by_length, by_width, counted, counted_by_width, steps, path)


def cost(row: Row, n: int, d: int, device: torch.device, sizes: Sizes) -> Cost:
    torch.manual_seed(0)
    layer, x = row.layer(d, 0).to(device), torch.randn(sizes.batch, n, d, device=device, requires_grad=True)
    forward, backward = seconds(layer, x, sizes.repeats)
    return Cost(n, d, forward, backward, peak_memory(layer, x))


def counted_operations(row: Row, n: int, d: int) -> tuple[int, int]:
    layer = row.layer(d, 0).to("meta")
    return operations(layer.counted, torch.empty(1, n, d, device="meta", requires_grad=True))


# --- telling ---------------------------------------------------------------------------------------------


def table(found: Sequence[Measured], sizes: Sizes) -> str:
    """The paper's table with ours beside it, in Markdown."""
    least, most = fitted(sizes.lengths)
    narrow, wide = fitted(sizes.widths)
    ns = ", ".join(map(str, sizes.paths))
    lines = [
        "| layer | paper: complexity | operations ∝ | time ∝ | paper: sequential | "
        f"steps at n = {ns} | paper: path | path at n = {ns} |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        row = one.row
        grown = [growth(one, what) if row.costs else "as above" for what in ("operations", "time")]
        counts = [", ".join(map(str, numbers.values())) for numbers in (one.steps, one.path)]
        cells = [row.name, row.complexity, *grown, row.sequential, counts[0], row.path_order, counts[1]]
        lines.append("| " + " | ".join(cells) + " |")
    note = (
        f"Exponents of n between {least:,} and {most:,} at d = {sizes.width}, of d between {narrow:,} and {wide:,} at "
        f"n = {sizes.length}; operations at n between {sizes.counted[0]} and {sizes.counted[-1]}. "
        "Time is forward and backward. Dilated: the l-th layer, from 0, sees positions k^l apart, not the 2^l apart of "
        "model.dilated."
    )
    return "\n".join([*lines, "", note])


def growth(one: Measured, what: str) -> str:
    return f"n^{one.exponent(what):.2f} · d^{one.exponent(what, in_width=True):.2f}"


def costs(found: Sequence[Measured], sizes: Sizes) -> str:
    """Time and memory at every size, in Markdown: forward + backward in milliseconds, and the most memory in MiB."""
    lengths = [f"n = {n:,}" for n in sizes.lengths]
    widths = [f"d = {d:,}" for d in sizes.widths]
    lines = ["| layer | " + " | ".join(lengths + widths) + " |", "|---|" + "--:|" * (len(lengths) + len(widths))]
    for one in found:
        if one.row.costs:
            cells = [shown(cost) for cost in [*one.by_length, *one.by_width]]
            lines.append(f"| {one.row.name} | " + " | ".join(cells) + " |")
    note = (
        f"Milliseconds forward + backward, and MiB; n grows at d = {sizes.width}, d at n = {sizes.length}; "
        f"a batch of {sizes.batch}."
    )
    return "\n".join([*lines, "", note])


def rates(found: Sequence[Measured], sizes: Sizes) -> str:
    """Billions of operations a second, forward, at every size, in Markdown: where a layer waits, and for what."""
    heads = [f"n = {n:,}" for n in sizes.lengths] + [f"d = {d:,}" for d in sizes.widths]
    lines = ["| layer | " + " | ".join(heads) + " |", "|---|" + "--:|" * len(heads)]
    for one in found:
        if one.row.costs:
            both = [*one.by_length, *one.by_width]
            cells = [f"{sizes.batch * one.row.operations(c.n, c.d) / c.forward / 1e9:.1f}" for c in both]
            lines.append(f"| {one.row.name} | " + " | ".join(cells) + " |")
    note = "Billions of operations a second, forward: time grows as operations do where this stays the same."
    return "\n".join([*lines, "", note])


def shown(cost: Cost) -> str:
    return f"{1000 * cost.forward:.1f} + {1000 * cost.backward:.1f}, {cost.memory / 2**20:.1f}"


def deviations(found: Sequence[Measured], tolerance: float = 0.15) -> list[str]:
    """Where time grows otherwise than the paper's formula, by more than `tolerance` in the exponent."""
    told = []
    for one in found:
        for name, theory, in_width in (("n", one.row.in_n, False), ("d", one.row.in_d, True)):
            if one.row.costs and abs(one.exponent("time", in_width) - theory) > tolerance:
                longest = max(cost.time for cost in (one.by_width if in_width else one.by_length))
                told.append(
                    f"{one.row.name}: time grows with {name}^{one.exponent('time', in_width):.2f}, "
                    f"{one.row.complexity} says {name}^{theory}"
                    + (f"; {1000 * longest:.1f} ms at most, too short to tell" if longest < TOO_SHORT else "")
                )
    return told


def write(found: Sequence[Measured], sizes: Sizes, device: str, folder: Path) -> None:
    """table-1.md, table-1.json and table-1.png."""
    folder.mkdir(parents=True, exist_ok=True)
    apart = deviations(found)
    verdict = (
        ["Exponents of time farther than 0.15 from the formula:", "", *(f"- {line}" for line in apart)]
        if apart
        else ["All exponents of time are within 0.15 of the formula."]
    )
    text = "\n".join([table(found, sizes), "", *verdict, "", costs(found, sizes), "", rates(found, sizes), ""])
    (folder / "table-1.md").write_text(text, encoding="utf-8")
    record = {"device": device, "sizes": asdict(sizes), "layers": [one.as_dict() for one in found]}
    (folder / "table-1.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    curves_png(folder / "table-1.png", f"Table 1, measured ({device})", panels(found, sizes))


def panels(found: Sequence[Measured], sizes: Sizes) -> list[Panel]:
    costly = [one for one in found if one.row.costs]

    def lines(pick: Callable[[Measured], list[tuple[float, float]]]) -> dict[str, list[tuple[float, float]]]:
        return {one.row.name: pick(one) for one in costly}

    n, d = f"n (d = {sizes.width})", f"d (n = {sizes.length})"
    return [
        Panel("time, forward and backward", n, "seconds", lines(lambda m: [(c.n, c.time) for c in m.by_length])),
        Panel("time, forward and backward", d, "seconds", lines(lambda m: [(c.d, c.time) for c in m.by_width])),
        Panel("memory", n, "bytes", lines(lambda m: [(c.n, c.memory) for c in m.by_length])),
        Panel("operations, forward", n, "", lines(lambda m: [(n, o[0]) for n, o in m.operations_by_length.items()])),
        Panel("sequential steps", "n", "", {one.row.name: list(one.steps.items()) for one in found}),
        Panel("maximum path", "n", "applications", {one.row.name: list(one.path.items()) for one in found}),
    ]
