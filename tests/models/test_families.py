"""What holds for every model that turns one sequence into another, with any weights: no look ahead, nothing from
padding or from other sentences, a token at a time as all at once, and one search for all."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from recording import check_recordable

from regard.config import read_model
from regard.decode.recorded import KeptBench
from regard.decode.search import search, work
from regard.decode.state import Hypothesis, SearchOptions
from regard.errors import RegardError
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.families import FAMILIES, step_of
from regard.models.transformer import Transformer
from regard.nn.attention import capture
from regard.nn.layout import Layout, Packed, Padded

CPU = torch.device("cpu")
RECURRENT = {"family": "recurrent", "d_model": 12, "d_hidden": 16}
CONVOLUTIONAL = {"family": "convolutional", "n_layers": 2, "d_model": 12, "d_hidden": 16, "max_positions": 90}
MODELS: dict[str, dict[str, Any]] = {
    "additive": RECURRENT,
    "additive, stacked": {**RECURRENT, "n_layers": 2, "n_decoder_layers": 3, "cell": "lstm", "d_encoder": 5},
    "general": {**RECURRENT, "attention": "general", "cell": "lstm", "d_encoder": 6},
    "dot": {**RECURRENT, "attention": "dot", "cell": "rnn", "tie": "none", "output_bias": True},
    "fed": {**RECURRENT, "attention": "scaled_dot", "input_feeding": True, "n_layers": 2},
    "general, fed": {**RECURRENT, "attention": "general", "input_feeding": True, "cell": "lstm"},
    "state alone": {**RECURRENT, "attention": "none", "cell": "lstm", "n_layers": 2, "bidirectional": False},
    "context": {**RECURRENT, "attention": "none", "context": True},
    "convolution": CONVOLUTIONAL,
    "dilated": {**CONVOLUTIONAL, "dilated": True, "n_decoder_layers": 3, "positions": "sinusoidal", "tie": "target"},
}
ATTENDING = [name for name, values in MODELS.items() if values.get("attention") != "none"]
SOURCES = [[5, 6, 7, 8, 9], [10, 11, 12], [13, 4]]


def made(name: str, vocab: int = 20) -> EncoderDecoder:
    torch.manual_seed(0)
    config = read_model({**MODELS[name], "dropout": 0.0})
    model = FAMILIES[config.family].model(config, vocab, vocab)
    for parameter_name, parameter in model.named_parameters():
        if "bias" in parameter_name:  # where they are zero, mistakes hide
            torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def in_one_pass(model: EncoderDecoder, source: list[int], target: list[int]) -> torch.Tensor:
    src, tgt = torch.tensor([source]), torch.tensor([target])
    return model(src, Padded.of([len(source)]), tgt, Padded.of([len(target)]))[0]


@pytest.mark.parametrize("name", MODELS)
def test_no_prediction_sees_a_later_token(name: str) -> None:
    model, src, tgt = made(name), torch.randint(4, 20, (1, 5)), torch.randint(4, 20, (1, 6))
    layouts = Padded.of([5]), Padded.of([6])
    logits = model(src, layouts[0], tgt, layouts[1])
    for t in range(1, 6):
        other = tgt.clone()
        other[0, t] = (other[0, t] + 1) % 20
        changed = model(src, layouts[0], other, layouts[1])
        torch.testing.assert_close(changed[0, :t], logits[0, :t], atol=1e-6, rtol=0)
        assert not torch.allclose(changed[0, t], logits[0, t])


@pytest.mark.parametrize("name", MODELS)
def test_neither_padding_nor_neighbours_change_outputs(name: str) -> None:
    model, src, tgt = made(name), torch.randint(4, 20, (2, 7)), torch.randint(4, 20, (2, 6))
    together = model(src, Padded.of([7, 3]), tgt, Padded.of([6, 4]))
    alone = model(src[1:, :3], Padded.of([3]), tgt[1:, :4], Padded.of([4]))
    torch.testing.assert_close(together[1:, :4], alone, atol=1e-5, rtol=1e-5)
    src[1, 3:] = tgt[1, 4:] = 17  # whatever stands in the padding
    torch.testing.assert_close(model(src, Padded.of([7, 3]), tgt, Padded.of([6, 4]))[1:, :4], together[1:, :4])


@pytest.mark.parametrize("name", MODELS)
def test_packed_equals_padded_in_value_and_gradient(name: str) -> None:
    model, source, target = made(name), [7, 1, 4], [2, 6, 6]
    src, tgt = torch.randint(4, 20, (3, 7)), torch.randint(4, 20, (3, 6))
    outcomes = []
    kinds: list[type[Padded] | type[Packed]] = [Padded, Packed]
    for kind in kinds:
        src_layout: Layout = kind.of(source)
        tgt_layout: Layout = kind.of(target)
        logits = model(src_layout.unpad(src), src_layout, tgt_layout.unpad(tgt), tgt_layout)
        real = tgt_layout.real(logits)
        model.zero_grad()
        real.square().sum().backward()
        outcomes.append((real, [p.grad.clone() for p in model.parameters() if p.grad is not None]))
    torch.testing.assert_close(outcomes[0][0], outcomes[1][0], atol=1e-5, rtol=1e-5)
    for ours, theirs in zip(outcomes[0][1], outcomes[1][1], strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", MODELS)
@torch.inference_mode()
def test_steps_equal_one_pass(name: str) -> None:
    """Three sources, two hypotheses each."""
    model, n = made(name), 20
    tokens = torch.randint(4, 20, (3, 2, n), generator=torch.Generator().manual_seed(1))
    step = step_of(model, SOURCES, 2)
    step.enter(torch.arange(3), [0, 1, 2])
    found = torch.stack([step(tokens[:, :, t], torch.full((3,), t), t + 1) for t in range(n)], dim=2)
    for b, source in enumerate(SOURCES):
        for w in range(2):
            expected = in_one_pass(model, source, tokens[b, w].tolist())
            torch.testing.assert_close(found[b, w], expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("name", MODELS)
@torch.inference_mode()
def test_hypotheses_move_and_sentences_enter_and_leave_at_any_moment(name: str) -> None:
    model, parents = made(name), torch.tensor([[1, 1], [1, 0]])
    tokens = torch.randint(4, 20, (2, 2, 6))
    step = step_of(model, SOURCES, 2)
    step.enter(torch.arange(2), [0, 1])
    for t in range(3):
        step(tokens[:, :, t], torch.full((2,), t), t + 1)
    step.reorder(parents, 3)
    found = step(tokens[:, :, 3], torch.full((2,), 3), 4)
    histories = [[[*tokens[b, parents[b, w], :3].tolist(), int(tokens[b, w, 3])] for w in range(2)] for b in range(2)]
    for b, w in itertools.product(range(2), range(2)):
        expected = in_one_pass(model, SOURCES[b], histories[b][w])[-1]
        torch.testing.assert_close(found[b, w], expected, atol=1e-5, rtol=1e-4)
    step.enter(torch.tensor([0]), [2])  # a shorter one takes the first slot; the other goes on
    found = step(tokens[:, :, 4], torch.tensor([0, 4]), 5)
    torch.testing.assert_close(found[0, 1], in_one_pass(model, SOURCES[2], [int(tokens[0, 1, 4])])[-1])
    step.keep(torch.tensor([1]))
    found = step(tokens[1:, :, 5], torch.tensor([5]), 6)
    expected = in_one_pass(model, SOURCES[1], [*histories[1][0], *tokens[1, 0, 4:].tolist()])[-1]
    torch.testing.assert_close(found[0, 0], expected, atol=1e-5, rtol=1e-4)


def every_output(model: EncoderDecoder, source: list[int], limit: int, options: SearchOptions) -> list[Hypothesis]:
    """All outputs, by one pass each: those that end within the limit and those the limit cuts."""
    found = []
    words = [token for token in range(len(model.output.weight)) if token not in options.banned]
    for length in range(1, limit + 1):
        for body in itertools.product([token for token in words if token != options.end], repeat=length - 1):
            log_probs = in_one_pass(model, source, [options.start, *body]).log_softmax(-1)
            before = sum(float(log_probs[i, token]) for i, token in enumerate(body))
            for last in words if length == limit else [options.end]:
                total = before + float(log_probs[length - 1, last])
                score = float(options.normalise(torch.tensor(total), torch.tensor(length)))
                found.append(Hypothesis([*body, last], total, score))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)


@pytest.mark.parametrize("name", ["additive, stacked", "general, fed", "state alone", "context", "dilated"])
@torch.inference_mode()
def test_a_beam_wide_enough_finds_what_brute_force_finds(name: str) -> None:
    model, sources = made(name, vocab=6), [[4, 5, 4, 2], [5, 2]]
    options = SearchOptions(start=1, end=2, beam_size=3 * 3**3, n_best=8, banned=(0, 1))
    found = search(step_of(model, sources, options.beam_size), [4, 3], options, CPU)
    for source, limit, hypotheses in zip(sources, [4, 3], found, strict=True):
        best = every_output(model, source, limit, options)[:8]
        assert [h.tokens for h in hypotheses] == [h.tokens for h in best]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in best], abs=1e-4)


@pytest.mark.parametrize("name", ["additive", "general, fed", "context", "convolution"])
@torch.inference_mode()
def test_slots_that_stay_give_what_fresh_ones_give(name: str) -> None:
    model, draw, options = made(name, vocab=12), random.Random(1), SearchOptions(1, 2, beam_size=3, n_best=3)
    step = step_of(model, [], 3)
    bench = KeptBench.of_search(step, 4, source_room=16, room=40, options=options)
    for n in (9, 1, 4):
        sources = [[*draw.choices(range(4, 12), k=draw.randint(1, 14)), 2] for _ in range(n)]
        sources.sort(key=len, reverse=True)
        step.sources, limits = sources, [len(source) + 20 for source in sources]
        kept = work(bench.recorded, [step], limits, CPU)
        fresh = search(step_of(model, sources, 3), limits, options, CPU, 4)
        for one, other in zip(kept, fresh, strict=True):
            assert [h.tokens for h in one] == [h.tokens for h in other]


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", ["Transformer", *MODELS])
@torch.inference_mode()
def test_a_gpu_can_record_what_a_step_does(name: str, beam: int, tiny: Callable[..., Transformer]) -> None:
    model = tiny(vocab=20) if name == "Transformer" else made(name)
    options = SearchOptions(1, 2, beam_size=beam, banned=(0,))
    bench = KeptBench.of_search(step_of(model, SOURCES[1:], beam), 2, source_room=16, room=32, options=options)
    check_recordable(bench, sentences=2)


@pytest.mark.parametrize("name", ATTENDING)
def test_captured_weights_are_one_head_that_sums_to_one_over_the_source(name: str) -> None:
    model, src, tgt = made(name), torch.randint(4, 20, (2, 7)), torch.randint(4, 20, (2, 6))
    with capture(model) as maps:
        model(src, Padded.of([7, 3]), tgt, Padded.of([6, 6]))
    assert list(maps) == model.cross_attentions
    for weights in maps.values():
        assert weights.shape == (2, 1, 6, 7)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1, 6))
        assert not weights[1, :, :, 3:].any()


@torch.inference_mode()
def test_steps_that_are_watched_add_up_their_attention() -> None:
    for name in ("additive", "fed", "convolution"):
        model, step = made(name), step_of(made(name), SOURCES[:1], 1, 0)
        step.enter(torch.arange(1), [0])
        for t, token in enumerate([7, 8, 9]):
            step(torch.tensor([[token]]), torch.tensor([t]), t + 1)
        with capture(model) as maps:
            in_one_pass(model, SOURCES[0], [7, 8, 9])
        torch.testing.assert_close(step.attended[0, 0], maps[model.cross_attentions[0]][0, 0].sum(0), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["additive, stacked", "general", "fed", "context", "convolution"])
def test_a_batch_in_half_precision_is_nearly_the_same(name: str) -> None:
    """As training with train.precision = "bfloat16" computes it: states stay in float32."""
    model, src, tgt = made(name), torch.randint(4, 20, (2, 7)), torch.randint(4, 20, (2, 6))
    layouts = Padded.of([7, 3]), Padded.of([6, 4])
    whole = model(src, layouts[0], tgt, layouts[1])
    with torch.autocast("cpu", torch.bfloat16):
        half = model(src, layouts[0], tgt, layouts[1])
        step = step_of(model, SOURCES, 2)
        step.enter(torch.arange(2), [0, 1])
        assert step(tgt[:, :2], torch.zeros(2, dtype=torch.long), 1).isfinite().all()
    half.float().sum().backward()
    torch.testing.assert_close(half.float(), whole, atol=0.15, rtol=0.1)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"attention": "dot", "d_encoder": 5}, "general"),
        ({"attention": "none", "input_feeding": True}, "input_feeding"),
        ({"input_feeding": True}, "every step already"),
        ({"context": True}, "context"),
        ({"d_hidden": 7}, "d_encoder"),
    ],
)
def test_what_does_not_go_together_is_said(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(RegardError, match=word):
        read_model({**RECURRENT, **changes})
