"""Scores of translated text against raw references, through sacreBLEU, with signature and interval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from regard.data.languages import main_code
from regard.errors import RegardError
from regard.evaluate.counts import SAMPLES, Counts, Floats, bootstrap, half_width

# sacreBLEU's tokenizers for text that is not written in words between spaces: the first that is installed. Its command
# insists on MeCab for ja and ko, and takes 13a from th on.
TOKENIZERS = {
    "zh": ("zh",), "yue": ("zh",), "ja": ("ja-mecab", "char"), "ko": ("ko-mecab", "char"), "th": ("char",),
    "lo": ("char",), "km": ("char",), "my": ("char",), "bo": ("char",),
}  # fmt: skip


def metrics(language: str = "") -> dict[str, Callable[..., Metric]]:
    """By name, for text in a language."""
    # force: whether a text looks tokenised is for `literature.tokenised` to say, once and in a sentence.
    return {"BLEU": partial(BLEU, tokenize=tokenizer_of(language), force=True), "chrF": CHRF, "TER": TER}


def tokenizer_of(language: str) -> str:
    """The name of the sacreBLEU tokenizer for a language, given by its code."""
    choices = TOKENIZERS.get(main_code(language), ("13a",))
    return next(name for name in choices if name == choices[-1] or installed(name))


def installed(tokenizer: str) -> bool:
    try:
        BLEU(tokenize=tokenizer)
    except RuntimeError:
        return False
    return True


@dataclass(frozen=True)
class Score:
    """A figure with what a reader needs to believe it."""

    name: str
    value: float
    interval: float | None = None  # half the width of the 95 % interval, by bootstrap; None: there is none
    signature: str = ""

    def __str__(self) -> str:
        spread = f" ± {self.interval:.2f}" if self.interval else ""
        return f"{self.name} = {self.value:.2f}{spread}" + (f"  ({self.signature})" if self.signature else "")


def bleu(hypotheses: Sequence[str], *references: Sequence[str], samples: int = SAMPLES, language: str = "") -> Score:
    """`samples` bootstrap draws give the interval, 0 leaves it out; so for the others. The words are those of the
    `language`."""
    return corpus_score("BLEU", hypotheses, references, samples, language)


def chrf(hypotheses: Sequence[str], *references: Sequence[str], samples: int = SAMPLES) -> Score:
    return corpus_score("chrF", hypotheses, references, samples)


def ter(hypotheses: Sequence[str], *references: Sequence[str], samples: int = SAMPLES) -> Score:
    """Translation edit rate: lower is better."""
    return corpus_score("TER", hypotheses, references, samples)


def corpus_score(
    name: str, hypotheses: Sequence[str], references: Sequence[Sequence[str]], samples: int, language: str = ""
) -> Score:
    check_lengths(hypotheses, references)
    counts = Counts.of(metrics(language)[name](references=references), hypotheses)
    return summary(name, counts, bootstrap([counts], samples)[0])


def summary(name: str, counts: Counts, drawn: Floats) -> Score:
    """The score of a counted text, and the interval from its scores on bootstrap samples."""
    return Score(name, float(counts.result().score), half_width(drawn, len(counts)), counts.signature(len(drawn)))


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
