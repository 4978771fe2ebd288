"""The report of a preparation: what is counted, and how it is said."""

from __future__ import annotations

import json

from regard.data.tally import EXAMPLES, HeldOut, InputTally, Tally


def test_records_left_out_are_counted_by_reason_and_the_first_are_named() -> None:
    one = InputTally("a.po", ["a.po"], 100)
    for line in range(1, 31):
        one.leave(line, "fuzzy", malformed=False)
    one.leave(40, "not UTF-8", malformed=True)
    assert one.malformed == 1
    fuzzy, damaged = one.left_out
    assert fuzzy.lines == list(range(1, EXAMPLES + 1))
    assert str(fuzzy).startswith("30 fuzzy (lines 1, 2, 3")
    assert str(fuzzy).endswith("10, …)")
    assert str(damaged) == "1 not UTF-8 (line 40)"


def test_speed_leaves_out_learning_the_tokenizer() -> None:
    tally = Tally(("en", "de"), [InputTally("a", ["a"], 1, pairs=1000)])
    tally.clock.wall.update({"cleaning": 4.0, "tokenizer": 100.0, "encoding": 6.0})
    assert tally.pairs_per_minute == 6000


def test_the_report_is_plain_json_and_says_what_near_means() -> None:
    tally = Tally(("en", "de"), [InputTally("a", ["a"], 1, pairs=10)], {"valid": HeldOut([], 3, [2])}, kept=8)
    tally.dropped["near duplicate"] = 2
    again = json.loads(json.dumps(tally.plain()))
    assert again["read"] == 10
    assert again["held_out"]["valid"]["empty_lines"] == [2]
    near = next(line for line in tally.text().splitlines() if line.startswith("near duplicate"))
    assert near.split()[2:4] == ["2", "20.00%"]
    assert "other case, punctuation, spacing or numbers" in near
