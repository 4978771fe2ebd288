"""`regard parse`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import (
    AsJson,
    BatchSentences,
    Beam,
    Device,
    Penalty,
    Precision,
    RunArgument,
    Threads,
    Weights,
    given,
    open_parser,
    warn,
)
from regard.errors import RegardError
from regard.wording import counted

if TYPE_CHECKING:
    from regard.decode.parser import Parsed, Parser, Words

CHUNK = 2048  # sentences parsed before the first of them is printed
FORMS = ("trees", "indented", "drawn", "symbols")

Constrained = Annotated[
    bool | None,
    typer.Option(
        "--constrained/--free",
        help="Only trees over all words, or whatever comes, repaired. Else the recipe's.",
        show_default=False,
    ),
]


def parse(
    run: RunArgument,
    source: Annotated[
        Path | None, typer.Option("--input", "-i", help="A sentence a line, plain or compressed. Else stdin.")
    ] = None,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", help="Running text, a sentence a line: split off punctuation and clitics as in the Penn Treebank."
        ),
    ] = False,
    form: Annotated[
        str, typer.Option("--form", metavar="|".join(FORMS), help="How trees are printed; symbols: as the model did.")
    ] = "trees",
    tags: Annotated[
        bool | None,
        typer.Option("--tags/--no-tags", help="Print the part-of-speech tags, or XX. Else what the model knows."),
    ] = None,
    least_confidence: Annotated[
        float,
        typer.Option("--least-confidence", min=0.0, max=1.0, help="Print only trees whose mean symbol is this sure."),
    ] = 0.0,
    svg: Annotated[Path | None, typer.Option("--svg", help="Draw the one sentence's tree here.")] = None,
    constrained: Constrained = None,
    beam: Beam = None,
    length_penalty: Penalty = None,
    batch: BatchSentences = None,
    precision: Precision = None,
    weights: Weights = "auto",
    device: Device = "auto",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Parse sentences, one a line, words with spaces between; trees come out in the Penn Treebank's brackets.

    An empty line gives (()), a sentence without a parse. With --raw a simple tokeniser splits running text: punctuation
    and brackets stand alone, quotes become `` and '', n't and 's leave their word. What was malformed and repaired is
    counted on stderr.

    Examples:  echo "the dog saw she ." | regard parse runs/demo-parser

    regard parse runs/demo-parser --raw --form drawn < sentences.txt

    regard parse runs/wsj-sample-parser --least-confidence 0.9 < unlabelled.txt > more.trees
    """
    from regard.data.linearise import RepairTally
    from regard.view.trees import tree_svg

    if form not in FORMS:
        raise RegardError(f"--form {form} is none of {', '.join(FORMS)}.")
    parser = open_parser(run, weights, device, threads)
    options = given(beam_size=beam, length_penalty=length_penalty, batch_sentences=batch, precision=precision)
    parser.config = parser.options(**options, **given(constrained=constrained))
    tallies: list[Any] = []
    parsed = kept = 0
    for group in in_groups(sentences(source, raw)):
        found = [best[0] for best in parser.trees(group)]
        tallies += [one.repairs for one in found]
        if svg and parsed + len(found) > 1:
            raise RegardError("--svg draws one tree: give one sentence.")
        parsed += len(found)
        for one in found:
            if one.confidence >= least_confidence:
                kept += 1
                print(shown(parser, one, form, tags, as_json))
        sys.stdout.flush()
        if svg and found:
            svg.write_text(tree_svg(found[0].tree), encoding="utf-8")
    tally = RepairTally.of(tallies)
    if tally.malformed:
        warn(str(tally))
    if least_confidence:
        warn(f"At least {least_confidence:g} sure: {kept:,} of {counted(parsed, 'tree')}.")


def sentences(source: Path | None, raw: bool) -> Iterator[Words]:
    """Each line, or its words where it is running text."""
    from regard.data.files import decode_lines, read_lines
    from regard.data.penn_words import penn_words

    lines = read_lines(source) if source else decode_lines(sys.stdin.buffer, "standard input")
    for line in lines:
        yield penn_words(line) if raw else line


def in_groups(lines: Iterator[Words]) -> Iterator[list[Words]]:
    while group := list(islice(lines, CHUNK)):
        yield group


def shown(parser: Parser, one: Parsed, form: str, tags: bool | None, as_json: bool) -> str:
    from regard.data.linearise import LEAF
    from regard.data.trees import indented_text, retagged
    from regard.view.trees import tree_text

    tree = retagged(one.tree, [LEAF] * len(one.tree.words)) if tags is False else one.tree
    if as_json:
        brackets = [{"label": label, "start": start, "end": end} for label, start, end in tree.brackets]
        record = {"words": tree.words, "tags": tree.tags, "brackets": brackets, "tree": str(tree)}
        scores = {"log_prob": one.output.log_prob, "score": one.output.score, "confidence": one.confidence}
        repaired = {name: count for name, count in asdict(one.repairs).items() if count}
        return json.dumps({**record, **scores, "repairs": repaired}, ensure_ascii=False)
    if form == "symbols":
        return one.output.text
    if form == "drawn":
        return tree_text(tree) + "\n"
    return indented_text(tree) if form == "indented" else str(tree)
