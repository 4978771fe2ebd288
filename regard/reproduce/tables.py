"""What the tables of the papers share: rows with a change to a recipe each, claims about their order, and how the
paper's figures are set beside ours.

`Printed` is all that `regard reproduce` asks of a table; `Table` is one whose rows are changes to recipes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Any, Protocol, TypeVar

from regard.config import Recipe, flatten, resolve, to_dict
from regard.errors import RegardError, nearest
from regard.reproduce.experiments import Experiment, Figure, figures, finished, run_of
from regard.view import table_png

Values = dict[str, Any]
WIDTH = 80  # of a terminal


class Printed(Protocol):
    """A table of finished experiments. Each of its methods takes those that `finished` has found."""

    @property
    def name(self) -> str:
        """Of the command, and of the files."""

    def finished(self, folder: Path) -> list[Experiment]:
        """Whatever rows and seeds have a result in the folder, whatever recipes they were made with."""

    def narrow(self, done: Sequence[Experiment]) -> str:
        """For a terminal."""

    def markdown(self, done: Sequence[Experiment]) -> str:
        """For a file."""

    def remarks(self, done: Sequence[Experiment]) -> list[str]:
        """What a reader must know of it."""

    def verdicts(self, done: Sequence[Experiment]) -> list[tuple[str, str]]:
        """Each claim that the finished rows allow to check, and whether it holds here."""


class Named(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def group(self) -> str: ...


AnyRow = TypeVar("AnyRow", bound=Named)


def choose(rows: Sequence[AnyRow], names: str, table: str) -> list[AnyRow]:
    """Rows by name or by group, separated by commas, spaces or none in them; all where nothing is named."""
    known = {unspaced(name): name for row in rows for name in (row.name, row.group) if name}
    wanted, rest = set[str](), unspaced(names)
    while rest:  # a name may have a comma in it, so the longest name that fits is taken
        fitting = [name for name in known if rest == name or rest.startswith(f"{name},")]
        name = max(fitting, key=len) if fitting else rest.partition(",")[0]
        if name not in known:
            quoted = ", ".join(f'"{one}"' for one in sorted(known.values()))  # a name may have a comma in it
            hint = nearest(name, known.values())
            raise RegardError(f"{table} has no row or group {name}{hint}; there are {quoted}.")
        wanted.add(known[name])
        rest = rest[len(name) :].lstrip(",")
    return [row for row in rows if not wanted or row.name in wanted or row.group in wanted]


def unspaced(name: str) -> str:
    return "".join(name.split())


def check_free(row: str, own: Collection[str], overrides: Values) -> None:
    """What makes a row the one that its name says is not for --set to change."""
    for key in overrides:
        if key in own or key in ("seed", "name"):
            raise RegardError(f"{key} cannot be set: the row {row} has its own. Leave it out, or choose other rows.")


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
        seeds = min(values[row].n for row in ordering.rows)
        clear = all(apart(values[a], values[b]) for a, b in steps)
        told = not any(math.isnan(values[row].mean) for row in ordering.rows)
        shown = " → ".join(f"{row} {values[row].show(digits)}" for row in ordering.rows)
        verdict = word(holds, clear, seeds) if told else "cannot be told: a figure is no number"
        lines.append((f"{ordering.claim} ({ordering.key}: {shown})", verdict))
    return lines


def apart(a: Figure, b: Figure) -> bool:
    """Whether two means differ by more than both spreads allow; with one seed nobody knows."""
    return min(a.n, b.n) > 1 and abs(a.mean - b.mean) > a.spread + b.spread


def word(holds: bool, clear: bool, seeds: int) -> str:
    doubt = "" if clear else " (with one seed)" if seeds == 1 else " (within the spread of seeds)"
    return ("holds" if holds else "does not hold") + doubt


# --- tables ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A figure of every row."""

    key: str  # of what an experiment measures
    title: str
    digits: int = 4
    lower: bool = False  # less is better
    unit: float = 1.0  # it is printed in
    varies: bool = True  # with the seed; else no ± is printed
    of_last: str = ""  # the score that it shows of the last weights; empty: it is one of the best

    def show(self, figure: Figure) -> str:
        scaled = Figure(figure.mean / self.unit, figure.spread / self.unit, figure.n)
        return (scaled if self.varies else replace(scaled, n=1)).show(self.digits)


@dataclass(frozen=True)
class Row:
    """A row: what it changes in the table's recipe, and what the paper found, in the order of the columns."""

    name: str
    change: Values
    paper: tuple[str, ...] = ()  # as printed, with ± where the paper has it; empty: the paper has no such row
    group: str = ""
    recipe: str = ""  # where it is not the table's


