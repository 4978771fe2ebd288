"""Sentence pairs from the files people have: two text files, TSV, JSONL, TMX and gettext PO, plain or compressed.

Every reader gives records one at a time: (line, source, target), or what it left out, with its line and the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import IO, Any

from regard.data import fetch
from regard.data.files import LONGEST_LINE, PACKED, UTF16, bounded_lines, in_step, open_bytes, too_long, two_bytes_each
from regard.data.languages import NAMES, main_code
from regard.errors import RegardError

BLOCK = 1 << 16
MOST_KINDS = 5  # sets of languages named in what is left out of a TMX file
XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
CODE = {"bpt", "ept", "it", "ph", "ut"}  # elements of TMX that hold mark-up of the original document, not text


@dataclass(frozen=True)
class Left:
    """A record that gives no pair: damaged, or such as its format has by nature."""

    line: int
    why: str
    malformed: bool = True


Record = tuple[int, str, str] | Left


@dataclass(frozen=True)
class Fields:
    """Where the two languages stand in a record."""

    languages: tuple[str, str]
    columns: tuple[int, int] | None = None  # of a TSV, from 1; else those its header names, or the only two
    keys: tuple[str, str] | None = None  # of a JSONL record; the language codes where none are given

    def __post_init__(self) -> None:
        if self.languages[0] == self.languages[1]:
            raise RegardError(f"Source and target are both {self.languages[0]}: give two languages, e.g. en de.")
        if self.columns and min(self.columns) < 1:
            raise RegardError(f"Columns are numbered from 1, so there is no column {min(self.columns)}.")


class Input:
    """One source of sentence pairs: a file, or two that are aligned line by line."""

    def __init__(self, name: str, files: tuple[Path, ...], fields: Fields) -> None:
        self.name, self.files, self.fields = name, files, fields
        self.size = sum(file.stat().st_size for file in files)
        self.opened: list[IO[bytes]] = []

    @property
    def position(self) -> int:
        """Bytes of the files read so far, as they lie on the disk."""
        sizes = (path.stat().st_size for path in self.files)
        return sum(size if file.closed else file.tell() for file, size in zip(self.opened, sizes, strict=False))

    def __iter__(self) -> Iterator[Record]:
        self.opened = []
        if len(self.files) == 2:
            return read_two(*self.files, self.opened)
        return READERS[kind(self.files[0])](self.files[0], self.fields, self.opened)


def find(text: str, split: str, fields: Fields) -> Input:
    """The input a user means: `a.en,a.de`, one file of a known kind, a fetched corpus, or what two names begin with."""
    path = Path(text)
    if "," in text and not path.exists():
        files = tuple(Path(part) for part in text.split(","))
        if len(files) != 2:
            raise RegardError(f"{text}: two files are written with one comma, e.g. a.en,a.de.")
        return Input(text, tuple(there(file) for file in files), fields)
    if kind(path) in READERS:
        return Input(text, (there(path),), fields)
    corpus, _, other = text.partition(":")
    if corpus in fetch.CORPORA and not path.exists():
        return Input(text, fetched(corpus, other or split, fields), fields)
    if path.is_file():
        raise RegardError(
            f"{text} is of no known kind: give two text files as a.en,a.de, or a {', '.join(READERS)} file, plain or "
            f"with {', '.join(PACKED)}."
        )
    found = [fetch.find(path.parent, f"{path.name}.{language}") for language in fields.languages]
    if found[0] is None or found[1] is None:
        missing = " nor ".join(f"{text}.{c}" for c, file in zip(fields.languages, found, strict=True) if not file)
        raise RegardError(f"No input {text}: there is no such file, no fetched corpus of that name, and no {missing}.")
    return Input(text, (found[0], found[1]), fields)


def there(path: Path) -> Path:
    if not path.is_file():
        raise RegardError(f"{path} is a folder, not a file." if path.is_dir() else f"No such file: {path}.")
    return path


def fetched(name: str, split: str, fields: Fields) -> tuple[Path, Path]:
    """The files of a fetched corpus, turned round where the languages are."""
    has, source, target = fetch.CORPORA[name].languages, *fetch.files(name, split)
    if has == fields.languages:
        return source, target
    if has == fields.languages[::-1]:
        return target, source
    raise RegardError(f"The corpus {name} is {' and '.join(has)}, not {' and '.join(fields.languages)}.")


def kind(path: Path) -> str:
    """The ending that says what a file holds, whatever it is compressed with."""
    return Path(path.stem).suffix if path.suffix in PACKED else path.suffix


# --- by line ---------------------------------------------------------------------------------------------


class Damaged(Exception):
    """Why a line gives no text."""


def decoded(line: bytes, number: int, path: Path) -> str:
    if too_long(line):
        raise Damaged(f"longer than {LONGEST_LINE >> 20} MiB")
    try:
        text = line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        if number == 1 and line.startswith(UTF16):
            raise two_bytes_each(path) from None
        raise Damaged("not UTF-8") from None
    return text.removeprefix("\ufeff") if number == 1 else text


def read_two(source: Path, target: Path, opened: list[IO[bytes]]) -> Iterator[Record]:
    both = in_step(raw_lines(source, opened), raw_lines(target, opened), (source, target))
    for number, (a, b) in enumerate(both, start=1):
        try:
            yield number, decoded(a, number, source), decoded(b, number, target)
        except Damaged as damage:
            yield Left(number, str(damage))


def raw_lines(path: Path, opened: list[IO[bytes]]) -> Iterator[bytes]:
    """The lines of one file, so that an archive that breaks off is named and not the one beside it."""
    with open_bytes(path, opened) as file:
        yield from bounded_lines(file)


def read_tsv(path: Path, fields: Fields, opened: list[IO[bytes]]) -> Iterator[Record]:
    """Columns between tabs. A first line that says what they are is no pair."""
    columns = fields.columns or (1, 2)
    with open_bytes(path, opened) as file:
        for number, line in enumerate(bounded_lines(file), start=1):
            try:
                cells = decoded(line, number, path).split("\t")
                if number == 1 and (named := header(cells, fields)):
                    columns = named
                    yield Left(number, f"the header; columns {columns[0]} and {columns[1]} are read", malformed=False)
                    continue
                if number == 1 and not fields.columns and any(cells[2:]):
                    raise which_columns(path, len(cells), fields.languages)
                yield number, cells[columns[0] - 1], cells[columns[1] - 1]
            except Damaged as damage:
                yield Left(number, str(damage))
            except IndexError:
                yield Left(number, f"fewer than {max(columns)} columns")


def which_columns(path: Path, count: int, languages: tuple[str, str]) -> RegardError:
    """The error of a table that does not say what its columns are."""
    names = " and ".join(languages)
    return RegardError(
        f"{path} has {count} columns and no header that names {names}: say which two they are with --columns, e.g. "
        "--columns 1 2, or in a first line."
    )


def header(cells: list[str], fields: Fields) -> tuple[int, int] | None:
    """The columns of source and target, where a first line names columns instead of being a pair."""
    words = [cell.strip().lower() for cell in cells]
    source, target = (
        [main_code(code), NAMES.get(main_code(code), code).lower(), *more]
        for code, more in zip(fields.languages, (("source", "src"), ("target", "tgt")), strict=True)
    )
    found = [next((i for i, word in enumerate(words, start=1) if word in side), 0) for side in (source, target)]
    return (fields.columns or (found[0], found[1])) if all(found) else None


def read_jsonl(path: Path, fields: Fields, opened: list[IO[bytes]]) -> Iterator[Record]:
    """An object a line, {"en": …, "de": …} or {"translation": {"en": …, "de": …}}; empty lines are none."""
    source, target = fields.keys or fields.languages
    with open_bytes(path, opened) as file:
        for number, line in enumerate(bounded_lines(file), start=1):
            try:
                text = decoded(line, number, path)
                record = json.loads(text) if text.strip() else None
            except Damaged as damage:
                yield Left(number, str(damage))
                continue
            except (ValueError, RecursionError):  # the first of a number with thousands of digits too
                yield Left(number, "not JSON")
                continue
            if record is None and not text.strip():
                continue
            if isinstance(record, dict) and isinstance(record.get("translation"), dict):
                record = record["translation"]
            values = [record.get(key) for key in (source, target)] if isinstance(record, dict) else []
            if len(values) < 2 or not isinstance(values[0], str) or not isinstance(values[1], str):
                yield Left(number, f"no text under {source} and {target}{others(record) if number == 1 else ''}")
            elif not sound(values[0] + values[1]):
                yield Left(number, "half a surrogate pair")
            else:
                yield number, values[0], values[1]


def others(record: Any) -> str:
    """Which keys a record has instead."""
    keys = [str(key)[:20] for key in record][:4] if isinstance(record, dict) else []
    return f" but under {', '.join(keys)}" if keys else ""


def sound(text: str) -> bool:
    """Whether UTF-8 can hold the text; JSON can escape what it cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# --- TMX -------------------------------------------------------------------------------------------------


