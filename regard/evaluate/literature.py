"""The BLEUs of older papers: of tokenised text, without smoothing, as Moses' multi-bleu.perl computes it.

They depend on the tokenisation and cannot be compared with sacreBLEU; their use is to stand beside a published figure.
Two are common: lower-cased (Multi30k, IWSLT), and with compounds split at hyphens (English–German in 2017, *Attention
Is All You Need* among it; tensor2tensor's get_ende_bleu.sh), which writes `rich-text` as `rich ##AT##-##AT## text`.
A reference length that equals the published one shows that the tokenisation does too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU

from regard.data.moses import moses_rules
from regard.evaluate.bleu import Score, check_lengths
from regard.evaluate.counts import SAMPLES, Counts, Floats, bootstrap, half_width


@dataclass(frozen=True)
class Style:
    """How a part of the literature prepares both sides."""

    name: str
    lowercase: bool
    normalise: bool  # punctuation, before tokenising
    split_compounds: bool


TOKENISED_LOWERCASE = Style("tokenised lower-cased BLEU", lowercase=True, normalise=True, split_compounds=False)
COMPOUND_SPLIT = Style("tokenised compound-split BLEU", lowercase=False, normalise=False, split_compounds=True)


@dataclass(frozen=True)
class TokenisedBleu(Score):
    """A BLEU as multi-bleu.perl prints it."""

    precisions: tuple[float, ...] = ()  # of 1-grams to 4-grams, in percent
    brevity_penalty: float = 1.0
    hypothesis_length: int = 0  # in tokens
    reference_length: int = 0
    note: str = "older literature; not comparable with sacreBLEU"

    def __str__(self) -> str:
        spread = f" ± {self.interval:.2f}" if self.interval else ""
        precisions = "/".join(f"{one:.1f}" for one in self.precisions)
        ratio = self.hypothesis_length / self.reference_length if self.reference_length else 0.0
        return (
            f"{self.name} ({self.note}) = {self.value:.2f}{spread}, {precisions} (BP = {self.brevity_penalty:.3f}, "
            f"ratio = {ratio:.3f}, hypothesis {self.hypothesis_length:,} tokens, reference {self.reference_length:,} "
            f"tokens)  ({self.signature})"
        )


def multi_bleu(
    hypotheses: Sequence[str], *references: Sequence[str], name: str = "tokenised BLEU", samples: int = SAMPLES
) -> TokenisedBleu:
    """The BLEU of text whose tokens stand between spaces."""
    check_lengths(hypotheses, references)
    counts = Counts.of(unsmoothed(references), hypotheses)
    return tokenised_summary(name, counts, bootstrap([counts], samples)[0], {"tok": "as-given"})


def unsmoothed(references: Sequence[Sequence[str]]) -> BLEU:
    return BLEU(tokenize="none", smooth_method="none", force=True, references=references)


def tokenised_summary(name: str, counts: Counts, drawn: Floats, preparation: dict[str, str]) -> TokenisedBleu:
    result = counts.result()
    signature = counts.signature(len(drawn), **preparation)
    return TokenisedBleu(
        name, float(result.score), half_width(drawn, len(counts)), signature, tuple(result.precisions),
        float(result.bp), result.sys_len, result.ref_len,
    )  # fmt: skip


def prepare(
    texts: Sequence[Sequence[str]], style: Style, language: str, already: bool
) -> tuple[list[list[str]], dict[str, str]]:
    """Each text in the style, and what a signature says of it. Where they are tokenised `already`, they keep their
    tokens, so that a model trained on tokenised text is scored on what it said."""
    moses = None if already else moses_rules(language, style.normalise)
    prepared = []
    for text in texts:
        lines = [line.lower() for line in text] if style.lowercase else list(text)
        if moses:
            lines = [moses(line) for line in lines]
        prepared.append([split_compounds(line) for line in lines] if style.split_compounds else lines)
    tokens = "as-given" if already else f"moses-{language}" + ("-normalised" if style.normalise else "")
    signature = {"case": "lc" if style.lowercase else "mixed", "tok": tokens}
    return prepared, {**signature, "compounds": "split"} if style.split_compounds else signature


def split_compounds(line: str) -> str:
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line)
