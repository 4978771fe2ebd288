"""A token at a time equals the whole at once, whatever enters, moves or leaves meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from regard.models.stepping import TransformerStep
from regard.models.transformer import Transformer
from regard.nn.layout import Padded

VARIANTS: list[dict[str, object]] = [
    {}, {"norm": "pre"}, {"positions": "learned", "max_positions": 80}, {"attention_bias": True, "output_bias": True},
    {"d_k": 6, "d_v": 3}, {"sinusoid": "halves", "activation": "swish"}, {"tie": "none", "n_decoder_layers": 1},
]  # fmt: skip
SOURCES = [[5, 6, 7, 8, 9], [10, 11, 12], [13, 4]]


def in_one_pass(model: Transformer, source: list[int], target: list[int]) -> torch.Tensor:
    src, tgt = torch.tensor([source]), torch.tensor([target])
    return model(src, Padded.of([len(source)]), tgt, Padded.of([len(target)]))[0]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
@torch.inference_mode()
def test_steps_equal_one_pass(tiny: Callable[..., Transformer], changes: dict[str, object]) -> None:
    """Three sources, two hypotheses each, more positions than the first room has."""
    model, n = tiny(**changes), 70
    tokens = torch.randint(4, 20, (3, 2, n), generator=torch.Generator().manual_seed(1))
    step = TransformerStep(model, SOURCES, beam=2)
    step.enter(torch.arange(3), [0, 1, 2])
    found = torch.stack([step(tokens[:, :, t], torch.full((3,), t), t + 1) for t in range(n)], dim=2)
    for b, source in enumerate(SOURCES):
        for w in range(2):
            expected = in_one_pass(model, source, tokens[b, w].tolist())
            torch.testing.assert_close(found[b, w], expected, atol=2e-5, rtol=1e-4)


@torch.inference_mode()
def test_hypotheses_go_on_from_others_of_their_sentence(tiny: Callable[..., Transformer]) -> None:
    model, parents = tiny(), torch.tensor([[1, 1], [1, 0]])
    tokens = torch.randint(4, 20, (2, 2, 4))
    step = TransformerStep(model, SOURCES, beam=2)
    step.enter(torch.arange(2), [0, 1])
    for t in range(3):
        step(tokens[:, :, t], torch.full((2,), t), t + 1)
    step.reorder(parents, 3)
    found = step(tokens[:, :, 3], torch.full((2,), 3), 4)
    for b in range(2):
        for w in range(2):
            history = [*tokens[b, parents[b, w], :3].tolist(), int(tokens[b, w, 3])]
            torch.testing.assert_close(found[b, w], in_one_pass(model, SOURCES[b], history)[-1], atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_sentences_leave_and_others_enter_at_any_moment(tiny: Callable[..., Transformer]) -> None:
    """Slot 0 loses its sentence to a shorter one after two steps; then slot 1 alone is dropped."""
    model, step = tiny(), TransformerStep(tiny(), SOURCES, beam=1)
    tokens = torch.randint(4, 20, (3, 1, 6))
    step.enter(torch.arange(2), [0, 1])
    for t in range(2):
        step(tokens[:2, :, t], torch.full((2,), t), t + 1)
    step.enter(torch.tensor([0]), [2])
    for t in range(3):
        now = torch.stack([tokens[2, :, t], tokens[1, :, 2 + t]])
        found = step(now, torch.tensor([t, 2 + t]), 3 + t)
    torch.testing.assert_close(found[0, 0], in_one_pass(model, SOURCES[2], tokens[2, 0, :3].tolist())[-1])
    torch.testing.assert_close(found[1, 0], in_one_pass(model, SOURCES[1], tokens[1, 0, :5].tolist())[-1])
    step.keep(torch.tensor([0]))
    found = step(tokens[2:, :, 3], torch.tensor([3]), 4)
    torch.testing.assert_close(found[0, 0], in_one_pass(model, SOURCES[2], tokens[2, 0, :4].tolist())[-1])


def test_sources_that_are_expected_are_laid_out_a_portion_at_a_time(
    tiny: Callable[..., Transformer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.models.stepping.AT_A_STEP", 2)
    sources = [[5, 6, 7, 8], [9, 10, 2], [11, 2], [], [12, 2], [2], [13, 14, 2]]
    step = TransformerStep(tiny(), sources, beam=1)

    def expected(*numbers: range) -> list[range]:
        seen = []
        for some in numbers:
            step.expect(some)
            seen.append(step.expected.numbers)
        return seen

    def check(numbers: range) -> None:
        tokens, lengths = step.lay_out(list(numbers))
        assert tokens.tolist() == [token for i in numbers for token in sources[i]]
        assert lengths.tolist() == [len(sources[i]) for i in numbers]

    assert expected(range(1, 1)) == [range(0)], "of none nothing is laid out"
    assert expected(*[range(1, 6)] * 4) == [range(1, 3), range(1, 5), range(1, 6), range(1, 6)]
    check(range(1, 4))
    before = step.expected
    expected(range(4, 6))
    assert step.expected is before, "they were laid out with the others"
    assert expected(range(3, 7)) == [range(3, 7)], "some were, and the rest are a portion"
    for numbers in (range(3, 7), range(4, 6), range(6, 7)):
        check(numbers)
    expected(range(2))
    for numbers in (range(2), range(1, 2), range(4), range(2, 4), range(0, 6, 2)):
        check(numbers)


@torch.inference_mode()
def test_steps_in_half_precision_are_nearly_the_same(tiny: Callable[..., Transformer]) -> None:
    """As validation in a training with train.precision = "bfloat16" takes them."""
    model, tokens = tiny(), torch.randint(4, 20, (2, 2, 5))
    found = []
    for half in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            step = TransformerStep(model, SOURCES, beam=2)
            step.enter(torch.arange(2), [0, 1])
            found.append(torch.stack([step(tokens[:, :, t], torch.full((2,), t), t + 1) for t in range(5)]))
    plain, half_precise = found
    assert (plain.dtype, half_precise.dtype) == (torch.float32, torch.bfloat16)
    assert not torch.equal(half_precise.float(), plain)
    torch.testing.assert_close(half_precise.float(), plain, atol=0.1, rtol=0.1)
