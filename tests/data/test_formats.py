"""Every kind of input: what its reader gives, what it leaves out with line and reason, what it refuses."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from regard.data.files import LONGEST_LINE
from regard.data.formats import Fields, Input, Left, Record, find, speaks
from regard.errors import RegardError

FIELDS = Fields(("en", "de"))
PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.ZstdCompressor().compress,
}  # fmt: skip

TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en" datatype="plaintext"/><body>
<tu tuid="1"><note>not a segment</note>
  <tuv xml:lang="EN"><seg>Press <bpt i="1">&lt;b&gt;</bpt>Start<ept i="1">&lt;/b></ept> &amp; <hi>wait</hi>.</seg></tuv>
  <tuv xml:lang="de-DE"><seg>Drücken Sie Start<ph>&lt;br/&gt;</ph> und warten.</seg></tuv>
  <tuv xml:lang="fr"><seg>Appuyez.</seg></tuv>
</tu>
<tu><tuv lang="en-us"><seg>Two
lines.</seg></tuv><tuv lang="de"><seg>Zwei Zeilen.</seg></tuv><tuv lang="de_AT"><seg>Zwo Zeilen.</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Only English.</seg></tuv><tuv xml:lang="fr"><seg>Français.</seg></tuv></tu>
</body></tmx>
"""
PO = """msgid ""
msgstr ""
"Language: LANGUAGE\\n"
"Content-Type: text/plain; charset=UTF-8\\n"

msgid "Open"
msgstr "Öffnen"

#, fuzzy
msgid "Close"
msgstr "Zumachen"

msgid "Later"
msgstr ""

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"

#~ msgid "Gone"
#~ msgstr "Weg"
"""
PAIRS = [("A dog runs.", "Ein Hund läuft."), ("Yes.", "Ja.")]
TSV = "".join(f"{a}\t{b}\n" for a, b in PAIRS)
JSONL = '{"en": "A dog runs.", "de": "Ein Hund läuft."}\n\n{"id": 7, "translation": {"de": "Ja.", "en": "Yes."}}\n'


def write(path: Path, text: str | bytes) -> Input:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return find(str(path), "train", FIELDS)


def texts(records: Input | list[Record]) -> list[tuple[str, str]]:
    return [(record[1], record[2]) for record in records if not isinstance(record, Left)]


def left(records: Input) -> list[tuple[int, str, bool]]:
    return [(record.line, record.why, record.malformed) for record in records if isinstance(record, Left)]


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize(("ending", "text"), [(".tsv", TSV), (".jsonl", JSONL), (".tmx", TMX), (".po", PO)])
def test_every_format_reads_the_same_however_compressed(tmp_path: Path, ending: str, text: str, packing: str) -> None:
    plain = list(write(tmp_path / f"a{ending}", text))
    packed = write(tmp_path / f"b{ending}{packing}", PACK[packing](text.encode()))
    assert list(packed) == plain
    assert len(texts(plain)) >= 2
    assert packed.position == packed.size


@pytest.mark.parametrize("packing", PACK)
def test_two_files_are_named_by_a_comma_or_by_what_they_begin_with(tmp_path: Path, packing: str) -> None:
    files = [tmp_path / f"a.{language}{packing}" for language in ("en", "de")]
    for path, side in zip(files, zip(*PAIRS, strict=True), strict=True):
        path.write_bytes(PACK[packing]("".join(f"{text}\r\n" for text in side).encode()))
    for name in (f"{files[0]},{files[1]}", str(tmp_path / "a")):
        assert list(find(name, "train", FIELDS)) == [(1, *PAIRS[0]), (2, *PAIRS[1])]
    assert texts(find(str(tmp_path / "a"), "train", Fields(("de", "en")))) == [(b, a) for a, b in PAIRS]