@dataclass(frozen=True)
class Table:
    """A table of a paper, or a figure whose points are rows."""

    name: str  # of the command and of the files
    title: str
    recipe: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    orderings: tuple[Ordering, ...] = ()
    paper_steps: int | None = 0  # of training; 0: the paper does not say; None: no paper has this table
    notes: tuple[str, ...] = ()
    beside: dict[str, str] = field(default_factory=dict)  # figures equal for all rows, and the paper's: an oracle's
    drawn: int = 0  # which column is

    @property
    def lower(self) -> set[str]:
        return {column.key for column in self.columns if column.lower}

    def experiments(self, folder: Path, rows: Sequence[Row], seeds: int, overrides: Values) -> list[Experiment]:
        """Every row with every seed, a seed after the other."""
        for row in rows:
            check_free(row.name, self.changes(row), overrides)
        return [
            Experiment(row.name, seed, self.recipe_of(row, seed, overrides), run_of(folder, row.name, seed))
            for seed in range(1, seeds + 1)
            for row in rows
        ]

    def finished(self, folder: Path) -> list[Experiment]:
        return finished(folder, {row.name: self.run_name(row.name) for row in self.rows})

    def changes(self, row: Row) -> Values:
        """What it changes, in the recipe's own keys."""
        return row.change

    def run_name(self, row: str) -> str:
        return f"{self.name} {row}"

    def recipe_of(self, row: Row, seed: int, overrides: Values) -> Recipe:
        named = {"seed": seed, "name": self.run_name(row.name)}
        return resolve(row.recipe or self.recipe, {**self.changes(row), **named, **overrides})

    def verdicts(self, done: Sequence[Experiment]) -> list[tuple[str, str]]:
        return verdicts(self.orderings, done, self.lower, max(column.digits for column in self.columns))

    def remarks(self, done: Sequence[Experiment]) -> list[str]:
        """What a reader of the table must know: the schedule, departures, and what all rows have in common."""
        lines = [*schedules(self.paper_steps, done), *self.otherwise(done)]
        for key, paper in self.beside.items():
            found = list(figures(done, key).values())
            if found:
                lines.append(f"{key.replace('_', ' ')} on the same sets: {found[0].mean:.4f} (paper {paper}).")
        return [*lines, *self.notes]

    def otherwise(self, done: Sequence[Experiment]) -> list[str]:
        """What `--set` made of finished rows beside their schedule: a table must not hide it."""
        changed: dict[str, dict[str, None]] = {}
        rows = {row.name: row for row in self.rows}
        for each in done:
            if each.result is None:
                continue
            plain = flatten(to_dict(self.recipe_of(rows[each.row], each.seed, {})))
            for key, value in flatten(to_dict(each.recipe)).items():
                if plain.get(key) != value and key not in (*each.recipe.PLACES, "train.steps"):
                    changed.setdefault(f"{key} = {value} (as shipped: {plain.get(key)})", {})[each.row] = None
        everywhere = len({each.row for each in done if each.result is not None})
        return [
            f"{'All rows' if len(names) == everywhere else ', '.join(names)}: {change}."
            for change, names in changed.items()
        ]

    def label(self, row: Row) -> str:
        """Of a row in Markdown."""
        return row.name

    def cells(self, column: Column, done: Sequence[Experiment], missing: str) -> tuple[list[str], list[str]]:
        """Of every row: the paper's figure and ours, `missing` where it has not been run. A paper that has no figure at
        all in this column has no cells."""
        found, place = figures(done, column.key), self.columns.index(column)
        theirs = [papers(row, self.columns)[place] for row in self.rows]

        def cell(row: Row) -> str:
            if row.name in found:
                return column.show(found[row.name]) + of_some(found[row.name].n, self.count(row, done))
            if not self.count(row, done):
                return missing
            return "not scored" if column.of_last else "–"  # by an earlier version; a network may have no such figure

        ours = [cell(row) for row in self.rows]
        return theirs if any(number(text) is not None for text in theirs) else [], ours

    def count(self, row: Row, done: Sequence[Experiment]) -> int:
        """How many runs of a row have ended."""
        return sum(each.row == row.name and each.result is not None for each in done)

    def seeds(self, done: Sequence[Experiment]) -> list[str]:
        """A column: how many runs of each row have ended."""
        return [str(self.count(row, done) or "") for row in self.rows]

    def markdown(self, done: Sequence[Experiment]) -> str:
        """The paper's figures beside ours."""
        titles, columns = [""], [[self.label(row) for row in self.rows]]
        for column in self.columns:
            theirs, ours = self.cells(column, done, "*not run here*")
            titles += [f"{column.title}, paper", column.title] if theirs else [column.title]
            columns += [theirs, ours] if theirs else [ours]
        rows = zip(*columns, self.seeds(done), strict=True)
        lines = [[*titles, "seeds"], ["---", *["--:"] * len(titles)], *rows]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)

    def narrow(self, done: Sequence[Experiment]) -> str:
        """The same for a terminal: as many figures beside one another as there is room for, the others below."""
        parts = [beside(column.title, *self.cells(column, done, "–")) for column in self.columns]
        names = flush(["", "", *(row.name for row in self.rows)], left=True)
        return in_blocks(names, [*parts, flush(["", "seeds", *self.seeds(done)])])

    def picture(
        self, done: Sequence[Experiment]
    ) -> tuple[list[str], list[tuple[float, float]], list[tuple[float, float] | None]]:
        """For a picture of one column: the finished rows, ours with their spread, and the paper's with theirs."""
        values = figures(done, self.columns[self.drawn].key)
        rows = [row for row in self.rows if row.name in values]
        return (
            [row.name for row in rows],
            [(values[row.name].mean, values[row.name].spread) for row in rows],
            [with_spread(papers(row, self.columns)[self.drawn]) for row in rows],
        )

    def draw(self, done: Sequence[Experiment], folder: Path) -> list[Path]:
        """The rows as points."""
        path = folder / f"{self.name}.png"
        table_png(path, f"{self.title} ({self.columns[self.drawn].title})", *self.picture(done))
        return [path]