class Units:
    """The translation units of a TMX file as its elements go by: the line each begins on, and its (language, text)s."""

    def __init__(self) -> None:
        self.done: list[tuple[int, list[tuple[str, str]]]] = []
        self.here: Callable[[], int] = lambda: 0  # the line the parser has come to
        self.line = self.code = 0
        self.variants: list[tuple[str, str]] = []
        self.language = ""
        self.text: list[str] | None = None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition("}")[2]
        if name == "tu":
            self.line, self.variants = self.here(), []
        elif name == "tuv":
            self.language = attributes.get(XML_LANGUAGE) or attributes.get("lang", "")
        elif name == "seg":
            self.text, self.code = [], 0
        elif name in CODE:
            self.code += 1

    def data(self, text: str) -> None:
        if self.text is not None and not self.code:
            self.text.append(text)

    def end(self, tag: str) -> None:
        name = tag.rpartition("}")[2]
        if name == "seg" and self.text is not None:
            self.variants.append((self.language, "".join(self.text)))
            self.text = None
        elif name == "tu":
            self.done.append((self.line, self.variants))
        elif name in CODE:
            self.code -= 1

    def close(self) -> None:
        pass

    def take(self) -> list[tuple[int, list[tuple[str, str]]]]:
        done, self.done = self.done, []
        return done


