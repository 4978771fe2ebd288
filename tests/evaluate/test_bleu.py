"""Scores equal those of the sacrebleu command, and say how they were made."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.errors import RegardError
from regard.evaluate.bleu import Score, bleu, chrf, exact_match, installed, ter, tokenizer_of
from regard.evaluate.texts import judge

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
    assert score.interval is None
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


CHINESE = ["我们今天在家里吃饭。", "她明天去北京学习中文。", "狗在院子里睡觉。"], [
    "我们今天在家吃饭。", "她明天要去北京学中文。", "那只狗在院子里睡觉。",
]  # fmt: skip


@pytest.mark.parametrize(("language", "tokenizer"), [("zh", "zh"), ("zh-TW", "zh"), ("th", "char"), ("de", "13a")])
def test_a_language_is_split_as_the_sacrebleu_command_splits_it(tmp_path: Path, language: str, tokenizer: str) -> None:
    for name, lines in zip(("hyp", "ref"), CHINESE, strict=True):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", str(tmp_path / "ref"), "-i", str(tmp_path / "hyp"), "-tok", tokenizer]
    printed = subprocess.run([*command, "-f", "json", "-w", "9"], capture_output=True, check=True).stdout
    ours = bleu(*CHINESE, samples=0, language=language)
    assert ours.value == pytest.approx(json.loads(printed)["score"], abs=1e-8)
    assert f"tok:{tokenizer}|" in ours.signature


@pytest.mark.parametrize(("language", "words"), [("ja", "ja-mecab"), ("ko", "ko-mecab")])
def test_where_words_cannot_be_told_characters_are_scored(language: str, words: str) -> None:
    assert tokenizer_of(language) == (words if installed(words) else "char")


def test_lengths_are_counted_in_characters_where_there_are_no_spaces() -> None:
    (bucket,) = judge(CHINESE[0], [CHINESE[1]], language="zh", lengths=True, samples=0).buckets[:1]
    assert (bucket.words, bucket.unit) == ("6–10", "characters")
    (bucket,) = judge(CHINESE[0], [CHINESE[1]], language="de", lengths=True, samples=0).buckets
    assert (bucket.words, bucket.unit) == ("1–5", "words")


def test_a_single_sentence_has_no_interval() -> None:
    score = bleu(["a b c d e"], ["a b c d f"])
    assert score.interval is None
    assert "±" not in str(score)
