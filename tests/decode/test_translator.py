"""The translator: text in, text out, whatever the batch; attention and alignments of what came out."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.data.corpus import Corpus
from regard.data.tokenizer import EOS
from regard.decode.alignment import pharaoh
from regard.decode.phrases import edged
from regard.decode.recorded import BENCHES
from regard.decode.request import Request, Translation
from regard.decode.state import Hypothesis
from regard.decode.stream import Asked, LineFormat, LineTranslator, Verifier
from regard.decode.translator import Translator
from regard.decode.wishes import Wish
from regard.errors import RegardError
from regard.training.start import fit


@pytest.fixture(scope="module")
def translator(reverser: Path) -> Translator:
    return regard.load(reverser)


@pytest.fixture(scope="module")
def sentences(reverser_test: Corpus) -> list[str]:
    return reverser_test.source


@pytest.mark.parametrize("beam_size", [1, 4])
def test_translations_do_not_depend_on_batch_size_or_order(
    translator: Translator, sentences: list[str], beam_size: int
) -> None:
    """The promise: the same tokens, except where two candidates lay within 1e-4; at most 0.2 % of a test set."""
    reference = translator.search(sentences, beam_size=beam_size, batch_sentences=1)
    for batch in (7, 64):
        order = random.Random(batch).sample(range(len(sentences)), len(sentences))
        found = translator.search([sentences[i] for i in order], beam_size=beam_size, batch_sentences=batch)
        differing = 0
        for i, (best, *_) in zip(order, found, strict=True):
            alone = reference[i][0]
            assert best.score == pytest.approx(alone.score, abs=1e-4)
            differing += best.target_tokens != alone.target_tokens
        assert differing <= 0.002 * len(sentences)


def test_one_sentence_or_many_in_the_same_order(translator: Translator, sentences: list[str]) -> None:
    many = translator.translate(sentences[:20])
    assert many == [translator.translate(sentence) for sentence in sentences[:20]]


def test_wrong_options_end_in_a_sentence(translator: Translator) -> None:
    for n_best in (0, -1):
        with pytest.raises(RegardError, match=f"n_best = {n_best} must be at least 1"):
            translator.search(["a b"], n_best=n_best)
    for key, hint in (("beam", "beam_size"), ("penalty", "length_penalty"), ("temprature", "temperature")):
        with pytest.raises(RegardError, match=rf"There is no decoding option {key} \(did you mean {hint}\?\)"):
            translator.translate("a b", **{key: 3})


def test_an_empty_sentence_translates_to_itself_and_moves_nothing(translator: Translator, sentences: list[str]) -> None:
    texts = translator.translate(["", sentences[0], "   ", sentences[1]])
    assert texts == ["", translator.translate(sentences[0]), "", translator.translate(sentences[1])]


def test_n_best_lists_are_sorted_distinct_and_begin_with_the_best(translator: Translator, sentences: list[str]) -> None:
    for sentence, found in zip(sentences, translator.search(sentences[:20], n_best=4), strict=False):
        scores = [one.score for one in found]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(one.target_tokens) for one in found}) == 4
        assert found[0].text == translator.translate(sentence)


def test_a_wider_beam_finds_better_scores(translator: Translator, sentences: list[str]) -> None:
    totals = [sum(found[0].score for found in translator.search(sentences, beam_size=w)) for w in (1, 4, 8)]
    assert totals[0] < totals[1] <= totals[2] + 1e-3


def test_outputs_end_within_input_length_plus_the_allowance(translator: Translator, sentences: list[str]) -> None:
    for found in translator.search(sentences, extra_length=2):
        assert len(found[0].target_tokens) <= len(found[0].source_tokens) + 2


def test_unknown_words_do_not_come_out(translator: Translator) -> None:
    assert "⁇" not in translator.translate("a b ☃ c")


def test_capture_around_translate_gives_the_finished_translation(translator: Translator, sentences: list[str]) -> None:
    with regard.capture(translator) as maps:
        text = translator.translate(sentences[0])
    found = translator.search([sentences[0]])[0][0]
    assert found.text == text
    weights = maps["decoder.layers.1.cross_attn"]
    assert weights.shape == (1, 4, len(found.target_tokens), len(found.source_tokens))
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:3]))
    again = translator.attend(found)
    for path in maps:
        torch.testing.assert_close(maps[path][0], again[path])


@pytest.mark.parametrize("captured", [False, True])
def test_no_more_is_kept_of_a_translation_than_was_asked_for(
    translator: Translator, sentences: list[str], captured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But where a capture wants all of it first."""
    kept: list[Any] = []
    monkeypatch.setattr(Request, "answer", lambda self, answer=Request.answer: kept.append(answer(self)) or kept[-1])
    texts = ["", *sentences[:9]]
    with regard.capture(translator) if captured else nullcontext({}) as maps:
        found = translator.answer(texts, lambda one: (one.text, one.score), n_best=2)
    assert found == [[(one.text, one.score) for one in best] for best in translator.search(texts, n_best=2)]
    assert bool(maps) == captured
    assert all(isinstance(one, Translation) == captured for best in kept[0] for one in best)


