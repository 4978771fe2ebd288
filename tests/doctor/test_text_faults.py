"""Faults planted in clean text, one at a time: each must be named, with its file and its lines, and nothing else."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from regard.doctor.examine import examine
from regard.doctor.findings import Finding, Where

Lines = list[str]
Texts = dict[str, Lines]  # file name → lines
Documented = dict[str, dict[str, tuple[str, str]]]
LINES = (101, 202, 303, 404, 505, 606)


@dataclass(frozen=True)
class Fault:
    code: str
    plant: Callable[[Texts], object]
    file: str
    lines: tuple[int, ...] = ()  # exactly these; none: the whole file
    slack: int = 0  # lines by which the ends of a stretch may be missed
    also: tuple[str, ...] = ()  # what else is true then
    splits: tuple[str, ...] = ("train",)
    says: str = ""


def change(file: str, how: Callable[[str], str], lines: tuple[int, ...] = LINES) -> Callable[[Texts], None]:
    def plant(texts: Texts) -> None:
        for n in lines:
            texts[file][n - 1] = how(texts[file][n - 1])

    return plant


def insert(file: str, at: int, end: int | None = None) -> Callable[[Texts], None]:
    """A line too many at `at`; the one at `end`, or the last, is dropped."""

    def plant(texts: Texts) -> None:
        texts[file].insert(at - 1, "Das Wetter war gestern schön.")
        del texts[file][len(texts[file]) - 1 if end is None else end]

    return plant


def lose(file: str, at: int, end: int | None = None, keep_count: bool = True) -> Callable[[Texts], None]:
    def plant(texts: Texts) -> None:
        del texts[file][at - 1]
        if keep_count:
            texts[file].insert(len(texts[file]) if end is None else end - 1, "Das Wetter war gestern schön.")

    return plant


def rotate(texts: Texts) -> None:
    """Six targets change places."""
    target = texts["train.de"]
    kept = [target[n - 1] for n in LINES]
    for n, line in zip(LINES, kept[1:] + kept[:1], strict=True):
        target[n - 1] = line


def exchange(lines: tuple[int, ...]) -> Callable[[Texts], None]:
    def plant(texts: Texts) -> None:
        a, b = texts["train.en"], texts["train.de"]
        for n in lines:
            a[n - 1], b[n - 1] = b[n - 1], a[n - 1]

    return plant


def exchange_files(split: str) -> Callable[[Texts], None]:
    def plant(texts: Texts) -> None:
        a, b = f"{split}.en", f"{split}.de"
        texts[a], texts[b] = texts[b], texts[a]

    return plant


def copy_source(texts: Texts) -> None:
    for n in LINES:
        texts["train.en"][n - 1] = texts["train.de"][n - 1] = "The old man is reading a long letter in the garden."


def leave_untranslated(texts: Texts) -> None:
    for n in LINES:
        texts["train.de"][n - 1] = texts["train.en"][n - 1].replace("The ", "Now the ").replace(".", " at home.")


def repeat(texts: Texts) -> None:
    for file in ("train.en", "train.de"):
        texts[file][1000:1200] = texts[file][0:200]


def leak(
    split: str, n: int, how: Callable[[str], str] = str, sides: tuple[str, ...] = ("en", "de")
) -> Callable[[Texts], None]:
    def plant(texts: Texts) -> None:
        for side in sides:
            texts[f"train.{side}"][700 : 700 + n] = [how(line) for line in texts[f"{split}.{side}"][20 : 20 + n]]

    return plant


def rewrite(line: str) -> str:
    """Other case and punctuation, which prepare does not take for another sentence."""
    return f"* {line.replace(' ', '  ', 1).title().rstrip('.')} %"


def whole_file(file: str, how: Callable[[str], str]) -> Callable[[Texts], None]:
    return lambda texts: texts.update({file: [how(line) for line in texts[file]]})


def shuffle(texts: Texts) -> None:
    random.Random(3).shuffle(texts["train.de"])


def tokenise(line: str) -> str:
    return line.replace(".", " .").replace("?", " ?").replace(",", " ,")


def same_default(texts: Texts) -> None:
    for n in range(1, 1500, 25):
        texts["train.de"][n - 1] = "Dieser Text ist nicht verfügbar."


def misread(line: str) -> str:
    return line.encode("utf-8").decode("cp1252")


RAW = {"not-utf8": "Der Bäcker grüßt die müde Ärztin.".encode("latin-1")}
UMLAUTS = "Der Bäcker grüßt die müde Frau über der Brücke."
ALL_SPLITS = ("train", "valid", "test")

FROM_701, STRETCH = tuple(range(701, 1501)), tuple(range(401, 441))
STRANGERS = ("misaligned-pairs",)
FRENCH = "Le vieux chien est dans la maison avec les enfants et il ne dort pas."


def de(how: Callable[[str], str]) -> Callable[[Texts], None]:
    return change("train.de", how)


def en(how: Callable[[str], str]) -> Callable[[Texts], None]:
    return change("train.en", how)


def before(text: str) -> Callable[[str], str]:
    return lambda line: text + line


def page(texts: Texts) -> None:
    for file in ("train.en", "train.de"):
        texts[file][99] = " ".join(texts[file][:60])


LATE, EARLY = insert("train.de", 701), lose("train.de", 701)
LATE_FOR_A_WHILE, EARLY_FOR_A_WHILE = insert("train.de", 401, 440), lose("train.de", 401, 440)
LOST = lose("train.de", 801, keep_count=False)
MISREAD = "It’s true. ".encode().decode("cp1252")
DECOMPOSED = unicodedata.normalize("NFD", "Für ältere: ")
ODD_LENGTHS = ("length-ratio",)

FAULTS = {
    "target late from line 701 on": Fault("shifted", LATE, "train.de", FROM_701, 1, ODD_LENGTHS),
    "target early from line 701 on": Fault("shifted", EARLY, "train.de", FROM_701, 1, ODD_LENGTHS),
    "target late in lines 401–440": Fault("shifted", LATE_FOR_A_WHILE, "train.de", STRETCH, 1, ODD_LENGTHS),
    "target early in lines 401–440": Fault("shifted", EARLY_FOR_A_WHILE, "train.de", STRETCH, 1, ODD_LENGTHS),
    "whole target one line late": Fault("shifted", insert("train.de", 1), "train.de", tuple(range(1, 1501)), 1),
    "a target line lost": Fault(
        "shifted", LOST, "train.de", tuple(range(801, 1500)), 1, ("line-counts-differ", *ODD_LENGTHS)
    ),
    "files of unequal length": Fault("line-counts-differ", LOST, "train.de", also=("shifted", *ODD_LENGTHS)),
    "target shuffled": Fault("misaligned", shuffle, "train.de"),
    "six targets change places": Fault("misaligned-pairs", rotate, "train.de", LINES),
    "files exchanged": Fault("languages-swapped", exchange_files("train"), "train.en"),
    "valid files exchanged": Fault("languages-swapped", exchange_files("valid"), "valid.en", splits=("train", "valid")),
    "six pairs exchanged": Fault("lines-swapped", exchange(LINES), "train.en", LINES),
    "one pair exchanged": Fault("lines-swapped", exchange((202,)), "train.en", (202,)),
    "Ã¤ for ä": Fault("mojibake", de(lambda _: misread(UMLAUTS)), "train.de", LINES, 0, STRANGERS, says="read once"),
    "Ã¤ for ä, twice over": Fault(
        "mojibake", de(lambda _: misread(misread(UMLAUTS))), "train.de", LINES, 0, STRANGERS, says="read twice"
    ),
    "â€™ for ’": Fault("mojibake", en(before(MISREAD)), "train.en", LINES),
    "U+FFFD": Fault("replacement-character", de(lambda line: line.replace("e", "\ufffd", 1)), "train.de", LINES),
    "letters lost to ?": Fault("lost-characters", de(before("Die M?dchen gr??en. ")), "train.de", LINES),
    "HTML entities": Fault("html-entities", en(before("Tom &amp; Anna: ")), "train.en", LINES),
    "HTML tags": Fault("markup", en(lambda line: f"<b>{line}</b>"), "train.en", LINES),
    "\\u00e4 for ä": Fault("escaped-characters", de(before("M\\u00e4dchen: ")), "train.de", LINES),
    "Latin-1 bytes": Fault("not-utf8", lambda texts: None, "train.de", (7,), 0, STRANGERS),
    "control characters": Fault("control-characters", en(before("\x07")), "train.en", LINES),
    "zero-width spaces": Fault("zero-width-characters", de(before("Ja\u200bwohl: ")), "train.de", LINES),
    "direction marks": Fault("zero-width-characters", en(before("\u2067Now\u2069 ")), "train.en", LINES),
    "U+2028 inside a line": Fault("hidden-line-ends", en(before("Now\u2028")), "train.en", LINES),
    "accents decomposed": Fault("decomposed-accents", de(before(DECOMPOSED)), "train.de", LINES),
    "look-alike Cyrillic letters": Fault(
        "mixed-scripts", en(lambda line: line.replace("e", "е")), "train.en", LINES, 0, STRANGERS
    ),
    "Russian targets": Fault(
        "wrong-script", de(lambda _: "Старая собака спит в саду."), "train.de", LINES, 0, STRANGERS
    ),
    "French targets": Fault("other-language", de(lambda _: FRENCH), "train.de", LINES, 0, (*STRANGERS, *ODD_LENGTHS)),
    "source = target": Fault("copies", copy_source, "train.de", LINES),
    "untranslated targets": Fault("untranslated", leave_untranslated, "train.de", LINES, 0, STRANGERS),
    "empty targets": Fault("empty-lines", de(lambda _: ""), "train.de", LINES, 0, STRANGERS),
    "200 duplicates": Fault("duplicates", repeat, "train.en", tuple(range(1001, 1201))),
    "one default target": Fault(
        "same-line", same_default, "train.de", tuple(range(1, 1500, 25)), 0, (*STRANGERS, "duplicates", *ODD_LENGTHS)
    ),
    "targets five times too long": Fault("length-ratio", de(lambda line: " ".join([line] * 5)), "train.de", LINES),
    "a line of a whole page": Fault("length-outliers", page, "train.en", (100,)),
    "test sentences in train": Fault("leakage", leak("test", 4), "test.en", (21, 22, 23, 24), splits=ALL_SPLITS),
    "one valid sentence in train": Fault("leakage", leak("valid", 1), "valid.en", (21,), splits=ALL_SPLITS),
    "test sentences in train, near enough": Fault(
        "leakage", leak("test", 4, rewrite), "test.en", (21, 22, 23, 24), splits=ALL_SPLITS
    ),
    "test targets in train for other sources": Fault(
        "leakage", leak("test", 4, sides=("de",)), "test.de", (21, 22, 23, 24), 0, STRANGERS, splits=ALL_SPLITS
    ),
    "test targets late": Fault(
        "shifted", insert("test.de", 61), "test.de", tuple(range(61, 151)), 1, ODD_LENGTHS, splits=("train", "test")
    ),
    "test text lower-cased": Fault(
        "preprocessing-mismatch", whole_file("test.en", str.lower), "test.en", splits=("train", "test")
    ),
    "test text tokenised": Fault(
        "preprocessing-mismatch", whole_file("test.en", tokenise), "test.en", splits=("train", "test")
    ),
    "characters train never has": Fault(
        "unseen-characters", change("test.de", before("¿ø? "), (5, 6)), "test.de", (5, 6), splits=("train", "test")
    ),
}


def diagnose(name: str, clean: Path, folder: Path) -> list[Finding]:
    """What is found where one fault is planted."""
    fault = FAULTS[name]
    names = [f"{split}.{side}" for split in fault.splits for side in ("en", "de")]
    texts = {name: (clean / name).read_text(encoding="utf-8").splitlines() for name in names}
    fault.plant(texts)
    for file, lines in texts.items():
        (folder / file).write_bytes("".join(line + "\n" for line in lines).encode())
    if fault.code in RAW:
        raw = (folder / fault.file).read_bytes().split(b"\n")
        raw[fault.lines[0] - 1] = RAW[fault.code]
        (folder / fault.file).write_bytes(b"\n".join(raw))
    files = {split: (folder / f"{split}.en", folder / f"{split}.de") for split in fault.splits}
    return [found for found in examine(None, files) if found.severity != "note"]


def named(fault: Fault, found: list[Finding]) -> Finding | None:
    """The fault among what was found, if it is there and in its place."""
    for finding in found:
        if finding.code != fault.code or not any(file.endswith(fault.file) for file in finding.where.files):
            continue
        if fault.says not in finding.what:
            continue
        if fault.slack:
            ends = (finding.lines[0] - fault.lines[0], finding.lines[-1] - fault.lines[-1])
            if max(map(abs, ends)) <= fault.slack and len(finding.where.spans) == 1:
                return finding
        elif finding.lines == list(fault.lines):
            return finding
    return None


def test_the_results_list_every_fault(documented: Documented) -> None:
    assert {name: code for name, (code, _) in documented["text"].items()} == {n: f.code for n, f in FAULTS.items()}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named_with_its_place(
    name: str, clean: Path, tmp_path: Path, documented: Documented, place: Callable[[Where], str]
) -> None:
    found = diagnose(name, clean, tmp_path)
    mine = named(FAULTS[name], found)
    assert mine, [(f.code, str(f.where), f.what) for f in found]
    assert documented["text"][name] == (mine.code, place(mine.where))
    assert {finding.code for finding in found} <= {FAULTS[name].code, *FAULTS[name].also}, found


def test_clean_text_is_passed_in_silence(clean: Path) -> None:
    files = {split: (clean / f"{split}.en", clean / f"{split}.de") for split in ALL_SPLITS}
    assert not [found for found in examine(None, files, ("en", "de")) if found.severity != "note"]
