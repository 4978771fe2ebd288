"""Mask-predict: the paper's algorithm written out once more, and what holds whatever the batch."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import regard
from regard.cli import app
from regard.config import TransformerConfig
from regard.data.corpus import Corpus
from regard.data.tokenizer import BOS, PAD, UNK
from regard.decode.mask_predict import (
    EQUAL,
    MASK,
    MaskedDecoder,
    MaskPredictor,
    least_sure,
    likely_lengths,
    mask_predict,
)
from regard.decode.state import Hypothesis
from regard.decode.stream import LineFormat, Verifier
from regard.errors import RegardError
from regard.models.masked import MaskedTransformer
from regard.nn.layout import Padded
from regard.tasks.attention import alignment_picture, attention_view

Make = Callable[..., MaskedTransformer]
SOURCES = [[7, 9, 4, 2], [5, 2], [11, 4, 6, 8, 19, 4, 2], [8, 8, 2]]


@pytest.fixture
def masked() -> Make:
    def make(seed: int = 0, **changes: object) -> MaskedTransformer:
        torch.manual_seed(seed)
        sizes = {"n_layers": 2, "d_model": 16, "d_ff": 32, "n_heads": 4, "dropout": 0.0, "max_positions": 24}
        return MaskedTransformer(TransformerConfig(**{**sizes, **changes}), 20).eval()  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="module")
def translator(masked_reverser: Path) -> MaskPredictor:
    found = regard.load(masked_reverser)
    assert isinstance(found, MaskPredictor)
    return found


def by_the_paper(model: MaskedTransformer, source: list[int], N: int, T: int) -> tuple[list[int], list[float]]:
    """One sentence, one length, §3 step by step, through the whole model each time."""
    tokens, probabilities = [MASK] * N, [0.0] * N
    hidden = list(range(N))
    for t in range(T):
        if t:
            n = max(1, N * (T - t) // T)
            hidden = sorted(range(N), key=lambda i: (round(probabilities[i] / EQUAL), -i))[:n]
        for i in hidden:
            tokens[i] = MASK
        logits = model(torch.tensor([source]), Padded.of([len(source)]), torch.tensor([tokens]), Padded.of([N]))[0]
        log_probs = logits.log_softmax(-1)
        log_probs[:, [PAD, BOS, UNK]] = -torch.inf
        for i in hidden:
            tokens[i], probabilities[i] = int(log_probs[i].argmax()), float(log_probs[i].max())
    return tokens, probabilities


@torch.inference_mode()
@pytest.mark.parametrize("T", [1, 2, 3, 4, 10])
@pytest.mark.parametrize("changes", [{}, {"norm": "pre", "positions": "learned"}])
def test_it_is_the_papers_algorithm(masked: Make, changes: dict[str, object], T: int) -> None:
    for seed in range(3):
        model = masked(seed, **changes)
        found = mask_predict(model, SOURCES, T, 4, (PAD, BOS, UNK))
        for source, hypotheses in zip(SOURCES, found, strict=True):
            _, logits = model.encode_and_measure(torch.tensor([source]), Padded.of([len(source)]))
            lengths = sorted(range(2, 24), key=lambda n: -float(logits[0, n]))[:4]
            expected = {N: by_the_paper(model, source, N, T) for N in lengths}
            assert sorted(len(one.tokens) for one in hypotheses) == sorted(lengths)
            for one in hypotheses:
                tokens, log_probs = expected[len(one.tokens)]
                assert one.tokens == tokens
                assert one.log_prob == pytest.approx(sum(log_probs), abs=1e-4)
                assert one.score == pytest.approx(sum(log_probs) / len(tokens), abs=1e-4)
                assert one.calls == T
            scores = [one.score for one in hypotheses]
            assert scores == sorted(scores, reverse=True)


@torch.inference_mode()
def test_one_iteration_is_one_pass_over_masks(masked: Make) -> None:
    model = masked()
    (best, *_), *_ = mask_predict(model, SOURCES[:1], 1, 1)
    N = len(best.tokens)
    logits = model(torch.tensor(SOURCES[:1]), Padded.of([4]), torch.full((1, N), MASK), Padded.of([N]))
    assert logits[0].argmax(-1).tolist() == best.tokens


@torch.inference_mode()
@pytest.mark.parametrize("T", [2, 5, 10])
def test_an_iteration_touches_nothing_but_what_it_hides(masked: Make, T: int) -> None:
    seen: list[tuple[Tensor, Tensor]] = []
    found = mask_predict(masked(), SOURCES, T, 3, (), lambda hidden, tokens: seen.append((hidden, tokens)))
    assert len(seen) == T
    lengths = seen[0][0].sum(-1)  # at first everything is hidden
    assert sorted(lengths[0].tolist()) == sorted(len(one.tokens) for one in found[0])
    for t in range(1, T):
        (_, before), (hidden, after) = seen[t - 1], seen[t]
        assert torch.equal(before[~hidden], after[~hidden])
        assert torch.equal(hidden.sum(-1), (lengths * (T - t) // T).clamp(min=1))
        assert not (hidden & ~seen[0][0]).any()  # never beyond the end


def test_the_least_sure_are_hidden_and_of_equals_the_last() -> None:
    log_probs = torch.tensor([[[-1.0, -0.2, -3.0, -0.2, 0.0], [-2.0, -2.0 - EQUAL / 9, -1.0, 0.0, 0.0]]])
    real = torch.tensor([[[True] * 5, [True] * 3 + [False] * 2]])
    hidden = least_sure(log_probs, real, torch.tensor([[3, 1]]))
    assert hidden[0].tolist() == [[True, False, True, True, False], [False, True, False, False, False]]
    assert least_sure(log_probs, real, torch.tensor([[0, 0]])).sum(-1).tolist() == [[1, 1]]


def test_lengths_are_the_likeliest_from_two_on() -> None:
    logits = torch.tensor([[9.0, 8.0, 1.0, 3.0, 2.0]])
    assert likely_lengths(logits, 2).tolist() == [[3, 4]]
    assert likely_lengths(logits, 99).tolist() == [[3, 4, 2]]


@torch.inference_mode()
def test_the_decoder_with_kept_sources_is_the_models_decoder(masked: Make) -> None:
    model = masked(norm="pre")
    src, src_layout = torch.randint(4, 20, (2, 5)), Padded.of([5, 3])
    tokens, lengths = torch.randint(4, 20, (2, 3, 6)), torch.tensor([[6, 2, 4], [3, 5, 1]])
    real = torch.arange(6) < lengths[..., None]
    memory = model.encode(src, src_layout)
    ours = MaskedDecoder(model, memory, src_layout)(tokens, real)
    for w in range(3):
        layout = Padded.of(lengths[:, w].tolist())
        theirs = model.decode(tokens[:, w, : layout.size], layout, memory, src_layout)
        for row in range(2):
            n = int(lengths[row, w])
            torch.testing.assert_close(ours[row, w, :n], theirs[row, :n], atol=1e-5, rtol=1e-5)


# --- a trained one ---------------------------------------------------------------------------------------


def exact(texts: list[str], references: list[str]) -> float:
    return sum(text == reference for text, reference in zip(texts, references, strict=True)) / len(references)


def test_a_small_model_learns_to_reverse(translator: MaskPredictor, reverser_test: Corpus) -> None:
    texts = translator.translate(reverser_test.source, length_candidates=1)
    assert exact(texts, reverser_test.target) > 0.9


def test_translations_do_not_depend_on_batch_size_or_order(translator: MaskPredictor, reverser_test: Corpus) -> None:
    """As for beam search: the same tokens, except where two candidates lay within 1e-4; at most 0.2 % of a test set."""
    sentences = reverser_test.source
    reference = translator.search(sentences, batch_sentences=1)
    for batch in (7, 64):
        order = random.Random(batch).sample(range(len(sentences)), len(sentences))
        found = translator.search([sentences[i] for i in order], batch_sentences=batch)
        differing = 0
        for i, (best, *_) in zip(order, found, strict=True):
            assert best.source == sentences[i]
            assert best.score == pytest.approx(reference[i][0].score, abs=1e-4)
            differing += best.target_tokens != reference[i][0].target_tokens
        assert differing <= 0.002 * len(sentences)


def test_empty_sentences_progress_and_n_best(translator: MaskPredictor, reverser_test: Corpus) -> None:
    seen: list[int] = []
    sentences = ["", *reverser_test.source[:9], "  "]
    found = translator.search(sentences, n_best=3, batch_sentences=4, progress=seen.append)
    assert seen == [6, 10, 11]
    assert [best[0].text for best in found] == translator.translate(sentences)
    assert found[0][0].text == found[-1][0].text == ""
    for best in found[1:-1]:
        assert [one.score for one in best] == sorted((one.score for one in best), reverse=True)
        assert len({len(one.target_tokens) for one in best}) == 3


def test_what_is_taken_is_not_returned(translator: MaskPredictor, reverser_test: Corpus) -> None:
    sources = translator.tokenizers.source.encode(reverser_test.source[:9])
    config, taken = translator.options(batch_sentences=4), dict[int, list[Hypothesis]]()

    def take(numbers: Sequence[int], found: Sequence[list[Hypothesis]]) -> None:
        taken.update(zip(numbers, found, strict=True))

    assert translator.decode(sources, 1, config, take=take) == []
    assert [taken[i] for i in range(9)] == translator.decode(sources, 1, config)


def test_calls_and_tokens_are_told(translator: MaskPredictor, reverser_test: Corpus) -> None:
    for best in translator.search(reverser_test.source[:5], iterations=4):
        assert best[0].calls == 4
        assert LineFormat().record(best, [])["translations"][0]["calls"] == 4


def test_the_verifier_finds_nothing(translator: MaskPredictor, reverser_test: Corpus) -> None:
    verifier = Verifier(translator)
    sources = reverser_test.source[:40]
    verifier.check(0, translator.search(sources), translator.search(sources, batch_sentences=1), None)
    assert verifier.defects == 0


@pytest.mark.parametrize("option", ["beam_size", "length_penalty", "normalization", "extra_length"])
def test_what_belongs_to_beam_search_is_refused_by_name(translator: MaskPredictor, option: str) -> None:
    message = rf'decode\.{option} means nothing to a model of task = "mask_predict".*decode\.iterations'
    with pytest.raises(RegardError, match=message):
        translator.translate("a b", **{option: 1})


def test_the_option_that_was_typed_is_the_one_refused(masked_reverser: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a b\n", encoding="utf-8")
    arguments = ["translate", str(masked_reverser), "--blockwise", "-i", str(tmp_path / "in.txt")]
    assert "decode.blockwise means nothing" in str(CliRunner().invoke(app, arguments).exception)


def test_what_belongs_to_mask_predict_is_refused_by_a_beam_search(reverser: Path) -> None:
    with pytest.raises(RegardError, match=r'decode\.iterations means nothing to a model of task = "translation"'):
        regard.load(reverser).translate("a b", iterations=3)


def test_more_translations_than_lengths_are_refused(translator: MaskPredictor) -> None:
    with pytest.raises(RegardError, match=r"set decode\.length_candidates .* to at least 4"):
        translator.search(["a b"], n_best=4)


def test_attention_has_rows_and_columns_for_every_token(translator: MaskPredictor, reverser_test: Corpus) -> None:
    found = translator.search(reverser_test.source[:1])[0][0]
    T, S = len(found.target_tokens), len(found.source_tokens)
    with regard.capture(translator) as maps:
        translator.translate(reverser_test.source[:1])
    assert maps["decoder.layers.1.cross_attn"].shape == (1, 4, T, S)
    assert maps["decoder.layers.0.self_attn"].shape == (1, 4, T, T)
    assert maps["encoder.layers.0.self_attn"].shape == (1, 4, S + 1, S + 1)
    view = attention_view(translator, found)
    for one in view.maps:
        assert one.weights.shape[1:] == (len(one.rows), len(one.columns))
    assert view.maps[0].rows[0] == "<length>"
    assert alignment_picture(translator, found)


def test_each_token_is_told_from_behind_its_mask(translator: MaskPredictor, reverser_test: Corpus) -> None:
    found = translator.search(reverser_test.source[:1])[0][0]
    maps, logits = translator.look(found)
    attended = translator.attend(found)
    assert all(torch.equal(weights, attended[path]) for path, weights in maps.items())
    own = [float(row.softmax(-1)[token]) for row, token in zip(logits, found.target_tokens, strict=True)]
    steps = attention_view(translator, found).steps
    assert [step.probability for step in steps] == pytest.approx(own, abs=1e-6)
    # What stands in a place is not what the model sees there: with it known, the logits are others.
    assert not torch.allclose(translator.feed([found.source_tokens], [found.target_tokens])[0], logits)


def test_a_target_beyond_the_positions_is_refused(translator: MaskPredictor) -> None:
    with pytest.raises(RegardError, match=r"A target has \d+ tokens, and the model positions for \d+"):
        translator.given("a b", "a " * 500)


@torch.inference_mode()
def test_each_token_looks_from_behind_a_mask(translator: MaskPredictor, reverser_test: Corpus) -> None:
    found = [best[0] for best in translator.search(reverser_test.source[:5])]
    for one in found:
        attended, src = translator.attend(one), torch.tensor([one.source_tokens])
        for i in range(len(one.target_tokens)):
            tgt = torch.tensor([one.target_tokens])
            tgt[0, i] = MASK
            with regard.capture(translator.model) as maps:
                translator.model(src, Padded.of([src.shape[1]]), tgt, Padded.of([tgt.shape[1]]))
            for path in ("decoder.layers.0.self_attn", "decoder.layers.1.cross_attn"):
                torch.testing.assert_close(attended[path][:, i], maps[path][0, :, i], atol=1e-5, rtol=1e-4)


def test_alignments_of_reversed_words_run_backwards(translator: MaskPredictor, reverser_test: Corpus) -> None:
    sentences = [line for line in reverser_test.source if len(line.split()) > 3][:20]
    found = [best[0] for best in translator.search(["", *sentences])]
    links = translator.align(found)
    assert links[0] == []
    right = [s + t == len(one.source.split()) - 1 for one, pairs in zip(found, links, strict=True) for s, t in pairs]
    assert sum(right) / len(right) > 0.7
