"""What each rank does in test_ranks.py: `torchrun … ranked.py FOLDER JOBS`, JOBS being a JSON list of [kind, options].

`gradient`: the gradient of one update of the given batches, saved by rank 0 as NAME.safetensors.
`fit`:      train a recipe; with `die`, rank 1 kills itself there, the first time only.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from safetensors.torch import save_file

from regard.config import resolve
from regard.data import tokenizer as subwords
from regard.data.corpus import load_required
from regard.tasks.translation import Pairs, TranslationTask
from regard.training import ranks
from regard.training.loop import Loop
from regard.training.run import Run
from regard.training.start import fit


def gradient(folder: Path, name: str, recipe: dict[str, Any], updates: list[list[list[int]]]) -> None:
    """One file for each update, which is a list of batches of sentence numbers."""
    resolved = resolve(recipe)
    train, valid = (load_required(resolved.data, split) for split in ("train", "valid"))
    tokenizers = subwords.train(resolved.tokenizer, train.source, train.target, 1)
    task = TranslationTask(resolved, tokenizers, Pairs.encode(tokenizers, train), valid)
    loop = Loop(task, resolved.train, Run(folder), Console(quiet=True))
    loop.optimiser.step = lambda: None  # type: ignore[method-assign]
    for i, update in enumerate(updates):
        batches = [np.array(batch) for batch in update]
        mine = ranks.share(batches, ranks.rank(), ranks.size())
        made = [task.batch(numbers, loop.device) for numbers in mine]
        loop.update(made, 1, task.n_tokens(np.concatenate(batches)))
        if ranks.first():
            found = {key: value.grad for key, value in task.model.named_parameters() if value.grad is not None}
            save_file({**found, "loss": loop.update_loss}, folder / f"{name}-{i}.safetensors")


def train(folder: Path, name: str, recipe: dict[str, Any], die: int = 0) -> None:
    marker = folder / f"{name}.died"
    if die and not marker.exists() and ranks.rank() == 1:
        update = Loop.update

        def deadly(loop: Loop[Any], batches: list[Any], step: int, n_tokens: int | None = None) -> float:
            if step == die:
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return update(loop, batches, step, n_tokens)

        Loop.update = deadly  # type: ignore[method-assign]
    fit(recipe, folder / name)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    with ranks.joined("cpu"):
        for kind, options in json.loads(sys.argv[2]):
            {"gradient": gradient, "fit": train}[kind](place, **options)
