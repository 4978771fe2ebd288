"""Scores of translated text against raw references, through sacreBLEU, with signature and interval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from regard.errors import RegardError
from regard.evaluate.counts import SAMPLES, Counts, Floats, bootstrap, half_width

# force: whether a text looks tokenised is for `literature.tokenised` to say, once and in a sentence.
METRICS: dict[str, Callable[..., Metric]] = {"BLEU": partial(BLEU, force=True), "chrF": CHRF, "TER": TER}


@dataclass(frozen=True)
class Score:
    """A figure with what a reader needs to believe it."""

    name: str
    value: float
    interval: float = 0.0  # half the width of the 95 % interval, by bootstrap; 0: not computed
    signature: str = ""

    def __str__(self) -> str:
        spread = f" ± {self.interval:.2f}" if self.interval else ""
        return f"{self.name} = {self.value:.2f}{spread}" + (f"  ({self.signature})" if self.signature else "")


def bleu(hypotheses: Sequence[str], *references: Sequence[str], samples: int = SAMPLES) -> Score:
    """`samples` bootstrap draws give the interval, 0 leaves it out; so for the others."""
    return corpus_score("BLEU", hypotheses, references, samples)


def chrf(hypotheses: Sequence[str], *references: Sequence[str], samples: int = SAMPLES) -> Score:
    return corpus_score("chrF", hypotheses, references, samples)


def ter(hypotheses: Sequence[str], *references: Sequence[str], samples: int = SAMPLES) -> Score:
    """Translation edit rate: lower is better."""
    return corpus_score("TER", hypotheses, references, samples)


def corpus_score(name: str, hypotheses: Sequence[str], references: Sequence[Sequence[str]], samples: int) -> Score:
    check_lengths(hypotheses, references)
    counts = Counts.of(METRICS[name](references=references), hypotheses)
    return summary(name, counts, bootstrap([counts], samples)[0])


def summary(name: str, counts: Counts, drawn: Floats) -> Score:
    """The score of a counted text, and the interval from its scores on bootstrap samples."""
    return Score(name, float(counts.result().score), half_width(drawn), counts.signature(len(drawn)))


def exact_match(hypotheses: Sequence[str], *references: Sequence[str]) -> Score:
    """The percentage of translations that equal a reference letter for letter."""
    check_lengths(hypotheses, references)
    hits = sum(text in right for text, *right in zip(hypotheses, *references, strict=True))
    return Score("exact match", 100.0 * hits / len(hypotheses))


def check_lengths(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    for lines in references:
        if len(hypotheses) != len(lines):
            raise RegardError(f"{len(hypotheses):,} translations cannot be scored against {len(lines):,} references.")
    if not hypotheses:
        raise RegardError("There is nothing to score: the translations are empty.")
