"""The mask-predict benchmark: what it counts, on small models."""

from __future__ import annotations

from pathlib import Path

import pytest

import regard
from benchmarks.mask_predict import lines, measure
from regard.data.corpus import Corpus


def test_quality_and_tokens_a_call_are_those_of_the_translations(
    masked_reverser: Path, reverser: Path, reverser_test: Corpus
) -> None:
    pupil, teacher = regard.load(masked_reverser), regard.load(reverser)
    text = Corpus("test", reverser_test.source[:12], reverser_test.target[:12])
    options = {"iterations": 2, "length_candidates": 1}
    rows = measure({"teacher": (teacher, {"beam_size": 1}), "pupil": (pupil, options)}, text, rounds=2)
    assert rows["teacher"]["tokens_per_call"] == 1
    assert rows["teacher"]["bleu_to_teacher"] == pytest.approx(100)
    assert rows["teacher"]["speed_ups"] == [1, 1]
    found = pupil.search(text.source, **options)
    assert rows["pupil"]["tokens_per_call"] == sum(len(best[0].target_tokens) for best in found) / (2 * 12)
    assert rows["pupil"]["exact"] == sum(best[0].text == t for best, t in zip(found, text.target, strict=True)) / 12
    assert len(lines(rows)) == 4
