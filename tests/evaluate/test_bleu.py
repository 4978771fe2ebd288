"""Scores equal those of the sacrebleu command, and say how they were made."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.errors import RegardError
from regard.evaluate.bleu import Score, bleu, chrf, exact_match, ter

REFERENCES = [
    "The old house stands by the river.",
    "A dog — small & wet — sleeps!",
    "It's “quoted”, isn't it?",
    "x",
] * 5
OTHERS = ["By the river stands an old house.", "A dog is asleep; it is small.", "It is quoted, is it not?", "x y"] * 5
HYPOTHESES = ["The old house is by the river.", "A dog - small & wet - sleeps!", "It's \"quoted\", isn't it?", ""] * 5

Metric = Callable[..., Score]


@pytest.mark.parametrize("references", [[REFERENCES], [REFERENCES, OTHERS]], ids=["one reference", "two references"])
@pytest.mark.parametrize(("metric", "function"), [("bleu", bleu), ("chrf", chrf), ("ter", ter)])
def test_scores_and_intervals_equal_the_sacrebleu_command(
    tmp_path: Path, metric: str, function: Metric, references: list[list[str]]
) -> None:
    files = [tmp_path / f"ref{i}" for i in range(len(references))]
    for file, lines in ((tmp_path / "hyp", HYPOTHESES), *zip(files, references, strict=True)):
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", *map(str, files), "-i", str(tmp_path / "hyp"), "-m", metric]
    printed = subprocess.run(
        [*command, "--confidence", "-f", "json", "-w", "9"], capture_output=True, check=True
    ).stdout
    theirs = json.loads(printed)
    ours = function(HYPOTHESES, *references)
    assert ours.value == pytest.approx(theirs["score"], abs=1e-8)
    assert ours.interval == pytest.approx(theirs["confidence_var"], abs=1e-5)
    assert ours.signature == theirs["signature"]


def test_a_tiny_corpus_gets_its_score_and_a_wide_interval() -> None:
    """Some bootstrap samples of these lines have a chrF of exactly zero, where sacreBLEU's own average gives up."""
    score = chrf(["x", "yes"], ["p", "yes"])
    assert score.value == pytest.approx(chrf(["x", "yes"], ["p", "yes"], samples=0).value)
    assert score.interval == pytest.approx(50)  # from nothing right to everything right


def test_without_samples_there_is_no_interval_and_the_signature_says_none() -> None:
    score = bleu(HYPOTHESES, REFERENCES, samples=0)
    assert score.interval == 0
    assert "bs:" not in score.signature


def test_exact_match_counts_lines_that_equal_any_reference() -> None:
    assert exact_match(["a", "b", "c", "D"], ["a", "b", "x", "d"]).value == 50.0
    assert exact_match(["a", "b", "c", "D"], ["a", "b", "x", "d"], ["?", "?", "c", "e"]).value == 75.0


def test_unequal_or_empty_inputs_are_refused() -> None:
    with pytest.raises(RegardError, match="2 translations cannot be scored against 1"):
        bleu(["a", "b"], ["a"])
    with pytest.raises(RegardError, match="2 translations cannot be scored against 3"):
        exact_match(["a", "b"], ["a", "b"], ["a", "b", "c"])
    with pytest.raises(RegardError, match="nothing to score"):
        bleu([], [])


def test_a_seed_that_is_no_number_gets_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "soon")
    with pytest.raises(RegardError, match="SACREBLEU_SEED"):
        bleu(HYPOTHESES, REFERENCES)
