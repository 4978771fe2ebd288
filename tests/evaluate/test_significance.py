"""Differences between systems: the p-values of the sacrebleu command, in a sentence."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from regard.evaluate.bleu import bleu, metrics
from regard.evaluate.counts import Counts, bootstrap
from regard.evaluate.lengths import by_length, ranges, table
from regard.evaluate.significance import Comparison, compare
from regard.evaluate.texts import judge

WORDS = [
    "the",
    "old",
    "house",
    "stands",
    "by",
    "a",
    "quiet",
    "river",
    "where",
    "small",
    "dogs",
    "sleep",
    "and",
    "children",
    "play",
    "all",
    "day",
]


def corpus(n: int, seed: int = 3) -> list[str]:
    chosen = random.Random(seed)
    return [" ".join(chosen.choices(WORDS, k=chosen.randint(4, 14))) + "." for _ in range(n)]


def damaged(lines: list[str], share: float, seed: int) -> list[str]:
    """Each word replaced by another with this probability."""
    chosen = random.Random(seed)
    return [" ".join(chosen.choice(WORDS) if chosen.random() < share else w for w in line.split()) for line in lines]


@pytest.mark.parametrize("shares", [(0.2, 0.3), (0.25, 0.26)], ids=["apart", "close"])
def test_p_values_equal_the_sacrebleu_command(tmp_path: Path, shares: tuple[float, float]) -> None:
    reference = corpus(60)
    ours, theirs = (damaged(reference, share, seed) for seed, share in enumerate(shares))
    for name, lines in (("ref", reference), ("ours", ours), ("theirs", theirs)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    number = r"([\d.]+)"
    resampled = command(tmp_path, "--paired-bs")
    before = re.findall(rf"{number} \({number} ± {number}\)", row(resampled, "Baseline: theirs"))
    after = re.findall(rf"{number} \({number} ± {number}\) \(p = {number}\)", row(resampled, "ours"))
    randomised = re.findall(rf"{number} \(p = {number}\)", row(command(tmp_path, "--paired-ar"), "ours"))
    judgement = judge(ours, [reference], theirs)
    assert [one.name for one in judgement.comparisons] == ["BLEU", "chrF", "TER"]
    assert len(before) == len(after) == len(randomised) == 3
    for i, one in enumerate(judgement.comparisons):
        value, _, interval, p = map(float, after[i])
        assert one.p_value == pytest.approx(p, abs=1e-4)
        assert one.p_randomised == pytest.approx(float(randomised[i][1]), abs=1e-4)
        assert one.value == judgement.scores[i].value == pytest.approx(value, abs=1e-5)
        assert one.baseline == judgement.baseline[i].value == pytest.approx(float(before[i][0]), abs=1e-5)
        assert judgement.scores[i].interval == pytest.approx(interval, abs=1e-4)
        assert judgement.baseline[i].interval == pytest.approx(float(before[i][2]), abs=1e-4)


def command(folder: Path, test: str) -> str:
    """What sacreBLEU prints of both systems; its JSON fails for chrF."""
    words = [sys.executable, "-m", "sacrebleu", "ref", "-i", "theirs", "ours", "-m", "bleu", "chrf", "ter", test]
    words += ["-f", "latex", "-w", "6", "--no-color"]
    return subprocess.run(words, capture_output=True, check=True, cwd=folder, text=True, encoding="utf-8").stdout


def row(printed: str, system: str) -> str:
    """A line of sacreBLEU's table without its mark of significance."""
    return next(line for line in printed.splitlines() if line.strip().startswith(system)).replace("*", "")


def test_a_large_difference_is_believed_and_none_is_not() -> None:
    reference = corpus(80)
    good, bad = damaged(reference, 0.1, 1), damaged(reference, 0.5, 2)
    for one in judge(good, [reference], bad).comparisons:
        assert one.believed
        assert one.better
        assert "better by" in str(one)
        assert "can be believed" in str(one)
    for one in judge(bad, [reference], good).comparisons:
        assert not one.better
        assert "worse by" in str(one)
    for one in judge(good, [reference], list(good)).comparisons:
        assert one.p_value == one.p_randomised == 1.0
        assert not one.believed
        assert "no difference" in str(one)


def test_lower_ter_is_better_and_both_tests_must_agree() -> None:
    lower = Comparison("TER", 30.0, 35.0, -5.0, 0.02, 0.2)
    assert lower.better
    assert str(lower) == (
        "TER = 30.00 against 35.00: better by 5.00, p = 0.020 and 0.200: this may be chance and cannot be believed."
    )
    assert not replace(lower, p_value=0.2, p_randomised=0.02).believed
    assert replace(lower, p_randomised=0.02).believed


def test_systems_of_equal_quality_are_rarely_believed_to_differ() -> None:
    """At most one in twenty by the test's own promise; of forty pairs more than five would be a wonder."""
    reference = corpus(60)
    metric, believed = metrics()["BLEU"](references=[reference]), 0
    for seed in range(40):
        pair = [Counts.of(metric, damaged(reference, 0.2, 2 * seed + i)) for i in range(2)]
        believed += compare("BLEU", pair, bootstrap(pair, 200), trials=200).believed
    assert believed <= 5


def test_buckets_hold_each_sentence_once_and_score_it_like_a_text_of_its_own() -> None:
    reference = corpus(50)
    texts = damaged(reference, 0.2, 1)
    metric = metrics()["BLEU"](references=[reference])
    buckets = by_length(reference, {"BLEU": [Counts.of(metric, texts)]}, samples=100, longest=(5, 10))
    assert [bucket.words for bucket in buckets] == ["1–5", "6–10", "11+"]
    assert sum(bucket.sentences for bucket in buckets) == 50
    long = [i for i, line in enumerate(reference) if len(line.split()) > 10]
    alone = bleu([texts[i] for i in long], [reference[i] for i in long], samples=100)
    score = buckets[-1].scores[0]["BLEU"]
    assert score
    assert score.value == pytest.approx(alone.value)
    assert score.interval == pytest.approx(alone.interval)


def test_short_sentences_have_no_bleu_and_empty_ranges_no_row() -> None:
    reference = ["yes", "no", " ".join(WORDS)]
    buckets = judge(reference, [reference], lengths=True).buckets
    assert [bucket.words for bucket in buckets] == ["1–5", "16–20"]
    assert buckets[0].scores[0]["BLEU"] is None
    assert buckets[1].scores[0]["BLEU"].value == pytest.approx(100)  # type: ignore[union-attr]
    rows = table(buckets, ["mine"]).splitlines()
    assert rows[0].split() == ["words", "sentences", "BLEU", "chrF"]
    assert rows[1].split()[:3] == ["1–5", "2", "–"]
    assert table(judge(reference, [reference], reference, lengths=True).buckets, ["mine", "yours"]).split()[:2] == [
        "mine",
        "yours",
    ]


def test_ranges_of_lengths_meet_without_gap() -> None:
    assert ranges((5, 10)) == ["1–5", "6–10", "11+"]


def test_the_smallest_p_values_are_bounds_and_never_nothing() -> None:
    found = Comparison("BLEU", 30.0, 20.0, 10.0, 1 / 1001, 1 / 10001)
    assert "p < 0.001 and < 0.001: the difference can be believed" in str(found)
    assert "p = 0.012 and < 0.001" in str(replace(found, p_value=0.012))