def test_what_is_taken_is_not_returned(translator: Translator, sentences: list[str]) -> None:
    sources, config = translator.tokenizers.source.encode(sentences[:9]), translator.options(batch_sentences=4)
    taken: dict[int, list[Hypothesis]] = {}

    def take(numbers: Sequence[int], found: Sequence[list[Hypothesis]]) -> None:
        taken.update(zip(numbers, found, strict=True))

    assert translator.decode(sources, 1, config, take=take) == []
    assert [taken[i] for i in range(9)] == translator.decode(sources, 1, config)


def test_alignments_are_the_same_alone_and_together(translator: Translator, sentences: list[str]) -> None:
    found = [best[0] for best in translator.search(sentences[:30])]
    together = translator.align(found)
    assert together == [translator.align([one])[0] for one in found]
    for one, links in zip(found, together, strict=True):
        assert [t for _, t in links] == list(range(len(one.text.split())))
        assert all(0 <= s < len(one.source.split()) for s, _ in links)


def test_word_weights_sum_source_tokens_and_average_target_tokens(translator: Translator, sentences: list[str]) -> None:
    found = translator.search([sentences[0]])[0][0]
    T, S = len(found.target_tokens), len(found.source_tokens)
    weights = torch.rand(T, S)
    words = translator.word_weights(found, weights)
    rows = translator.tokenizers.target.words(found.target_tokens)
    columns = translator.tokenizers.source.words(found.source_tokens)
    for t in range(max(rows) + 1):
        for s in range(max(columns) + 1):
            cells = [[weights[i, j].item() for j in range(S) if columns[j] == s] for i in range(T) if rows[i] == t]
            assert words[t, s].item() == pytest.approx(sum(map(sum, cells)) / len(cells), abs=1e-5)


def test_sentences_that_normalise_to_nothing_are_empty(translator: Translator) -> None:
    with regard.capture(translator) as maps:
        assert translator.translate(["", "\u200b"]) == ["", ""]
    assert maps == {}


def test_an_alignment_layer_that_is_not_there_is_refused(translator: Translator, sentences: list[str]) -> None:
    other = Translator("x", translator.model, translator.tokenizers, translator.options(alignment_layer=7))
    with pytest.raises(RegardError, match="layers 0 to 1"):
        other.align([best[0] for best in other.search(sentences[:1])])


def test_pharaoh_format() -> None:
    assert pharaoh([(2, 0), (0, 1)]) == "0-1 2-0"


