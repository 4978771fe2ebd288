"""The Transformer: properties that hold for any weights, and parameter counts by formula."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from regard.config import TransformerConfig, resolve
from regard.models.transformer import Transformer, count_parameters
from regard.nn.layout import Packed, Padded

VARIANTS: list[dict[str, object]] = [
    {},
    {"norm": "pre"},
    {"positions": "learned", "max_positions": 16},
    {"sinusoid": "halves", "attention_bias": True, "output_bias": True, "activation": "swish"},
    {"d_k": 3, "d_v": 5, "n_decoder_layers": 1, "tie": "none"},
]


@pytest.mark.parametrize("changes", VARIANTS)
def test_causal_mask_blocks_the_future(tiny: Callable[..., Transformer], changes: dict[str, object]) -> None:
    """Changing output token t leaves the predictions for tokens before t + 1 as they were."""
    model = tiny(**changes)
    src, tgt = torch.randint(4, 20, (1, 5)), torch.randint(4, 20, (1, 6))
    layouts = Padded.of([5]), Padded.of([6])
    logits = model(src, layouts[0], tgt, layouts[1])
    for t in range(1, 6):
        other = tgt.clone()
        other[0, t] = (other[0, t] + 1) % 20
        changed = model(src, layouts[0], other, layouts[1])
        assert torch.equal(changed[0, :t], logits[0, :t])
        assert not torch.allclose(changed[0, t:], logits[0, t:])


@pytest.mark.parametrize("changes", VARIANTS)
def test_padding_does_not_change_outputs(tiny: Callable[..., Transformer], changes: dict[str, object]) -> None:
    model = tiny(**changes)
    src, tgt = torch.randint(4, 20, (2, 7)), torch.randint(4, 20, (2, 6))
    together = model(src, Padded.of([7, 3]), tgt, Padded.of([6, 4]))
    alone = model(src[1:, :3], Padded.of([3]), tgt[1:, :4], Padded.of([4]))
    torch.testing.assert_close(together[1:, :4], alone, atol=1e-5, rtol=1e-5)
    src[1, 3:] = 17  # whatever stands in the padding
    tgt[1, 4:] = 17
    torch.testing.assert_close(model(src, Padded.of([7, 3]), tgt, Padded.of([6, 4]))[1:, :4], together[1:, :4])


@pytest.mark.parametrize("changes", VARIANTS)
def test_packed_equals_padded_in_value_and_gradient(
    tiny: Callable[..., Transformer], changes: dict[str, object]
) -> None:
    model = tiny(**changes)
    source, target = [7, 1, 4], [2, 6, 6]
    src, tgt = torch.randint(4, 20, (3, 7)), torch.randint(4, 20, (3, 6))
    outcomes = []
    for layout in (Padded, Packed):
        src_layout, tgt_layout = layout.of(source), layout.of(target)
        logits = model(src_layout.unpad(src), src_layout, tgt_layout.unpad(tgt), tgt_layout)
        real = tgt_layout.real(logits)
        model.zero_grad()
        real.square().sum().backward()
        outcomes.append((real, [p.grad.clone() for p in model.parameters() if p.grad is not None]))
    torch.testing.assert_close(outcomes[0][0], outcomes[1][0], atol=1e-5, rtol=1e-5)
    for ours, theirs in zip(outcomes[0][1], outcomes[1][1], strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def expected_parameters(config: TransformerConfig, source: int, target: int) -> int:
    """By hand, from Figure 1 and §3."""
    d, f, h = config.d_model, config.d_ff, config.n_heads
    d_k, d_v = config.d_k or d // h, config.d_v or d // h
    attention = d * h * d_k * 2 + d * h * d_v * 2 + (2 * h * d_k + h * d_v + d if config.attention_bias else 0)
    feed_forward = 2 * d * f + f + d
    norm = 2 * d
    encoder = config.n_layers * (attention + feed_forward + 2 * norm)
    decoder = (config.n_decoder_layers or config.n_layers) * (2 * attention + feed_forward + 3 * norm)
    tables = {"all": target, "target": source + target, "none": source + 2 * target}[config.tie] * d
    positions = 2 * config.max_positions * d if config.positions == "learned" else 0
    return (
        encoder + decoder + tables + positions
        + (2 * norm if config.norm == "pre" else 0) + (target if config.output_bias else 0)
    )  # fmt: skip


TABLE_3: dict[str, dict[str, object]] = {
    "base": {},
    "A h=1": {"n_heads": 1, "d_k": 512, "d_v": 512},
    "A h=32": {"n_heads": 32, "d_k": 16, "d_v": 16},
    "B d_k=16": {"d_k": 16},
    "C N=2": {"n_layers": 2},
    "C d_model=256": {"d_model": 256, "d_k": 32, "d_v": 32},
    "C d_model=1024": {"d_model": 1024, "d_k": 128, "d_v": 128},
    "C d_ff=4096": {"d_ff": 4096},
    "E learned positions": {"positions": "learned"},
    "big": {"preset": "big"},
    "other choices": {"norm": "pre", "attention_bias": True, "output_bias": True, "tie": "target"},
    "untied, shallow decoder": {"tie": "none", "n_decoder_layers": 2},
}


@pytest.mark.parametrize("row", TABLE_3)
def test_parameter_counts_follow_the_formula(row: str) -> None:
    config = resolve({"model": TABLE_3[row]}).model
    source, target = (1000, 1000) if config.tie == "all" else (700, 1000)
    with torch.device("meta"):
        model = Transformer(config, source, target)
    assert count_parameters(model) == expected_parameters(config, source, target)


@pytest.mark.parametrize(("preset", "millions"), [("base", 63.05), ("big", 214.17)])
def test_presets_have_the_size_the_formula_gives_for_37000_tied_rows(preset: str, millions: float) -> None:
    config = resolve({"model": {"preset": preset}}).model
    with torch.device("meta"):
        model = Transformer(config, 37_000)
    assert count_parameters(model) / 1e6 == pytest.approx(millions, abs=0.005)


def test_big_preset_can_be_changed_key_by_key() -> None:
    config = resolve({"model": {"preset": "big", "dropout": 0.1}}).model
    assert (config.d_model, config.n_heads, config.dropout) == (1024, 16, 0.1)


def test_recomputing_activations_changes_no_gradient(tiny: Callable[..., Transformer]) -> None:
    """With dropout on: the second computation of a layer draws the masks of the first."""
    model = tiny(dropout=0.3).train()
    src, tgt = torch.randint(4, 20, (2, 7)), torch.randint(4, 20, (2, 6))
    gradients = []
    for recompute in (False, True):
        model.encoder.recompute = model.decoder.recompute = recompute
        torch.manual_seed(3)
        loss = model(src, Padded.of([7, 3]), tgt, Padded.of([6, 4])).square().sum()
        gradients.append(torch.autograd.grad(loss, list(model.parameters())))
    for plain, recomputed in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, recomputed)
