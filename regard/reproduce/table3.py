"""*Attention Is All You Need*, Table 3: what each part of the Transformer contributes.

Every row changes one thing of the base model. `--scale wmt` is the paper's own setting. `--scale multi30k` makes every
width smaller and training shorter (`SCALES`), on 29,000 pairs instead of 4.5 million; N, dropout and label smoothing
are the paper's.

As in the paper: development set, beam 4, α = 0.6, no averaging of checkpoints, perplexity per subword. Departure: at
the small scale the weights are those with the best validation loss, since 29,000 pairs are soon learned by heart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from regard.config import PairRecipe, resolve_as
from regard.data.corpus import load_required
from regard.models.transformer import count_parameters
from regard.reproduce import tables
from regard.reproduce.experiments import Experiment, Result, figures
from regard.reproduce.tables import Ordering, Values, slug
from regard.tasks.scoring import evaluate
from regard.training.pairs import load_translator
from regard.training.start import fit


@dataclass(frozen=True)
class Row:
    """A row of the table: what it changes, in the recipe's own words, and what the paper found."""

    name: str
    group: str
    change: Values  # at the paper's scale
    ppl: float
    bleu: float
    params: int = 65  # millions

    @property
    def decides(self) -> bool:
        """Whether a claim of the paper depends on it."""
        return self.name in {BASE, LEARNED, *(row for ordering in ORDERINGS for row in ordering.rows)}


BASE, LEARNED = "base", "learned positions"
ROWS = [
    Row(BASE, "", {}, 4.92, 25.8),
    Row("h = 1", "A", {"n_heads": 1, "d_k": 512, "d_v": 512}, 5.29, 24.9),
    Row("h = 4", "A", {"n_heads": 4, "d_k": 128, "d_v": 128}, 5.00, 25.5),
    Row("h = 16", "A", {"n_heads": 16, "d_k": 32, "d_v": 32}, 4.91, 25.8),
    Row("h = 32", "A", {"n_heads": 32, "d_k": 16, "d_v": 16}, 5.01, 25.4),
    Row("d_k = 16", "B", {"d_k": 16}, 5.16, 25.1, 58),
    Row("d_k = 32", "B", {"d_k": 32}, 5.01, 25.4, 60),
    Row("N = 2", "C", {"n_layers": 2}, 6.11, 23.7, 36),
    Row("N = 4", "C", {"n_layers": 4}, 5.19, 25.3, 50),
    Row("N = 8", "C", {"n_layers": 8}, 4.88, 25.5, 80),
    Row("d_model = 256", "C", {"d_model": 256, "d_k": 32, "d_v": 32}, 5.75, 24.5, 28),
    Row("d_model = 1024", "C", {"d_model": 1024, "d_k": 128, "d_v": 128}, 4.66, 26.0, 168),
    Row("d_ff = 1024", "C", {"d_ff": 1024}, 5.12, 25.4, 53),
    Row("d_ff = 4096", "C", {"d_ff": 4096}, 4.75, 26.2, 90),
    Row("P_drop = 0.0", "D", {"dropout": 0.0}, 5.77, 24.6),
    Row("P_drop = 0.2", "D", {"dropout": 0.2}, 4.95, 25.5),
    Row("ε_ls = 0.0", "D", {"label_smoothing": 0.0}, 4.67, 25.3),
    Row("ε_ls = 0.2", "D", {"label_smoothing": 0.2}, 5.47, 25.7),
    Row(LEARNED, "E", {"positions": "learned"}, 4.92, 25.7),
    Row("big", "", {"d_model": 1024, "d_ff": 4096, "n_heads": 16, "dropout": 0.3}, 4.33, 26.4, 213),
]
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
        "multi30k-en-de", 4, 2_000, 2_000,
        {
            "tokenizer.vocab_size": 8_000, "tokenizer.sampling": 0.0, "model.n_layers": 6, "model.n_decoder_layers": 0,
            "model.dropout": 0.1, "model.attn_dropout": 0.0, "model.ff_dropout": 0.0, "model.norm": "post",
            "train.batch_tokens": 8_192, "train.schedule": "inverse_sqrt", "train.warmup_steps": 500,
            "train.lr_scale": 1.0, "train.label_smoothing": 0.1, "train.r_drop": 0.0, "train.ema": 0.0,
            "train.average": 0, "train.keep": 1, "train.valid_every": 200, "train.save_every": 200,
            "train.valid_sentences": 0, "train.best_by": "loss", "train.patience": 0,
            "decode.beam_size": 4, "decode.length_penalty": 0.6, "decode.normalization": "gnmt",
        },
        "best",
    ),
    "wmt": Scale("wmt14-en-de-base", 1, 100_000, 300_000, {"train.average": 0}),
}  # fmt: skip
MODEL = {"n_layers": 6, "d_model": 512, "d_ff": 2048, "n_heads": 8, "d_k": 0, "d_v": 0}


def choose(names: str) -> list[Row]:
    """Rows by name or by group, separated by commas; all where nothing is named."""
    return tables.choose(ROWS, names, "Table 3")


