"""Subwords and text: does a tokenizer know the text it is given, and does the text need what the tokenizer knows?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from regard.config import TokenizerConfig
from regard.data.tokenizer import UNK, Tokenizer, TokenizerPair, normalised
from regard.doctor.characters import style
from regard.doctor.findings import Finding, Where, at_lines, examples_of, share, spelled
from regard.doctor.languages import sampled
from regard.doctor.texts import Bitext, Side, characters_of

ENCODED = 20_000  # lines of a file to try
SPLIT_MORE = 1.35  # times as many pieces for a word as in the training text


def unknown(tokenizer: Tokenizer, side: Side) -> Iterator[Finding]:
    """Text for which the vocabulary has no pieces."""
    step = max(1, len(side.lines) // ENCODED)
    encoded = tokenizer.encode(side.lines[::step])
    counts = [sum(token == UNK for token in line) for line in encoded]
    total, bad = sum(map(len, encoded)), sum(counts)
    numbers = [i * step + 1 for i, n in enumerate(counts) if n]
    rate = bad / max(total, 1)
    if bad:
        strange = "".join(side.lines[n - 1] for n in numbers[:200])
        pieces = [c for c in characters_of(strange) if tokenizer.encode([c])[0].count(UNK)]
        yield Finding(
            "unknown-tokens", "error" if rate > 0.02 else "warning" if rate > 0.0005 else "note",
            at_lines(side.file, numbers),
            f"{bad:,} of {total:,} tokens ({rate:.2%}) are unknown to the tokenizer"
            + (f" (characters {spelled(pieces)})." if pieces else "."),
            "Use text like that of the training, or train with tokenizer.byte_fallback = true.",
            examples_of(side.lines, numbers),
        )  # fmt: skip


def text_like_training(tokenizer: Tokenizer, side: Side, train: Side | None) -> Iterator[Finding]:
    """Text that was prepared otherwise than what the vocabulary was learned from."""
    pieces = [piece for piece in tokenizer.pieces(range(tokenizer.vocab_size)) if not piece.startswith("<")]
    capitals = sum(piece != piece.lower() for piece in pieces)
    if "cased" in style(side.lines) and len(pieces) > 100 and capitals < 0.01 * len(pieces):
        yield Finding(
            "preprocessing-mismatch", "error", at_lines(side.file),
            "The text has capitals, but the tokenizer has learned from lower-cased text.",
            "Lower-case the text before translating it, or train on text with capitals.", examples_of(side.lines, [1]),
        )  # fmt: skip
        return
    if train is None:
        return
    here, there = fertility(tokenizer, side), fertility(tokenizer, train)
    if here > SPLIT_MORE * there:
        yield Finding(
            "tokenizer-mismatch", "warning", at_lines(side.file),
            f"A word takes {here:.2f} pieces here and {there:.2f} in the training text.",
            "Check that the text is in the same language and prepared in the same way (case, tokenisation, "
            "normalisation).",
            (" ".join(tokenizer.pieces(tokenizer.encode(side.lines[:1])[0]))[:160],),
        )  # fmt: skip


def fertility(tokenizer: Tokenizer, side: Side) -> float:
    """Pieces a word."""
    lines = sampled(side.lines, 1_000)
    return sum(map(len, tokenizer.encode(lines))) / max(1, sum(len(line.split()) + 1 for line in lines))


def unused(tokenizers: TokenizerPair, train: Bitext, folder: Path) -> Iterator[Finding]:
    """Entries of the vocabulary that the training text never needs."""
    for name, tokenizer, sides in (
        (("shared", tokenizers.source, train.sides),)
        if tokenizers.shared
        else (("source", tokenizers.source, train.sides[:1]), ("target", tokenizers.target, train.sides[1:]))
    ):
        seen = np.zeros(tokenizer.vocab_size, dtype=bool)
        for side in sides:
            seen[tokenizer.encode_corpus(side.lines).values] = True
        pieces = tokenizer.pieces(range(tokenizer.vocab_size))
        idle = [i for i in np.flatnonzero(~seen).tolist() if not pieces[i].startswith("<")]
        part = len(idle) / tokenizer.vocab_size
        if part > 0.02:
            yield Finding(
                "unused-vocabulary", "warning" if part > 0.5 else "note", Where((str(folder / f"{name}.model"),)),
                f"{len(idle):,} of {tokenizer.vocab_size:,} entries ({part:.0%}) never occur in the training text, so "
                "their vectors learn nothing.",
                "Make tokenizer.vocab_size smaller, or check that this tokenizer belongs to this text.",
                (" ".join(pieces[i] for i in idle[:12]),),
            )  # fmt: skip


def unseen_characters(splits: Mapping[str, Bitext], config: TokenizerConfig) -> Iterator[Finding]:
    """Without a tokenizer yet: characters of held-out text that training text never has, and so will be unknown."""
    train = splits.get("train")
    if not train or config.byte_fallback:
        return
    known = {" "}.union(*(characters_of("".join(normalised(s.lines, config.normalization))) for s in train.sides))
    for i in (0, 1):
        for name, bitext in splits.items():
            side = bitext.sides[i]
            lines = normalised(side.lines, config.normalization) if name != "train" else []
            strange = characters_of("".join(lines)) - known
            numbers = [n for n, line in enumerate(lines, start=1) if not strange.isdisjoint(line)]
            if numbers:
                yield Finding(
                    "unseen-characters", "warning" if len(numbers) > max(1, 0.005 * len(side.lines)) else "note",
                    at_lines(side.file, numbers),
                    f"{share(len(numbers), len(side.lines))} hold characters that the training text never has "
                    f"({spelled(strange)}).",
                    "They will be unknown tokens: set tokenizer.byte_fallback = true, or prepare both texts alike.",
                    examples_of(side.lines, numbers),
                )  # fmt: skip
