"""What attention replaced, in one table: recurrence with and without attention, convolution, and the Transformer.

The recipes share text, subwords, regularisation and search, so that the networks alone differ. Scored as the literature
scores Multi30k: tokenised, lower-cased BLEU on the test set of 2016. BLEU by length shows what Bahdanau et al. (2015)
found, their Figure 2: without attention a state of fixed size must hold the sentence, and long ones are lost.

Training time is that of the updates, without validation and saving; decoding speed that of the whole test set, batched
as the recipe says. Both are figures of one machine, and of one run alone on it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from regard.config import PairRecipe, Recipe
from regard.data.corpus import Corpus, load_required, test_splits
from regard.decode.translator import Translator
from regard.evaluate.counts import Counts
from regard.evaluate.lengths import LONGEST, by_length, ranges
from regard.evaluate.literature import TOKENISED_LOWERCASE, prepare, unsmoothed
from regard.models.transformer import count_parameters
from regard.reproduce.experiments import Experiment, Figure, Result, figures
from regard.reproduce.tables import Column, Ordering, Row, Table, Values
from regard.training.pairs import load_translator
from regard.training.run import Run
from regard.training.start import fit
from regard.view.scores import LengthScores, Point, length_png

SHORT, LONG = 10, 15  # words: what is lost on sentences of more than LONG beside those of at most SHORT
WARM_UP = 32  # sentences translated before the clock runs


def measure(recipe: Recipe, run: Path) -> Result:
    """Train a row, then translate the test text and score it."""
    assert isinstance(recipe, PairRecipe)
    fit(recipe, run, console=Console(quiet=True))
    translator = load_translator(run)
    corpus = load_required(recipe.data, test_splits(recipe.data)[0])
    texts, seconds = translated(translator, corpus.source)
    took = Run.open(run).training_seconds()
    return {
        **scores(texts, corpus),
        "parameters": float(count_parameters(translator.model)),
        **({"training_seconds": took} if took else {}),
        "sentences_per_second": len(corpus) / seconds,
    }


def translated(translator: Translator, source: Sequence[str]) -> tuple[list[str], float]:
    """Translations, and the seconds they took."""
    translator.search(source[:WARM_UP])
    began = time.perf_counter()
    texts = [best[0].text for best in translator.search(source)]
    return texts, time.perf_counter() - began


def scores(texts: Sequence[str], corpus: Corpus) -> Result:
    """BLEU of all, of each range of lengths, and how much of it long sentences lose. The text is tokenised already."""
    (ours, references), _ = prepare([texts, corpus.target], TOKENISED_LOWERCASE, corpus.language, already=True)
    counts = Counts.of(unsmoothed([references]), ours)
    found: Result = {"bleu": float(counts.result().score)}
    for bucket in by_length(references, {"BLEU": [counts]}, samples=0):
        found[f"sentences {bucket.words}"] = float(bucket.sentences)
        score = bucket.scores[0]["BLEU"]
        if score:
            found[f"bleu {bucket.words}"] = score.value
    lengths = [len(line.split()) for line in references]
    short, long = ([i for i, n in enumerate(lengths) if keep(n)] for keep in (is_short, is_long))
    if short and long:
        found["lost"] = float(counts.take(short).result().score) - float(counts.take(long).result().score)
    return found


def is_short(words: int) -> bool:
    return words <= SHORT


def is_long(words: int) -> bool:
    return words > LONG


# --- the table -------------------------------------------------------------------------------------------


class Families(Table):
    """With a second picture: BLEU by length of all rows."""

    def draw(self, done: Sequence[Experiment], folder: Path) -> list[Path]:
        lengths = folder / f"{self.name}-lengths.png"
        length_png([self.by_length(done)], lengths)
        return [*super().draw(done, folder), lengths]

    def by_length(self, done: Sequence[Experiment]) -> LengthScores:
        """The mean over seeds of each range of lengths, with their spread."""
        found = {name: (figures(done, f"bleu {name}"), figures(done, f"sentences {name}")) for name in ranges(LONGEST)}
        present = {name: both for name, both in found.items() if both[1]}
        rows = [row.name for row in self.rows if any(row.name in counts for _, counts in present.values())]
        points = {row: [point(bleu.get(row)) for bleu, _ in present.values()] for row in rows}
        counts = [int(next(iter(counts.values())).mean) for _, counts in present.values()]
        return LengthScores(f"{self.title} · ± over seeds", list(present), counts, {"BLEU": points})


def point(figure: Figure | None) -> Point | None:
    return Point(figure.mean, figure.spread) if figure else None


def network(family: str, **more: str) -> Values:
    """What a row's recipe has already, and nobody is to change."""
    return {"model.family": family, **{f"model.{key}": value for key, value in more.items()}}


WITH, WITHOUT, CONVOLUTION, TRANSFORMER = "RNN", "RNN, no attention", "convolution", "Transformer"
FAMILIES = Families(
    "families", "Multi30k English → German", "multi30k-en-de-tok",
    (
        Column("bleu", "BLEU", 2), Column("lost", "lost when long", 1, lower=True),
        Column("parameters", "parameters, M", 2, unit=1e6, varies=False),
        Column("training_seconds", "training, min", 1, lower=True, unit=60.0),
        Column("sentences_per_second", "sentences/s", 0),
    ),
    (
        Row(WITHOUT, network("recurrent", attention="none"), recipe="multi30k-en-de-rnn-no-attention"),
        Row(WITH, network("recurrent", attention="additive"), ("38.1 ± 0.8",), recipe="multi30k-en-de-rnn"),
        Row(CONVOLUTION, network("convolutional"), recipe="multi30k-en-de-conv"),
        Row(TRANSFORMER, network("transformer"), ("41.02",)),
    ),
    (
        Ordering("attention helps", "bleu", (WITHOUT, WITH)),
        Ordering("without attention long sentences lose more", "lost", (WITHOUT, WITH)),
        Ordering("the Transformer is better than recurrence", "bleu", (WITH, TRANSFORMER)),
    ),
    paper_steps=None,
    notes=(
        f"BLEU is tokenised and lower-cased. Lost: BLEU of sentences of at most {SHORT} words less that of those of "
        f"more than {LONG}.",
        "Papers: a conditional GRU with 10,000 subwords (LIUM-CVC 2017, unverified), a Transformer of 2.6 million "
        "parameters (one run).",
        "Times hold for runs that had the machine to themselves (--jobs 1).",
    ),
)  # fmt: skip
