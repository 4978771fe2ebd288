"""*Attention Is All You Need*, Table 3: what each part of the Transformer contributes.

Every row changes one thing of the base model. `--scale wmt` is the paper's own setting. `--scale multi30k` makes every
width smaller and training shorter (`SCALES`), on 29,000 pairs instead of 4.5 million; N, dropout and label smoothing
are the paper's.

As in the paper: development set, beam 4, α = 0.6, no averaging of checkpoints, perplexity per subword. Departures: at
the small scale the weights are those with the best validation loss, since 29,000 pairs are soon learned by heart, and
the learning rate ends its warm-up where the paper's formula has it after 4,000 steps. After 500 it is so high that at a
depth of six, with norms behind the residuals, rows differ by when they happen to begin to learn (docs/log.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from regard.config import PairRecipe, Recipe, resolve_as
from regard.data.corpus import load_required
from regard.models.transformer import count_parameters
from regard.reproduce.experiments import Experiment, Result, figures
from regard.reproduce.tables import Column, Ordering, Row, Table, Values
from regard.tasks.scoring import evaluate
from regard.training.pairs import load_translator
from regard.training.start import fit


def variation(name: str, group: str, change: Values, ppl: str, bleu: str, params: int = 65) -> Row:
    """A row: what it changes at the paper's scale, in the recipe's own words, and what the paper found."""
    return Row(name, change, (ppl, bleu, str(params)), group)


BASE, LEARNED = "base", "learned positions"
ROWS = (
    variation(BASE, "", {}, "4.92", "25.8"),
    variation("h = 1", "A", {"n_heads": 1, "d_k": 512, "d_v": 512}, "5.29", "24.9"),
    variation("h = 4", "A", {"n_heads": 4, "d_k": 128, "d_v": 128}, "5.00", "25.5"),
    variation("h = 16", "A", {"n_heads": 16, "d_k": 32, "d_v": 32}, "4.91", "25.8"),
    variation("h = 32", "A", {"n_heads": 32, "d_k": 16, "d_v": 16}, "5.01", "25.4"),
    variation("d_k = 16", "B", {"d_k": 16}, "5.16", "25.1", 58),
    variation("d_k = 32", "B", {"d_k": 32}, "5.01", "25.4", 60),
    variation("N = 2", "C", {"n_layers": 2}, "6.11", "23.7", 36),
    variation("N = 4", "C", {"n_layers": 4}, "5.19", "25.3", 50),
    variation("N = 8", "C", {"n_layers": 8}, "4.88", "25.5", 80),
    variation("d_model = 256", "C", {"d_model": 256, "d_k": 32, "d_v": 32}, "5.75", "24.5", 28),
    variation("d_model = 1024", "C", {"d_model": 1024, "d_k": 128, "d_v": 128}, "4.66", "26.0", 168),
    variation("d_ff = 1024", "C", {"d_ff": 1024}, "5.12", "25.4", 53),
    variation("d_ff = 4096", "C", {"d_ff": 4096}, "4.75", "26.2", 90),
    variation("P_drop = 0.0", "D", {"dropout": 0.0}, "5.77", "24.6"),
    variation("P_drop = 0.2", "D", {"dropout": 0.2}, "4.95", "25.5"),
    variation("ε_ls = 0.0", "D", {"label_smoothing": 0.0}, "4.67", "25.3"),
    variation("ε_ls = 0.2", "D", {"label_smoothing": 0.2}, "5.47", "25.7"),
    variation(LEARNED, "E", {"positions": "learned"}, "4.92", "25.7"),
    variation("big", "", {"d_model": 1024, "d_ff": 4096, "n_heads": 16, "dropout": 0.3}, "4.33", "26.4", 213),
)
WIDTHS = ("d_model", "d_ff", "d_k", "d_v")


@dataclass(frozen=True)
class Scale:
    """Where the rows are trained: a recipe, how much narrower the model is, and how long training takes."""

    recipe: str
    narrower: int
    steps: int
    steps_of_big: int
    values: Values = field(default_factory=dict)
    weights: str = "last"


SCALES = {
    "multi30k": Scale(
        "multi30k-en-de", 4, 4_000, 4_000,
        {
            "tokenizer.vocab_size": 8_000, "tokenizer.sampling": 0.0, "model.n_layers": 6, "model.n_decoder_layers": 0,
            "model.dropout": 0.1, "model.attn_dropout": 0.0, "model.ff_dropout": 0.0, "model.norm": "post",
            "train.batch_tokens": 8_192, "train.schedule": "inverse_sqrt", "train.warmup_steps": 1_000,
            "train.lr_scale": 0.5, "train.label_smoothing": 0.1, "train.r_drop": 0.0, "train.ema": 0.0,
            "train.average": 0, "train.keep": 1, "train.valid_every": 400, "train.save_every": 400,
            "train.valid_sentences": 0, "train.best_by": "loss", "train.patience": 0,
            "decode.beam_size": 4, "decode.length_penalty": 0.6, "decode.normalization": "gnmt",
        },
        "best",
    ),
    "wmt": Scale("wmt14-en-de-base", 1, 100_000, 300_000, {"train.average": 0}),
}  # fmt: skip
MODEL = {"n_layers": 6, "d_model": 512, "d_ff": 2048, "n_heads": 8, "d_k": 0, "d_v": 0}


def measure(recipe: Recipe, run: Path, weights: str) -> Result:
    """Train a row, then its perplexity and BLEU on the development set."""
    assert isinstance(recipe, PairRecipe)
    fit(recipe, run, console=Console(quiet=True))
    translator = load_translator(run, weights)
    evaluation = evaluate(translator, load_required(recipe.data, "valid"))
    return {
        "perplexity": evaluation["perplexity"].value,
        "bleu": evaluation["BLEU"].value,
        "parameters": count_parameters(translator.model),
    }


# --- what the paper says about its rows ------------------------------------------------------------------


ORDERINGS = (
    Ordering("more layers are better", "perplexity", ("N = 2", "N = 4", BASE)),
    Ordering("more layers are better", "bleu", ("N = 2", "N = 4", BASE)),
    Ordering("wider feed-forward layers are better", "perplexity", ("d_ff = 1024", BASE, "d_ff = 4096")),
    Ordering("wider feed-forward layers are better", "bleu", ("d_ff = 1024", BASE, "d_ff = 4096")),
    Ordering("wider models are better", "perplexity", ("d_model = 256", BASE, "d_model = 1024")),
    Ordering("wider models are better", "bleu", ("d_model = 256", BASE, "d_model = 1024")),
    Ordering("one head is worse than four", "bleu", ("h = 1", "h = 4")),
    Ordering("too many heads are worse than eight", "bleu", ("h = 32", BASE)),
    Ordering("smaller keys hurt", "perplexity", ("d_k = 16", "d_k = 32", BASE)),
    Ordering("no dropout is worse", "perplexity", ("P_drop = 0.0", BASE)),
    Ordering("no dropout is worse", "bleu", ("P_drop = 0.0", BASE)),
    Ordering("label smoothing hurts perplexity", "perplexity", (BASE, "ε_ls = 0.0")),
    Ordering("label smoothing helps BLEU", "bleu", ("ε_ls = 0.0", BASE)),
    Ordering("the big model is better", "bleu", (BASE, "big")),
)
NEARLY = 0.5  # BLEU: learned positions give "nearly identical results" (0.1 apart in the paper)


# --- the table -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variations(Table):
    """The table at one scale. Its recipe is the scale's, and rows change the model at the paper's scale."""

    scale: Scale = SCALES["multi30k"]

    def run_name(self, row: str) -> str:
        """Runs of the two scales are not one another's."""
        return f"{self.name} {row}" if self.scale is SCALES["multi30k"] else f"{self.name} {self.scale.recipe} {row}"

    def label(self, row: Row) -> str:
        return f"({row.group}) {row.name}" if row.group else row.name

    def plan(
        self, folder: Path, rows: Sequence[Row], seeds: int, seeds_deciding: int, overrides: Values
    ) -> list[Experiment]:
        """Every row with every seed; rows that decide a claim may have more seeds than the others."""
        most = max(seeds, seeds_deciding)
        deciding = {BASE, LEARNED, *(row for ordering in ORDERINGS for row in ordering.rows)}
        planned = self.experiments(folder, rows, most, overrides)
        return [each for each in planned if each.seed <= (most if each.row in deciding else seeds)]

    def changes(self, row: Row) -> Values:
        return self.scaled(row.change)

    def scaled(self, change: Values) -> Values:
        """In the recipe's own keys, widths divided by the scale's."""
        narrower = {key: value // self.scale.narrower for key, value in change.items() if key in WIDTHS}
        return {
            f"{'train' if key == 'label_smoothing' else 'model'}.{key}": value
            for key, value in {**change, **narrower}.items()
        }

    def recipe_of(self, row: Row, seed: int, overrides: Values) -> PairRecipe:
        """The scale's recipe with the row's change."""
        scale = self.scale
        values: Values = {**scale.values, **self.scaled(MODEL), **self.changes(row)}
        values |= {"seed": seed, "name": self.run_name(row.name)}
        values["train.steps"] = scale.steps_of_big if row.name == "big" else scale.steps
        return resolve_as(PairRecipe, scale.recipe, {**values, **overrides})

    def verdicts(self, done: Sequence[Experiment]) -> list[tuple[str, str]]:
        lines, bleu = super().verdicts(done), figures(done, "bleu")
        if {LEARNED, BASE} <= set(bleu):
            difference = bleu[LEARNED].mean - bleu[BASE].mean
            nearly = abs(difference) <= NEARLY
            claim = f"learned positions give nearly the same BLEU (difference {difference:+.2f})"
            lines.append((claim, "holds" if nearly else "does not hold"))
        return lines


TABLES = {
    name: Variations(
        "table-3", "Table 3 on the development set", scale.recipe,
        (
            Column("perplexity", "perplexity", 2, lower=True), Column("bleu", "BLEU", 1),
            Column("parameters", "parameters, M", 2, unit=1e6, varies=False),
        ),
        ROWS, ORDERINGS, paper_steps=100_000, drawn=1, notes=("The paper's big model has 300,000 steps.",), scale=scale,
    )
    for name, scale in SCALES.items()
}  # fmt: skip
