"""`regard label`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import AsJson, Device, RunArgument, Threads, Weights, warn

if TYPE_CHECKING:
    import numpy as np

MANY_UNKNOWN = 0.1  # of the words, from where that is said
CHUNK = 2048  # lines of a file labelled before the first of them is printed

Ranked = list[tuple[str, float]]  # labels and their probabilities, the likeliest first


def label(
    run: RunArgument,
    source: Annotated[
        Path | None,
        typer.Option("--input", "-i", help="A text a line, plain or compressed. Else stdin.", show_default=False),
    ] = None,
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Running text: split off punctuation and clitics as in the Penn Treebank."),
    ] = False,
    top: Annotated[
        int | None,
        typer.Option("--top", min=1, help="So many labels, the likeliest first. Else 1; with --json all."),
    ] = None,
    weights: Weights = "auto",
    device: Device = "auto",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Label texts, one a line, with a run of classification or tagging: a line comes out for each.

    A classifier's line is the label, a tab and its probability; with --top the next likeliest follow, each with its
    own. A tagger's line has a tag and a probability for each word: the tags with spaces between, a tab, and the
    probabilities in the same order; with --top the next likeliest of every word follow. An empty line gives an empty
    line. Texts are words with spaces between, tokenised as the training text is; --raw splits English running text.

    With --json a line is an object with the words and the probability of every label.

    Examples:  echo "the film is good but the plot is not good" | regard label runs/polarity

    regard label runs/sst-cnn --raw --input reviews.txt > labels.tsv

    regard label runs/gum-tagger --top 2 --json < sentences.txt
    """
    import torch

    from regard.decode.stream import available_lines
    from regard.training.labels import open_labelling
    from regard.training.run import Run

    if threads:
        torch.set_num_threads(threads)
    labelling = open_labelling([Run.open(run)], weights, device)
    each_word = labelling.recipe.task == "tagging"
    if source is None and sys.stdin.isatty():
        warn("Type a text and Enter; Ctrl-D ends.")
    n_words = n_unknown = 0
    for group in file_lines(source) if source else available_lines(sys.stdin.buffer):
        texts = [split(line, raw) for line in group]
        n_words += sum(map(len, texts))
        n_unknown += labelling.vocabulary.unknown(texts)
        for words, probabilities in zip(texts, labelling.probabilities(texts), strict=True):
            if as_json:
                best = [likeliest(labelling.labels, row, top or len(row)) for row in probabilities] if words else []
                print(json.dumps(record(words, best, each_word), ensure_ascii=False))
            else:
                best = [likeliest(labelling.labels, row, top or 1) for row in probabilities] if words else []
                print(line_of(best))
        sys.stdout.flush()
    if n_unknown > MANY_UNKNOWN * n_words:
        warn(f"{n_unknown:,} of {n_words:,} words are unknown to {run}: its labels of such texts say little.")


def file_lines(path: Path) -> Iterator[list[str]]:
    from regard.data.files import read_lines

    lines = read_lines(path)
    while group := list(islice(lines, CHUNK)):
        yield group


def split(line: str, raw: bool) -> list[str]:
    from regard.data.penn_words import penn_words

    return penn_words(line) if raw else line.split()


def likeliest(labels: Sequence[str], probabilities: np.ndarray, count: int) -> Ranked:
    order = (-probabilities).argsort(kind="stable")[:count]
    return [(labels[i], float(probabilities[i])) for i in order]


def line_of(best: Sequence[Ranked]) -> str:
    """best: for the text, or for each of its words → the likeliest, their probabilities, the next likeliest, …"""
    fields = []
    for ranked in zip(*best, strict=True):
        fields += [" ".join(label for label, _ in ranked), " ".join(f"{value:.4f}" for _, value in ranked)]
    return "\t".join(fields)


def record(words: list[str], best: Sequence[Ranked], each_word: bool) -> dict[str, Any]:
    told = [
        {"label": ranked[0][0], "probabilities": {label: round(value, 6) for label, value in ranked}} for ranked in best
    ]
    if each_word:
        return {"words": words, "tags": told}
    return {"words": words, **(told[0] if told else {"label": None, "probabilities": {}})}
