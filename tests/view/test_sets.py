"""Pictures of sets and of figures: what is drawn, and that it is drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.legend import Legend

from regard.view import line_png, table_png
from regard.view.curves import Panel, curves_png
from regard.view.drawing import GRID, SECOND
from regard.view.sets import (
    Clustering,
    Looks,
    Ratios,
    clusterings_picture,
    flat,
    image_looks_png,
    legends,
    looks_png,
    pale,
)


def test_elements_are_few_and_seeds_are_all() -> None:
    elements, seeds, inducing = (
        Looks("a", who, np.ones((count, 100))) for who, count in (("element", 100), ("seed", 5), ("inducing", 64))
    )
    assert elements.shown == [0, 33, 66, 99]
    assert seeds.shown == [0, 1, 2, 3, 4]
    assert len(inducing.shown) == 16
    assert [look.heading for look in (elements, seeds, inducing)] == [
        "a, 4 of 100 elements shown", "a", "a, 16 of 64 inducing points shown",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        ([0.249, 0.25, 0.251, 0.25], "×0.9960 to ×1.0040"),
        ([0.2, 0.3, 0.25, 0.25], "×0.80 to ×1.20"),
        ([1.0, 0.0, 0.0, 0.0], "×0.0 to ×4.0"),
    ],
)
def test_weights_that_are_nearly_alike_are_told_and_drawn_apart(weights: list[float], told: str) -> None:
    ratios = Ratios(np.array(weights))
    assert ratios.range == told
    assert (ratios.strength.min(), ratios.strength.max()) == (0, 1)


def test_what_rounding_makes_of_weights_that_are_alike_is_not_drawn() -> None:
    ratios = Ratios(np.array([0.25, 0.25 + 1e-7, 0.25 - 1e-7, 0.25]))
    assert set(ratios.strength) == {0.5}
    assert ratios.range == "×1.0000 to ×1.0000"


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


def kept_figures(monkeypatch: pytest.MonkeyPatch, module: str) -> list[Figure]:
    """Figures, in the place of files."""
    kept: list[Figure] = []
    monkeypatch.setattr(f"regard.view.{module}.save", lambda figure, *paths, dpi: kept.append(figure))
    return kept


def test_nearly_even_weights_have_different_colours_on_the_points(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, points = kept_figures(monkeypatch, "sets"), np.random.default_rng(0).standard_normal((30, 2))
    weights = np.linspace(0.99, 1.01, 30)[None] / 30
    looks_png(points, [Looks("pool.mab.attn", "seed", weights)], Path("none.png"), "a set")
    (drawn,) = kept[0].axes[0].collections
    colours = np.asarray(drawn.get_array())
    assert colours.min() == 0
    assert colours.max() == 1
    assert kept[0].axes[0].get_title(loc="left") == "pool.mab.attn\nseed 0: ×0.990 to ×1.010"


def test_images_have_numbers_remarks_frames_and_a_legend(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, images = kept_figures(monkeypatch, "sets"), np.zeros((6, 8, 8, 3), np.uint8)
    names = ["0", "1 (outlier)", "2", "3 (said)", "4", "5"]
    weights = np.full((6, 6), 1 / 6) + np.diag(np.full(6, 0.01))
    looks = [Looks("encoder.0.mab.attn", "element", weights), Looks("pool.mab.attn", "seed", weights[:1])]
    image_looks_png(images, names, looks, Path("none.png"), "a run · said image 3, is image 1")
    (figure,) = kept
    first, rows = figure.axes[:6], figure.axes[6:]
    assert [axes.get_title() for axes in first] == names
    assert [axes.get_title().endswith(")") for axes in first] == [frame(axes) != GRID for axes in first]
    lookers = [i for i, axes in enumerate(rows) if frame(axes) == SECOND]
    assert lookers == [row * 6 + element for row, element in enumerate([0, 2, 3, 5])]
    assert {rows[i].get_title() for i in lookers} == {"×1.060"}
    clear = [axes.images[0].get_alpha() for axes in rows]
    assert [clear[i] for i in lookers] == [1.0] * 4
    told = " ".join(text.get_text() for text in figure.texts)
    for words in ("4 of 6 elements shown", "×1 is 0.167", "orange frame", "said image 3"):
        assert words in told
    edges = [axes.get_position() for axes in figure.axes]
    assert max(edge.y1 for edge in edges) * figure.get_figheight() > figure.get_figheight() - 1, "no empty band on top"
    assert min(edge.y0 for edge in edges) > 0


def frame(axes: Axes) -> str:
    return to_hex(axes.spines["left"].get_edgecolor())


def test_a_component_has_one_colour_for_its_points_its_centre_and_its_ellipse(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = kept_figures(monkeypatch, "sets")
    mixture = np.full(2, 0.5), np.array([[0.0, 0.0], [5.0, 5.0]]), np.ones((2, 2))
    panel = Clustering(np.array([[0.0, 1.0], [5.0, 4.0], [6.0, 5.0]]), np.array([0, 1, 1]), mixture, mixture)
    clusterings_picture([panel], [Path("none.png")], "a run")
    axes = kept[0].axes[0]
    points, centres = axes.collections
    found = [patch for patch in axes.patches if patch.get_linestyle() in ("-", "solid")]
    colours = [to_hex(patch.get_edgecolor()) for patch in found]
    assert len(set(colours)) == len(axes.patches) - len(found) == 2
    assert [to_hex(colour) for colour in centres.get_facecolor()] == colours
    assert [to_hex(colour) for colour in points.get_facecolor()] == [to_hex(pale(colours[k])) for k in (0, 1, 1)]
    told = " ".join(words_of(kept[0].legends[0]))
    assert "two standard deviations" in told
    assert "those that drew the points" in told
    renderer = FigureCanvasAgg(kept[0]).get_renderer()
    kept[0].draw(renderer)
    legend = kept[0].legends[0].get_window_extent(renderer)
    assert 0 < legend.x0 < legend.x1 < kept[0].bbox.x1, "also of a single set"


def test_the_legend_says_what_colours_lines_and_weights_mean() -> None:
    figure = Figure(figsize=(6, 4))
    legends(figure, {"seed", "element"}, 200, (6, 4))
    told = [text.get_text() for text in figure.texts]
    assert any("0.005" in text and "200" in text for text in told)
    assert "each panel's smallest weight" in told
    assert next(text.get_text() for text in figure.legends[0].get_texts()) == "the element that looks"


def test_tables_with_and_without_the_papers_figures(tmp_path: Path) -> None:
    one, two = (1.0, 0.0), (2.0, 0.3)
    for name, paper in (("all", [one, two]), ("some", [None, two]), ("none", [None, None])):
        table_png(tmp_path / f"{name}.png", "Table", ["a", "b"], [(1.0, 0.1), (2.0, 0.0)], paper)
        assert (tmp_path / f"{name}.png").is_file()
    line_png(tmp_path / "line.png", "Figure", "points", {1: (0.4, 0.0), 4: (0.5, 0.1)}, {"rFF": 0.3})
    assert (tmp_path / "line.png").is_file()


def words_of(legend: Legend) -> list[str]:
    return [text.get_text() for text in legend.get_texts()]


def test_the_dotted_line_of_a_table_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = kept_figures(monkeypatch, "tables")
    for paper in ([(1.0, 0.0), (2.0, 0.3)], [None, (2.0, 0.3)]):
        table_png(tmp_path / "table.png", "Table", ["first", "second"], [(1.0, 0.1), (2.0, 0.0)], paper)
    whole, partly = (words_of(figure.legends[0]) for figure in kept)
    assert whole == ["where first stands", "mean and spread over seeds"]
    assert partly[0] == "where first (paper: second) stands"
    theirs = kept[0].axes[0]
    (points,) = theirs.containers
    ends = {tuple(end) for bars in points.lines[2] for bar in bars.get_segments() for end in bar.tolist()}  # type: ignore[attr-defined]
    assert ends == {(1.0, 1.0), (1.7, 0.0), (2.3, 0.0)}
    low, high = theirs.get_ylim()
    assert low < -0.4, "the lowest row, at 0, does not touch the axis"
    assert high > 1.4


def test_legends_of_curves_stand_below_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = kept_figures(monkeypatch, "curves")
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