def of_some(n: int, seeds: int) -> str:
    """Of how many runs a figure is, where an earlier version made some without it."""
    return f" (of {n})" if n < seeds else ""


def beside(title: str, theirs: list[str], ours: list[str]) -> list[str]:
    """Lines of one width: a title, and below it the paper's figures, if there are any, and ours."""
    lines = flush(["here", *ours])
    if theirs:
        theirs = flush(["paper", *(text.replace(" ± ", "±") for text in theirs)])
        lines = [a + b for a, b in zip(theirs, lines, strict=True)]
    return flush([title, *(line[2:] for line in lines)])


def in_blocks(names: list[str], columns: Sequence[list[str]]) -> str:
    """Columns beside one another as far as there is room, the others below, each block with the names of its rows."""
    blocks = [names]
    for column in columns:
        if blocks[-1] is not names and len(blocks[-1][0]) + len(column[0]) > WIDTH:
            blocks.append(names)
        blocks[-1] = [line + more for line, more in zip(blocks[-1], column, strict=True)]
    return "\n\n".join("\n".join(line.rstrip() for line in block) for block in blocks)


def for_terminal(markdown: str) -> str:
    """A Markdown text as a terminal shows it: tables as `narrow` prints them, lines of prose filled."""
    shown = []
    for tabular, lines in groupby(markdown.rstrip().splitlines(), lambda line: line.startswith("|")):
        if tabular:
            titles, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
            names, *columns = (list(cells) for cells in zip(titles, *rows, strict=True))
            shown.append(in_blocks(flush(names, left=True), [flush(column) for column in columns]))
        else:
            shown += [fill(line, WIDTH, subsequent_indent="  " if line.startswith("- ") else "") for line in lines]
    return "\n".join(shown)


def flush(lines: list[str], left: bool = False) -> list[str]:
    """All as wide as the longest. Flush right, with room before them; or flush left."""
    width = max(map(len, lines))
    return [f"{line:<{width}}" if left else f"  {line:>{width}}" for line in lines]


def papers(row: Row, columns: Sequence[Column]) -> list[str]:
    return [*row.paper, *["–"] * (len(columns) - len(row.paper))]


def number(printed: str) -> float | None:
    """The mean in a figure such as −1.4726 ± 0.01; None where there is none."""
    text = printed.split("±")[0].strip().replace("−", "-")
    return None if text in ("", "–") else float(text)


def with_spread(printed: str) -> tuple[float, float] | None:
    """The same with what stands after ±, 0 where nothing does."""
    mean = number(printed)
    return None if mean is None else (mean, number(printed.partition("±")[2]) or 0.0)


def schedules(paper_steps: int | None, done: Sequence[Experiment]) -> list[str]:
    """How long the finished rows were trained, beside the paper's schedule."""
    trained: dict[int, dict[str, None]] = {}
    for each in done:
        if each.result:
            trained.setdefault(each.recipe.train.steps, {})[each.row] = None
    lines = []
    for steps, rows in sorted(trained.items(), reverse=True):
        who = f"{', '.join(rows)}: trained" if len(trained) > 1 else "Trained"
        theirs = f"; the paper has {paper_steps:,}" if paper_steps else "; the paper does not say how many"
        if paper_steps in (None, steps):
            theirs = ", as in the paper" if paper_steps else ""
        lines.append(f"{who} for {steps:,} steps{theirs}.")
    return lines
