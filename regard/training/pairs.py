"""Runs of sequence pairs: how they begin, how they are opened, and what they report at their end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from regard.config import PairModel, PairRecipe, ParsingRecipe
from regard.data.corpus import load_required, test_splits
from regard.data.tokenizer import TokenizerPair
from regard.decode.mask_predict import MaskPredictor
from regard.decode.translator import Translator
from regard.errors import RegardError
from regard.models.encoder_decoder import EncoderDecoder
from regard.tasks import translation
from regard.tasks.attention import alignment_picture, draw
from regard.tasks.mask_predict import MaskPredictTask
from regard.tasks.scoring import Evaluation, evaluate
from regard.training import checkpoint, ranks
from regard.training.device import pick
from regard.training.load import check_alike, load_weights
from regard.training.run import Run, write_atomically

TASKS: dict[str, translation.Kind] = {"translation": translation.TranslationTask, "mask_predict": MaskPredictTask}
TRANSLATORS: dict[str, type[Translator]] = {"translation": Translator, "mask_predict": MaskPredictor}
HEADS = "block_heads."  # how the names of their parameters begin


def prepare(recipe: PairRecipe, run: Run, parent: Run | None, say: Callable[[str], None]) -> translation.PairTask[Any]:
    """The task, with the weights and the tokenizer of the run it starts from, if there is one."""
    initial = TokenizerPair.load(parent.tokenizer) if parent else None
    if recipe.data.test:
        load_required(recipe.data, "test")  # a mistake in it must not wait for the end of training
    task = translation.prepare(recipe, run.tokenizer, initial, say, ranks.lead, TASKS[recipe.task])
    if parent:
        start_from(parent, recipe.model, task.model, parent.pair_recipe.model)
    return task


def start_from(other: Run, ours: PairModel, model: nn.Module, of_other: PairModel) -> None:
    """Take the weights of another run (fine-tuning).

    `ours`, `of_other`: how the two models are made. Block heads may differ too: those of another shape, or none, are
    left aside, and ours begin anew.
    """
    check_alike(other, ours, of_other)
    tensors = load_weights(other)
    their_heads, our_heads = (
        {name: tensor for name, tensor in some.items() if name.startswith(HEADS)}
        for some in (tensors, checkpoint.weights(model))
    )
    if {name: t.shape for name, t in their_heads.items()} != {name: t.shape for name, t in our_heads.items()}:
        tensors = {name: tensor for name, tensor in tensors.items() if name not in their_heads} | our_heads
    checkpoint.copy_weights(model, tensors)


# --- opening ---------------------------------------------------------------------------------------------


def open_translator(runs: Sequence[Run], weights: str, device: str) -> Translator:
    """One run, or several that translate together."""
    first, *others = runs
    recipe, tokenizers = first.pair_recipe, TokenizerPair.load(first.tokenizer)
    for other in others:
        check_together(first, other, tokenizers)
    model, *partners = (opened(one, tokenizers, weights, device) for one in runs)
    return TRANSLATORS[recipe.task](first.title, model, tokenizers, recipe.decode, partners)


def load_translator(run: str | Path | Sequence[str | Path], weights: str = "auto", device: str = "auto") -> Translator:
    """As `regard.load`, with a clear word where a run does not translate."""
    runs = [run] if isinstance(run, (str, Path)) else run
    return open_translator([Run.open(one) for one in runs], weights, device)


def check_together(first: Run, other: Run, tokenizers: TokenizerPair, task: str = "translation") -> None:
    """Whether two runs can produce each token together."""
    for run in (first, other):
        if run.recipe.task != task:
            raise RegardError(f'{run.path} is a run of task = "{run.recipe.task}", which translates alone.')
    same = TokenizerPair.load(other.tokenizer).hash == tokenizers.hash
    starts = [run.recipe.model.start for run in (first, other) if isinstance(run.recipe, (PairRecipe, ParsingRecipe))]
    if not same or len(set(starts)) > 1:
        raise RegardError(
            f"{other.path} has another vocabulary than {first.path}: runs translate together only with the same; "
            "train one from the other's tokenizer with init."
        )


def opened(run: Run, tokenizers: TokenizerPair, which: str, device: str) -> EncoderDecoder:
    model = translation.build(run.pair_recipe, tokenizers)
    checkpoint.copy_weights(model, load_weights(run, which))
    return model.to(pick(device))


# --- the end of a run ------------------------------------------------------------------------------------

N_SHOWN = 5
N_ROWS = 25  # of the alignment that is printed: a model that has learned nothing yet repeats itself without end


def report(translator: Translator, recipe: PairRecipe, run: Run) -> str:
    """Score every test set of the recipe, draw what there is to see, and say it all in text.

    Everything is written to the run's `report/`, the text as `report.txt`.
    """
    run.report.mkdir(exist_ok=True)
    lines: list[str] = []
    splits = test_splits(recipe.data)
    evaluations = {split: evaluate(translator, load_required(recipe.data, split)) for split in splits}
    for split, evaluation in evaluations.items():
        lines += [f"{split} {score}" for score in evaluation.scores]
        texts = "".join(translation.text + "\n" for translation in evaluation.translations)
        write_atomically(run.report / f"{split}.hypotheses.txt", texts)
    scores = {split: [asdict(score) for score in evaluation.scores] for split, evaluation in evaluations.items()}
    run.write_scores(scores)
    lines += ["", *show(translator, run, evaluations[splits[0]])]
    return run.write_report(lines, recipe.train.label_smoothing)


def show(translator: Translator, run: Run, evaluation: Evaluation) -> list[str]:
    """Translations, the alignment of one of them as a picture, and its attention page."""
    lines = []
    for found, reference in list(zip(evaluation.translations, evaluation.corpus.target, strict=True))[:N_SHOWN]:
        verdict = "=" if found.text == reference else f"≠ {reference}"
        lines += [f"{found.source}", f"  → {found.text}  {verdict}"]
    drawable = [found for found in evaluation.translations if found.target_tokens][:N_SHOWN]
    if not translator.model.cross_attentions:
        return [*lines, "", "no picture: this model has no attention to the source"]
    if not drawable:  # every line of the test set is empty
        return lines
    drawable.sort(key=lambda t: -len(t.target_tokens))
    longest = drawable[0]
    page, png = draw(translator, drawable, run.report, "attention")
    picture = alignment_picture(translator, longest, N_ROWS)
    return [*lines, "", picture, "", f"attention page  {page}", f"attention PNG   {png}"]
