"""`regard evaluate` for a run of classification or tagging."""

from __future__ import annotations

import json
from dataclasses import asdict

from regard.cli.evaluating import Request
from regard.errors import RegardError, nearest

SPLITS = ("train", "valid", "test")


def evaluate_labels(asked: Request) -> None:
    """Accuracy; --save writes the labels, a line for each text."""
    from regard.training.labels import open_labelling, scores
    from regard.training.run import Run, write_atomically

    asked.need_nothing_but("splits", "save", otherwise="texts of your own are labelled by regard label")
    splits = asked.splits or ["test"]
    if asked.save and len(splits) > 1:
        raise RegardError("--save is for one text: give a single --split.")
    check_splits(splits, SPLITS)
    labelling = open_labelling([Run.open(asked.run or "")], asked.weights, asked.device)
    told = {split: scores(labelling, split) for split in splits}
    if asked.save:
        write_atomically(asked.save, "".join(" ".join(labels) + "\n" for labels in told[splits[0]][1]))
    if asked.as_json:
        print(json.dumps({split: [asdict(score) for score in found] for split, (_, _, found) in told.items()}))
    else:
        print("\n".join(f"{split} {score}" for split, (_, _, found) in told.items() for score in found))


def check_splits(splits: list[str], known: tuple[str, ...]) -> None:
    for split in splits:
        if split not in known:
            raise RegardError(f"No split {split}{nearest(split, known)}: there are {', '.join(known)}.")
