"""Everything that can be said of a translated text, alone or beside a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.moses import is_tokenised
from regard.evaluate.bleu import Score, check_lengths, exact_match, metrics, summary
from regard.evaluate.counts import SAMPLES, Counts, bootstrap
from regard.evaluate.lengths import Bucket, by_length
from regard.evaluate.literature import Style, prepare, tokenised_summary, unsmoothed
from regard.evaluate.significance import Comparison, compare


@dataclass(frozen=True)
class Judgement:
    """A text's scores, and where there is a baseline its scores and how far the differences can be believed."""

    scores: list[Score]
    baseline: list[Score]
    comparisons: list[Comparison]
    buckets: list[Bucket]  # by length, where asked for; of the text, then of the baseline


def judge(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], baseline: Sequence[str] | None = None,
    styles: Sequence[Style] = (), language: str = "", lengths: bool = False, samples: int = SAMPLES,
) -> Judgement:  # fmt: skip
    """`references`: one or several texts in a `language`. `styles`: the older BLEUs to add."""
    systems = [hypotheses] if baseline is None else [hypotheses, baseline]
    for text in systems:
        check_lengths(text, references)
    scores: list[list[Score]] = [[] for _ in systems]
    comparisons, counted = [], {}
    for name, metric in metrics(language).items():
        held = metric(references=references)
        counts = counted[name] = [Counts.of(held, text) for text in systems]
        drawn = bootstrap(counts, samples)
        for found, one, draws in zip(scores, counts, drawn, strict=True):
            found.append(summary(name, one, draws))
        if baseline is not None:
            comparisons.append(compare(name, counts, drawn))
    for found, text in zip(scores, systems, strict=True):
        found.append(exact_match(text, *references))
    for style in styles:
        prepared, how = prepare([*systems, *references], style, language, is_tokenised(references[0]))
        held = unsmoothed(prepared[len(systems) :])
        counts = [Counts.of(held, text) for text in prepared[: len(systems)]]
        drawn = bootstrap(counts, samples)
        for found, one, draws in zip(scores, counts, drawn, strict=True):
            found.append(tokenised_summary(style.name, one, draws, how))
        if baseline is not None:
            comparisons.append(compare(style.name, counts, drawn))
    by_words = {name: counted[name] for name in ("BLEU", "chrF")}
    buckets = by_length(references[0], by_words, samples, language) if lengths else []
    return Judgement(scores[0], scores[1] if len(scores) > 1 else [], comparisons, buckets)