def test_the_verifier_finds_nothing_here_and_something_when_a_batch_lies(
    translator: Translator, sentences: list[str]
) -> None:
    together, alone = translator.search(sentences[:20]), translator.search(sentences[:20], batch_sentences=1)
    honest, misled = Verifier(translator), Verifier(translator)
    honest.check(0, together, alone, None)
    assert honest.summary().startswith("0 of 20")
    lie = [together[0][0]._replace(target_tokens=together[1][0].target_tokens)]
    misled.check(0, [lie, *together[1:]], alone, None)
    assert misled.defects == 1
    assert "line 1:" in misled.summary()


def test_a_margin_that_is_no_number_is_a_defect(
    translator: Translator, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translator, "margin", lambda ours, theirs, beam_size: float("nan"))
    found, verifier = translator.search(sentences[:2]), Verifier(translator)
    verifier.check(0, found, found[::-1], None)
    assert verifier.defects == 2


def test_sentences_are_verified_with_what_is_asked_of_them(translator: Translator, sentences: list[str]) -> None:
    """Or a forbidden word would look like the batch's doing."""
    (first,) = {translator.translate(sentences[0]).split()[0]}
    verifier = Verifier(translator)
    lines = LineTranslator(translator, LineFormat(), asked=Asked(forbidden=(first,)), verifier=verifier)
    plain = LineTranslator(translator, LineFormat())
    assert lines(0, sentences[:5]) != plain(0, sentences[:5])
    assert verifier.summary() == "0 of 5 translations depend on the batch"


def test_a_sentence_beyond_learned_positions_is_cut_and_said_so(
    reverser_recipe: dict[str, Any], tmp_path: Path
) -> None:
    changes = {"model.positions": "learned", "model.max_positions": 16, "data.max_length": 16, "train.steps": 2}
    model = fit(reverser_recipe, tmp_path / "run", changes)
    long = " ".join("abcdefghijklmnopqrstuvwxyz")
    found = model.search(["a b", long], beam_size=2)
    assert found[0][0].cut == 0
    assert found[1][0].cut > 0
    assert found[1][0].cut + len(found[1][0].source_tokens) == len(model.tokenizers.source.encode([long])[0])
    assert len(found[1][0].target_tokens) <= 16


def test_loading_needs_no_training_data(
    reverser: Path, translator: Translator, sentences: list[str], tmp_path: Path
) -> None:
    """A run directory that stands elsewhere translates as before."""
    shutil.copytree(reverser, tmp_path / "elsewhere", symlinks=True)
    assert regard.load(tmp_path / "elsewhere").translate(sentences[:5]) == translator.translate(sentences[:5])


def words_of(text: str) -> list[str]:
    return text.split()