def experiments(
    scale: Scale, folder: Path, rows: Sequence[Row], seeds: int, seeds_deciding: int, overrides: Values
) -> list[Experiment]:
    """Every row with every seed; rows that decide an ordering may have more seeds than the others."""
    found = []
    for seed in range(1, max(seeds, seeds_deciding) + 1):
        for row in rows:
            if seed <= (max(seeds, seeds_deciding) if row.decides else seeds):
                run = folder / f"{slug(row.name)}-{seed}"
                found.append(Experiment(row.name, seed, recipe_of(row, scale, seed, overrides), run))
    return found


def recipe_of(row: Row, scale: Scale, seed: int, overrides: Values) -> PairRecipe:
    """The scale's recipe with the row's change, widths divided by the scale's."""
    change = {**MODEL, **row.change}
    model = {
        f"model.{key}": value // scale.narrower if key in WIDTHS else value
        for key, value in change.items()
        if key != "label_smoothing"
    }
    values: Values = {**scale.values, **model, "seed": seed, "name": f"table-3 {row.name}"}
    values["train.steps"] = scale.steps_of_big if row.name == "big" else scale.steps
    if "label_smoothing" in row.change:
        values["train.label_smoothing"] = row.change["label_smoothing"]
    return resolve_as(PairRecipe, scale.recipe, {**values, **overrides})


def measure(recipe: PairRecipe, run: Path, weights: str) -> Result:
    """Train a row, then its perplexity and BLEU on the development set."""
    fit(recipe, run, console=Console(quiet=True))
    translator = load_translator(run, weights)
    evaluation = evaluate(translator, load_required(recipe.data, "valid"))
    return {
        "perplexity": evaluation["perplexity"].value,
        "bleu": evaluation["BLEU"].value,
        "parameters": count_parameters(translator.model),
    }


# --- what the paper says about its rows ------------------------------------------------------------------


ORDERINGS = [
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
]
NEARLY = 0.5  # BLEU: learned positions give "nearly identical results" (0.1 apart in the paper)


def verdicts(done: Sequence[Experiment]) -> list[tuple[str, str]]:
    """Each claim that the finished rows allow to check, and whether it holds here."""
    lines, bleu = tables.verdicts(ORDERINGS, done, {"perplexity"}), figures(done, "bleu")
    if {LEARNED, BASE} <= set(bleu):
        difference = bleu[LEARNED].mean - bleu[BASE].mean
        nearly = abs(difference) <= NEARLY
        claim = f"learned positions give nearly the same BLEU (difference {difference:+.2f})"
        lines.append((claim, "holds" if nearly else "does not hold"))
    return lines


def table(done: Sequence[Experiment], rows: Sequence[Row] = ROWS) -> str:
    """Markdown: the paper's figures beside ours."""
    ppl, bleu, parameters = (figures(done, key) for key in ("perplexity", "bleu", "parameters"))
    lines = [
        "| | | PPL, paper | PPL | BLEU, paper | BLEU | parameters, paper | parameters | seeds |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        ours = ["*not run here*", "", "", ""]
        if row.name in ppl:
            size = f"{parameters[row.name].mean / 1e6:.2f} M"
            ours = [ppl[row.name].show(2), bleu[row.name].show(1), size, str(ppl[row.name].n)]
        lines.append(
            f"| {f'({row.group})' if row.group else ''} | {row.name} | {row.ppl:.2f} | {ours[0]} | {row.bleu:.1f} | "
            f"{ours[1]} | {row.params} M | {ours[2]} | {ours[3]} |"
        )
    return "\n".join(lines)


def narrow(done: Sequence[Experiment], rows: Sequence[Row] = ROWS) -> str:
    """The same for a terminal of 80 columns."""
    ppl, bleu, parameters = (figures(done, key) for key in ("perplexity", "bleu", "parameters"))
    lines = [
        f"{'':17}{'perplexity':>20}{'BLEU':>20}{'million parameters':>20}",
        f"{'row':17}{'paper':>6}{'here':>14}{'paper':>7}{'here':>13}{'paper':>7}{'here':>7}{'seeds':>7}",
    ]
    for row in rows:
        ours = ["–", "", "", ""]
        if row.name in ppl:
            size = f"{parameters[row.name].mean / 1e6:.2f}"
            ours = [ppl[row.name].show(2), bleu[row.name].show(1), size, str(ppl[row.name].n)]
        lines.append(
            f"{row.name:17}{row.ppl:6.2f}{ours[0]:>14}{row.bleu:7.1f}{ours[1]:>13}{row.params:7}{ours[2]:>7}{ours[3]:>7}"
        )
    return "\n".join(line.rstrip() for line in lines)


def columns(done: Sequence[Experiment]) -> tuple[list[str], list[tuple[float, float]], list[float]]:
    """For a picture: the finished rows, our BLEU with its spread, and the paper's."""
    bleu = figures(done, "bleu")
    rows = [row for row in ROWS if row.name in bleu]
    return (
        [row.name for row in rows],
        [(bleu[row.name].mean, bleu[row.name].spread) for row in rows],
        [row.bleu for row in rows],
    )
