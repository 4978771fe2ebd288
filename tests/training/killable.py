"""Train a recipe, and die by SIGKILL at a named place: `killable.py RECIPE_JSON RUN [PLACE COUNT]`.

The process kills itself the COUNT-th time it comes by PLACE, so a test knows what was interrupted.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.tasks.translation import TranslationTask
from regard.training import checkpoint
from regard.training import run as run_module
from regard.training.run import Run
from regard.training.start import fit

seen = 0


def die_at(count: int) -> None:
    global seen
    seen += 1
    if seen == count:
        os.kill(os.getpid(), signal.SIGKILL)


def before(function: Callable[..., Any], count: int, when: Callable[..., bool] = lambda *_: True) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **options: Any) -> Any:
        if when(*arguments):
            die_at(count)
        return function(*arguments, **options)

    return wrapped


def arm(place: str, count: int) -> None:
    """Put the kill where it is asked for."""
    if place == "second batch of an update":
        # One loss more: that of the largest batch, tried before the first step.
        TranslationTask.loss = before(TranslationTask.loss, 2 * count + 1)  # type: ignore[method-assign]
    elif place == "validation":
        TranslationTask.validate = before(TranslationTask.validate, count)  # type: ignore[method-assign]
    elif place == "between the files of a checkpoint":
        checkpoint.save_file = before(checkpoint.save_file, count, lambda _, path: "training" in path.name)
    elif place == "before a checkpoint gets its name":
        Path.rename = before(Path.rename, count, lambda path, _: ".new-" in path.name)  # type: ignore[method-assign]
    elif place == "before best is pointed to":
        Run.point_best = before(Run.point_best, count)  # type: ignore[method-assign]
    elif place == "while an old checkpoint is deleted":
        run_module.shutil.rmtree = before(shutil.rmtree, count, lambda path, *_: ".gone-" in str(path))
    elif place == "averaging":
        checkpoint.average = before(checkpoint.average, count)
    else:
        raise SystemExit(f"no place called {place}")


if __name__ == "__main__":
    if len(sys.argv) > 3:
        arm(sys.argv[3], int(sys.argv[4]))
    fit(json.loads(sys.argv[1]), sys.argv[2])
