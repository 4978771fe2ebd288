"""The PNGs: real pictures, which change when what they show changes."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread

from regard.view import AttentionMap, AttentionView, attention_png, loss_curve_png, named_every
from regard.view.labels import as_read
from regard.view.pictures import _Sizes

ROWS, COLUMNS = ["▁Ein", "▁Hund", "$x^$", "</s>"], ["▁A", "▁dog", "$\\frac{"]


def view_of(*names: str, strong: int = 0) -> AttentionView:
    weights = np.full((2, len(ROWS), len(COLUMNS)), 0.05, dtype=np.float32)
    weights[:, :, strong] = 0.9
    return AttentionView("run_$1$", "A dog", "Ein Hund", [AttentionMap(name, ROWS, COLUMNS, weights) for name in names])


def drawn(view: AttentionView, path: Path, name: str | None = None) -> np.ndarray:
    attention_png(view, path, name)
    return imread(path)


def test_attention_picture_follows_the_weights(tmp_path: Path) -> None:
    name = "decoder.layers.0.cross_attn"
    first = drawn(view_of(name, strong=0), tmp_path / "a.png")
    again = drawn(view_of(name, strong=0), tmp_path / "b.png")
    other = drawn(view_of(name, strong=2), tmp_path / "c.png")
    assert np.array_equal(first, again)
    assert first.shape == other.shape
    assert not np.array_equal(first, other)


def test_attention_picture_shows_cross_attention_unless_told_otherwise(tmp_path: Path) -> None:
    cross = [f"decoder.layers.{layer}.cross_attn" for layer in range(2)]
    both = view_of("encoder.layers.0.self_attn", *cross)
    assert np.array_equal(drawn(both, tmp_path / "a.png"), drawn(view_of(*cross), tmp_path / "b.png"))
    one = drawn(both, tmp_path / "c.png", name="encoder.layers.0.self_attn")
    assert one.shape[0] < drawn(both, tmp_path / "d.png").shape[0]


def test_attention_picture_without_cross_attention_shows_what_there_is(tmp_path: Path) -> None:
    assert drawn(view_of("pool.0.mab"), tmp_path / "a.png").size > 0


@pytest.mark.parametrize("n_elements", [2, 30])
def test_no_title_of_a_set_s_heads_is_printed_over_another(monkeypatch: pytest.MonkeyPatch, n_elements: int) -> None:
    kept: list[Figure] = []
    monkeypatch.setattr("regard.view.pictures.save", lambda figure, path, dpi: kept.append(figure))
    elements = [f"{i} (fits)" for i in range(n_elements)]
    maps = [
        AttentionMap(name, elements[:rows], elements, np.full((4, min(rows, n_elements), n_elements), 0.05, np.float32))
        for name, rows in (("sets.encoder.0.collect.attn", 2), ("encoder.0.distribute.attn", 400), ("pool.mab.attn", 1))
    ]
    title = "set-max-regression-with-a-long-name · test set 2 · answer 52.6"
    attention_png(AttentionView(title, "a set", "an answer", maps), Path("none.png"))
    (figure,) = kept
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    titles = [axes._left_title for axes in figure.axes]  # type: ignore[attr-defined]
    boxes = [text.get_window_extent(renderer) for text in titles]
    heads = [box for text, box in zip(titles, boxes, strict=True) if text.get_text().startswith("head")]
    assert not any(a is not b and a.overlaps(b) for a in heads for b in heads)
    named = [(text.get_text(), box) for text, box in zip(titles, boxes, strict=True) if "\n" in text.get_text()]
    assert [text.split("\n")[0] for text, _ in named] == [one.name for one in maps]
    assert all(box.x1 <= figure.bbox.x1 for box in boxes)
    told = [text.get_text() for text in figure.texts]
    assert told[0].startswith("set-max-regression-with-a-long-name")
    assert not any("attn" in text for text in told)


def test_a_single_row_is_no_tall_block(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Figure] = []
    monkeypatch.setattr("regard.view.pictures.save", lambda figure, path, dpi: kept.append(figure))
    names = [f"{i}" for i in range(20)]
    own, pooled = (
        AttentionMap(name, names[:rows], names, np.full((1, rows, 20), 0.05, np.float32))
        for name, rows in (("encoder.0.mab.attn", 20), ("pool.mab.attn", 1))
    )
    attention_png(AttentionView("a run", "a set", "an answer", [own, pooled]), Path("none.png"))
    (figure,) = kept
    many, one = (axes.get_position() for axes in figure.axes)
    assert one.height * figure.get_figheight() < 0.3
    assert many.height * figure.get_figheight() > 3
    assert one.y0 > 0
    assert one.y1 < many.y0


def test_a_run_with_one_point_of_training_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Figure] = []
    monkeypatch.setattr("regard.view.pictures.save", lambda figure, path, dpi: kept.append(figure))
    for steps in ([60], [60, 120]):
        loss_curve_png([{"kind": "train", "step": step, "loss": 2.0} for step in steps], Path("none.png"), "a run")
    markers = [figure.axes[0].lines[0].get_marker() for figure in kept]
    assert markers == ["o", ""]


def test_unknown_map_is_answered_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nearest is 'decoder\.layers\.0\.cross_attn'"):
        attention_png(view_of("decoder.layers.0.cross_attn"), tmp_path / "a.png", name="decoder.layer.0.cross")


def test_a_picture_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        attention_png(AttentionView("", "", "", []), tmp_path / "a.png")
    empty = AttentionMap("x", [], ["a"], np.zeros((1, 0, 1), dtype=np.float32))
    with pytest.raises(ValueError, match="nothing to draw"):
        attention_png(AttentionView("", "", "", [empty]), tmp_path / "a.png")


def test_subwords_are_written_as_they_are_read() -> None:
    assert as_read(["▁Der", "▁Gar", "ten", ".", "▁", "</s>"]) == ["Der", "Gar", "·ten", ".", " ", "</s>"]
    assert as_read(["a", "·", "(NP"]) == ["a", "·", "(NP"]  # no subwords


def wide_view(n_words: int, heads: int = 1) -> AttentionView:
    words = [f"▁word{i}" for i in range(n_words)]
    weights = np.full((heads, n_words, n_words), 1 / n_words, dtype=np.float32)
    return AttentionView("a run", " ".join(words), " ".join(words), [AttentionMap("cross_attn", words, words, weights)])


@pytest.mark.parametrize("n_words", [2, 9, 400])
def test_no_line_of_the_caption_is_wider_than_the_picture(n_words: int) -> None:
    view = wide_view(n_words)
    sizes = _Sizes.of(view, view.maps)
    figure = Figure(figsize=(sizes.width, sizes.height), dpi=100)
    renderer = FigureCanvasAgg(figure).get_renderer()
    legend = " ".join(line for line, *_ in sizes.caption)
    assert "what is looked at" in legend
    for line, points, _, weight in sizes.caption:
        text = figure.text(0.2 / sizes.width, 0.5, line, fontsize=points, fontweight=weight)
        assert text.get_window_extent(renderer).x1 <= sizes.width * 100


def test_a_long_sentence_gives_a_picture_of_bounded_size_that_names_some_tokens(tmp_path: Path) -> None:
    assert named_every(wide_view(30, heads=8)) == 1
    long = wide_view(400, heads=4)
    assert named_every(long) > 1
    height, width, _ = drawn(long, tmp_path / "a.png").shape
    assert height * width <= 16e6
    sizes = _Sizes.of(long, long.maps)
    assert any("HTML" in line for line, *_ in sizes.caption)


def test_loss_curve_gains_a_panel_when_bleu_is_logged(tmp_path: Path) -> None:
    train = [{"kind": "train", "step": step, "loss": 5 / step, "learning_rate": 1e-3} for step in (1, 2, 3)]
    valid = [{"kind": "valid", "step": step, "loss": 6 / step} for step in (2, 3)]
    loss_curve_png([*train, *valid], tmp_path / "a.png", "run")
    loss_curve_png([*train, *({**one, "bleu": 30.0} for one in valid)], tmp_path / "b.png", "run")
    without, with_bleu = imread(tmp_path / "a.png"), imread(tmp_path / "b.png")
    assert with_bleu.shape[0] > without.shape[0]
    assert with_bleu.shape[1] == without.shape[1]


def test_loss_curve_takes_the_later_of_two_lines_for_a_step(tmp_path: Path) -> None:
    before = [{"kind": "train", "step": 1, "loss": 5.0}, {"kind": "train", "step": 2, "loss": 9.0}]
    resumed = [{"kind": "train", "step": 2, "loss": 4.0}, {"kind": "train", "step": 3, "loss": 3.0}]
    loss_curve_png([*before, *resumed], tmp_path / "a.png", "run")
    loss_curve_png([before[0], *resumed], tmp_path / "b.png", "run")
    assert np.array_equal(imread(tmp_path / "a.png"), imread(tmp_path / "b.png"))


@pytest.mark.parametrize("records", [[], [{"kind": "start"}], [{"kind": "valid", "step": 1, "loss": float("nan")}]])
def test_loss_curve_of_a_log_with_nothing_to_draw_is_still_a_picture(records: list, tmp_path: Path) -> None:
    loss_curve_png(records, tmp_path / "a.png", "run")
    assert imread(tmp_path / "a.png").size > 0
