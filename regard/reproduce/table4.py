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

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from rich.console import Console

from regard.config import ParsingRecipe, Recipe, flatten, resolve_as, to_dict
from regard.data.files import read_lines
from regard.data.treebank import Treebank, load, training
from regard.data.trees import write_trees
from regard.decode.parser import Parser
from regard.errors import RegardError
from regard.reproduce import tables
from regard.reproduce.experiments import Experiment, Result, figures, finished, run_of
from regard.reproduce.tables import Ordering, Values
from regard.tasks.parsing import judge
from regard.tasks.parsing_report import trivial
from regard.training.parsing import load_parser
from regard.training.run import write_atomically
from regard.training.start import fit
from regard.wording import counted


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
class Trained:
    """A row of ours: its recipe, and the treebanks whose test parts it is scored on."""

    name: str
    recipe: str
    tests: tuple[str, ...]
    trained_on: str
    parent: str = ""  # the row that parses the text this one learns from
    group: str = ""


FILES = {"wsj": "wsj_nltk_sample.trees.xz", "gum": "gum.trees.xz", "craft": "craft.trees.xz"}
TITLES = {"wsj": "WSJ sample", "gum": "GUM", "craft": "CRAFT"}
ROWS = [
    Trained("wsj", "wsj-sample-parser", ("wsj",), "WSJ sample"),
    Trained("gum", "gum-parser", ("gum",), "GUM"),
    Trained("craft", "craft-parser", ("craft",), "CRAFT"),
    Trained("joint", "joint-parser", ("wsj", "gum", "craft"), "all three"),
]
SELF_TRAINED = [
    Trained(f"{row.name}-self", row.recipe, row.tests, f"{row.trained_on} and its own parses", row.name)
    for row in ROWS[:3]
]  # fmt: skip
ORDERINGS = [
    *(Ordering("more treebanks help", f"{test} f1", (test, "joint")) for test in FILES),
    *(Ordering("its own parses help", f"{test} f1", (test, f"{test}-self")) for test in FILES),
]
NAME = "table-4"
MATTERING = ("model.", "tokenizer.", "train.steps", "train.batch_tokens", "train.peak_lr", "decode.")  # if changed


@dataclass(frozen=True)
class Text:
    """Plain sentences for self-training, words with spaces between, and how sure of a tree one must be to keep it."""

    file: Path
    least_confidence: float = 0.9
    most: int = 50_000  # sentences

    def lines(self) -> list[str]:
        return [line for line in read_lines(self.file) if line.strip()][: self.most]

    def record(self) -> Record:
        """What parses of it must have been made of."""
        digest = hashlib.sha256("\n".join(self.lines()).encode()).hexdigest()
        return Record(digest, self.least_confidence)


@dataclass(frozen=True)
class Record:
    """Lies beside a file of parses: what they were made of, and how many there are."""

    text: str  # a hash
    least_confidence: float
    kept: int = 0
    sentences: int = 0

    @classmethod
    def beside(cls, parses: Path) -> Record:
        path = record_file(parses)
        if not path.is_file():
            return cls("", 0.0)
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def is_of(self, asked: Record) -> bool:
        return (self.text, self.least_confidence) == (asked.text, asked.least_confidence)


def record_file(parses: Path) -> Path:
    return parses.with_name(f"{parses.name}.json")


def choose(names: str) -> list[Trained]:
    return tables.choose(ROWS, names, "Table 4")


def experiments(
    rows: Sequence[Trained], treebanks: Path, folder: Path, seeds: int, overrides: Values
) -> list[Experiment]:  # fmt: skip
    """Every row with every seed; treebanks are looked for in one folder, under the names their recipes have."""
    found = []
    for seed in range(1, seeds + 1):
        for row in rows:
            values: Values = {"seed": seed, "name": f"{NAME} {row.name}"}
            values["data.files"] = [str((treebanks / FILES[test]).absolute()) for test in row.tests]
            if row.parent:
                values |= {"data.extra": [str(parses_file(folder, row.parent, seed).absolute())], "data.gold_times": 2}
            tables.check_free(row.name, values, overrides)
            recipe = resolve_as(ParsingRecipe, row.recipe, {**values, **overrides})
            found.append(Experiment(row.name, seed, recipe, run_of(folder, row.name, seed)))
    return found


def parses_file(folder: Path, parent: str, seed: int) -> Path:
    return folder / f"{parent}-{seed}.parses"


def extra_of(recipe: Recipe) -> Path:
    """The parses that a self-trained row learns from."""
    assert isinstance(recipe, ParsingRecipe)
    (extra,) = map(Path, recipe.data.extra)
    return extra


def check_files(rows: Sequence[Trained], treebanks: Path) -> None:
    for name in {test: None for row in rows for test in row.tests}:
        if not (treebanks / FILES[name]).is_file():
            raise RegardError(f"{treebanks / FILES[name]} is missing: give its folder with --treebanks.")