def read_tmx(path: Path, fields: Fields, opened: list[IO[bytes]]) -> Iterator[Record]:
    """Streamed: one unit in memory. Where a unit has a language several times, each with each of the other."""
    kinds: set[str] = set()
    for line, variants in units(path, opened):
        sources, targets = (
            [text for code, text in variants if speaks(code, language)] for language in fields.languages
        )
        if not sources or not targets:
            there = ", ".join(sorted({code for code, _ in variants})) or "nothing"
            kinds |= {there} if len(kinds) < MOST_KINDS else set()
            what = f", but {there}" if there in kinds else ""
            yield Left(line, f"not in both {' and '.join(fields.languages)}{what}", malformed=False)
        for source, target in product(sources, targets):
            yield line, source, target


def units(path: Path, opened: list[IO[bytes]]) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    try:
        from defusedxml import DefusedXmlException
        from defusedxml.ElementTree import DefusedXMLParser, ParseError
    except ImportError:
        raise RegardError(f'{path} is TMX: pip install "regard[corpora]" to read it.') from None
    found = Units()
    parser: Any = DefusedXMLParser(target=found)  # type: ignore[no-untyped-call]
    found.here = lambda: int(parser.parser.CurrentLineNumber)
    with open_bytes(path, opened) as file:
        try:
            while block := file.read(BLOCK):
                parser.feed(block)
                yield from found.take()
            parser.close()
            yield from found.take()
        except DefusedXmlException:
            raise RegardError(
                f"{path} declares entities of its own, which can be made to fill any memory: remove the <!ENTITY lines."
            ) from None
        except ParseError as error:
            raise RegardError(f"{path} is not well-formed XML: {error}.") from None


def speaks(code: str, language: str) -> bool:
    """Whether a language code such as EN, en-US or en_us means `language`."""
    code, language = code.lower().replace("_", "-"), language.lower().replace("_", "-")
    return code == language or code.split("-")[0] == language


# --- PO --------------------------------------------------------------------------------------------------


def read_po(path: Path, fields: Fields, opened: list[IO[bytes]]) -> Iterator[Record]:
    """The finished entries of a message catalogue. A plural stands against each plural form after the first.

    The catalogue's msgstr is the target, unless its header says that it is in the source language.
    """
    catalogue = load_catalogue(path, opened)
    language = str(catalogue.metadata.get("Language", ""))
    turned = speaks(language, fields.languages[0]) and not speaks(language, fields.languages[1])
    for entry in catalogue:
        reason = "obsolete" if entry.obsolete else "fuzzy" if entry.fuzzy else ""
        if reason or not entry.translated():
            yield Left(int(entry.linenum), reason or "untranslated", malformed=False)
            continue
        for original, translation in forms(entry):
            yield int(entry.linenum), *((translation, original) if turned else (original, translation))


def load_catalogue(path: Path, opened: list[IO[bytes]]) -> Any:
    try:
        import polib
    except ImportError:
        raise RegardError(f'{path} is a PO file: pip install "regard[corpora]" to read it.') from None
    with open_bytes(path, opened) as file:
        content = file.read().removeprefix(b"\xef\xbb\xbf")
    charset = re.search(rb'"Content-Type:[^"]*charset=([\w-]+)', content)
    encoding = charset.group(1).decode() if charset and charset.group(1) != b"CHARSET" else "utf-8"
    try:
        return polib.pofile(content.decode(encoding) + "\n")  # type: ignore[no-untyped-call]
    except (UnicodeDecodeError, LookupError):
        raise RegardError(f"{path} is not in the encoding its header names ({encoding}).") from None
    except OSError as error:
        where = re.search(r"\(line (\d+)\)(.*)", str(error))
        place = f", line {where.group(1)}, is not sound PO{where.group(2)}" if where else f" is not sound PO: {error}"
        raise RegardError(f"{path}{place}.") from None


def forms(entry: Any) -> Iterator[tuple[str, str]]:
    if not entry.msgid_plural:
        yield entry.msgid, entry.msgstr
        return
    translations = [entry.msgstr_plural[number] for number in sorted(entry.msgstr_plural, key=int)]
    if len(translations) > 1:
        yield entry.msgid, translations.pop(0)
    for translation in translations:
        yield entry.msgid_plural, translation


READERS: dict[str, Callable[[Path, Fields, list[IO[bytes]]], Iterator[Record]]] = {
    ".tsv": read_tsv,
    ".jsonl": read_jsonl,
    ".tmx": read_tmx,
    ".po": read_po,
}
