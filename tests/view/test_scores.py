"""Scores by length as a picture."""

from __future__ import annotations

from pathlib import Path

import matplotlib.image as image
import numpy as np
import pytest

from regard.view.scores import LengthScores, Point, length_png


def scores(title: str, systems: list[str], words: tuple[str, ...] = ("1–5", "6–10")) -> LengthScores:
    points = [None, *(Point(20.0 + i, 1.5) for i in range(len(words) - 1))]
    metrics = {metric: dict.fromkeys(systems, points) for metric in ("BLEU", "chrF")}
    return LengthScores(title, words, [1_000] * len(words), metrics)


def has_colour(picture: np.ndarray, colour: tuple[int, int, int]) -> bool:
    return bool((np.abs(picture[..., :3] * 255 - np.array(colour)) < 12).all(axis=-1).any())


def test_one_row_per_test_set_and_one_colour_per_system(tmp_path: Path) -> None:
    first, second = (31, 58, 147), (194, 87, 26)
    length_png([scores("test", ["mine"])], tmp_path / "one.png")
    length_png([scores("test", ["mine", "$5_base$"]), scores("valid", ["mine", "$5_base$"])], tmp_path / "two.png")
    one, two = (image.imread(tmp_path / name) for name in ("one.png", "two.png"))
    assert two.shape[0] == pytest.approx(2 * one.shape[0], abs=2)
    assert two.shape[1] == one.shape[1]
    assert has_colour(one, first)
    assert not has_colour(one, second)
    assert has_colour(two, first)
    assert has_colour(two, second)
