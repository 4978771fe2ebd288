"""Named public corpora: fetched once into a cache, or taken from a folder, then read like any files.

The cache is $REGARD_DATA, else the user's cache folder. A corpus is a folder in it with aligned text, train.en and
train.de and so on, as published or compressed, and lock.json, which is written last: what was fetched, from where,
with which checksum.
"""

from __future__ import annotations

import datetime
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.data import assemble
from regard.data.download import PAUSES, Report, Say, download
from regard.data.files import ENDINGS, file_hash, locked, missing_folders, remove_empty, unequal
from regard.data.folder import KINDS, Folder
from regard.data.named import CORPORA, Named, Part
from regard.errors import RegardError, nearest

__all__ = ["CORPORA", "Named", "cache", "fetch", "fetched", "files", "named", "splits"]

FEWEST = 100  # pairs of a training text that may be a sample, and is not a mistake
WHOLE = 0.9  # of the pairs of a corpus, below which it is said not to be whole
Chosen = dict[str, list[tuple[Part, tuple[Path, ...]]]]  # split → its parts and the files they are in
Pieces = dict[str, list[tuple[Path, ...]]]  # split → texts: source and target of each part, or one table


def cache() -> Path:
    """Where corpora are kept: $REGARD_DATA, else the user's cache folder."""
    if os.environ.get("REGARD_DATA"):
        return Path(os.environ["REGARD_DATA"]).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").expanduser() / "regard"


def named(name: str) -> Named:
    if name not in CORPORA:
        raise RegardError(f"No corpus named {name}{nearest(name, CORPORA)}; there are {', '.join(CORPORA)}.")
    return CORPORA[name]


# --- what is there ---------------------------------------------------------------------------------------


def files(name: str, split: str, root: Path | None = None) -> tuple[Path, Path]:
    """The two files of a fetched split, source and target."""
    corpus = named(name)
    if split not in corpus.splits:
        raise RegardError(f"The corpus {name} has no split {split}; it has {', '.join(corpus.splits)}.")
    folder = (root or cache()) / name
    source, target = (find(folder, f"{split}.{language}") for language in corpus.languages)
    if source is None or target is None:
        if split in corpus.further and (folder / "lock.json").exists():
            raise RegardError(f"The corpus {name} was fetched without its split {split}, which was not at hand.")
        how = name if corpus.public else f"{name} --from FOLDER, for it has no public address"
        raise RegardError(f"The corpus {name} is not here yet: regard data fetch {how}.")
    return source, target


def splits(name: str, root: Path | None = None) -> tuple[str, ...]:
    """The splits a corpus has: once it is fetched, those that are really there."""
    corpus, folder = named(name), (root or cache()) / name
    if not (folder / "lock.json").exists():
        return corpus.splits
    return tuple(split for split in corpus.splits if find(folder, f"{split}.{corpus.languages[0]}"))


def find(folder: Path, stem: str) -> Path | None:
    return next((path for ending in ENDINGS if (path := folder / f"{stem}{ending}").is_file()), None)


def fetched(folder: Path) -> dict[str, Any] | None:
    """What lock.json says, where everything it names is there in its full size."""
    lock = read_lock(folder)
    texts = {name: size for split in lock.get("splits", {}).values() for name, size in split["files"].items()}
    whole = all((folder / name).is_file() and (folder / name).stat().st_size == size for name, size in texts.items())
    return lock if texts and whole else None


