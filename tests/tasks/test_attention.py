"""What a translation looks at: the model's own weights, probabilities and words."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import regard
from regard.decode.translator import Translator
from regard.tasks.attention import ALTERNATIVES, attention_view, draw
from regard.view.document import LEVELS


@pytest.fixture(scope="module")
def translator(reverser: Path) -> Translator:
    return regard.load(reverser)


def test_a_view_has_what_capture_gives(translator: Translator) -> None:
    found = translator.search(["a b c d"])[0][0]
    with regard.capture(translator) as maps:
        translator.translate("a b c d")
    view = attention_view(translator, found)
    assert {one.name for one in view.maps} == set(maps)
    for one in view.maps:
        assert one.weights == pytest.approx(maps[one.name][0].numpy(), abs=1e-5)
    assert view.alignment is not None
    assert view.alignment.columns == ["a", "b", "c", "d"]
    assert view.alignment.weights.shape == (1, len(found.text.split()), 4)
    (links,) = translator.align([found])
    assert [(int(row.argmax()), t) for t, row in enumerate(view.alignment.weights[0])] == links


def test_steps_are_the_models_probabilities_of_its_output(translator: Translator) -> None:
    found = translator.search(["a b c d"])[0][0]
    steps = attention_view(translator, found).steps
    assert [step.token for step in steps] == translator.tokenizers.target.pieces(found.target_tokens)
    assert sum(math.log(step.probability) for step in steps) == pytest.approx(found.log_prob, abs=1e-4)
    for step in steps:
        values = [probability for _, probability in step.alternatives]
        assert values == sorted(values, reverse=True)
        assert len(values) == ALTERNATIVES
        assert sum(values) <= 1 + 1e-6
        told = dict(step.alternatives)
        assert told.get(step.token, step.probability) == pytest.approx(step.probability)


def test_a_given_output_is_looked_into_as_it_is(translator: Translator) -> None:
    given = translator.given("a b c", "c c c")
    view = attention_view(translator, given)
    pieces = translator.tokenizers.target.pieces(given.target_tokens)
    assert [step.token for step in view.steps] == pieces
    assert pieces[-1] == "</s>"
    logits = translator.feed([given.source_tokens], [given.target_tokens])[0].log_softmax(-1)
    expected = [float(row[token]) for row, token in zip(logits, given.target_tokens, strict=True)]
    assert [math.log(step.probability) for step in view.steps] == pytest.approx(expected, abs=1e-4)
    assert view.target == "c c c"


def test_the_page_of_many_sentences_shows_progress_and_stores_each(translator: Translator, tmp_path: Path) -> None:
    found = [best[0] for best in translator.search(["a b", "c d e", "f"])]
    told: list[int] = []
    page, png = draw(translator, found, tmp_path / "new", "look", told.append)
    assert told == [1, 2, 3]
    assert page.read_text(encoding="ascii").count('"steps":') == 3
    assert f'"levels":{LEVELS}' in page.read_text()
    assert png.exists()
