"""From downloaded files to aligned text: members of archives, WMT's SGML, Tatoeba's table, IWSLT's talks.

Lines are copied as bytes, so that a text of any size takes no memory and arrives as it was published.
"""

from __future__ import annotations

import hashlib
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from regard.data.files import bounded_lines, endless, in_step, open_bytes, read_lines, too_long
from regard.data.moses import moses_rules
from regard.data.near import near, tells
from regard.errors import RegardError

EXPANSION, SMALL = 200, 1 << 24  # an archive unpacks to so many times its size at most, or to so many bytes
SEGMENT = re.compile(rb"<seg[^>]*>\s*(.*?)\s*</seg>")
HELD_OUT = 20  # Tatoeba: per mille of the English sentences in the validation and in the test set
EVERY = 23  # IWSLT: each such line of the training text is validation text
LONGEST, RATIO = 175, 1.5  # IWSLT: words of a training sentence, and by how much one side may exceed the other


@dataclass(frozen=True)
class Texts:
    """What was written: the pairs of each split, and how many were left out of the training text, by reason."""

    pairs: dict[str, int]
    left_out: dict[str, int] = field(default_factory=dict)


def is_archive(path: Path) -> bool:
    return path.suffix in (".tgz", ".tar", ".zip") or path.name.endswith(".tar.gz")


def unpack(archive: Path, members: Sequence[str], folder: Path) -> dict[str, Path]:
    """The named members and no others, under names of our own; an archive can put nothing elsewhere."""
    places = {member: folder / f"{archive.name}.{i}.{Path(member).name}" for i, member in enumerate(members)}
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if archive.suffix == ".zip":
            unzip(archive, places)
        else:
            untar(archive, places)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError) as error:
        raise RegardError(f"{archive} is not a sound archive: {error}.") from None
    missing = [member for member, place in places.items() if not place.exists()]
    if missing:
        raise RegardError(f"{archive} does not hold {', '.join(missing)}: it is not the archive it should be.")
    return places


def untar(archive: Path, places: dict[str, Path]) -> None:
    with tarfile.open(archive, "r|*") as tar:  # one pass: seeking back would decompress all of it again
        for entry in tar:
            place = places.get(entry.name.removeprefix("./"))
            content = tar.extractfile(entry) if place and entry.isfile() else None
            if place and content:
                copy(content, place, archive)


def unzip(archive: Path, places: dict[str, Path]) -> None:
    with zipfile.ZipFile(archive) as zipped:
        for member in places.keys() & set(zipped.namelist()):
            with zipped.open(member) as content:
                copy(content, places[member], archive)


def copy(content: IO[bytes], place: Path, archive: Path) -> None:
    """A member of an archive, as long as it is of a size that text can have."""
    left = max(SMALL, EXPANSION * archive.stat().st_size)
    with place.open("wb") as file:
        while chunk := content.read(1 << 20):
            left -= len(chunk)
            if left < 0:
                raise RegardError(
                    f"{archive} unpacks to more than {EXPANSION} times its size, as no text does: it is not the "
                    "archive it should be."
                )
            file.write(chunk)


def byte_lines(path: Path) -> Iterator[bytes]:
    """The lines of a text, or the segments of an SGML or XML file, without their ends."""
    with open_bytes(path) as file:
        for number, line in enumerate(bounded_lines(file), start=1):
            if too_long(line):
                raise endless(path, number)
            if path.suffix in (".sgm", ".xml"):
                yield from (b" ".join(found[1].split()) for found in SEGMENT.finditer(line))
            else:
                yield line.rstrip(b"\r\n")


def join(pieces: Iterable[tuple[Path, Path]], source: Path, target: Path) -> int:
    """Write the pieces one after another, line by line in step; returns how many pairs there are."""
    pairs = 0
    with source.open("wb") as left, target.open("wb") as right:
        for one, other in pieces:
            for a, b in in_step(byte_lines(one), byte_lines(other), (one.name, other.name)):
                left.write(a + b"\n")
                right.write(b + b"\n")
                pairs += 1
    return pairs


def count_lines(path: Path) -> int:
    """How many lines `read_lines` would give, without decoding them."""
    lines, last = 0, b"\n"
    with open_bytes(path) as file:
        while chunk := file.read(1 << 20):
            lines, last = lines + chunk.count(b"\n"), chunk[-1:]
    return lines + (last != b"\n")


