"""The check: passes what is the same, refuses what is not, and measures what has fewer bits."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

import regard
from regard.data.tokenizer import EOS
from regard.decode.margins import beam_margin
from regard.decode.state import Hypothesis
from regard.errors import RegardError
from regard.export.check import Comparison, Difference, Report, check, compare, search_for
from regard.export.formats import export

NEEDS = ("ctranslate2", "transformers")


def test_a_changed_weight_is_refused(trained: Path, tmp_path: Path, sentences: list[str]) -> None:
    """One matrix of one layer, a little off: no shape is wrong, and only the answers can tell."""
    with export(trained, "marian", tmp_path / "out") as exported:
        path = exported.folder / "model.safetensors"
        tensors = load_file(path)
        tensors["model.decoder.layers.1.fc2.weight"] *= 1.2
        save_file(tensors, path, metadata={"format": "pt"})
        report = check(exported, sentences)
        exported.accepted = report.passed
    assert not report.passed
    assert "REFUSED" in report.text()
    assert not (tmp_path / "out").exists()
    assert (tmp_path / "out.refused").is_dir()


def test_a_weight_changed_so_little_that_all_tokens_stay_is_refused_by_its_scores(
    trained: Path, tmp_path: Path, sentences: list[str]
) -> None:
    with export(trained, "marian", tmp_path / "out") as exported:
        path = exported.folder / "model.safetensors"
        tensors = load_file(path)
        tensors["final_logits_bias"][:, EOS] += 0.01
        save_file(tensors, path, metadata={"format": "pt"})
        report = check(exported, sentences[:5])
    assert not report.passed


def test_a_difference_passes_only_within_the_margin_and_the_share() -> None:
    def report(margins: list[float], sentences: int = 1000, scores: float = 0.0) -> Report:
        differences = [Difference(i, "a", "b", margin) for i, margin in enumerate(margins)]
        return Report("onnx", "float32", (1, 1), [Comparison("greedy", sentences, differences, scores)])

    assert report([]).passed
    assert report([9e-5, 1e-6]).passed  # two of a thousand, both within
    assert not report([9e-5, 1e-6, 1e-6]).passed  # more than 0.2 %
    assert not report([2e-4]).passed
    assert not report([], scores=2e-3).passed
    assert "line 0, margin 2.0e-04: 'a' here, 'b' there" in report([2e-4]).text()
    assert report([2e-4]).plain()["passed"] is False
    (comparison,) = report([float("inf")], scores=float("nan")).plain()["comparisons"]
    assert (comparison["differences"][0]["margin"], comparison["scores"]) == (None, None)


@pytest.mark.parametrize("bad", range(3))
def test_a_score_that_is_no_number_passes_nowhere(trained: Path, sentences: list[str], bad: int) -> None:
    translator = regard.load(trained, device="cpu")
    ours = [Hypothesis([7, EOS], -1.0, -1.0) for _ in range(3)]
    theirs = [Hypothesis([7, EOS], float("nan") if i == bad else -1.0, -1.0) for i in range(3)]
    sources = translator.tokenizers.source.encode(sentences[:3])
    differences, apart = compare(translator, sources, ours, theirs, [0, 1, 2], search_for("greedy"))
    assert not Comparison("greedy", 3, differences, apart).exact


def test_differences_are_told_by_their_lines(trained: Path, sentences: list[str]) -> None:
    translator = regard.load(trained, device="cpu")
    (source,) = translator.tokenizers.source.encode(sentences[:1])
    ours, theirs, config = [7, 8, EOS], [7, 9, EOS], search_for("beam 4")
    found = [Hypothesis(ours, -1.0, 0.0)], [Hypothesis(theirs, -1.0, 0.0)]
    (difference,), _ = compare(translator, [source], *found, [4], config)
    assert difference.line == 5
    assert difference.margin == beam_margin(translator, source, ours, theirs, config)


@pytest.mark.parametrize("quantization", ["int8", "int16"])
def test_fewer_bits_are_measured_against_float32_and_references(
    trained: Path, tmp_path: Path, sentences: list[str], quantization: str
) -> None:
    references = [" ".join(reversed(sentence.split())) for sentence in sentences]
    with export(trained, "ctranslate2", tmp_path / "out", quantization) as exported:
        report = check(exported, sentences, references)
    for comparison in report.comparisons:
        quality = comparison.quality
        assert quality["BLEU to float32"] > 50
        assert quality["ΔBLEU"] == pytest.approx(0.0, abs=25)
        assert set(quality) == {"BLEU to float32", "chrF to float32", "BLEU", "ΔBLEU", "chrF", "ΔchrF"}
    assert report.passed
    assert "ΔBLEU" in report.text()


def test_a_ruined_quantised_model_is_refused() -> None:
    comparison = Comparison("greedy", 10, [], 0.0, quality={"BLEU to float32": 1.0, "chrF to float32": 12.0})
    assert not Report("ctranslate2", "int8", (1, 1), [comparison]).passed


def test_files_that_cannot_be_checked_with_are_named(trained: Path, tmp_path: Path) -> None:
    with export(trained, "safetensors", tmp_path / "out") as exported:
        with pytest.raises(RegardError, match="nothing to check with"):
            check(exported, ["", "  "])
        with pytest.raises(RegardError, match="2 sentences cannot be scored against 1 references"):
            check(exported, ["a b", "c"], ["b a"])
