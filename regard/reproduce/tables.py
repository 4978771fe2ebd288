"""What the tables of the papers share: rows with a change to a recipe each, claims about their order, and how the
paper's figures are set beside ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from regard.config import Recipe, resolve
from regard.errors import RegardError
from regard.reproduce.experiments import RESULT, Experiment, Figure, figures

Values = dict[str, Any]


class Named(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def group(self) -> str: ...


AnyRow = TypeVar("AnyRow", bound=Named)


def choose(rows: Sequence[AnyRow], names: str, table: str) -> list[AnyRow]:
    """Rows by name or by group, separated by commas; all where nothing is named."""
    known = {row.name for row in rows} | {row.group for row in rows if row.group}
    wanted, rest = set[str](), names.strip()
    while rest:  # a name may have a comma in it, so the longest name that fits is taken
        fitting = [name for name in known if rest == name or rest.startswith(f"{name},")]
        name = max(fitting, key=len) if fitting else rest.partition(",")[0].strip()
        if name not in known:
            raise RegardError(f"{table} has no row or group {name}; there are {', '.join(sorted(known))}.")
        wanted.add(name)
        rest = rest[len(name) :].lstrip(", ")
    return [row for row in rows if not wanted or row.name in wanted or row.group in wanted]


def slug(name: str) -> str:
    for old, new in (
        (" = ", "-"),
        ("ε", "eps"),
        (", ", "-"),
        (" ", "-"),
        ("_", "-"),
        ("+", "-"),
        ("(", "-"),
        (")", ""),
    ):
        name = name.replace(old, new)
    return name.lower()


# --- claims ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ordering:
    """A claim about rows: each is worse than the next, by one figure."""

    claim: str
    key: str
    rows: tuple[str, ...]  # from worst to best


def verdicts(
    orderings: Sequence[Ordering], done: Sequence[Experiment], lower: Collection[str], digits: int = 2
) -> list[tuple[str, str]]:
    """Each claim that the finished rows allow to check, and whether it holds here. `lower`: figures of which less is
    better."""
    lines = []
    for ordering in orderings:
        values = figures(done, ordering.key)
        if not set(ordering.rows) <= set(values):
            continue
        better: Callable[[float], float] = (lambda x: -x) if ordering.key in lower else (lambda x: x)
        steps = list(zip(ordering.rows, ordering.rows[1:], strict=False))
        holds = all(better(values[a].mean) < better(values[b].mean) for a, b in steps)
        clear = all(apart(values[a], values[b]) for a, b in steps)
        shown = " → ".join(f"{row} {values[row].show(digits)}" for row in ordering.rows)
        lines.append((f"{ordering.claim} ({ordering.key}: {shown})", word(holds, clear)))
    return lines


def apart(a: Figure, b: Figure) -> bool:
    """Whether two means differ by more than both spreads allow; with one seed nobody knows."""
    return min(a.n, b.n) > 1 and abs(a.mean - b.mean) > a.spread + b.spread


def word(holds: bool, clear: bool) -> str:
    return ("holds" if holds else "does not hold") + ("" if clear else " (within the spread of seeds, or one seed)")


# --- tables ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A figure of every row."""

    key: str  # of what an experiment measures
    title: str
    digits: int = 4
    lower: bool = False  # less is better


@dataclass(frozen=True)
class Row:
    """A row: what it changes in the table's recipe, and what the paper found, in the order of the columns."""

    name: str
    change: Values
    paper: tuple[str, ...] = ()  # as printed, with ± where the paper has it; empty: the paper has no such row
    group: str = ""


