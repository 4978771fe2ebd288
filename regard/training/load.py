"""A trained run, opened for use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from regard.data.tokenizer import TokenizerPair
from regard.decode.mask_predict import MaskPredictor
from regard.decode.translator import Translator
from regard.errors import RegardError
from regard.models.transformer import Transformer
from regard.tasks.translation import build
from regard.training import checkpoint
from regard.training.device import pick
from regard.training.run import Run

TRANSLATORS: dict[str, type[Translator]] = {"translation": Translator, "mask_predict": MaskPredictor}
WEIGHTS = ("auto", "averaged", "ema", "best", "last")


def load(run: str | Path | Sequence[str | Path], weights: str = "auto", device: str = "auto") -> Translator:
    """A trained model, ready to translate; or several runs of one vocabulary, which translate together.

    `weights`: "averaged", "ema", "best", "last", or "auto" for the first of these that the run has.
    """
    runs = [run] if isinstance(run, (str, Path)) else list(run)
    first, *others = (Run.open(one) for one in runs)
    tokenizers = TokenizerPair.load(first.tokenizer)
    for other in others:
        check_together(first, other, tokenizers)
    model, *partners = (opened(one, tokenizers, weights, device) for one in (first, *others))
    kind = TRANSLATORS[first.recipe.task]
    return kind(first.recipe.name, model, tokenizers, first.recipe.decode, partners)


def check_together(first: Run, other: Run, tokenizers: TokenizerPair) -> None:
    """Whether two runs can produce each token together."""
    for run in (first, other):
        if run.recipe.task != "translation":
            raise RegardError(f'{run.path} is a run of task = "{run.recipe.task}", which translates alone.')
    same = TokenizerPair.load(other.tokenizer).hash == tokenizers.hash
    if not same or other.recipe.model.start != first.recipe.model.start:
        raise RegardError(
            f"{other.path} has another vocabulary than {first.path}: runs translate together only with the same; "
            "train one from the other's tokenizer with init."
        )


def opened(run: Run, tokenizers: TokenizerPair, which: str, device: str) -> Transformer:
    model = build(run.recipe, tokenizers)
    checkpoint.copy_weights(model, load_weights(run, which))
    return model.to(pick(device))


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
