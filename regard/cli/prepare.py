"""`regard data prepare`."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.options import AsJson, bars, two_codes, warn
from regard.config import TokenizerConfig
from regard.data.cleaning import Cleaning
from regard.errors import RegardError

RULES, SUBWORDS = Cleaning(), TokenizerConfig()  # for their defaults
# What --tokenizer leaves nothing to do for. Of its subwords, --kind still says what they are.
LEARNING = {"vocab_size", "shared", "byte_fallback", "character_coverage", "normalization", "tokenizer_pairs", "seed"}


def option(panel: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, **more)


def source(text: str, **more: Any) -> Any:
    return option("Inputs", help=text, show_default=False, **more)


def filtering(text: str, *names: str, **more: Any) -> Any:
    return option("Filters (0 or off switches one off)", *names, help=text, **more)


def choice(text: str, *values: str) -> Any:
    return filtering(text, metavar="|".join(values))


def subwords(text: str, *names: str, **more: Any) -> Any:
    return option("Subwords", *names, help=text, **more)


def prepare(
    context: typer.Context,
    train: Annotated[list[str], source("Training text; repeatable, as the next two.", metavar="INPUT")],
    languages: Annotated[
        tuple[str, str], source("Language codes, e.g. en de.", metavar="SOURCE TARGET", callback=two_codes)
    ],
    out: Annotated[Path, typer.Option(help="The folder to write.", show_default=False)],
    valid: Annotated[list[str] | None, source("Validation text.", metavar="INPUT")] = None,
    test: Annotated[list[str] | None, source("Test text.", metavar="INPUT")] = None,
    columns: Annotated[
        tuple[int, int] | None, source("Columns of a .tsv, from 1; else by its header, or the only two.", metavar="N N")
    ] = None,
    keys: Annotated[
        tuple[str, str] | None, source("Keys of a .jsonl; else the language codes.", metavar="KEY KEY")
    ] = None,
    normalize: Annotated[
        bool, filtering("Unicode NFC, nothing invisible, single spaces.", "--normalize/--no-normalize")
    ] = RULES.normalize,
    unescape: Annotated[bool, filtering("HTML entities to characters.", "--unescape")] = RULES.unescape,
    max_words: Annotated[int, filtering("Most words of a side.", min=0)] = RULES.max_words,
    max_characters: Annotated[int, filtering("Most characters of a side.", min=0)] = RULES.max_characters,
    max_ratio: Annotated[
        float, filtering("Words of the longer side to the shorter's, at most.", min=0)
    ] = RULES.max_ratio,
    min_script: Annotated[
        float, filtering("Share of letters in the language's script.", min=0, max=1)
    ] = RULES.min_script,
    copies: Annotated[
        str,
        choice(
            "text: drop a pair whose two sides are the same sentence; all: names and numbers too; off.",
            "text",
            "all",
            "off",
        ),
    ] = RULES.copies,
    duplicates: Annotated[
        str,
        choice("Drop what came before, up to case, punctuation, spacing, numbers; or exactly.", "near", "exact", "off"),
    ] = RULES.duplicates,
    targets_per_source: Annotated[
        int, filtering("Keep so many targets of a source; 0: all.", min=0)
    ] = RULES.targets_per_source,
    leakage: Annotated[
        str,
        choice(
            "side: drop a pair if its source or its target is in valid or test; pair: only if both are; off.",
            "side",
            "pair",
            "off",
        ),
    ] = RULES.leakage,
    keep_dropped: Annotated[
        bool, filtering("Write dropped.tsv.gz: reason, file, line, both texts.", "--keep-dropped")
    ] = False,
    max_malformed: Annotated[
        float,
        filtering("Share of an input's records that may be damaged and left out.", "--max-malformed", min=0, max=1),
    ] = 0.1,
    vocab_size: Annotated[int, subwords("Subwords in a vocabulary.", min=8)] = SUBWORDS.vocab_size,
    kind: Annotated[str, subwords("bpe or unigram: how subwords are learned.", metavar="bpe|unigram")] = SUBWORDS.kind,
    shared: Annotated[
        bool, subwords("One vocabulary for both languages, or one each.", "--shared/--separate")
    ] = SUBWORDS.shared,
    byte_fallback: Annotated[
        bool, subwords("Spell characters that are no subword in bytes, instead of <unk>.", "--byte-fallback")
    ] = SUBWORDS.byte_fallback,
    character_coverage: Annotated[
        float, subwords("Share of the text's characters that become subwords.", min=0.98, max=1)
    ] = SUBWORDS.character_coverage,
    normalization: Annotated[
        str,
        subwords("What SentencePiece does to characters before it splits them.", metavar="nmt_nfkc|nfkc|identity"),
    ] = SUBWORDS.normalization,
    tokenizer_pairs: Annotated[int, subwords("Pairs that subwords are learned from, at most.", min=1)] = 250_000,
    seed: Annotated[int, subwords("Seed of subword learning.")] = 1,
    tokenizer: Annotated[Path | None, subwords("Use the tokenizer in this folder instead.", show_default=False)] = None,
    jobs: Annotated[int, typer.Option(min=0, help="Processes; 0: one for each core.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace prepared data that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Clean parallel text, remove duplicates and leaks, and tokenise it for training.

    An INPUT is two text files aligned by line (a.en,a.de or what both names begin with: a), a .tsv, .jsonl, .tmx or .po
    file, each plain or with .gz, .xz or .zst, or a corpus that regard data fetch has got. Validation and test text is
    checked, never changed. The report says how many pairs each step has dropped.

    Examples:  regard data prepare --languages en de --train europarl --train memory.tmx.gz --valid dev --out data

    regard data prepare --languages en de --train multi30k-en-de --valid multi30k-en-de --out clean --keep-dropped
    """
    from regard.config import read_section
    from regard.data import prepare as preparing
    from regard.data.languages import check_code

    subwords_as = {
        "kind": kind, "vocab_size": vocab_size, "shared": shared, "character_coverage": character_coverage,
        "byte_fallback": byte_fallback, "normalization": normalization,
    }  # fmt: skip
    if context.args:
        raise RegardError(f"{context.args[0]} stands alone: two files are one INPUT with a comma, SOURCE,TARGET.")
    if tokenizer and (idle := options_given(context, LEARNING)):
        raise RegardError(f"--tokenizer brings its subwords along, and none are learned: leave {', '.join(idle)} out.")
    for language in languages:
        if remark := check_code(language, "--languages"):
            warn(remark)
    with keys_as_options():
        settings = preparing.Settings(
            languages, tuple(train), tuple(valid or ()), tuple(test or ()), columns, keys,
            Cleaning(
                normalize, unescape, max_words, max_characters, max_ratio, min_script,
                copies, duplicates, targets_per_source, leakage,  # type: ignore[arg-type]
            ),
            read_section(TokenizerConfig, subwords_as, "tokenizer."),
            str(tokenizer or ""), tokenizer_pairs, seed, keep_dropped, max_malformed,
        )  # fmt: skip
        with bars("pairs") as show:
            tally = preparing.prepare(settings, out, jobs=jobs, force=force, progress=show)
    print(json.dumps(tally.plain(), ensure_ascii=False) if as_json else tally.text(), end="\n" if as_json else "")
    if not valid:
        warn("There is no validation text, which training needs: prepare again with --valid.")
    warn(f'Next: prepared = "{out}" in a recipe\'s [data]; regard doctor finds what no filter sees.')


def options_given(context: typer.Context, names: Collection[str]) -> list[str]:
    """Those of these that stand on the command line, even where they say no more than their defaults."""
    return [
        "/".join([*option.opts, *option.secondary_opts])
        for option in context.command.params
        if option.name in names
        and (source := context.get_parameter_source(option.name))
        and source.name == "COMMANDLINE"
    ]


@contextmanager
def keys_as_options() -> Iterator[None]:
    """What the library says of a key, such as tokenizer.vocab_size, said of the option that sets it here."""
    try:
        yield
    except RegardError as error:
        text = re.sub(
            r"(?:Recipe key )?\b(?:tokenizer|cleaning)\.([a-z_]+) = ",
            lambda key: f"--{key[1].replace('_', '-')} ",
            str(error),
        )
        raise RegardError(text) from None
