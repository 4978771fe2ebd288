"""What a task brings to a run. To give the loop a new one: its recipe in `config`, its `Task`, and its kind here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from regard.tasks.task import Task
from regard.training import labels, pairs, parsing, sets
from regard.training.run import Run

Say = Callable[[str], None]


@dataclass(frozen=True)
class Kind:
    """How runs of a task begin, are opened, and report. Each takes recipes of the task's own kind."""

    prepare: Callable[[Any, Run, Run | None, Say], Task[Any]]  # recipe, run, the run it starts from, a place for words
    open: Callable[[Sequence[Run], str, str], Any]  # runs, which weights, device: the trained model, ready for use
    report: Callable[[Any, Any, Run], str]  # what `open` gives, recipe, run: scores and pictures for the run's report/
    last_words: str  # said before the report, which takes a while


PAIRS = Kind(pairs.prepare, pairs.open_translator, pairs.report, "Translating the test text, scoring and drawing …")
PARSING = Kind(
    parsing.prepare, parsing.open_parser, parsing.report, "Parsing the test sentences, scoring and drawing …"
)
SETS = Kind(sets.prepare, sets.open_model, sets.report, "Scoring the test sets and drawing …")
LABELS = Kind(labels.prepare, labels.open_labelling, labels.report, "Labelling the test text …")
KINDS = {
    "translation": PAIRS, "mask_predict": PAIRS, "parsing": PARSING, "classification": LABELS, "tagging": LABELS,
    **dict.fromkeys(sets.TASKS, SETS),
}  # fmt: skip


def kind_of(task: str) -> Kind:
    return KINDS[task]
