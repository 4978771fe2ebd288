"""What a metric counts in each sentence. BLEU, chrF and TER are functions of counts summed over sentences, so one pass
over a text gives the score of all of it, of any part of it, and of every bootstrap sample."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.base import Metric

from regard.errors import RegardError

Floats = npt.NDArray[np.float64]
SAMPLES = 1_000  # of the bootstrap, as many as the sacrebleu command draws


@dataclass(frozen=True)
class Counts:
    """One text under one metric."""

    metric: Metric  # sacreBLEU's, holding the references
    sentences: Floats  # (sentences, kinds of count)

    @classmethod
    def of(cls, metric: Metric, hypotheses: Sequence[str]) -> Counts:
        """`metric` holds as many references as there are hypotheses."""
        return cls(metric, np.array(metric._extract_corpus_statistics(hypotheses, None), dtype=np.float64))

    def __len__(self) -> int:
        return len(self.sentences)

    def take(self, numbers: Sequence[int]) -> Counts:
        """The counts of some of the sentences."""
        return replace(self, sentences=self.sentences[list(numbers)])

    def result(self, times: npt.NDArray[np.intp] | None = None) -> Any:
        """sacreBLEU's result for the sentences, or for a text in which each stands so many `times`."""
        return self.of_total(self.sentences.sum(axis=0) if times is None else times @ self.sentences)

    def of_total(self, total: Floats) -> Any:
        """sacreBLEU's result for summed counts."""
        return self.metric._compute_score_from_stats(total.tolist())

    def signature(self, samples: int, **preparation: str) -> str:
        """How the score and its interval came about, in sacreBLEU's words; `preparation` is what was done before."""
        signature = self.metric.get_signature()
        for key, value in preparation.items():
            signature.update(key, value)
        if samples:
            signature.update("bs", samples)
            signature.update("seed", seed())
        return str(signature)


def seed() -> str:
    """Where random draws begin: as for the sacrebleu command."""
    return os.environ.get("SACREBLEU_SEED", "12345").lower()


def generator() -> np.random.Generator:
    try:
        return np.random.default_rng(None if seed() == "none" else int(seed()))
    except ValueError:
        raise RegardError(f"SACREBLEU_SEED = {seed()} must be a whole number from 0 or none.") from None


def bootstrap(systems: Sequence[Counts], samples: int) -> Floats:
    """The score of each system on `samples` test sets drawn from the sentences with replacement, the same ones for all
    systems, and the same ones that the sacrebleu command draws. (systems, samples)"""
    random, n = generator(), len(systems[0])
    scores = np.empty((len(systems), samples))
    for i in range(samples):
        times = np.bincount(random.choice(n, size=n), minlength=n)
        scores[:, i] = [system.result(times).score for system in systems]
    return scores


def half_width(scores: Floats, sentences: int) -> float | None:
    """Half the width of the interval that holds 95 % of the scores. None where there are none, or where they were drawn
    from a single sentence, of which every sample is the same."""
    if not len(scores) or sentences < 2:
        return None
    ordered, left_out = np.sort(scores), len(scores) // 40
    return float(ordered[len(scores) - left_out - 1] - ordered[left_out]) / 2
