"""The end of a run: scores on unseen text, translations to read, attention and loss to look at."""

from __future__ import annotations

import json
from dataclasses import asdict

from regard.config import Recipe
from regard.data.corpus import load_required, test_splits
from regard.decode.translator import Translator
from regard.tasks.attention import alignment_picture, draw
from regard.tasks.scoring import Evaluation, evaluate
from regard.training.run import Run, write_atomically
from regard.view import loss_curve_png

N_SHOWN = 5


def report(translator: Translator, recipe: Recipe, run: Run) -> str:
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
    write_atomically(run.report / "scores.json", json.dumps(scores, indent=1, ensure_ascii=False) + "\n")
    lines += ["", *show(translator, run, evaluations[splits[0]])]
    curve = run.report / "loss.png"
    smoothing = recipe.train.label_smoothing
    note = f" (training with label smoothing {smoothing:g}, validation without)" if smoothing else ""
    loss_curve_png(run.records(), curve, recipe.name + note)
    text = "\n".join([*lines, f"loss curve      {curve}"])
    write_atomically(run.report / "report.txt", text + "\n")
    return text


def show(translator: Translator, run: Run, evaluation: Evaluation) -> list[str]:
    """Translations, the alignment of one of them as a picture, and its attention page."""
    lines = []
    for translation, reference in list(zip(evaluation.translations, evaluation.corpus.target, strict=True))[:N_SHOWN]:
        verdict = "=" if translation.text == reference else f"≠ {reference}"
        lines += [f"{translation.source}", f"  → {translation.text}  {verdict}"]
    drawable = [translation for translation in evaluation.translations if translation.target_tokens][:N_SHOWN]
    if not drawable:  # every line of the test set is empty
        return lines
    longest = max(drawable, key=lambda t: len(t.target_tokens))
    page, png = draw(translator, longest, run.report, "attention")
    return [*lines, "", alignment_picture(translator, longest), "", f"attention page  {page}", f"attention PNG   {png}"]
