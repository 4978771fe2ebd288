"""What is in a parallel corpus: sizes, lengths, words, subwords, scripts, repetitions, and what leaks between splits.

The text goes by in one pass and is never held. What is held is the vocabulary with its counts and, for repetitions and
leakage, five 64-bit hashes a pair: 40 bytes. Among a million sentences the chance that any two share a hash is less
than one in ten million. Repetitions are word for word; what leaks is judged by near form, as prepare does.

Words are what white space separates; in vocabularies without the punctuation at their ends and without case.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.files import in_step
from regard.data.near import near, tells
from regard.data.scripts import SCRIPTS
from regard.data.tokenizer import UNK, Tokenizer, TokenizerPair
from regard.errors import RegardError

CHUNK = 20_000  # pairs at a time
PERCENTILES = (1, 5, 25, 50, 75, 95, 99, 100)
POINTS = 60  # of a coverage curve
GRID = 50  # cells of the picture of both lengths, each way
RATIO_EDGES = np.linspace(-3.05, 3.05, 62)  # log2 of target words over source words; equal lengths fall in the middle
EDGES = re.compile(r"^\W+|\W+$")
BLOCKS = {name: re.compile(f"[{block}]") for name, block in SCRIPTS.items()}
KINDS = {
    "N": "digits", "P": "punctuation", "S": "symbols", "Z": "spaces", "C": "format",
    "Cc": "control", "Co": "private use", "Cn": "unassigned", "Cs": "surrogate",
}  # fmt: skip

Hashes = npt.NDArray[np.int64]
SIDES = ("source", "target")


@dataclass
class Side:
    """One language of one split, as it goes by."""

    empty: int = 0
    words: Counter[str] = field(default_factory=Counter)  # as white space separates them, without case
    n_words: int = 0
    n_characters: int = 0
    characters: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0x110000, np.int64))
    subword_lengths: Counter[int] = field(default_factory=Counter)
    pieces: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, lines: list[str], tokenizer: Tokenizer | None) -> list[int]:
        """Take in lines; returns their lengths in words."""
        split = [line.casefold().split() for line in lines]
        self.words.update(chain.from_iterable(split))
        lengths = list(map(len, split))
        self.n_words += sum(lengths)
        self.empty += lengths.count(0)
        text = "".join(lines)
        self.n_characters += len(text)
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        counts = np.bincount(codes)
        self.characters[: len(counts)] += counts
        if tokenizer:
            encoded = [tokens[:-1] for tokens in tokenizer.encode(lines, threads=2)]
            self.subword_lengths.update(map(len, encoded))
            flat = np.fromiter(chain.from_iterable(encoded), np.int64)
            if not len(self.pieces):
                self.pieces = np.zeros(tokenizer.vocab_size, np.int64)
            self.pieces += np.bincount(flat, minlength=tokenizer.vocab_size)
        return lengths


@dataclass
class Split:
    """A split that has gone by."""

    pairs: int
    source: Side
    target: Side
    lengths: Counter[tuple[int, int]]  # (source words, target words) → pairs
    copies: int
    hashes: dict[str, Hashes]  # of source, target and both, for pairs without an empty side
    near: dict[str, Hashes]  # of the near forms of source and target; 0: a form that says nothing
    vocabulary: dict[str, Counter[str]]  # by side: words without punctuation, the most frequent first


def measure(
    name: str, source: Iterable[str], target: Iterable[str], tokenizers: TokenizerPair | None = None,
    report: Callable[[int], None] | None = None,
) -> Split:  # fmt: skip
    """One pass over a split; `report` is told how many pairs have gone by."""
    left, right, lengths, pairs, copies = Side(), Side(), Counter[tuple[int, int]](), 0, 0
    hashes: dict[str, list[Hashes]] = {"source": [], "target": [], "pair": []}
    forms: dict[str, list[Hashes]] = {"source": [], "target": []}
    for sources, targets in chunks(name, source, target):
        pairs += len(sources)
        counts = [
            left.add(sources, tokenizers.source if tokenizers else None),
            right.add(targets, tokenizers.target if tokenizers else None),
        ]
        lengths.update(zip(*counts, strict=True))
        whole = np.array([a > 0 and b > 0 for a, b in zip(*counts, strict=True)])
        copies += sum(a == b for a, b, said in zip(sources, targets, whole, strict=True) if said)
        for what, things in (("source", sources), ("target", targets), ("pair", zip(sources, targets, strict=True))):
            hashes[what].append(np.fromiter(map(hash, things), np.int64, len(sources))[whole])
        for what, lines in (("source", sources), ("target", targets)):
            forms[what].append(np.fromiter(map(near_hash, lines), np.int64, len(lines)))
        if report:
            report(pairs)
    if not pairs:
        raise RegardError(f"There is not a single line in {name}.")
    joined, near_forms = ({what: np.concatenate(parts) for what, parts in some.items()} for some in (hashes, forms))
    vocabulary = {"source": without_punctuation(left.words), "target": without_punctuation(right.words)}
    for side in (left, right):
        side.words = Counter()  # the vocabulary takes its place
    return Split(pairs, left, right, lengths, copies, joined, near_forms, vocabulary)


def near_hash(text: str) -> int:
    form = near(text)
    return hash(form) or 1 if tells(form) else 0


def chunks(name: str, source: Iterable[str], target: Iterable[str]) -> Iterator[tuple[list[str], list[str]]]:
    both = in_step(source, target, (f"The source of {name}", f"the target of {name}"))
    while some := list(islice(both, CHUNK)):
        yield [a.strip() for a, _ in some], [b.strip() for _, b in some]


def without_punctuation(words: Counter[str]) -> Counter[str]:
    """Words without the punctuation at their ends, the most frequent first; what is nothing but punctuation is none."""
    merged: Counter[str] = Counter()
    for word, count in words.items():
        stripped = word if word.isalnum() else EDGES.sub("", word)
        if stripped:
            merged[stripped] += count
    return Counter(dict(merged.most_common()))


# --- the report ------------------------------------------------------------------------------------------


def summarise(name: str, languages: tuple[str, str], splits: Mapping[str, Split]) -> dict[str, Any]:
    """Everything there is to say, as plain values; the first split is what the others are held against."""
    first = next(iter(splits))
    names = list(splits)
    return {
        "name": name,
        "languages": list(languages),
        "splits": {split: describe(measured) for split, measured in splits.items()},
        "coverage": {split: coverage(splits[first], splits[split]) for split in names if split != first},
        "leakage": [leakage(later, earlier, splits) for i, later in enumerate(names) for earlier in names[:i]],
        "bytes_per_pair_held": 40,
    }


def describe(split: Split) -> dict[str, Any]:
    sources, targets = marginal(split.lengths, 0), marginal(split.lengths, 1)
    whole = {lengths: count for lengths, count in split.lengths.items() if min(lengths) > 0}
    ratios = Counter[float]()
    for (a, b), count in whole.items():
        ratios[b / a] += count
    return {
        "pairs": split.pairs,
        "pairs_with_an_empty_side": split.pairs - sum(whole.values()),
        "source": describe_side(split.source, sources, split.vocabulary["source"]),
        "target": describe_side(split.target, targets, split.vocabulary["target"]),
        "ratio": {
            "mean": split.target.n_words / max(split.source.n_words, 1),
            "percentiles": percentiles(ratios),
            "beyond_twice": sum(count for ratio, count in ratios.items() if ratio > 2 or ratio < 0.5),
            "log2_edges": RATIO_EDGES.round(3).tolist(),
            "log2_counts": ratio_histogram(ratios),
        },
        "joint": joint(whole),
        "repetitions": repetitions(split),
        "copies": split.copies,
    }


def describe_side(side: Side, lengths: Counter[int], vocabulary: Counter[str]) -> dict[str, Any]:
    running = sum(vocabulary.values())
    shares = np.cumsum(np.fromiter(vocabulary.values(), np.int64)) / max(running, 1)
    described: dict[str, Any] = {
        "words": side.n_words,
        "characters": side.n_characters,
        "empty": side.empty,
        "length": {"mean": mean(lengths), "percentiles": percentiles(lengths), "histogram": sorted(lengths.items())},
        "vocabulary": {
            "distinct": len(vocabulary),
            "once": sum(count == 1 for count in vocabulary.values()),
            "curve": [[size, float(shares[size - 1])] for size in sizes(len(vocabulary))],
        },
        "scripts": scripts(side.characters),
    }
    if side.subword_lengths:
        total = int(side.pieces.sum())
        described["subwords"] = {
            "pieces": total,
            "per_word": total / max(side.n_words, 1),
            "unknown": int(side.pieces[UNK]) / max(total, 1),
            "vocabulary_used": int((side.pieces > 0).sum()),
            "vocabulary": len(side.pieces),
            "length": {
                "mean": mean(side.subword_lengths),
                "percentiles": percentiles(side.subword_lengths),
                "histogram": sorted(side.subword_lengths.items()),
            },
        }
    return described


def marginal(lengths: Counter[tuple[int, int]], side: int) -> Counter[int]:
    counts = Counter[int]()
    for pair, count in lengths.items():
        counts[pair[side]] += count
    return counts


def mean(counts: Mapping[int, int]) -> float:
    return sum(value * count for value, count in counts.items()) / max(sum(counts.values()), 1)


def percentiles(counts: Mapping[Any, int]) -> dict[str, float]:
    """Of values given with how often each occurs: the smallest value that so many per cent do not exceed."""
    if not counts:
        return {}
    values = sorted(counts)
    upto = np.cumsum([counts[value] for value in values])
    places = [np.searchsorted(upto, np.ceil(upto[-1] * percent / 100)) for percent in PERCENTILES]
    return {str(percent): round(float(values[int(i)]), 4) for percent, i in zip(PERCENTILES, places, strict=True)}


def ratio_histogram(ratios: Mapping[float, int]) -> list[int]:
    """Beyond the edges counts as the outermost."""
    logs = np.log2(np.array(list(ratios))) if ratios else np.zeros(0)
    inside = np.clip(logs, RATIO_EDGES[0], RATIO_EDGES[-1])
    counted, _ = np.histogram(inside, RATIO_EDGES, weights=np.array(list(ratios.values())) if ratios else None)
    return [int(count) for count in counted]


def joint(lengths: Mapping[tuple[int, int], int]) -> dict[str, Any]:
    """Pairs by both lengths in square cells; the longest hundredth is counted at the edge."""
    longest = Counter[int]()
    for pair, count in lengths.items():
        longest[max(pair)] += count
    width = max(1, -(-int(percentiles(longest).get("99", 1)) // GRID))
    grid = np.zeros((GRID, GRID), np.int64)
    for (a, b), count in lengths.items():
        grid[min(b // width, GRID - 1), min(a // width, GRID - 1)] += count
    return {"cell": width, "counts": grid.tolist()}


def sizes(largest: int) -> list[int]:
    """Vocabulary sizes at which a curve is drawn, evenly spaced on a logarithmic scale."""
    return sorted({int(size) for size in np.geomspace(1, largest, POINTS)}) if largest else []


def scripts(characters: npt.NDArray[np.int64]) -> dict[str, int]:
    """Characters by the script of letters, and by kind otherwise; the most frequent first."""
    counts = Counter[str]()
    for code in np.flatnonzero(characters):
        counts[script(chr(code))] += int(characters[code])
    return dict(counts.most_common())


def script(letter: str) -> str:
    """The script of a letter, the kind of anything else."""
    category = unicodedata.category(letter)
    if letter == "\N{REPLACEMENT CHARACTER}":
        return "replacement"
    if category[0] in "LM":
        return next((name for name, block in BLOCKS.items() if block.match(letter)), "other letters")
    return KINDS.get(category) or KINDS[category[0]]


def repetitions(split: Split) -> dict[str, int]:
    _, firsts = np.unique(split.hashes["pair"], return_index=True)
    found = {"duplicate_pairs": len(split.hashes["pair"]) - len(firsts)}
    for side, other in (("source", "targets"), ("target", "sources")):
        values, counts = np.unique(split.hashes[side][firsts], return_counts=True)
        found[f"distinct_{side}s"] = len(values)
        found[f"{side}s_with_several_{other}"] = int((counts > 1).sum())
    return found


def coverage(train: Split, held_out: Split) -> dict[str, Any]:
    """How much of a split's running words, and of its distinct ones, the training text has."""
    found: dict[str, Any] = {}
    for side in SIDES:
        seen, words = train.vocabulary[side], held_out.vocabulary[side]
        rank = {word: i for i, word in enumerate(seen)}
        by_rank = np.zeros(len(seen), np.int64)
        for word, count in words.items():
            if word in rank:
                by_rank[rank[word]] += count
        running = max(sum(words.values()), 1)
        shares = np.cumsum(by_rank) / running
        unseen = [word for word in words if word not in rank]
        found[side] = {
            "running": float(shares[-1]) if len(shares) else 0.0,
            "distinct": 1 - len(unseen) / max(len(words), 1),
            "unseen": len(unseen),
            "most_frequent_unseen": unseen[:10],
            "curve": [[size, float(shares[size - 1])] for size in sizes(len(seen))],
        }
    return found


def leakage(later: str, earlier: str, splits: Mapping[str, Split]) -> dict[str, Any]:
    """How many pairs of one split have a source, a target or both whose near form the other has, as prepare judges."""
    ours, theirs = splits[later].near, splits[earlier].near
    found = {side: (ours[side] != 0) & np.isin(ours[side], theirs[side]) for side in SIDES}
    both = (ours["source"] != 0) & (ours["target"] != 0) & np.isin(together(ours), together(theirs))
    counts = {"pairs": both, "sources": found["source"], "targets": found["target"]}
    return {
        "of": later, "in": earlier, "out_of": splits[later].pairs,
        **{name: int(where.sum()) for name, where in counts.items()},
    }  # fmt: skip


def together(near: dict[str, Hashes]) -> Hashes:
    """One hash for the two sides."""
    return near["source"] * np.int64(0x1E3779B97F4A7C15) + near["target"]
