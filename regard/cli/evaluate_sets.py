"""`regard evaluate` for a run on sets."""

from __future__ import annotations

import json

from regard.cli.evaluate_labels import check_splits
from regard.cli.evaluating import Request
from regard.cli.options import bar


def evaluate_sets(asked: Request) -> None:
    """The figures of the run's task on its held-out sets."""
    import torch

    from regard.training.run import Run
    from regard.training.sets import open_model

    asked.need_nothing_but("splits", otherwise="for sets of your own there is regard.load(RUN).predict in Python")
    splits = asked.splits or ["test"]
    check_splits(splits, ("valid", "test"))
    if asked.threads:
        torch.set_num_threads(asked.threads)
    model = open_model([Run.open(asked.run or "")], asked.weights, asked.device)
    told = {}
    for split in splits:
        with bar(f"Scoring {split}", model.n_sets(split), "sets") as progress:
            told[split] = model.score(split, progress)
    if asked.as_json:
        print(json.dumps(told))
        return
    print("\n".join(line for split, scores in told.items() for line in model.score_lines(split, scores)))
