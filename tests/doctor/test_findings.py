"""How findings are told."""

from __future__ import annotations

from regard.doctor.findings import Finding, Where, at_lines, grade, report, share, shorten, verdict
from regard.doctor.texts import Sought, scan

ERROR = Finding("shifted", "error", Where(("a.en", "a.de"), ((3, 9),)), "Late.", "Move it.", ("x ‖ y",))
NOTE = Finding("duplicates", "note", at_lines("a.en", [2, 3, 7]), "Some.", "Keep one.")


def test_neighbouring_lines_are_joined_and_counted_again() -> None:
    assert NOTE.where.spans == ((2, 3), (7, 7))
    assert NOTE.lines == [2, 3, 7]
    assert str(NOTE.where) == "a.en:2–3, 7"


def test_notes_are_shown_when_asked_for() -> None:
    quiet, wordy = report([NOTE, ERROR]), report([NOTE, ERROR], verbose=True)
    assert "duplicates" not in quiet
    assert "duplicates" in wordy
    assert quiet.splitlines()[-1] == "1 error found (1 note: see --verbose); begin with shifted."
    assert "  a.en + a.de:3–9  [shifted]\n    Late. Move it.\n      x ‖ y" in quiet


def test_who_finds_a_symptom_is_sent_to_its_cause() -> None:
    collapsed, slow, odd = (
        Finding(code, severity, at_lines("a"), "What.", "Do.")
        for code, severity in (
            ("attention-collapsed", "error"),
            ("learning-rate-low", "warning"),
            ("markup", "warning"),
        )
    )
    assert verdict([collapsed, odd, slow]).endswith("begin with learning-rate-low.")
    assert verdict([collapsed, odd]).endswith("begin with attention-collapsed.")
    assert verdict([ERROR, slow]).endswith("begin with shifted.")


def test_nothing_found_is_said_in_a_sentence() -> None:
    assert verdict([]) == "Nothing wrong found."


def test_severity_follows_the_share_of_lines() -> None:
    assert grade(1, 10_000, tolerated=0.001) == "note"
    assert grade(1, 100, tolerated=0.001) == "warning"
    assert grade(30, 100, tolerated=0.001) == "error"


def test_shares_are_written_as_people_write_them() -> None:
    assert share(300, 300) == "300 of 300 lines (100 %)"
    assert share(1, 29_000) == "1 of 29,000 lines (0.0034 %)"


def test_what_cannot_be_seen_is_shown_as_an_escape() -> None:
    assert shorten("a\u200bb\x07") == "a\\u200bb\\x07"


def test_a_scan_gives_lines_across_its_chunks() -> None:
    import re

    lines = ["nothing here"] * 45_000
    for number in (1, 20_000, 20_001, 45_000):
        lines[number - 1] = "an x, and another x"
    assert scan(lines, {"x": Sought(re.compile("x"), "x")}) == {"x": [1, 20_000, 20_001, 45_000]}
