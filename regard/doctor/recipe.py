"""A recipe before it is trained: numbers that will not go well together, or not with the text at hand.

Each check takes the recipe and what is known of its training text, which may be nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.config import PairRecipe
from regard.data.tokenizer import TokenizerPair
from regard.doctor.findings import Finding, Severity, at_lines
from regard.doctor.texts import Bitext
from regard.errors import RegardError
from regard.training.optim import learning_rate

# The peak rate times √d_model: 0.016 in the paper's models of 6 layers, 0.05 in the built-in ones of 2.
HIGH_RATE, HIGH_RATE_DEEP, DEEP = 0.08, 0.045, 4
WORDS_PER_PIECE = 20  # running words, both sides together, for each entry of the vocabulary
PIECES_PER_WORD = 1.3


@dataclass(frozen=True)
class TextSize:
    """What the checks need to know of the training text."""

    pairs: int
    words: int  # of both sides
    longest: np.ndarray  # words of the longer side of each pair, or of a sample of them
    scale: float = 1.0  # pairs for each one in the sample

    @classmethod
    def of(cls, bitext: Bitext) -> TextSize:
        counts = np.array([(a.count(" ") + 1, b.count(" ") + 1) for a, b in bitext.pairs()], dtype=np.int64)
        counts = counts.reshape(-1, 2)
        return cls(len(counts), int(counts.sum()), counts.max(axis=1, initial=0))

    def times(self, factor: float) -> TextSize:
        """So much more text of the same kind."""
        return TextSize(round(self.pairs * factor), round(self.words * factor), self.longest, self.scale * factor)

    @property
    def tokens(self) -> float:
        """Roughly, of the longer side."""
        return float(self.longest.sum()) * PIECES_PER_WORD * self.scale


def found(file: str, keys: str, code: str, severity: Severity, what: str, fix: str) -> Finding:
    """A finding about some keys, on the lines of the recipe where they stand."""
    return Finding(code, severity, at_lines(file, sorted(lines_of(Path(file), keys.split()))), what, fix)


def lines_of(path: Path, keys: list[str]) -> Iterator[int]:
    """Where dotted keys stand in a TOML file; those left at their defaults stand nowhere."""
    section = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.is_file() else (), start=1):
        header, value = re.match(r"\s*\[(\w+)\]", line), re.match(r"\s*([\w.]+)\s*=", line)
        section = f"{header.group(1)}." if header else section
        if value and section + value.group(1) in keys:
            yield number


def rate(recipe: PairRecipe, text: TextSize | None, file: str) -> Iterator[Finding]:
    train, model = recipe.train, recipe.model
    peak_step = min(train.warmup_steps, train.steps)
    peak = learning_rate(peak_step, model.d_model, train)
    deep = (
        model.family == "transformer" and model.norm == "post" and max(model.n_layers, model.n_decoder_layers) >= DEEP
    )
    limit = (HIGH_RATE_DEEP if deep else HIGH_RATE) * model.d_model**-0.5
    key = "train.peak_lr" if train.schedule == "linear" else "train.lr_scale"
    if peak > limit:
        yield found(
            file, f"{key} train.warmup_steps", "learning-rate-high", "error" if peak > 2.5 * limit else "warning",
            f"The learning rate reaches {peak:.2g} at step {peak_step:,}; a model of this width and depth seldom bears "
            f"more than {limit:.2g}.",
            f"Lower {key} to {getattr(train, key.split('.')[1]) * limit / peak / 2:.2g}, or raise train.warmup_steps.",
        )  # fmt: skip
    elif peak < limit / 300:
        yield found(
            file, f"{key} train.warmup_steps", "learning-rate-low", "warning",
            f"The learning rate never exceeds {peak:.2g}.",
            f"Raise {key}, or lower train.warmup_steps.",
        )  # fmt: skip


def warmup(recipe: PairRecipe, text: TextSize | None, file: str) -> Iterator[Finding]:
    train = recipe.train
    if train.warmup_steps >= train.steps:
        yield found(
            file, "train.warmup_steps train.steps", "warmup-too-long", "warning",
            f"train.warmup_steps = {train.warmup_steps:,} is no less than train.steps = {train.steps:,}: the learning "
            "rate rises to the end and never falls.",
            f"Set train.warmup_steps to about {max(1, train.steps // 10):,}.",
        )  # fmt: skip


def vocabulary(recipe: PairRecipe, text: TextSize | None, file: str) -> Iterator[Finding]:
    size, key, again = recipe.tokenizer.vocab_size, "tokenizer.vocab_size", "Set tokenizer.vocab_size to"
    if recipe.data.prepared:  # it has its tokenizer with it
        try:
            size = TokenizerPair.load(Path(recipe.data.prepared) / "tokenizer").source.vocab_size
        except RegardError:
            return  # the text is missing too, which is a finding of its own
        key, again = "data.prepared", "Prepare the data again with --vocab-size"
    if text and size * WORDS_PER_PIECE > text.words and size > 300:
        fitting = max(100, text.words // (4 * WORDS_PER_PIECE) // 100 * 100)
        yield found(
            file, key, "vocabulary-large", "warning",
            f"The vocabulary has {size:,} entries for {text.words:,} words of text: an entry is seen "
            f"{text.words / size:.0f} times on average, and most of them hardly ever.",
            f"{again} about {min(fitting, 32_000):,}.",
        )  # fmt: skip


def batch(recipe: PairRecipe, text: TextSize | None, file: str) -> Iterator[Finding]:
    tokens = recipe.train.batch_tokens * recipe.train.accumulate
    if not text or not text.pairs:
        return
    length = text.tokens / text.pairs
    if tokens < 8 * length:
        yield found(
            file, "train.batch_tokens train.accumulate", "batch-small", "warning",
            f"An update sees {tokens:,} tokens, about {tokens / length:.1f} pairs: its gradient is mostly noise.",
            f"Raise train.batch_tokens × train.accumulate to {round(50 * length, -2):,.0f} or more.",
        )  # fmt: skip


def max_length(recipe: PairRecipe, text: TextSize | None, file: str) -> Iterator[Finding]:
    if not text or not text.pairs:
        return
    limit = recipe.data.max_length
    certain = float((text.longest >= limit).mean())
    likely = float((text.longest * PIECES_PER_WORD >= limit).mean())
    if certain > 0.01 or likely > 0.05:
        keep = int(np.quantile(text.longest, 0.995) * 2)
        yield found(
            file, "data.max_length", "max-length-drops", "error" if certain > 0.2 else "warning",
            f"data.max_length = {limit} tokens leaves out at least {certain:.1%} of the training pairs, about "
            f"{max(certain, likely):.0%} with their subwords counted.",
            f"Set data.max_length to {keep} or more.",
        )  # fmt: skip


def regularisation(recipe: PairRecipe, text: TextSize | None, file: str) -> Iterator[Finding]:
    train, model = recipe.train, recipe.model
    if text and text.tokens:
        epochs = train.steps * train.batch_tokens * train.accumulate / text.tokens
        if not model.dropout and epochs > 8 and text.pairs < 500_000:
            yield found(
                file, "model.dropout", "no-dropout", "warning",
                f"model.dropout = 0, and {text.pairs:,} pairs are seen about {epochs:.0f} times: the model will learn "
                "them by heart.",
                "Set model.dropout to 0.1, or 0.3 where the text is small.",
            )  # fmt: skip
        if epochs < 0.8:
            yield found(
                file, "train.steps", "part-of-the-text", "note",
                f"Training sees only about {epochs:.0%} of the text once.",
                "Raise train.steps or train.batch_tokens to use all of it.",
            )  # fmt: skip
    if model.dropout > 0.5:
        yield found(
            file, "model.dropout", "dropout-high", "warning",
            f"model.dropout = {model.dropout:g} throws most of the model away.",
            "Set it to 0.3 at most.",
        )  # fmt: skip
    if train.label_smoothing > 0.3:
        yield found(
            file, "train.label_smoothing", "label-smoothing-high", "warning",
            f"train.label_smoothing = {train.label_smoothing:g}: the model is taught to be unsure of every word.",
            "Set it to 0.1, as the paper does.",
        )  # fmt: skip


def optimiser(recipe: PairRecipe, text: TextSize | None, file: str) -> Iterator[Finding]:
    train = recipe.train
    if train.beta2 < 0.9 or train.beta1 > 0.99 or train.adam_eps > 1e-3:
        yield found(
            file, "train.beta1 train.beta2 train.adam_eps", "adam-odd", "warning",
            f"train.beta1 = {train.beta1:g}, beta2 = {train.beta2:g}, adam_eps = {train.adam_eps:g} are far from what "
            "Transformers are trained with.",
            "The paper has 0.9, 0.98 and 1e-9.",
        )  # fmt: skip
    if 0 < train.clip_norm < 0.05:
        yield found(
            file, "train.clip_norm", "clipping-tight", "warning",
            f"train.clip_norm = {train.clip_norm:g} cuts nearly every gradient.",
            "Set it to 1, or to 0 for none.",
        )  # fmt: skip


def checkpoints(recipe: PairRecipe, text: TextSize | None, file: str) -> Iterator[Finding]:
    train = recipe.train
    there = -(-train.steps // train.save_every)
    if train.average > there:
        yield found(
            file, "train.average train.save_every", "average-too-many", "warning",
            f"train.average = {train.average}, but {train.steps:,} steps with train.save_every = {train.save_every:,} "
            f"leave {there} checkpoint{'s' if there > 1 else ''}.",
            f"Set train.save_every to {max(1, train.steps // (3 * train.average)):,} or train.average to {there}.",
        )  # fmt: skip
    elif train.averages_early:
        yield found(
            file, "train.average train.save_every", "average-too-early", "warning",
            f"The last {train.average} checkpoints reach back over {(train.average - 1) * train.save_every:,} of "
            f"{train.steps:,} steps: only those of the last third are averaged.",
            f"Set train.save_every to about {max(1, train.steps // (4 * train.average)):,}.",
        )  # fmt: skip
    if train.valid_every > train.steps:
        yield found(
            file, "train.valid_every", "never-validated", "note",
            f"train.valid_every = {train.valid_every:,} exceeds train.steps: there is one validation, at the end.",
            f"Set train.valid_every to about {max(1, train.steps // 10):,}.",
        )  # fmt: skip


def decoding(recipe: PairRecipe, text: TextSize | None, file: str) -> Iterator[Finding]:
    decode = recipe.decode
    if decode.beam_size > 30:
        yield found(
            file, "decode.beam_size", "beam-odd", "warning",
            f"decode.beam_size = {decode.beam_size} is slow, and beams beyond ten or so make translations shorter and "
            "worse.",
            "Set it to 4 or 5.",
        )  # fmt: skip
    if not 0 <= decode.length_penalty <= 2:
        yield found(
            file, "decode.length_penalty", "length-penalty-odd", "warning",
            f"decode.length_penalty = {decode.length_penalty:g} makes the search prefer "
            f"{'the shortest' if decode.length_penalty < 0 else 'the longest'} outputs there are.",
            "Set it to 0.6, as the paper does, or between 0 and 1.5.",
        )  # fmt: skip
    if decode.extra_length < 5:
        yield found(
            file, "decode.extra_length", "outputs-cut", "warning",
            f"decode.extra_length = {decode.extra_length} lets an output be hardly longer than its input.",
            "Set it to 50, as the paper does.",
        )  # fmt: skip


CHECKS = (
    rate, warmup, vocabulary, batch, max_length, regularisation, optimiser, checkpoints, decoding,
)  # fmt: skip


def examine(recipe: PairRecipe, text: TextSize | None, file: str) -> Iterator[Finding]:
    for check in CHECKS:
        yield from check(recipe, text, file)
