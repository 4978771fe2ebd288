"""`regard evaluate` for a run that parses, and for trees in a file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.evaluating import Request
from regard.cli.options import bar, open_parser
from regard.errors import RegardError, nearest
from regard.wording import counted

if TYPE_CHECKING:
    from regard.config import TreebankConfig
    from regard.data.treebank import Treebank
    from regard.tasks.parsing_report import Report


def evaluate_parser(asked: Request) -> None:
    """Score, compare, write and draw."""
    from regard.data.trees import write_trees

    if asked.source or asked.references or asked.log_probs or asked.tokenized_lowercase or asked.compound_split:
        raise RegardError("A parser is scored against trees: give --trees, or nothing for the recipe's own.")
    if asked.run is None and not asked.hypotheses:
        raise RegardError("Give a RUN that parses, or --hypotheses FILE with the trees to be scored.")
    asked.need_model()
    treebanks = gold_trees(asked)
    if len(treebanks) > 1 and (asked.save or asked.plot):
        raise RegardError("--save and --plot are for one part: choose it with --split.")
    told = {treebank.name: report(asked, treebank) for treebank in treebanks}
    for one in told.values():
        if asked.save:
            write_trees(asked.save, one.judged.trees)
        if asked.plot:
            one.draw(asked.plot, one.treebank.name)
    if asked.as_json:
        print(json.dumps({name: one.record() for name, one in told.items()}, ensure_ascii=False))
        return
    written = [line for one in told.values() for line in one.lines(by_label=True, by_length=asked.by_length)]
    print("\n".join([*written, *(["", f"F1 by length  {asked.plot}"] if asked.plot else [])]))


def gold_trees(asked: Request) -> list[Treebank]:
    from regard.data.treebank import Treebank, load, test_splits
    from regard.data.trees import read_trees
    from regard.training.parsing import recipe_of
    from regard.training.run import Run

    if asked.trees:
        treebank = Treebank.of(asked.trees.name, read_trees(asked.trees))
        if not treebank.gold:
            raise RegardError(f"{asked.trees} has no tree with words in it.")
        return [treebank]
    if asked.run is None:
        raise RegardError("--trees is missing: which gold trees shall --hypotheses be scored against?")
    data = chosen(recipe_of(Run.open(asked.run)).data, asked.treebank)
    return [load(data, split) for split in dict.fromkeys(asked.splits or test_splits(data))]


def chosen(data: TreebankConfig, name: str) -> TreebankConfig:
    """The recipe's trees, or those of one of its treebanks, by the beginning of its file's name."""
    if not name:
        return data
    names = [Path(file).name for file in data.files]
    if not names:
        raise RegardError("--treebank is for a run of several treebanks (data.files): leave it out.")
    found = [i for i, file in enumerate(names) if file.startswith(name)]
    if len(found) != 1:
        raise RegardError(f"--treebank {name}{nearest(name, names)} must name one of {', '.join(names)}.")
    return replace(data, files=(data.files[found[0]],), splits=(data.splits[found[0]],))


def report(asked: Request, treebank: Treebank) -> Report:
    if asked.hypotheses:
        ours = of_file(asked.hypotheses, treebank)
    else:
        assert asked.run is not None
        ours = of_run(asked.run, treebank, asked)
    if asked.baseline is None:
        return ours
    theirs = of_run(asked.baseline, treebank, asked) if asked.baseline.is_dir() else of_file(asked.baseline, treebank)
    return replace(ours, other=theirs)


def of_run(run: Path, treebank: Treebank, asked: Request) -> Report:
    from regard.tasks.parsing_report import Report
    from regard.training.parsing import recipe_of
    from regard.training.run import Run

    parser = open_parser(run, asked.weights, asked.device, asked.threads)
    parser.config = parser.options(**asked.options)
    with bar(f"{run} parses {treebank.name}", len(treebank)) as progress:
        return Report.of(parser, treebank, recipe_of(Run.open(run)).data.form, str(run), progress)


def of_file(path: Path, treebank: Treebank) -> Report:
    """Trees that are there already, one for each gold tree. One over other words is an error and `(())` is skipped, as
    EVALB has it; how many there are stands beside the score."""
    from regard.data.trees import as_scored, read_trees
    from regard.tasks.parsing import Judged
    from regard.tasks.parsing_report import Report

    trees = [as_scored(tree) for tree in read_trees(path)]
    if len(trees) != len(treebank):
        ours = counted(len(trees), "tree")
        raise RegardError(f"{path} has {ours} but {treebank.name} has {len(treebank):,} with words.")
    return Report(str(path), treebank, Judged.of(treebank.gold, trees), "tags", constrained=None)
