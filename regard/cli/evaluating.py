"""What is asked of `regard evaluate`, whatever kind of run it is of."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from regard.errors import RegardError


@dataclass(frozen=True)
class Request:
    """The options, in the order of the command's help."""

    run: Path | None
    splits: list[str]
    source: Path | None
    references: list[Path]
    hypotheses: Path | None
    baseline: Path | None
    tokenized_lowercase: bool
    compound_split: bool
    language: str | None
    by_length: bool
    plot: Path | None
    save: Path | None
    trees: Path | None  # gold ones, instead of the recipe's
    treebank: str  # one of several of the recipe
    log_probs: bool
    weights: str
    device: str
    threads: int | None
    as_json: bool
    options: dict[str, Any]  # of the search, those that were given

    def need_nothing_but(self, *names: str, otherwise: str) -> None:
        """For runs of which there is less to ask. `otherwise`: what to do with texts or sets of one's own."""
        always = {"run", "weights", "device", "threads", "as_json"}
        given = [one.name for one in fields(self) if getattr(self, one.name) and one.name not in {*always, *names}]
        if given:
            wrong, known = self.option(given[0]), ", ".join(map(self.option, names))
            raise RegardError(
                f"{wrong} means nothing to {self.run}, which is scored on its recipe's own data with {known}, "
                f"--weights, --device, --threads and --json; {otherwise}."
            )

    def need_model(self) -> None:
        """A text that is there already leaves a model's options nothing to do, unless the baseline is a run."""
        idle = self.first_of("options", "weights", "device", "threads")
        if idle and not self.run and not (self.baseline and self.baseline.is_dir()):
            raise RegardError(f"{idle} is for a RUN: leave it out where --hypotheses are there already.")

    def first_of(self, *names: str) -> str:
        """The first of these that was given, as an option, or nothing."""
        values = {name: getattr(self, name) for name in names}
        return next((self.option(name) for name, value in values.items() if value and value != "auto"), "")

    def option(self, name: str) -> str:
        """How a field is given; of those of the search, the first."""
        names = {"splits": "split", "references": "reference", "options": next(iter(self.options), "")}
        return "--" + names.get(name, name).replace("_", "-").removesuffix("-size").removesuffix("-sentences")
