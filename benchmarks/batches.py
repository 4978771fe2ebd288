"""The sentences every system trains on: generated or real, sorted, cut by real tokens, and kept in one file.

A batch is a run of sentence pairs, sorted by target and then source length, whose source tokens and target tokens
each sum to at most the budget, end symbols included. There are as many sentences as a full-size corpus has, of which
only the chosen batches are filled with tokens: in a small corpus neighbours in the sorted order differ more, and
padded systems would look slower than they are.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.setting import END, FIRST_WORD, Setting
from regard.data.batching import cut_packed

SENTENCES_PER_TOKEN = 180  # generated pairs per token of the budget: 4.5 million, as WMT, for 25,000
LENGTHS = {"short": (26.0, 0.6, 128), "long": (300.0, 0.5, 1024)}  # median, spread of the logarithm, longest
RATIO_SPREAD = 0.15  # of the logarithm of target over source length
LONGEST_REAL = 256  # longer pairs of real text are left out, as recipes do
OPENERS = {"": open, ".gz": gzip.open, ".xz": lzma.open}


@dataclass(frozen=True)
class Batch:
    """Sentence pairs, each side ending with the end symbol."""

    sources: list[np.ndarray]
    targets: list[np.ndarray]

    @property
    def source_tokens(self) -> int:
        return sum(map(len, self.sources))

    @property
    def target_tokens(self) -> int:
        return sum(map(len, self.targets))

    @property
    def shape(self) -> tuple[int, int, int]:
        """(B, S, T) of the rectangles."""
        return len(self.sources), max(map(len, self.sources)), max(map(len, self.targets))


@dataclass(frozen=True)
class Pairs:
    """A corpus by its lengths, with its tokens where they are real."""

    lengths: np.ndarray  # (n, 2) of source and target, end symbols included
    tokens: tuple[np.ndarray, np.ndarray] | None = None  # of all sources and all targets, end to end


def choose(pairs: Pairs, setting: Setting) -> list[Batch]:
    """The batches of a run, in random order; for `real` shapes no two of them are padded to the same rectangle."""
    chance = np.random.default_rng(setting.seed)
    order = chance.permutation(len(pairs.lengths))
    order = order[np.lexsort((pairs.lengths[order, 0], pairs.lengths[order, 1]))]
    chosen, seen = [], set()
    runs = cut_packed(order, pairs.lengths[order], setting.budget)
    for i in chance.permutation(len(runs)):
        numbers = runs[i]
        lengths = pairs.lengths[numbers]
        shape = (len(numbers), *lengths.max(axis=0).tolist())
        partial = lengths.sum(axis=0).max() < setting.budget / 2  # the last of the corpus
        if partial or (setting.shapes == "real" and shape in seen):
            continue
        seen.add(shape)
        chosen.append(numbers)
        if len(chosen) == setting.n_batches:
            return fill(pairs, chosen, setting, chance)
    raise SystemExit(
        f"The corpus has {len(chosen)} batches of {setting.budget:,} tokens"
        + (" with a shape of their own" if setting.shapes == "real" else "")
        + f", but the run needs {setting.n_batches}: take fewer --rounds, --updates or --batches, or less --budget."
    )


def fill(pairs: Pairs, chosen: Sequence[np.ndarray], setting: Setting, chance: np.random.Generator) -> list[Batch]:
    starts = pairs.lengths.cumsum(axis=0) - pairs.lengths

    def sentence(number: int, side: int) -> np.ndarray:
        length = pairs.lengths[number, side]
        if pairs.tokens is None:
            words = chance.integers(FIRST_WORD, setting.model.vocab_size, length, dtype=np.int32)
            words[-1] = END
            return words
        start = starts[number, side]
        return pairs.tokens[side][start : start + length]

    return [Batch([sentence(i, 0) for i in numbers], [sentence(i, 1) for i in numbers]) for numbers in chosen]


def padding(batches: Sequence[Batch]) -> float:
    """The share of the rectangles that is padding."""
    real = sum(batch.source_tokens + batch.target_tokens for batch in batches)
    return 1 - real / sum(B * (S + T) for B, S, T in (batch.shape for batch in batches))


# --- where sentences come from ---------------------------------------------------------------------------


def generated(sentences: str, budget: int, seed: int) -> Pairs:
    """Log-normal lengths, the two sides alike up to a ratio that varies."""
    median, spread, longest = LENGTHS[sentences]
    chance = np.random.default_rng(seed)
    n = SENTENCES_PER_TOKEN * budget // (1 if sentences == "short" else 10)
    source = median * np.exp(spread * chance.standard_normal(n))
    target = source * np.exp(RATIO_SPREAD * chance.standard_normal(n))
    return Pairs(np.stack([source, target], axis=1).round().clip(1, longest).astype(np.int64))


def real(folder: Path, languages: Sequence[str], vocab_size: int, cache: Path | None = None) -> Pairs:
    """Parallel text `train.en`, `train.de` (plain, .gz or .xz) in subwords learned from it.

    Learning them takes longer than a round, so the tokens are kept in `cache` or the system's temporary folder.
    """
    files = [find(folder, language) for language in languages]
    key = "".join(f"{path.resolve()} {path.stat().st_size} {path.stat().st_mtime_ns}\n" for path in files)
    name = hashlib.sha256(f"{key}{vocab_size}".encode()).hexdigest()[:16]
    path = (cache or Path(tempfile.gettempdir()) / "regard-benchmarks") / f"{name}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = tokenise([list(lines(file)) for file in files], vocab_size)
        new = path.with_suffix(".new.npz")
        np.savez(new, **arrays)
        new.rename(path)
    with np.load(path) as stored:
        return Pairs(stored["lengths"], (stored["source"], stored["target"]))


def tokenise(sides: Sequence[list[str]], vocab_size: int) -> dict[str, np.ndarray]:
    from regard.config import TokenizerConfig
    from regard.data import tokenizer

    pairs = [pair for pair in zip(*sides, strict=True) if all(text.strip() for text in pair)]
    source, target = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    subwords = tokenizer.train(TokenizerConfig(vocab_size=vocab_size), source, target, seed=1).source
    tokens = subwords.encode(source), subwords.encode(target)
    kept = [i for i in range(len(pairs)) if max(len(side[i]) for side in tokens) <= LONGEST_REAL]
    flat = [np.concatenate([side[i] for i in kept]).astype(np.int32) for side in tokens]
    lengths = np.array([[len(side[i]) for side in tokens] for i in kept], dtype=np.int64)
    return {"lengths": lengths, "source": flat[0], "target": flat[1]}


def find(folder: Path, language: str) -> Path:
    for suffix in OPENERS:
        path = folder / f"train.{language}{suffix}"
        if path.is_file():
            return path
    raise SystemExit(f"{folder} has no file train.{language}, plain, .gz or .xz.")


def lines(path: Path) -> Iterator[str]:
    opener = OPENERS[path.suffix if path.suffix in OPENERS else ""]
    with opener(path, "rb") as file:
        for line in io.TextIOWrapper(file, encoding="utf-8", newline="\n"):
            yield line.rstrip("\r\n")


# --- the file the workers read ---------------------------------------------------------------------------


def save(path: Path, batches: Sequence[Batch]) -> None:
    sides = [[s for batch in batches for s in batch.sources], [s for batch in batches for s in batch.targets]]
    np.savez(
        path,
        counts=[len(batch.sources) for batch in batches],
        source=np.concatenate(sides[0]), source_lengths=[len(s) for s in sides[0]],
        target=np.concatenate(sides[1]), target_lengths=[len(s) for s in sides[1]],
    )  # fmt: skip


def load(path: Path) -> list[Batch]:
    with np.load(path) as stored:
        ends = stored["counts"].cumsum()
        sides = [np.split(stored[name], stored[f"{name}_lengths"].cumsum()[:-1]) for name in ("source", "target")]
    starts = [0, *ends[:-1]]
    return [Batch(sides[0][a:b], sides[1][a:b]) for a, b in zip(starts, ends, strict=True)]