def check_text(experiments: Sequence[Experiment], text: Text) -> None:
    """Parses that are there already must be those of this text, or their rows would pass for rows of it."""
    asked = text.record()
    for each in experiments:
        extra = extra_of(each.recipe)
        if extra.is_file() and not Record.beside(extra).is_of(asked):
            raise RegardError(
                f"{extra} was made of another text or with another --least-confidence: give another folder with "
                f"--out, or remove it and {each.run}."
            )


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
    extra = extra_of(recipe)
    if not extra.is_file():
        parse_text(load_parser(folder / extra.stem), text, extra)
    return measure(recipe, run) | {"parses_kept": float(Record.beside(extra).kept)}


def parse_text(parser: Parser, text: Text, extra: Path) -> None:
    """Greedy trees of plain sentences, those that the parser is sure of, with a record of what they were made of."""
    lines = text.lines()
    found = [best[0] for best in parser.trees(lines, beam_size=1)]
    sure = [one.tree for one in found if one.confidence >= text.least_confidence]
    if not sure:
        raise RegardError(
            f"No parse of {text.file} is at least {text.least_confidence:g} sure: lower --least-confidence."
        )
    record = replace(text.record(), kept=len(sure), sentences=len(lines))
    write_atomically(record_file(extra), json.dumps(asdict(record), indent=1) + "\n")
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


TRIVIAL = ("flat", "left-branching", "right-branching")
COLUMNS = {
    "f1": "F1", "precision": "precision", "recall": "recall", "exact_match": "exact match",
    "free_malformed": "malformed without grammar, %", "malformed": "with grammar, %",
    **{name: name for name in TRIVIAL},
}  # fmt: skip


@dataclass(frozen=True)
class Parsers:
    """The paper's parsers, then ours."""

    name: str = NAME
    rows: tuple[Trained, ...] = (*ROWS, *SELF_TRAINED)

    def finished(self, folder: Path) -> list[Experiment]:
        return finished(folder, {row.name: f"{self.name} {row.name}" for row in self.rows})

    def lines(self, done: Sequence[Experiment]) -> list[Line]:
        """What is there so far."""
        written = []
        for row in self.rows:
            results = [one.result for one in done if one.row == row.name and one.result]
            for test in row.tests if results else ():
                found = {key: figures(done, f"{test} {key}").get(row.name) for key in COLUMNS}
                told = {key: figure.show(2) for key, figure in found.items() if figure}
                written.append(Line("Transformer, here", trained_on(row, results[0]), TITLES[test], told))
        return written

    def markdown(self, done: Sequence[Experiment]) -> str:
        written = ["| parser | training | test | " + " | ".join(COLUMNS.values()) + " |"]
        written.append("|---|---|---|" + "--:|" * len(COLUMNS))
        empty = " | " * (len(COLUMNS) - 1)
        written += [f"| {one.parser} | {one.training} | WSJ 23 | {one.f1:.1f} |{empty}".rstrip() for one in PAPER]
        written += [
            f"| {one.parser} | {one.training} | {one.test} | "
            + " | ".join(one.figures.get(key, "") for key in COLUMNS)
            + " |"
            for one in self.lines(done)
        ]
        return "\n".join(written)

    def narrow(self, done: Sequence[Experiment]) -> str:
        written = [f"{'training':<52} {'test':<10} {'F1':>14}"]
        written += [
            f"{one.parser}, {one.training}"[:52].ljust(52) + f" {'WSJ 23':<10} {one.f1:>14.1f}" for one in PAPER
        ]
        written += [f"{one.training[:52]:<52} {one.test:<10} {one.figures['f1']:>14}" for one in self.lines(done)]
        return "\n".join(written)

    def remarks(self, done: Sequence[Experiment]) -> list[str]:
        """What trees get that nobody thought about; it depends on the test alone."""
        lines = [
            "Ours are trained and scored on other trees than the paper's: figures of two tests are not comparable.",
            *changes(done),
        ]
        for one in {one.test: one for one in self.lines(done)}.values():
            trivial = ", ".join(f"{key} {one.figures[key]}" for key in TRIVIAL if key in one.figures)
            lines.append(f"{one.test}, F1 of trees drawn without a look at the words: {trivial}.")
        return lines

    def verdicts(self, done: Sequence[Experiment]) -> list[tuple[str, str]]:
        return tables.verdicts(ORDERINGS, done, ())


def changes(done: Sequence[Experiment]) -> list[str]:
    """What finished rows have otherwise than their recipes."""
    found: dict[str, dict[str, None]] = {}
    recipes = {row.name: row.recipe for row in [*ROWS, *SELF_TRAINED]}
    for one in done:
        if one.result:
            shipped = flatten(to_dict(resolve_as(ParsingRecipe, recipes[one.row])))
            ours = flatten(to_dict(one.recipe))
            keys = [key for key in ours if key.startswith(MATTERING) and ours[key] != shipped[key]]
            values = [f"{key} = {ours[key]}, not {shipped[key]}" for key in keys]
            found.setdefault("; ".join(values), {})[one.row] = None
    return [f"{', '.join(rows)}: {values}." for values, rows in found.items() if values]


def trained_on(row: Trained, result: Result) -> str:
    kept = f", of them {result['parses_kept']:,.0f} parses" if "parses_kept" in result else ""
    return f"{row.trained_on}, {counted(int(result['training_trees']), 'tree')}{kept}"
