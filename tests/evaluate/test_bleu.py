"""Scores equal those of the sacrebleu command, and say how they were made."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from regard.errors import RegardError
from regard.evaluate.bleu import bleu, chrf, exact_match

REFERENCES = [
    "The old house stands by the river.",
    "A dog — small & wet — sleeps!",
    "It's “quoted”, isn't it?",
    "x",
] * 5
HYPOTHESES = ["The old house is by the river.", "A dog - small & wet - sleeps!", "It's \"quoted\", isn't it?", ""] * 5


@pytest.mark.parametrize(("metric", "function"), [("bleu", bleu), ("chrf", chrf)])
def test_scores_and_intervals_equal_the_sacrebleu_command(tmp_path: Path, metric: str, function: object) -> None:
    for name, lines in (("ref", REFERENCES), ("hyp", HYPOTHESES)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", str(tmp_path / "ref"), "-i", str(tmp_path / "hyp"), "-m", metric]
    printed = subprocess.run(
        [*command, "--confidence", "-f", "json", "-w", "9"], capture_output=True, check=True
    ).stdout
    theirs = json.loads(printed)
    ours = function(HYPOTHESES, REFERENCES)  # type: ignore[operator]
    assert ours.value == pytest.approx(theirs["score"], abs=1e-8)
    assert ours.interval == pytest.approx(theirs["confidence_var"], abs=1e-6)
    assert ours.signature == theirs["signature"]


def test_a_corpus_too_small_for_an_interval_still_gets_its_score() -> None:
    """Some bootstrap samples of these lines have a chrF of exactly zero, where sacreBLEU gives up."""
    hypotheses, references = ["x", "yes"], ["p", "yes"]
    score = chrf(hypotheses, references)
    assert score.value == pytest.approx(chrf(hypotheses, references, samples=0).value)
    assert score.value > 0
    assert score.interval == 0


def test_exact_match_counts_equal_lines() -> None:
    assert exact_match(["a", "b", "c", "D"], ["a", "b", "x", "d"]).value == 50.0


def test_unequal_or_empty_inputs_are_refused() -> None:
    with pytest.raises(RegardError, match="2 translations cannot be scored against 1"):
        bleu(["a", "b"], ["a"])
    with pytest.raises(RegardError, match="nothing to score"):
        bleu([], [])
