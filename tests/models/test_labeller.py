"""Labellers of every family: what they see, and that neither padding nor company changes what they say."""

from __future__ import annotations

import pytest
import torch

from regard.config import BagConfig, ReaderConfig, TextCnnConfig, TransformerConfig
from regard.models.labeller import BodyConfig, Labeller
from regard.nn.attention import capture
from regard.nn.layout import Packed, Padded

FAMILIES: dict[str, BodyConfig] = {
    "bag": BagConfig(d_model=8, d_ff=6),
    "cnn": TextCnnConfig(d_model=8, filters=5, min_width=2, max_width=4),
    "last state": ReaderConfig(d_model=8, d_hidden=5, cell="gru", bidirectional=False),
    "both directions": ReaderConfig(d_model=8, d_hidden=5, n_layers=2),
    "transformer": TransformerConfig(n_layers=1, d_model=8, d_ff=8, n_heads=2),
}
LENGTHS = [6, 1, 4]


def model(name: str, each_word: bool) -> Labeller:
    """With an output that is drawn: a convolution begins with one that says the same of everything."""
    torch.manual_seed(0)
    labeller = Labeller(FAMILIES[name], 20, 3, each_word).eval()
    torch.nn.init.normal_(labeller.output.weight)
    return labeller


def test_before_training_a_convolution_finds_every_label_as_likely() -> None:
    labeller = Labeller(FAMILIES["cnn"], 20, 3, each_word=False)
    assert not labeller(torch.randint(0, 20, (2, 5)), Padded.of([5, 3])).any()


@pytest.mark.parametrize("each_word", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_padded_packed_and_alone_agree(name: str, each_word: bool) -> None:
    labeller, packed = model(name, each_word), Packed.of(LENGTHS)
    words = torch.randint(0, 20, (sum(LENGTHS),))
    logits = labeller(words, packed)
    assert logits.shape == (sum(LENGTHS) if each_word else len(LENGTHS), 3)
    filled = packed.pad(words).masked_fill(~packed.mask, 7)  # what stands in the padding does not matter
    torch.testing.assert_close(labeller(filled, Padded.of(LENGTHS)), logits)
    alone = labeller(words[:6], Packed.of([6]))
    torch.testing.assert_close(alone, logits[: len(alone)])


@pytest.mark.parametrize("each_word", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_text_without_words_gives_no_nan(name: str, each_word: bool) -> None:
    labeller = model(name, each_word).train()
    logits = labeller(torch.randint(0, 20, (2, 3)), Padded.of([3, 0]))
    assert logits.isfinite().all()
    logits.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in labeller.parameters())


@pytest.mark.parametrize("name", FAMILIES)
def test_only_a_bag_does_not_care_for_order(name: str) -> None:
    labeller, layout = model(name, each_word=False), Padded.of([5])
    words = torch.tensor([[3, 9, 4, 1, 12]])
    same = torch.allclose(labeller(words, layout), labeller(words.flip(1), layout), atol=1e-6)
    assert same == (name == "bag")


def test_a_bag_tags_each_word_by_itself() -> None:
    labeller = model("bag", each_word=True)
    logits = labeller(torch.tensor([[3, 9, 3]]), Padded.of([3]))
    assert torch.equal(logits[0], logits[2])


def test_a_convolution_sees_its_widest_filter_and_no_farther() -> None:
    labeller = model("cnn", each_word=True)
    x = torch.randn(1, 12, 8, requires_grad=True)
    states, _ = labeller.body(x, Padded.of([12]))
    states[0, 6].sum().backward()
    assert x.grad is not None
    seen = x.grad[0].abs().sum(-1).nonzero().flatten().tolist()
    assert set(seen) <= {5, 6, 7, 8}  # a filter of four, centred: one before, two behind
    assert len(seen) >= 3


def test_the_maximum_over_time_is_that_of_the_best_position() -> None:
    labeller = model("cnn", each_word=False)
    states, whole = labeller.body(torch.randn(2, 7, 8), Padded.of([7, 3]))
    torch.testing.assert_close(whole[0], states[0].amax(dim=0))
    torch.testing.assert_close(whole[1], states[1, :3].amax(dim=0))


def test_attention_of_a_labeller_can_be_captured() -> None:
    labeller = model("transformer", each_word=False)
    with capture(labeller) as maps:
        labeller(torch.tensor([[3, 9, 3]]), Padded.of([3]))
    assert maps["body.encoder.layers.0.self_attn"].shape == (1, 2, 3, 3)
