"""`regard data report`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import AsJson, Show, bars, two_codes, warn
from regard.errors import RegardError, nearest

if TYPE_CHECKING:
    from regard.data.formats import Input


@dataclass(frozen=True)
class Text:
    """What to report on."""

    name: str
    languages: tuple[str, str]
    splits: dict[str, tuple[Path, Path] | Input]
    tokenizer: Path | None = None


def report(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME | SOURCE TARGET | INPUT | FOLDER",
            help="A fetched corpus, two files aligned line by line, any other INPUT that regard data prepare takes, or "
            "a folder that it has written.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for report.json, report.png and report.html.")] = Path(
        "report"
    ),
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", help="Count subwords too: a tokenizer/ folder of a run or of prepare.")
    ] = None,
    test: Annotated[
        tuple[Path, Path] | None,
        typer.Option("--test", metavar="SOURCE TARGET", help="Held-out text: how much of it the first text has."),
    ] = None,
    given: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--languages",
            metavar="SOURCE TARGET",
            help="Language codes, e.g. en de; else by file name.",
            callback=two_codes,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what is in a corpus: sizes, lengths, vocabulary, scripts, repetitions, and leaks between its splits.

    The text is read once and not held; 40 bytes a pair and the vocabulary are. Leaks are judged as prepare judges them:
    whatever the case, punctuation, spacing and numbers.

    Examples:  regard data report multi30k-en-de

    regard data report train.en.gz train.de.gz --test test.en test.de --tokenizer runs/mine/tokenizer

    regard data report memory.tmx --languages en de
    """
    from regard.data import statistics
    from regard.data.languages import check_code
    from regard.data.tokenizer import TokenizerPair
    from regard.view.corpus_page import corpus_page
    from regard.view.corpus_picture import corpus_png
    from regard.view.corpus_table import corpus_text

    for language in given or ():
        if remark := check_code(language, "--languages"):
            warn(remark)
    text = find(what, test, given)
    folder = tokenizer or text.tokenizer
    tokenizers = TokenizerPair.load(folder) if folder else None
    measured = {}
    with bars("pairs") as show:
        for split, source in text.splits.items():
            read = partial(counted, show, split)
            measured[split] = statistics.measure(split, *sides(source), tokenizers, read)
    found = statistics.summarise(text.name, text.languages, measured)
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.json").write_text(json.dumps(found, ensure_ascii=False) + "\n", encoding="utf-8")
    corpus_png(found, out / "report.png")
    (out / "report.html").write_text(corpus_page(found, (out / "report.png").read_bytes()), encoding="ascii")
    print(json.dumps(found, ensure_ascii=False) if as_json else corpus_text(found), end="\n" if as_json else "")
    warn(f"{out / 'report.html'}, report.png and report.json beside it")


def counted(show: Show, split: str, pairs: int) -> None:
    show(split, pairs, None)  # how many there will be is not known


def find(what: list[str], test: tuple[Path, Path] | None, given: tuple[str, str] | None) -> Text:
    """The text the arguments mean, with the held-out files as a further split."""
    from regard.data import fetch

    if given and len(what) == 1 and (what[0] in fetch.CORPORA or (Path(what[0]) / "prepared.json").is_file()):
        raise RegardError(f"{what[0]} has its languages already: leave --languages out.")
    if len(what) == 1 and "," in what[0] and not Path(what[0]).exists():
        what = what[0].split(",")
    if len(what) == 2:
        source, target = (Path(one) for one in what)
        name = f"{source.name}, {target.name}"
        text = Text(name, given or languages(source, target), {first_name(source, test): (source, target)})
    elif len(what) > 2:
        raise RegardError("Give one NAME, one FOLDER, one INPUT, or two files: SOURCE TARGET.")
    elif what[0] in fetch.CORPORA:
        splits: dict[str, tuple[Path, Path] | Input]
        splits = {split: fetch.files(what[0], split) for split in fetch.splits(what[0])}
        text = Text(what[0], fetch.CORPORA[what[0]].languages, splits)
    elif (Path(what[0]) / "prepared.json").is_file():
        text = prepared(Path(what[0]))
    else:
        text = other_input(what[0], given, test)
    if not test:
        return text
    name = "given" if "test" in text.splits else "test"
    return Text(text.name, text.languages, {**text.splits, name: test}, text.tokenizer)


def other_input(what: str, given: tuple[str, str] | None, test: tuple[Path, Path] | None) -> Text:
    """An INPUT as regard data prepare takes it."""
    from regard.data import fetch, formats

    if given:
        found = formats.find(what, "train", formats.Fields(given))
        return Text(what, given, {first_name(Path(what), test): found})
    if Path(what).is_file():
        readable = formats.kind(Path(what)) in formats.READERS
        raise RegardError(
            f"{what} is one file: " + ("say --languages, e.g. en de." if readable else "give two, SOURCE TARGET.")
        )
    hint = nearest(what, fetch.CORPORA)
    raise RegardError(
        f"{what} is no corpus{hint}, no folder of regard data prepare, and not two files; what two names begin with "
        "needs --languages."
    )


def sides(source: tuple[Path, Path] | Input) -> tuple[Iterator[str], Iterator[str]]:
    """Both sides of a text, line by line; a record of an INPUT that gives no pair is left out."""
    from regard.data.files import in_step, read_lines

    pairs: Iterator[tuple[str, str]]
    if isinstance(source, tuple):
        pairs = in_step(read_lines(source[0]), read_lines(source[1]), source)
    else:
        pairs = ((a, b) for _, a, b in (record for record in source if isinstance(record, tuple)))
    left, right = tee(pairs)
    return (a for a, _ in left), (b for _, b in right)


def prepared(folder: Path) -> Text:
    from regard.data.prepared import Prepared

    opened = Prepared.open(folder)
    splits: dict[str, tuple[Path, Path] | Input]
    splits = {"train": (folder / "train.source.text", folder / "train.target.text")}
    for split in ("valid", "test"):
        if opened.has(split):
            splits[split] = (folder / f"{split}.source", folder / f"{split}.target")
    return Text(folder.resolve().name, opened.languages, splits, folder / "tokenizer")


def languages(source: Path, target: Path) -> tuple[str, str]:
    """`en`, `de` for train.en.gz and train.de.gz."""
    from regard.data.languages import language_of

    left, right = language_of(source), language_of(target)
    return (left, right) if left and right and left != right else ("source", "target")


def first_name(source: Path, test: tuple[Path, Path] | None) -> str:
    name = source.name.split(".")[0]
    return "train" if test and name == "test" else name
