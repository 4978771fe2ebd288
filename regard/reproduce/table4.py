"""*Attention Is All You Need*, Table 4: the Transformer parses English.

The paper's rows are trained on the Penn Treebank, sections 2 to 21 of the Wall Street Journal, some with millions of
machine-parsed sentences beside them, and scored on section 23. That treebank is not free. Ours are trained on treebanks
that are open, each on its own training part, and scored on its own test part: the figures of different rows are not
figures of the same test, and none is the paper's. Beside each stand its training trees and what trees get that are
drawn without a look at the words.

Scored as the paper's are: labelled F1 by EVALB's rules with COLLINS, all lengths; under gold tags, since a tag decides
what EVALB takes for punctuation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from regard.config import ParsingRecipe, Recipe, resolve_as
from regard.data.files import read_lines
from regard.data.treebank import Treebank, load, training
from regard.data.trees import write_trees
from regard.decode.parser import Parser
from regard.errors import RegardError
from regard.reproduce.experiments import Experiment, Result, figures
from regard.tasks.parsing import judge
from regard.tasks.parsing_report import trivial
from regard.training.parsing import load_parser
from regard.training.start import fit

Values = dict[str, Any]


@dataclass(frozen=True)
class Published:
    """A row of the paper's table."""

    parser: str
    training: str
    f1: float


PAPER = [
    Published("Vinyals & Kaiser et al. (2014)", "WSJ only", 88.3),
    Published("Petrov et al. (2006)", "WSJ only", 90.4),
    Published("Zhu et al. (2013)", "WSJ only", 90.4),
    Published("Dyer et al. (2016)", "WSJ only", 91.7),
    Published("Transformer (4 layers)", "WSJ only, about 40,000 trees", 91.3),
    Published("Zhu et al. (2013)", "semi-supervised", 91.3),
    Published("Huang & Harper (2009)", "semi-supervised", 91.3),
    Published("McClosky et al. (2006)", "semi-supervised", 92.1),
    Published("Vinyals & Kaiser et al. (2014)", "semi-supervised", 92.1),
    Published("Transformer (4 layers)", "semi-supervised, about 17 million sentences", 92.7),
    Published("Luong et al. (2015)", "multi-task", 93.0),
    Published("Dyer et al. (2016)", "generative", 93.3),
]


@dataclass(frozen=True)
class Row:
    """A run of ours: its recipe, and the treebanks whose test parts it is scored on."""

    name: str
    recipe: str
    tests: tuple[str, ...]
    trained_on: str
    parent: str = ""  # the row that parses the text this one learns from


FILES = {"wsj": "wsj_nltk_sample.trees.xz", "gum": "gum.trees.xz", "craft": "craft.trees.xz"}
TITLES = {"wsj": "WSJ sample", "gum": "GUM", "craft": "CRAFT"}
ROWS = [
    Row("wsj", "wsj-sample-parser", ("wsj",), "WSJ sample"),
    Row("gum", "gum-parser", ("gum",), "GUM"),
    Row("craft", "craft-parser", ("craft",), "CRAFT"),
    Row("joint", "joint-parser", ("wsj", "gum", "craft"), "all three"),
]
SELF_TRAINED = [
    Row(f"{row.name}-self", row.recipe, row.tests, f"{row.trained_on} and its own parses", row.name)
    for row in ROWS[:3]
]  # fmt: skip


@dataclass(frozen=True)
class Text:
    """Plain sentences for self-training, words with spaces between, and how sure of a tree one must be to keep it."""

    file: Path
    least_confidence: float = 0.9
    most: int = 50_000  # sentences


def choose(names: str) -> list[Row]:
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = [row.name for row in ROWS]
    for name in wanted:
        if name not in known:
            raise RegardError(f"Table 4 has no row {name} of ours; there are {', '.join(known)}.")
    return [row for row in ROWS if not wanted or row.name in wanted]


def experiments(
    rows: Sequence[Row], treebanks: Path, folder: Path, seeds: int, overrides: Values
) -> list[Experiment]:  # fmt: skip
    """Every row with every seed; treebanks are looked for in one folder, under the names their recipes have."""
    found = []
    for seed in range(1, seeds + 1):
        for row in rows:
            values: Values = {"seed": seed, "name": f"table-4 {row.name}"}
            values["data.files"] = [str((treebanks / FILES[test]).absolute()) for test in row.tests]
            if row.parent:
                values |= {"data.extra": [str(extra_file(folder, row.parent, seed).absolute())], "data.gold_times": 2}
            recipe = resolve_as(ParsingRecipe, row.recipe, {**values, **overrides})
            found.append(Experiment(row.name, seed, recipe, folder / f"{row.name}-{seed}"))
    return found


def extra_file(folder: Path, parent: str, seed: int) -> Path:
    return folder / f"{parent}-{seed}.parses"


def check_files(rows: Sequence[Row], treebanks: Path) -> None:
    for name in {test: None for row in rows for test in row.tests}:
        if not (treebanks / FILES[name]).is_file():
            raise RegardError(f"{treebanks / FILES[name]} is missing: give its folder with --treebanks.")


