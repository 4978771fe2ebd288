"""Pictures of sets and of figures: what is drawn, and that it is drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.legend import Legend

from regard.view import line_png, table_png
from regard.view.curves import Panel, curves_png
from regard.view.sets import Looks, chosen, flat, legends, looks_png


def test_elements_are_few_and_seeds_are_all() -> None:
    assert chosen(Looks("a", "element", np.ones((100, 100)))) == [0, 33, 66, 99]
    assert chosen(Looks("a", "seed", np.ones((5, 100)))) == [0, 1, 2, 3, 4]
    assert len(chosen(Looks("a", "inducing", np.ones((64, 100))))) == 16


def test_three_coordinates_are_seen_at_an_angle() -> None:
    up, aside = flat(np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]))
    assert up[0] == 0
    assert up[1] == pytest.approx(np.cos(np.radians(25)))
    assert aside[0] == pytest.approx(np.cos(np.radians(30)))


@pytest.mark.parametrize("d", [2, 3])
def test_looks_are_drawn_on_the_points(tmp_path: Path, d: int) -> None:
    points = np.random.default_rng(0).standard_normal((30, d))
    looks = [Looks("encoder.0.mab.attn", "element", np.eye(30)), Looks("pool.mab.attn", "seed", np.ones((2, 30)) / 30)]
    looks_png(points, looks, tmp_path / "looks.png", "a set")
    whole = imread(tmp_path / "looks.png")
    looks_png(points, looks[:1], tmp_path / "elements.png", "a set")
    assert whole.shape[0] > imread(tmp_path / "elements.png").shape[0]


def test_the_legend_says_what_colours_lines_and_weights_mean() -> None:
    figure = Figure(figsize=(6, 4))
    legends(figure, {"seed", "element"}, 200, (6, 4))
    told = [text.get_text() for text in figure.texts]
    assert any("0.005" in text and "200" in text for text in told)
    assert "the panel's largest" in told
    assert next(text.get_text() for text in figure.legends[0].get_texts()) == "the element that looks"


def test_tables_with_and_without_the_papers_figures(tmp_path: Path) -> None:
    for name, paper in (("all", [1.0, 2.0]), ("some", [None, 2.0]), ("none", [None, None])):
        table_png(tmp_path / f"{name}.png", "Table", ["a", "b"], [(1.0, 0.1), (2.0, 0.0)], paper)
        assert (tmp_path / f"{name}.png").is_file()
    line_png(tmp_path / "line.png", "Figure", "points", {1: (0.4, 0.0), 4: (0.5, 0.1)}, {"rFF": 0.3})
    assert (tmp_path / "line.png").is_file()


def words_of(legend: Legend) -> list[str]:
    return [text.get_text() for text in legend.get_texts()]


def test_the_dotted_line_of_a_table_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Figure] = []
    monkeypatch.setattr("regard.view.tables.save", lambda figure, path, dpi: kept.append(figure))
    for paper in ([1.0, 2.0], [None, 2.0]):
        table_png(tmp_path / "table.png", "Table", ["first", "second"], [(1.0, 0.1), (2.0, 0.0)], paper)
    whole, partly = (words_of(figure.legends[0]) for figure in kept)
    assert whole == ["where first stands", "mean and spread over seeds"]
    assert partly[0] == "where first (paper: second) stands"


def test_legends_of_curves_stand_below_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Figure] = []
    monkeypatch.setattr("regard.view.curves.save", lambda figure, path, dpi: kept.append(figure))
    line = [(1.0, 1.0), (2.0, 3.0)]
    apart = [Panel("a", "x", "y", {"RNN": line, "LSTM": line}), Panel("b", "x", "y", {"clipped": line})]
    curves_png(tmp_path / "apart.png", "apart", apart)
    curves_png(tmp_path / "alike.png", "alike", [apart[0], apart[0]])
    own, shared = kept
    renderer = FigureCanvasAgg(own).get_renderer()
    own.draw(renderer)
    for axes, panel in zip(own.axes, apart, strict=True):
        legend = axes.get_legend()
        assert legend is not None
        assert words_of(legend) == list(panel.lines)
        assert legend.get_window_extent(renderer).y1 < axes.get_window_extent(renderer).y0
        assert legend.get_window_extent(renderer).y0 >= 0
    assert words_of(shared.legends[0]) == ["RNN", "LSTM"]