def test_files_of_unequal_length_name_both_counts(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("1\n2\n3\n4\n")
    (tmp_path / "a.de").write_text("1\n2\n")
    with pytest.raises(RegardError, match=r"a\.en has 4 lines but .*a\.de has 2"):
        list(find(str(tmp_path / "a"), "train", FIELDS))
    with pytest.raises(RegardError, match=r"a\.de has 2 lines but .*a\.en has 4"):
        list(find(f"{tmp_path}/a.de,{tmp_path}/a.en", "train", FIELDS))


@pytest.mark.parametrize("broken", ["a.en.gz", "a.de.xz"])
def test_of_two_archives_the_broken_one_is_named(tmp_path: Path, broken: str) -> None:
    text = "".join(f"{number}\n" for number in range(5000)).encode()
    for name in ("a.en.gz", "a.de.xz"):
        packed = PACK[Path(name).suffix](text)
        (tmp_path / name).write_bytes(packed[: len(packed) // 2] if name == broken else packed)
    with pytest.raises(RegardError, match=rf"{broken} is not a sound"):
        list(find(str(tmp_path / "a"), "train", FIELDS))


def test_a_line_that_is_no_utf8_is_left_out_with_its_partner(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_bytes(b"one\ntwo\nthree\n")
    (tmp_path / "a.de").write_bytes(b"eins\nzw\xffei\ndrei\n")
    source = find(str(tmp_path / "a"), "train", FIELDS)
    assert texts(source) == [("one", "eins"), ("three", "drei")]
    assert left(source) == [(2, "not UTF-8", True)]


@pytest.mark.parametrize("ending", [".tsv", ".jsonl", ".en"])
def test_a_file_of_utf16_is_refused_at_once(tmp_path: Path, ending: str) -> None:
    for name in ("a.de", f"a{ending}"):
        (tmp_path / name).write_bytes("a\tb\n".encode("utf-16"))
    name = "a" if ending == ".en" else f"a{ending}"
    with pytest.raises(RegardError, match=rf"a\{ending} is UTF-16.*iconv -f utf-16 -t utf-8"):
        list(find(str(tmp_path / name), "train", FIELDS))


def test_tsv_columns_are_chosen_by_number(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("7\tJa.\tYes.\n8\tshort\n9\tNein.\tNo.\textra\n")
    source = find(str(tmp_path / "a.tsv"), "train", Fields(("en", "de"), columns=(3, 2)))
    assert texts(source) == [("Yes.", "Ja."), ("No.", "Nein.")]
    assert left(source) == [(2, "fewer than 3 columns", True)]
    with pytest.raises(RegardError, match="no column 0"):
        Fields(("en", "de"), columns=(0, 1))


@pytest.mark.parametrize(
    ("first", "columns", "pairs"),
    [
        ("en\tde", None, [("a", "b")]),
        ("Source\tTarget\tscore", None, [("a", "b")]),
        ("id\tGerman\tEnglish", None, [("c", "b")]),
        ("id\tde\ten", (1, 2), [("a", "b")]),
        ("Ende\tEnd", None, [("Ende", "End"), ("a", "b")]),
    ],
)
def test_a_header_of_a_tsv_is_no_pair_and_names_its_columns(
    tmp_path: Path, first: str, columns: tuple[int, int] | None, pairs: list[tuple[str, str]]
) -> None:
    (tmp_path / "a.tsv").write_text(f"{first}\na\tb\tc\n")
    source = find(str(tmp_path / "a.tsv"), "train", Fields(("en", "de"), columns))
    assert texts(source) == pairs
    assert [(line, malformed) for line, _, malformed in left(source)] == ([(1, False)] if len(pairs) == 1 else [])


def test_a_table_of_more_than_two_columns_must_say_which(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"a\.tsv has 3 columns and no header that names en and de: .* --columns"):
        list(write(tmp_path / "a.tsv", "17\tJa.\tYes.\n18\tNein.\tNo.\n"))
    assert texts(write(tmp_path / "b.tsv", "Yes.\tJa.\t\nNo.\tNein.\tso\n")) == [("Yes.", "Ja."), ("No.", "Nein.")]


def test_a_first_record_with_other_keys_is_told_them(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", '{"src": "x", "tgt": "y"}\n')
    assert left(source) == [(1, "no text under en and de but under src, tgt", True)]


def test_jsonl_names_every_bad_record(tmp_path: Path) -> None:
    bad = ["{", '{"en": "x"}', '["x", "y"]', '{"en": 1, "de": "y"}', '{"en": "\\ud800", "de": "y"}', "null"]
    source = write(tmp_path / "a.jsonl", "\n".join([*bad, '{"en": "x", "de": "y"}']))
    assert texts(source) == [("x", "y")]
    assert [line for line, _, malformed in left(source) if malformed] == [1, 2, 3, 4, 5, 6]
    assert [why for _, why, _ in left(source)][:2] == ["not JSON", "no text under en and de"]


def test_a_number_of_any_length_is_no_record(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", '{"en": "x", "de": ' + "1" * 5_000 + '}\n{"en": "x", "de": "y"}\n')
    assert texts(source) == [("x", "y")]
    assert left(source) == [(1, "not JSON", True)]


@pytest.mark.parametrize("ending", [".tsv", ".jsonl", ".en"])
def test_a_line_of_any_length_is_left_out_and_named(tmp_path: Path, ending: str) -> None:
    record = {".tsv": b"x\ty\n", ".jsonl": b'{"en": "x", "de": "y"}\n', ".en": b"x\n"}[ending]
    (tmp_path / f"a{ending}").write_bytes(record + b"z" * 2 * LONGEST_LINE + b"\n" + record)
    (tmp_path / "a.de").write_bytes(b"y\n" * 3)
    source = find(str(tmp_path / ("a" if ending == ".en" else f"a{ending}")), "train", FIELDS)
    assert texts(source) == [("x", "y")] * 2
    assert left(source) == [(2, "longer than 16 MiB", True)]


def test_jsonl_keys_may_be_others(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"src": "x", "tgt": "y"}))
    assert texts(find(str(tmp_path / "a.jsonl"), "train", Fields(("en", "de"), keys=("src", "tgt")))) == [("x", "y")]


def test_tmx_drops_mark_up_keeps_text_and_knows_language_codes(tmp_path: Path) -> None:
    source = write(tmp_path / "a.tmx", TMX)
    assert list(source) == [
        (4, "Press Start & wait.", "Drücken Sie Start und warten."),
        (9, "Two\nlines.", "Zwei Zeilen."), (9, "Two\nlines.", "Zwo Zeilen."),
        Left(11, "not in both en and de, but en, fr", malformed=False),
    ]  # fmt: skip


def test_tmx_in_another_encoding_reads_by_its_declaration(tmp_path: Path) -> None:
    source = write(tmp_path / "a.tmx", TMX.replace("UTF-8", "UTF-16").encode("utf-16"))
    assert texts(source)[0][1] == "Drücken Sie Start und warten."


def test_an_entity_bomb_is_refused(tmp_path: Path) -> None:
    lines = ['<!ENTITY a0 "ha">', *(f'<!ENTITY a{i + 1} "{f"&a{i};" * 10}">' for i in range(9))]
    bomb = f"<!DOCTYPE tmx [{''.join(lines)}]><tmx><body><tu><tuv><seg>&a9;</seg></tuv></tu></body></tmx>"
    with pytest.raises(RegardError, match=r"a\.tmx declares entities of its own"):
        list(write(tmp_path / "a.tmx", bomb))


def test_tmx_that_breaks_off_is_an_error_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"a\.tmx is not well-formed XML: .*line 10"):
        list(write(tmp_path / "a.tmx", TMX[: TMX.index("Zwei")]))


def test_tmx_is_streamed(tmp_path: Path) -> None:
    """The first unit is there long before the file is read, and none is kept."""
    unit = '<tu><tuv xml:lang="en"><seg>one</seg></tuv><tuv xml:lang="de"><seg>eins</seg></tuv></tu>\n'
    source = write(tmp_path / "a.tmx", f"<tmx><body>\n{unit * 5_000}</body></tmx>")
    records = iter(source)
    assert next(records) == (2, "one", "eins")
    assert source.position < source.size / 4
    assert sum(1 for _ in records) == 4_999


def test_po_gives_finished_entries_and_pairs_plural_forms(tmp_path: Path) -> None:
    source = write(tmp_path / "a.po", PO.replace("LANGUAGE", "de"))
    assert texts(source) == [("Open", "Öffnen"), ("%d file", "%d Datei"), ("%d files", "%d Dateien")]
    assert [(why, malformed) for _, why, malformed in left(source)] == [
        ("fuzzy", False), ("untranslated", False), ("obsolete", False)
    ]  # fmt: skip


def test_a_catalogue_in_the_source_language_is_turned_round(tmp_path: Path) -> None:
    (tmp_path / "a.po").write_text(PO.replace("LANGUAGE", "de_DE"), encoding="utf-8")
    assert texts(find(str(tmp_path / "a.po"), "train", Fields(("de", "en"))))[0] == ("Öffnen", "Open")


def test_a_catalogue_with_one_plural_form_takes_the_plural(tmp_path: Path) -> None:
    entry = 'msgid ""\nmsgstr ""\n\nmsgid "a file"\nmsgid_plural "%d files"\nmsgstr[0] "%d 個"\n'
    assert texts(write(tmp_path / "a.po", entry)) == [("%d files", "%d 個")]


def test_a_broken_catalogue_names_the_line(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"a\.po, line 3, is not sound PO"):
        list(write(tmp_path / "a.po", 'msgid "x"\nmsgstr "y"\nnonsense here\n'))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", r"No input .*nothing: there is no such file, no fetched corpus .*nothing\.en nor .*nothing\.de"),
        ("nothing.tsv", r"No such file: .*nothing\.tsv"),
        ("a.txt", "is of no known kind"),
        ("a.en,a.de,a.fr", "two files are written with one comma"),
        ("folder.tmx", "is a folder"),
    ],
)
def test_inputs_that_are_none_are_explained(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    (tmp_path / "folder.tmx").mkdir()
    with pytest.raises(RegardError, match=message):
        find(str(tmp_path / name), "train", FIELDS)


def test_a_fetched_corpus_goes_by_its_name_in_either_direction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    (tmp_path / "multi30k-en-de").mkdir()
    for split in ("train", "test"):
        for language, text in zip(("en", "de"), PAIRS[split == "test"], strict=True):
            (tmp_path / "multi30k-en-de" / f"{split}.{language}").write_text(f"{text}\n", encoding="utf-8")
    assert texts(find("multi30k-en-de", "train", FIELDS)) == [PAIRS[0]]
    assert texts(find("multi30k-en-de:test", "train", FIELDS)) == [PAIRS[1]]
    assert texts(find("multi30k-en-de", "test", Fields(("de", "en")))) == [PAIRS[1][::-1]]
    with pytest.raises(RegardError, match="is en and de, not en and fr"):
        find("multi30k-en-de", "train", Fields(("en", "fr")))
    with pytest.raises(RegardError, match="not here yet: regard data fetch multi30k-en-fr"):
        find("multi30k-en-fr", "train", Fields(("en", "fr")))


def test_one_language_is_not_a_pair() -> None:
    with pytest.raises(RegardError, match="both en"):
        Fields(("en", "en"))


@pytest.mark.parametrize(
    ("code", "language", "same"),
    [("EN", "en", True), ("en-US", "en", True), ("en_GB", "en", True), ("eng", "en", False), ("pt-BR", "pt-br", True),
     ("pt-PT", "pt-BR", False), ("", "en", False)],
)  # fmt: skip
def test_language_codes_match_by_their_first_part(code: str, language: str, same: bool) -> None:
    assert speaks(code, language) is same