def test_required_phrases_have_hypotheses_to_themselves(
    translator: Translator, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wishes = [Wish(required=("q r s",))] * 30

    def scores() -> list[float]:
        return [best[0].score for best in translator.search(sentences[:30], wishes=wishes, beam_size=2)]

    wide = scores()
    monkeypatch.setattr("regard.decode.wishes.MOST_MORE", 0)
    narrow = scores()
    assert sum(wide) > sum(narrow)
    assert sum(a >= b for a, b in zip(wide, narrow, strict=True)) >= 25


def test_wishes_of_one_sentence_are_nothing_to_the_others(translator: Translator, sentences: list[str]) -> None:
    wishes = [Wish(required=("q r s t u",) * (i % 3 == 0) + ("v",) * (i % 3 == 1)) for i in range(12)]
    together = translator.search(sentences[:12], wishes=wishes, beam_size=2)
    for sentence, wish, found in zip(sentences, wishes, together, strict=False):
        (alone,) = translator.search([sentence], wishes=[wish], beam_size=2)
        assert [one.target_tokens for one in alone] == [one.target_tokens for one in found]
    plain = translator.search(sentences[:12], beam_size=2)
    assert all(together[i][0].target_tokens == plain[i][0].target_tokens for i in range(2, 12, 3))


@pytest.mark.parametrize("beam_size", [1, 4])
def test_required_phrases_come_out_and_forbidden_ones_do_not(
    translator: Translator, sentences: list[str], beam_size: int
) -> None:
    plain = translator.translate(sentences[:30], beam_size=beam_size)
    unwelcome = [words_of(text)[0] for text in plain]
    wanted = [words_of(text)[-1] + " " + words_of(text)[0] for text in sentences[:30]]
    wishes = [Wish(required=(phrase,)) for phrase in wanted]
    for found, phrase in zip(
        translator.search(sentences[:30], wishes=wishes, beam_size=beam_size, n_best=beam_size), wanted, strict=True
    ):
        assert all(re.search(edged(phrase), one.text) for one in found)
    for sentence, word in zip(sentences[:30], unwelcome, strict=True):
        for one in translator.search([sentence], forbidden=[word], beam_size=beam_size, n_best=beam_size)[0]:
            assert word not in words_of(one.text)


def test_an_output_begins_with_its_prefix_and_goes_on_as_the_model_would(
    translator: Translator, sentences: list[str]
) -> None:
    for sentence, best in zip(sentences[:20], translator.translate(sentences[:20], beam_size=1), strict=True):
        half = " ".join(words_of(best)[: max(1, len(words_of(best)) // 2)])
        (again,) = translator.search([sentence], wishes=[Wish(prefix=half)], beam_size=1)[0]
        assert again.text == best
        (other,) = translator.search([sentence], wishes=[Wish(prefix="q " + half)], beam_size=1)[0]
        assert other.text.startswith("q " + half)


def test_lengths_are_as_asked(translator: Translator, sentences: list[str]) -> None:
    for best, *_ in translator.search(sentences[:20], min_length=30):
        assert len(best.target_tokens) >= 30
    for best, *_ in translator.search(sentences[:20], max_length=4):
        assert len(best.target_tokens) <= 4


def test_samples_are_the_same_for_the_same_seed_whatever_the_batch(
    translator: Translator, sentences: list[str]
) -> None:
    options = {"sample": True, "temperature": 1.5, "top_k": 20, "n_best": 3}
    alone = [translator.search([sentence], **options)[0] for sentence in sentences[:20]]
    together = translator.search(sentences[:20], batch_sentences=7, **options)
    assert [[t.text for t in found] for found in together] == [[t.text for t in found] for found in alone]
    other = translator.search(sentences[:20], seed=2, **options)
    assert [found[0].text for found in other] != [found[0].text for found in alone]


def test_an_ensemble_of_a_run_with_itself_translates_as_the_run(translator: Translator, sentences: list[str]) -> None:
    twins = Translator("twins", translator.model, translator.tokenizers, translator.config, [translator.model])
    for one, other in zip(twins.search(sentences[:20]), translator.search(sentences[:20]), strict=True):
        assert one[0].text == other[0].text
        assert one[0].log_prob == pytest.approx(other[0].log_prob, abs=1e-4)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"wishes": []}, "1 sentences have 0 wishes"),
        ({"wishes": [Wish(prefix="Ж")]}, "prefix 'Ж' cannot be written"),
        ({"wishes": [Wish(required=("a b c d e f",))], "max_length": 4}, "all that is asked"),
        ({"wishes": [Wish(prefix="a b")], "forbidden": ["a"]}, "contradict one another"),
        ({"min_length": 9, "max_length": 4}, "min_length = 9 is more than"),
        ({"temperature": 0.5}, "sample = true"),
        ({"sample": True, "top_p": 0.0}, "top_p"),
        ({"length_penalty": 1_000.0}, "length_penalty = 1000 must be from -10 to 10"),
        ({"length_penalty": -10.5}, "must be from -10"),
        ({"length_penalty": float("nan")}, "length_penalty must be a finite number"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(translator: Translator, asked: dict[str, Any], words: str) -> None:
    with pytest.raises(RegardError, match=words):
        translator.search(["a b c d"], **asked)


@pytest.mark.parametrize(
    ("sentences", "asked", "words"),
    [
        ("a b", {}, "sentences = 'a b' is no list of texts"),
        (None, {}, "sentences = None is no list of texts"),
        (["a b", 3], {}, r"sentences\[1\] is of type int, not a text"),
        (["a b"], {"forbidden": "c"}, "forbidden = 'c' is no list of texts"),
        (["a b"], {"forbidden": [b"c"]}, r"forbidden\[0\] is of type bytes"),
        (["a b"], {"wishes": ["c"]}, "wishes are regard.decode.wishes.Wish"),
    ],
)
def test_one_text_is_no_list(translator: Translator, sentences: Any, asked: dict[str, Any], words: str) -> None:
    with pytest.raises(RegardError, match=words):
        translator.search(sentences, **asked)
    for text in (None, b"a b"):
        with pytest.raises(RegardError, match=f"A {type(text).__name__} cannot be translated"):
            translator.translate(text)  # type: ignore[call-overload]
    for asked in ({"required": "a b"}, {"required": None}, {"required": (3,)}, {"prefix": None}):
        with pytest.raises(RegardError, match=r"Wish.*text"):
            Wish(**asked)  # type: ignore[arg-type]


def test_whatever_gives_texts_one_by_one_is_translated(translator: Translator) -> None:
    found = translator.translate(["a b", "b a"])
    assert translator.translate(text for text in ("a b", "b a")) == found  # type: ignore[call-overload]
    assert translator.translate(np.array(["a b", "b a"])) == found  # type: ignore[call-overload]
    assert translator.translate([]) == []
    wishes = (Wish(prefix=text) for text in ("a", "b"))
    assert [best.text[0] for best, *_ in translator.search(["a b", "b a"], wishes=wishes)] == ["a", "b"]


def test_differences_are_judged_by_the_width_of_each_search(
    translator: Translator, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    widths: list[int] = []
    monkeypatch.setattr(translator, "margin", lambda ours, theirs, beam_size: widths.append(beam_size) or 0.0)
    monkeypatch.setattr(translator, "config", translator.options(beam_size=1))
    verifier, wishes = Verifier(translator), [Wish(), Wish(required=("q",))]
    for n_best in (1, 3):
        found = translator.search(sentences[:2], n_best)
        verifier.check(0, found, found[::-1], wishes)
    assert widths == [1, 1 + 4, 3, 3 + 4]


def test_a_source_is_read_up_to_a_limit(translator: Translator) -> None:
    long = "a b " * 30
    (best,) = translator.search([long], max_source=8)[0]
    assert (len(best.source_tokens), best.source_tokens[-1]) == (8, EOS)
    assert best.cut == len(translator.tokenizers.source.encode([long])[0]) - 8
    assert translator.search([long])[0][0].cut == 0


def test_half_precision_translates_nearly_the_same(translator: Translator, sentences: list[str]) -> None:
    exact = translator.search(sentences[:40], beam_size=1)
    rough = translator.search(sentences[:40], beam_size=1, precision="bfloat16")
    same = sum(one[0].text == other[0].text for one, other in zip(exact, rough, strict=True))
    assert same >= 20
    assert all(parameter.dtype == torch.float32 for parameter in translator.model.parameters())


def test_slots_that_stay_translate_as_fresh_ones_do(translator: Translator, sentences: list[str]) -> None:
    for part in (sentences[:30], sentences[30:35]):
        kept, fresh = (translator.search(part, batch_sentences=8, recorded=when) for when in ("always", "never"))
        assert [best[0].text for best in kept] == [best[0].text for best in fresh]


def test_slots_are_kept_for_the_searches_of_late(translator: Translator, sentences: list[str]) -> None:
    for beam in (1, 2, 3, 4, 5, 6, 1, 7):
        translator.search(sentences[:3], beam_size=beam, recorded="always")
    assert [key[0].beam_size for key in translator.benches.kept][-6:] == [3, 4, 5, 6, 1, 7]
    assert len(translator.benches.kept) == BENCHES
