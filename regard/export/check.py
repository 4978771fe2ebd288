"""Whether an exported model gives the same answers as the run it comes from.

A file is translated by both, greedily and with a beam of 4. In float32 the tokens must be the same, except where two
candidates were so close that rounding decides, by our own model's word (`regard.decode.margins`).

With fewer bits other answers are to be expected, and what they are worth is measured: BLEU and chrF against our own
output, and against references where there are any.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from regard.config import DecodeConfig
from regard.decode.engine import Engine
from regard.decode.margins import MARGIN, margin
from regard.decode.state import Hypothesis
from regard.decode.translator import Translator
from regard.errors import RegardError
from regard.evaluate.bleu import bleu, chrf
from regard.export.engines import Ctranslate2Engine, Settings, TorchEngine, open_engine
from regard.export.formats import Exported, size_on_disk
from regard.training.checkpoint import weights

SHARE = 0.002  # of the sentences, at most, that rounding may decide
SCORES = 1e-4  # a token, by which the log-probabilities of equal outputs may differ
RULE = (
    f"a difference must have a margin below {MARGIN:g}, at most {SHARE:.1%} of the sentences may differ, and equal "
    f"outputs must agree within {SCORES:g} a token"
)
LOWEST_CHRF = 50.0  # against our own output; a quantised model below it is no longer the same model
ALPHA = 0.6
SEARCHES = {"greedy": 1, "beam 4": 4}


@dataclass(frozen=True)
class Difference:
    """A sentence for which the two outputs differ."""

    line: int
    ours: str
    theirs: str
    margin: float


@dataclass(frozen=True)
class Comparison:
    """One search through both."""

    search: str
    sentences: int
    differences: list[Difference]
    scores: float  # the largest difference in log-probability between equal outputs, a token
    seconds: tuple[float, float] = (math.nan, math.nan)  # ours, theirs, where they were timed
    quality: dict[str, float] = field(default_factory=dict)  # of a quantised model

    def plain(self) -> dict[str, Any]:
        """For JSON, which has numbers alone."""
        differences = [{**asdict(one), "margin": finite(one.margin)} for one in self.differences]
        seconds = [finite(taken) for taken in self.seconds]
        return {**asdict(self), "differences": differences, "scores": finite(self.scores), "seconds": seconds}

    @property
    def exact(self) -> bool:
        close = all(difference.margin < MARGIN for difference in self.differences)
        return close and len(self.differences) <= SHARE * self.sentences and self.scores < SCORES


@dataclass(frozen=True)
class Report:
    format: str
    quantization: str
    sizes: tuple[int, int]  # bytes: our weights, their folder
    comparisons: list[Comparison]
    computed_in: str = ""  # where this machine's engine does not compute in so few bits: what it took instead

    @property
    def passed(self) -> bool:
        if self.quantization == "float32":
            return all(comparison.exact for comparison in self.comparisons)
        return all(comparison.quality["chrF to float32"] >= LOWEST_CHRF for comparison in self.comparisons)

    def plain(self) -> dict[str, Any]:
        return {"passed": self.passed, **asdict(self), "comparisons": [one.plain() for one in self.comparisons]}

    def text(self) -> str:
        ours, theirs = (f"{size / 1e6:,.1f} MB" for size in self.sizes)
        bits = f"{self.quantization}, computed in {self.computed_in}" if self.computed_in else self.quantization
        lines = [f"{self.format} ({bits}): {theirs} on disk, against {ours} of weights"]
        for one in self.comparisons:
            n = one.sentences
            here, there = (rate(n / seconds) for seconds in one.seconds)
            lines.append(f"{one.search:<7} {n:,} sentences: {here} a second by torch, {there} by {self.format}")
            if self.quantization == "float32":
                lines.append(f"        {len(one.differences)} differ; the others agree within {one.scores:.1e} a token")
                lines += [
                    f"        line {d.line}, margin {d.margin:.1e}: {d.ours!r} here, {d.theirs!r} there"
                    for d in one.differences
                ]
            else:
                lines.append(f"        {len(one.differences)} differ; " + ", ".join(measured(one.quality)))
        return "\n".join([*lines, self.verdict()]) + "\n"

    def verdict(self) -> str:
        if self.passed:
            return "passed"
        if self.quantization == "float32":
            return f"REFUSED: {RULE}"
        return f"REFUSED: the output must have a chrF of at least {LOWEST_CHRF:g} against that of float32"


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def measured(quality: dict[str, float]) -> list[str]:
    return [
        f"{name} {value:+.2f}" if name.startswith("Δ") else f"{name} {value:.2f}" for name, value in quality.items()
    ]


def check(
    exported: Exported,
    sentences: Sequence[str],
    references: Sequence[str] | None = None,
    progress: Callable[[int], None] = lambda done: None,
    settings: Settings | None = None,
) -> Report:
    """Translate by both and compare; `progress` is told how many sentences have gone through a search of both."""
    translator = exported.translator
    if references is not None and len(references) != len(sentences):
        raise RegardError(f"{len(sentences):,} sentences cannot be scored against {len(references):,} references.")
    lines, sources = sentences_of(translator, sentences)
    ours = [timed(TorchEngine(translator), sources, search_for(search)) for search in SEARCHES]
    progress(len(lines) * len(SEARCHES) // 2)
    engine = open_engine(exported.folder, settings)  # not before: its threads would be in the way of ours
    comparisons = []
    for search, (here, ours_took) in zip(SEARCHES, ours, strict=True):
        there, theirs_took = timed(engine, sources, search_for(search))
        quality = {}
        if exported.quantization != "float32":
            quality = compare_texts(translator, here, there, [references[i] for i in lines] if references else None)
        differences, scores = compare(translator, sources, here, there, lines, search_for(search))
        comparisons.append(Comparison(search, len(lines), differences, scores, (ours_took, theirs_took), quality))
    size = sum(tensor.numel() * tensor.itemsize for tensor in weights(translator.model).values())
    instead = engine.instead if isinstance(engine, Ctranslate2Engine) else ""
    sizes = size, size_on_disk(exported.folder)
    return Report(exported.format, exported.quantization, sizes, comparisons, instead)


def sentences_of(translator: Translator, texts: Sequence[str]) -> tuple[list[int], list[list[int]]]:
    """The tokens of texts that have any, and the places of these."""
    encoded = [translator.fit(tokens) for tokens in translator.tokenizers.source.encode(list(texts))]
    lines = [i for i, tokens in enumerate(encoded) if len(tokens) > 1]
    if not lines:
        raise RegardError("There is nothing to check with: the file has no sentence.")
    return lines, [encoded[i] for i in lines]


def search_for(search: str) -> DecodeConfig:
    """One of the SEARCHES, with the one normalisation that all engines have."""
    return DecodeConfig(beam_size=SEARCHES[search], length_penalty=ALPHA, normalization="power")


def timed(engine: Engine, sources: list[list[int]], config: DecodeConfig) -> tuple[list[Hypothesis], float]:
    engine.decode(sources[:1], 1, config)  # the first call of an engine also prepares it
    began = time.perf_counter()
    found = engine.decode(sources, 1, config)
    return [best[0] for best in found], time.perf_counter() - began


def compare(
    translator: Translator,
    sources: list[list[int]],
    ours: list[Hypothesis],
    theirs: list[Hypothesis],
    lines: list[int],
    config: DecodeConfig,
) -> tuple[list[Difference], float]:
    """The differing outputs with their margins, and how far the others' log-probabilities are apart, a token."""
    differences, gaps = [], [0.0]
    for source, a, b, line in zip(sources, ours, theirs, lines, strict=True):
        if a.tokens == b.tokens:
            gaps.append(abs(a.log_prob - b.log_prob) / len(a.tokens))
            continue
        here, there = (translator.tokenizers.target.decode(one.tokens) for one in (a, b))
        differences.append(Difference(line + 1, here, there, margin(translator, source, a.tokens, b.tokens, config)))
    return differences, float(np.max(gaps))  # of which one that is no number makes it none, and that passes no limit


def compare_texts(
    translator: Translator, ours: list[Hypothesis], theirs: list[Hypothesis], references: list[str] | None
) -> dict[str, float]:
    here, there = ([translator.tokenizers.target.decode(one.tokens) for one in some] for some in (ours, theirs))
    found = {
        "BLEU to float32": bleu(there, here, samples=0).value,
        "chrF to float32": chrf(there, here, samples=0).value,
    }
    if references:
        for name, metric in (("BLEU", bleu), ("chrF", chrf)):
            value, before = (metric(texts, references, samples=0).value for texts in (there, here))
            found |= {name: value, f"Δ{name}": value - before}
    return found


def read_sentences(path: Path) -> list[str]:
    from regard.data.files import read_lines

    return list(read_lines(path))