@dataclass(frozen=True)
class Table:
    """A table of a paper, or a figure whose points are rows."""

    name: str  # of the command and of the files
    title: str
    recipe: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    orderings: tuple[Ordering, ...] = ()
    paper_steps: int = 0  # of training; 0: the paper does not say
    notes: tuple[str, ...] = ()
    beside: dict[str, str] = field(default_factory=dict)  # figures equal for all rows, and the paper's: an oracle's

    @property
    def lower(self) -> set[str]:
        return {column.key for column in self.columns if column.lower}

    def experiments(self, folder: Path, rows: Sequence[Row], seeds: int, overrides: Values) -> list[Experiment]:
        """Every row with every seed, a seed after the other."""
        return [
            Experiment(row.name, seed, self.recipe_of(row, seed, overrides), folder / f"{slug(row.name)}-{seed}")
            for seed in range(1, seeds + 1)
            for row in rows
        ]

    def finished(self, folder: Path) -> list[Experiment]:
        """Whatever rows and seeds have a result in the folder, each with the recipe that it was made with: rows of one
        table may have been trained for longer or shorter, which `remarks` says."""
        found = []
        for row in self.rows:
            for path in sorted(folder.glob(f"{slug(row.name)}-*/{RESULT}")):
                seed = path.parent.name.removeprefix(f"{slug(row.name)}-")
                if seed.isdecimal():  # else it is the run of a row whose name begins alike
                    recipe = resolve(json.loads(path.read_text(encoding="utf-8"))["recipe"])
                    found.append(Experiment(row.name, int(seed), recipe, path.parent))
        return [each for each in found if each.recipe.name == self.run_name(each.row)]

    def run_name(self, row: str) -> str:
        return f"{self.name} {row}"

    def recipe_of(self, row: Row, seed: int, overrides: Values) -> Recipe:
        named = {"seed": seed, "name": self.run_name(row.name)}
        return resolve(self.recipe, {**row.change, **named, **overrides})

    def verdicts(self, done: Sequence[Experiment]) -> list[tuple[str, str]]:
        return verdicts(self.orderings, done, self.lower, max(column.digits for column in self.columns))

    def remarks(self, done: Sequence[Experiment]) -> list[str]:
        """What a reader of the table must know: the schedule, departures, and what all rows have in common."""
        lines = schedules(self.paper_steps, done)
        for key, paper in self.beside.items():
            found = list(figures(done, key).values())
            if found:
                lines.append(f"{key.replace('_', ' ')} on the same sets: {found[0].mean:.4f} (paper {paper}).")
        return [*lines, *self.notes]

    def markdown(self, done: Sequence[Experiment]) -> str:
        """The paper's figures beside ours."""
        found = {column.key: figures(done, column.key) for column in self.columns}
        titles = " | ".join(f"{column.title}, paper | {column.title}" for column in self.columns)
        lines = [f"| | {titles} | seeds |", f"|---|{'--:|--:|' * len(self.columns)}--:|"]
        for row in self.rows:
            cells = []
            for column, paper in zip(self.columns, papers(row, self.columns), strict=True):
                ours = found[column.key].get(row.name)
                cells += [paper, ours.show(column.digits) if ours else "*not run here*"]
            seeds = [str(values[row.name].n) for values in found.values() if row.name in values]
            lines.append(f"| {row.name} | {' | '.join(cells)} | {seeds[0] if seeds else ''} |")
        return "\n".join(lines)

    def narrow(self, done: Sequence[Experiment]) -> str:
        """The same for a terminal of 80 columns: a table for each two figures."""
        parts = []
        for first in range(0, len(self.columns), 2):
            columns = self.columns[first : first + 2]
            lines = [f"{'':20}" + "".join(f"{column.title:>30}" for column in columns)]
            lines.append(f"{'':20}" + f"{'paper':>14}{'here':>16}" * len(columns))
            for row in self.rows:
                cells = ""
                for column, paper in list(zip(self.columns, papers(row, self.columns), strict=True))[first : first + 2]:
                    ours = figures(done, column.key).get(row.name)
                    cells += f"{paper.replace(' ± ', '±'):>14}{ours.show(column.digits) if ours else '–':>16}"
                lines.append(f"{row.name:20}{cells}".rstrip())
            parts.append("\n".join(lines))
        return "\n\n".join(parts)

    def picture(self, done: Sequence[Experiment]) -> tuple[list[str], list[tuple[float, float]], list[float | None]]:
        """For a picture of the first column: the finished rows, ours with their spread, and the paper's."""
        values = figures(done, self.columns[0].key)
        rows = [row for row in self.rows if row.name in values]
        return (
            [row.name for row in rows],
            [(values[row.name].mean, values[row.name].spread) for row in rows],
            [number(papers(row, self.columns)[0]) for row in rows],
        )


def papers(row: Row, columns: Sequence[Column]) -> list[str]:
    return [*row.paper, *["–"] * (len(columns) - len(row.paper))]


def number(printed: str) -> float | None:
    """The mean in a figure such as −1.4726 ± 0.01; None where there is none."""
    text = printed.split("±")[0].strip().replace("−", "-")
    return None if text in ("", "–") else float(text)


def schedules(paper_steps: int, done: Sequence[Experiment]) -> list[str]:
    """How long the finished rows were trained, beside the paper's schedule."""
    trained: dict[int, dict[str, None]] = {}
    for each in done:
        if each.result:
            trained.setdefault(each.recipe.train.steps, {})[each.row] = None
    lines = []
    for steps, rows in sorted(trained.items(), reverse=True):
        who = f"{', '.join(rows)}: trained" if len(trained) > 1 else "Trained"
        beside = f"the paper has {paper_steps:,}" if paper_steps else "the paper does not say how many"
        lines.append(f"{who} for {steps:,} steps{', as in the paper' if steps == paper_steps else f'; {beside}'}.")
    return lines
