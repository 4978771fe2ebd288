"""Scores of translated text against raw references, through sacreBLEU, with signature and interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from regard.errors import RegardError


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


def bleu(hypotheses: Sequence[str], references: Sequence[str], samples: int = 1000) -> Score:
    return corpus_score(BLEU(), "BLEU", hypotheses, references, samples)


def chrf(hypotheses: Sequence[str], references: Sequence[str], samples: int = 1000) -> Score:
    return corpus_score(CHRF(), "chrF", hypotheses, references, samples)


def corpus_score(
    metric: Metric, name: str, hypotheses: Sequence[str], references: Sequence[str], samples: int
) -> Score:
    """One reference each; `samples` bootstrap draws give the interval, 0 leaves it out."""
    if len(hypotheses) != len(references):
        raise RegardError(f"{len(hypotheses):,} translations cannot be scored against {len(references):,} references.")
    if not hypotheses:
        raise RegardError("There is nothing to score: the translations are empty.")
    texts = list(hypotheses), [list(references)]
    try:
        result = metric.corpus_score(*texts, n_bootstrap=samples or 1)
    except TypeError:
        # sacreBLEU cannot average its samples where some of a tiny corpus score exactly zero.
        result, samples = metric.corpus_score(*texts, n_bootstrap=1), 0
    interval = float(result._ci) if samples else 0.0
    return Score(name, float(result.score), interval, str(metric.get_signature()))


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """The percentage of translations that equal their reference letter for letter."""
    hits = sum(h == r for h, r in zip(hypotheses, references, strict=True))
    return Score("exact match", 100.0 * hits / len(references))
