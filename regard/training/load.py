"""A trained run, opened for use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.config import differences
from regard.errors import RegardError
from regard.training import checkpoint
from regard.training.run import MAY_DIFFER, Run

WEIGHTS = ("auto", "averaged", "ema", "best", "last")


def load(run: str | Path | Sequence[str | Path], weights: str = "auto", device: str = "auto") -> Any:
    """A trained model, ready for its task: a `Translator` where it is translation. Several runs of one vocabulary
    translate together.

    `weights`: "averaged", "ema", "best", "last", or "auto" for the first of these that the run has.
    """
    from regard.training.kinds import kind_of

    runs = [Run.open(one) for one in ([run] if isinstance(run, (str, Path)) else run)]
    if not runs:
        raise RegardError("There is no run to load: the list is empty.")
    return kind_of(runs[0].recipe.task).open(runs, weights, device)


def check_alike(parent: Run, ours: Any, theirs: Any, section: str = "model") -> None:
    """That the weights of the run that `init` names are of such a model as ours. Dropout may differ; what the weights
    mean may not. `ours`, `theirs`: the section that says how the two are made."""
    changed = [line for line in differences(filled(ours), filled(theirs)) if line.split(":")[0] not in MAY_DIFFER]
    if changed:
        raise RegardError(f"init = {parent.path} is another model, make [{section}] match it: {'; '.join(changed)}.")


def filled(section: Any) -> Any:
    """The same with as many decoder layers as it has, where 0 stands for those of the encoder."""
    if getattr(section, "n_decoder_layers", None) == 0:
        return replace(section, n_decoder_layers=section.n_layers)
    return section


def load_weights(run: Run, which: str = "auto") -> dict[str, Tensor]:
    if which not in WEIGHTS:
        raise RegardError(f"There are no weights called {which}: choose averaged, ema, best, last or auto.")
    if which == "averaged" or (which == "auto" and run.averaged.exists()):
        return checkpoint.load_averaged(run)
    if not run.steps() and run.manifest.is_file():
        if run.averaged.exists():
            raise RegardError(f"{run.path} is an export and has one set of weights: leave --weights out.")
        raise RegardError(f"{run.path} is an export without its {run.averaged.name}: export the run again.")
    if not run.steps():
        raise RegardError(f"{run.path} has no checkpoint yet: train it with regard train.")
    last = run.checkpoint(run.steps()[-1])
    if which == "ema" or (which == "auto" and run.recipe.train.ema):
        return checkpoint.load_ema(last)
    folder = run.best.resolve() if which in ("auto", "best") and run.best.exists() else last
    state = checkpoint.load_state(folder)
    return checkpoint.load_tensors(folder / "model.safetensors", state["checksums"]["model.safetensors"])
