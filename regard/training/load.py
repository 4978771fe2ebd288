"""A trained run, opened for use."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from regard.data.tokenizer import TokenizerPair
from regard.decode.mask_predict import MaskPredictor
from regard.decode.translator import Translator
from regard.errors import RegardError
from regard.tasks.translation import build
from regard.training import checkpoint
from regard.training.device import pick
from regard.training.run import Run

TRANSLATORS: dict[str, type[Translator]] = {"translation": Translator, "mask_predict": MaskPredictor}
WEIGHTS = ("auto", "averaged", "ema", "best", "last")


def load(run: str | Path, weights: str = "auto", device: str = "auto") -> Translator:
    """A trained model, ready to translate.

    `weights`: "averaged", "ema", "best", "last", or "auto" for the first of these that the run has.
    """
    place = Run.open(run)
    recipe, tensors = place.recipe, load_weights(place, weights)
    tokenizers = TokenizerPair.load(place.tokenizer)
    model = build(recipe, tokenizers)
    checkpoint.copy_weights(model, tensors)
    return TRANSLATORS[recipe.task](recipe.name, model.to(pick(device)), tokenizers, recipe.decode)


def load_weights(run: Run, which: str = "auto") -> dict[str, Tensor]:
    if which not in WEIGHTS:
        raise RegardError(f"There are no weights called {which}: choose averaged, ema, best, last or auto.")
    if which == "averaged" or (which == "auto" and run.averaged.exists()):
        return checkpoint.load_averaged(run)
    if not run.steps():
        raise RegardError(f"{run.path} has no checkpoint yet: train it with regard train.")
    last = run.checkpoint(run.steps()[-1])
    if which == "ema" or (which == "auto" and run.recipe.train.ema):
        return checkpoint.load_ema(last)
    folder = run.best.resolve() if which in ("auto", "best") and run.best.exists() else last
    state = checkpoint.load_state(folder)
    return checkpoint.load_tensors(folder / "model.safetensors", state["checksums"]["model.safetensors"])