def measure(recipe: Recipe, run: Path) -> Result:
    """Train a row, then parse the test part of each of its treebanks, with the grammar and without."""
    assert isinstance(recipe, ParsingRecipe)
    fit(recipe, run, console=Console(quiet=True))
    parser = load_parser(run)
    result: Result = {"training_trees": float(len(training(recipe.data)))}
    for test, treebank in tests_of(recipe).items():
        result |= {f"{test} {key}": value for key, value in scores(parser, treebank).items()}
    return result


def tests_of(recipe: ParsingRecipe) -> dict[str, Treebank]:
    """The test trees of each treebank of a recipe."""
    names = {file: name for name, file in FILES.items()}
    parts = zip(recipe.data.files, recipe.data.splits, strict=True)
    return {
        names[Path(file).name]: load(replace(recipe.data, files=(file,), splits=(rule,)), "test")
        for file, rule in parts
    }


def scores(parser: Parser, treebank: Treebank) -> dict[str, float]:
    bound, free = (judge(parser, treebank, constrained=constrained) for constrained in (True, False))
    total = bound.total.figures()
    keys = ("sentences", "f1", "precision", "recall", "unlabelled_f1", "exact_match", "average_crossing")
    found = {key: float(total[key]) for key in keys}
    found |= {"malformed": bound.repairs.rate, "free_malformed": free.repairs.rate, "free_f1": free.total.labelled.f1}
    found["tagging_accuracy"] = bound.tagging_accuracy
    return found | {name: one.labelled.f1 for name, one in trivial(treebank).items()}


def measure_again(recipe: Recipe, run: Path, text: Text, folder: Path) -> Result:
    """As `measure`, for a row that learns from its parent's parses as well; they are made first."""
    assert isinstance(recipe, ParsingRecipe)
    (extra,) = map(Path, recipe.data.extra)
    if not extra.is_file():
        parse_text(load_parser(folder / extra.stem), text, extra)
    return measure(recipe, run)


def parse_text(parser: Parser, text: Text, extra: Path) -> None:
    """Greedy trees of plain sentences, those that the parser is sure of."""
    sentences = [line.split() for line in read_lines(text.file) if line.strip()][: text.most]
    found = [best[0] for best in parser.trees(sentences, beam_size=1)]
    sure = [one.tree for one in found if one.confidence >= text.least_confidence]
    if not sure:
        raise RegardError(
            f"No parse of {text.file} is at least {text.least_confidence:g} sure: lower --least-confidence."
        )
    write_trees(extra.with_suffix(".new"), sure)
    extra.with_suffix(".new").rename(extra)


# --- the table -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """One test of one of our rows."""

    parser: str
    training: str
    test: str
    figures: dict[str, str] = field(default_factory=dict)


COLUMNS = {
    "f1": "F1", "precision": "precision", "recall": "recall", "exact_match": "exact match",
    "free_malformed": "malformed without grammar, %", "malformed": "with grammar, %",
    "flat": "flat", "left-branching": "left-branching", "right-branching": "right-branching",
}  # fmt: skip


def lines(found: Sequence[Experiment], rows: Sequence[Row]) -> list[Line]:
    """What is there so far."""
    written = []
    for row in rows:
        mine = [one for one in found if one.row == row.name and one.result is not None]
        for test in row.tests if mine else ():
            told = {
                key: figure[row.name].show(2)
                for key in COLUMNS
                if row.name in (figure := figures(mine, f"{test} {key}"))
            }
            trees = mine[0].result["training_trees"] if mine[0].result else 0
            written.append(Line("Transformer, here", f"{row.trained_on}, {trees:,.0f} trees", TITLES[test], told))
    return written


def table(found: Sequence[Experiment], rows: Sequence[Row]) -> str:
    """In Markdown: the paper's rows, then ours."""
    ours = lines(found, rows)
    written = ["| parser | training | test | " + " | ".join(COLUMNS.values()) + " |"]
    written.append("|---|---|---|" + "--:|" * len(COLUMNS))
    empty = " | " * (len(COLUMNS) - 1)
    written += [f"| {one.parser} | {one.training} | WSJ 23 | {one.f1:.1f} |{empty}".rstrip() for one in PAPER]
    written += [
        f"| {one.parser} | {one.training} | {one.test} | "
        + " | ".join(one.figures.get(key, "") for key in COLUMNS)
        + " |"
        for one in ours
    ]
    return "\n".join(written)


def narrow(found: Sequence[Experiment], rows: Sequence[Row]) -> str:
    """For a terminal."""
    written = [f"{'training':<46} {'test':<12} {'F1':>14}  flat, left-branching, right-branching"]
    written += [f"{one.parser}, {one.training}"[:58].ljust(59) + f"{one.f1:>14.1f}" for one in PAPER]
    for one in lines(found, rows):
        beside = [one.figures.get(key, "–") for key in ("flat", "left-branching", "right-branching")]
        written.append(f"{one.training[:46]:<46} {one.test:<12} {one.figures['f1']:>14}  {', '.join(beside)}")
    return "\n".join(written)