# --- Tatoeba ---------------------------------------------------------------------------------------------


def split_table(table: Path, languages: tuple[str, str], folder: Path) -> Texts:
    """English, its translation and who wrote them, separated by tabs.

    A hash of the English sentence alone decides, so all its translations stay together and the splits stay the same
    when the table grows. Different sentences may have one translation: a pair with a side that is near one of the
    validation or test text is in no training text, so that nothing leaks in either direction.
    """
    held_out: tuple[set[str], set[str]] = (set(), set())
    for pair in table_pairs(table):
        if split_of(pair[0]) != "train":
            for known, text in zip(held_out, pair, strict=True):
                known.add(near(text))
    leaks = 0
    with writers(languages, folder) as (write, counts):
        for pair in table_pairs(table):
            split = split_of(pair[0])
            if split == "train" and any(leaked(text, known) for text, known in zip(pair, held_out, strict=True)):
                leaks += 1
            else:
                write(split, pair)
    return Texts(counts, {"near valid or test": leaks})


def leaked(text: str, held_out: set[str]) -> bool:
    form = near(text)
    return tells(form) and form in held_out


def table_pairs(table: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(read_lines(table), start=1):
        columns = line.split("\t")
        if len(columns) < 2:
            raise RegardError(f"{table}, line {number}: no tab between a sentence and its translation.")
        yield columns[0], columns[1]


@contextmanager
def writers(
    languages: tuple[str, str], folder: Path
) -> Iterator[tuple[Callable[[str, tuple[str, str]], None], dict[str, int]]]:
    """A function that writes a pair into a split, and how many each has got."""
    counts = {"train": 0, "valid": 0, "test": 0}
    with ExitStack() as stack:
        files = {
            (split, language): stack.enter_context((folder / f"{split}.{language}").open("w", encoding="utf-8"))
            for split in counts
            for language in languages
        }

        def write(split: str, pair: tuple[str, str]) -> None:
            counts[split] += 1
            for language, text in zip(languages, pair, strict=True):
                files[split, language].write(text + "\n")

        yield write, counts


def split_of(sentence: str) -> str:
    """By letters and digits alone, so that `Run!` and `Run.` are one sentence."""
    key = "".join(letter for letter in sentence.casefold() if letter.isalnum()) or sentence
    place = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big") % 1000
    return "test" if place < HELD_OUT else "valid" if place < 2 * HELD_OUT else "train"


# --- IWSLT 2014 ------------------------------------------------------------------------------------------


def tokenize_talks(
    train: tuple[Path, Path], tests: Sequence[tuple[Path, Path]], languages: tuple[str, str], folder: Path
) -> Texts:
    """The literature's text: Moses tokens in lower case, pairs of very unequal length left out, every 23rd pair for
    validation, five test sets as one. The tokens are sacremoses' and may differ from the Perl script's in rare cases.
    """
    tokens = [moses_rules(language) for language in languages]
    kept = seen = 0
    with writers(languages, folder) as (write, counts):
        for a, b in in_step(talk_lines(train[0]), talk_lines(train[1]), (train[0].name, train[1].name)):
            pair = (tokens[0](a), tokens[1](b))
            lengths = [len(side.split()) for side in pair]
            seen += 1
            if min(lengths) >= 1 and max(lengths) <= min(LONGEST, RATIO * min(lengths)):
                kept += 1
                write("valid" if kept % EVERY == 0 else "train", (pair[0].lower(), pair[1].lower()))
        for one, other in tests:
            for a, b in in_step(segments(one), segments(other), (one.name, other.name)):
                write("test", (tokens[0](a).lower(), tokens[1](b).lower()))
    return Texts(counts, {"empty, long or of very unequal length": seen - kept})


def talk_lines(path: Path) -> Iterator[str]:
    """The sentences of train.tags: titles and descriptions are text, addresses and keywords are not."""
    for line in read_lines(path):
        if not re.search("<url>|<talkid>|<keywords>", line):
            yield re.sub("</?(title|description)>", "", line)


def segments(path: Path) -> Iterator[str]:
    """The sentences of a test set in XML."""
    for line in read_lines(path):
        for found in SEGMENT.finditer(line.encode()):
            yield b" ".join(found[1].split()).decode().replace("’", "'")