def read_lock(folder: Path) -> dict[str, Any]:
    try:
        lock: dict[str, Any] = json.loads((folder / "lock.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        raise RegardError(f"{folder / 'lock.json'} is damaged: delete it and fetch the corpus again.") from None
    return lock


# --- fetching --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Origin:
    """A file the corpus was made of."""

    file: str
    address: str  # or the path it was taken from
    size: int
    sha256: str


def fetch(
    name: str, corpus: Named | None = None, root: Path | None = None, origin: Path | None = None, again: bool = False,
    report: Report | None = None, say: Say | None = None, pauses: Sequence[float] = PAUSES,
) -> dict[str, Any]:  # fmt: skip
    """Bring a corpus into the cache, from its addresses or from the folder `origin`; returns what lock.json says.

    A corpus that is there already is left alone, except `again`.
    """
    corpus, folder, say = corpus or named(name), (root or cache()) / name, say or (lambda text: None)
    if not again and (lock := fetched(folder)):
        return lock
    if not origin and not corpus.public:
        raise RegardError(f"The corpus {name} has no public address: regard data fetch {name} --from FOLDER.")
    with fetching(folder):
        if origin:
            chosen, origins = parts_from_folder(name, corpus, origin, say)
        else:
            chosen, origins = download_parts(corpus, folder, report, say, pauses)
        building = folder / "building"
        shutil.rmtree(building, ignore_errors=True)
        (building / "text").mkdir(parents=True)
        pieces = unpack(chosen, building)
        texts = write_texts(corpus, pieces, building / "text")
        check_texts(name, corpus, texts, building / "text", say)
        return put_in_place(name, corpus, folder, texts, origins)


@contextmanager
def fetching(folder: Path) -> Iterator[None]:
    """The folder of a corpus, for us alone. After an error nothing stays of it but what a transfer can go on from."""
    new, mark = missing_folders(folder), folder / ".fetching"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(mark, f"Another process is fetching into {folder}: wait for it."):
        try:
            yield
        except BaseException:
            shutil.rmtree(folder / "building", ignore_errors=True)
            remove_empty([folder / "downloads"])
            mark.unlink(missing_ok=True)
            remove_empty(new or [folder])
            raise


def download_parts(
    corpus: Named, folder: Path, report: Report | None, say: Say, pauses: Sequence[float]
) -> tuple[Chosen, list[Origin]]:
    """Download what is not there yet, each file held against what was recorded the first time."""
    recorded = {entry["address"]: entry["sha256"] for entry in read_lock(folder).get("origins", [])}
    paths, origins = {}, []
    for address in corpus.addresses:
        path = folder / "downloads" / address.rpartition("/")[2]
        receipt = download(address, path, corpus.checksums.get(path.name, ""), report, say, pauses)
        if recorded.get(address, receipt.sha256) != receipt.sha256:
            path.unlink()
            raise RegardError(
                f"{address} has changed since it was first fetched (SHA-256 {receipt.sha256[:12]}… now, "
                f"{recorded[address][:12]}… in lock.json): delete {folder / 'lock.json'} to accept the new file."
            )
        paths[address] = path
        origins.append(Origin(path.name, address, receipt.size, receipt.sha256))
    chosen = {
        split: [(part, tuple(paths[address] for address in part.addresses)) for part in parts]
        for split, parts in corpus.parts.items()
    }
    return chosen, origins


def parts_from_folder(name: str, corpus: Named, origin: Path, say: Say) -> tuple[Chosen, list[Origin]]:
    """Find every part in a folder, as text or in its archive.

    Where something has to be done to the files, the text that is already made and what it is made of do not mix.
    """
    folder = Folder(origin)
    attempts = [KINDS] if corpus.form == "text" else [(kind,) for kind in KINDS]
    chosen, lacking = look(corpus, folder, attempts[0])
    for kinds in attempts[1:]:
        if lacking:
            other, still = look(corpus, folder, kinds)
            chosen, lacking = (other, still) if not still else (chosen, lacking)
    if lacking:
        missing = dict.fromkeys(word for part in lacking for word in folder.names(part, corpus.languages))
        raise RegardError(f"{origin} does not hold all of {name}; missing: {', '.join(missing)}.")
    for split in corpus.parts:
        if split not in chosen:
            say(f"{name}: without {split}, which is not in {origin}")
    paths = dict.fromkeys(path for parts in chosen.values() for _, pair in parts for path in pair)
    for path in paths:
        if "sample" in path.name:
            say(f"{name}: {path.name} is a sample, not the whole text")
    return chosen, [Origin(path.name, str(path), path.stat().st_size, file_hash(path)) for path in paths]


def look(corpus: Named, folder: Folder, kinds: Sequence[str]) -> tuple[Chosen, list[Part]]:
    """The parts of each split that are there whole, and the parts that are lacking and needed."""
    chosen, lacking = Chosen(), list[Part]()
    for split, parts in corpus.parts.items():
        found = [(part, folder.find(part, corpus.languages, kinds)) for part in parts]
        if all(paths for _, paths in found):
            chosen[split] = [(part, paths) for part, paths in found if paths]
        elif split not in corpus.further:
            lacking += [part for part, paths in found if not paths]
    return chosen, lacking


def unpack(chosen: Chosen, building: Path) -> Pieces:
    """Every part as text files; an archive is read once for all that is wanted from it."""
    wanted: dict[Path, list[str]] = {}
    for part, paths in (one for parts in chosen.values() for one in parts):
        for path, member in zip(paths, part.members, strict=False):
            if assemble.is_archive(path) and member not in wanted.setdefault(path, []):
                wanted[path].append(member)
    places = {}
    for archive, members in wanted.items():
        try:
            places[archive] = assemble.unpack(archive, members, building)
        except RegardError:
            if archive.parent == building.parent / "downloads":
                archive.unlink()
            raise
    pieces: Pieces = {}
    for split, parts in chosen.items():
        texts = [
            tuple(places[path][part.members[i]] if path in places else path for i, path in enumerate(paths))
            for part, paths in parts
        ]
        pieces[split] = list(dict.fromkeys(texts))  # parts that lie joined in one file are that file
    return pieces


def write_texts(corpus: Named, pieces: Pieces, folder: Path) -> assemble.Texts:
    """The aligned text of every split."""
    if corpus.form == "tatoeba":
        return assemble.split_table(pieces["train"][0][0], corpus.languages, folder)
    if corpus.form == "iwslt" and "train.tags" in pieces["train"][0][0].name:
        tests = [(one, other) for one, other in pieces["test"]]
        return assemble.tokenize_talks((pieces["train"][0][0], pieces["train"][0][1]), tests, corpus.languages, folder)
    counts = {split: write_split(split, corpus.languages, texts, folder) for split, texts in pieces.items()}
    return assemble.Texts(counts)


def write_split(split: str, languages: tuple[str, str], texts: list[tuple[Path, ...]], folder: Path) -> int:
    if len(texts) > 1 or texts[0][0].suffix in (".sgm", ".xml"):
        source, target = (folder / f"{split}.{language}" for language in languages)
        return assemble.join([(one, other) for one, other in texts], source, target)
    counts = []
    for path, language in zip(texts[0], languages, strict=True):
        ending = path.suffix if path.suffix in ENDINGS else ""
        shutil.copyfile(path, folder / f"{split}.{language}{ending}")
        counts.append(assemble.count_lines(path))
    if counts[0] != counts[1]:
        raise unequal((texts[0][0], texts[0][1]), (counts[0], counts[1]))
    return counts[0]


def check_texts(name: str, corpus: Named, texts: assemble.Texts, folder: Path, say: Say) -> None:
    """Whether this can be the corpus at all: every split says something, and the training text is not a stub."""
    for split in texts.pairs:
        for language in corpus.languages:
            path = find(folder, f"{split}.{language}")
            if path is None or not any(line.strip() for line in assemble.byte_lines(path)):
                raise RegardError(f"The {split} text of {name} is empty in {language}: these are not its files.")
    found, known = texts.pairs["train"], corpus.pairs
    if known and found < min(FEWEST, known):
        raise RegardError(f"The training text has {found:,} pairs, {name} about {known:,}: these are not its files.")
    if known and found < WHOLE * known:
        say(f"{name}: train has {found:,} pairs, the whole corpus about {known:,}")


def put_in_place(
    name: str, corpus: Named, folder: Path, texts: assemble.Texts, origins: list[Origin]
) -> dict[str, Any]:
    """Put the texts in their place, then write lock.json, then clear away what they were made of."""
    for split in corpus.splits:
        for language in corpus.languages:
            while old := find(folder, f"{split}.{language}"):
                old.unlink()
    entries: dict[str, Any] = {split: {"pairs": pairs, "files": {}} for split, pairs in texts.pairs.items()}
    for path in sorted((folder / "building" / "text").iterdir()):
        entries[path.name.split(".")[0]]["files"][path.name] = path.stat().st_size
        os.replace(path, folder / path.name)
    lock = {
        "name": name, "languages": list(corpus.languages), "licence": corpus.licence,
        "fetched": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "splits": entries, "left_out": texts.left_out, "origins": [asdict(origin) for origin in origins],
    }  # fmt: skip
    writing = folder / "lock.json.writing"
    writing.write_text(json.dumps(lock, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(writing, folder / "lock.json")
    for leftover in ("building", "downloads"):
        shutil.rmtree(folder / leftover, ignore_errors=True)
    return lock
