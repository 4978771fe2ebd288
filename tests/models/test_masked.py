"""The masked Transformer: properties that hold for any weights."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.config import TransformerConfig
from regard.models.masked import MaskedTransformer
from regard.models.transformer import Transformer, count_parameters
from regard.nn.layout import Packed, Padded, Room

Make = Callable[..., MaskedTransformer]
VARIANTS: list[dict[str, object]] = [{}, {"norm": "pre", "tie": "none"}, {"positions": "learned"}]


@pytest.fixture
def masked() -> Make:
    def make(**changes: object) -> MaskedTransformer:
        torch.manual_seed(0)
        sizes = {"n_layers": 2, "d_model": 16, "d_ff": 32, "n_heads": 4, "dropout": 0.0, "max_positions": 16}
        model = MaskedTransformer(TransformerConfig(**{**sizes, **changes}), 20)  # type: ignore[arg-type]
        for name, parameter in model.named_parameters():
            if "bias" in name:
                torch.nn.init.normal_(parameter, std=0.3)
        return model.eval()

    return make


def run(model: Transformer, src: Tensor, tgt: Tensor) -> Tensor:
    return model(src, Padded.of([src.shape[1]] * len(src)), tgt, Padded.of([tgt.shape[1]] * len(tgt)))


@pytest.mark.parametrize("changes", VARIANTS)
def test_every_position_sees_the_whole_target(masked: Make, changes: dict[str, object]) -> None:
    """Changing any token changes what is predicted at all places: before it, at it, after it. The causal model with
    these weights does not look ahead (`test_causal_mask_blocks_the_future`)."""
    model = masked(**changes)
    causal = Transformer(model.config, 20).eval()
    causal.load_state_dict({name: tensor for name, tensor in model.state_dict().items() if name != "lengths.weight"})
    src, tgt = torch.randint(4, 20, (1, 5)), torch.randint(4, 20, (1, 6))
    logits, blind = run(model, src, tgt), run(causal, src, tgt)
    for t in range(1, 6):
        other = tgt.clone()
        other[0, t] = (other[0, t] + 1) % 20
        moved = (run(model, src, other) - logits).abs().amax(-1)[0]
        assert (moved > 1e-4).all()
        assert torch.equal(run(causal, src, other)[0, :t], blind[0, :t])


@pytest.mark.parametrize("changes", VARIANTS)
def test_padding_changes_neither_tokens_nor_lengths(masked: Make, changes: dict[str, object]) -> None:
    model = masked(**changes)
    src, tgt = torch.randint(4, 20, (2, 7)), torch.randint(4, 20, (2, 6))
    together = model(src, Padded.of([7, 3]), tgt, Padded.of([6, 4]))
    alone = model(src[1:, :3], Padded.of([3]), tgt[1:, :4], Padded.of([4]))
    torch.testing.assert_close(together[1:, :4], alone, atol=1e-5, rtol=1e-5)
    _, lengths = model.encode_and_measure(src, Padded.of([7, 3]))
    _, length_alone = model.encode_and_measure(src[1:, :3], Padded.of([3]))
    torch.testing.assert_close(lengths[1:], length_alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("changes", VARIANTS)
def test_packed_filled_and_padded_agree_in_value_and_gradient(masked: Make, changes: dict[str, object]) -> None:
    model = masked(**changes)
    source, target, room = [7, 1, 4], [2, 6, 6], Room(32, 16, 8)
    src, tgt = torch.randint(4, 20, (3, 7)), torch.randint(4, 20, (3, 6))
    outcomes = []
    for kind in ("padded", "packed", "filled"):
        if kind == "filled":
            layouts = Packed.filled(np.array(source), room), Packed.filled(np.array(target), room)
            tokens = [torch.cat([Packed.of(n).unpad(x), torch.zeros(32 - sum(n), dtype=torch.long)])
                      for n, x in ((source, src), (target, tgt))]  # fmt: skip
        else:
            form = Padded if kind == "padded" else Packed
            layouts = form.of(source), form.of(target)
            tokens = [layouts[0].unpad(src), layouts[1].unpad(tgt)]
        memory, lengths = model.encode_and_measure(tokens[0], layouts[0])
        hidden = layouts[1].real(model.decode(tokens[1], layouts[1], memory, layouts[0]))[: sum(target)]
        loss = model.output(hidden).square().sum() + lengths[:3, 1:].square().sum()
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        outcomes.append((hidden, lengths[:3], gradients))
    for hidden, lengths, gradients in outcomes[1:]:
        torch.testing.assert_close(hidden, outcomes[0][0], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(lengths, outcomes[0][1], atol=1e-4, rtol=1e-5)
        for ours, theirs in zip(gradients, outcomes[0][2], strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=1e-3)


def test_the_length_is_read_at_a_place_of_its_own_before_the_source(masked: Make) -> None:
    """By hand: row 0 of the table, scaled, stands first without a position, and the decoder does not see it."""
    model, src = masked(), torch.randint(4, 20, (1, 5))
    embedded = model.source_embedding(src, Padded.of([5]))
    first = model.lengths.weight[:1][None] * model.source_embedding.scale
    encoded = model.encoder(torch.cat([first, embedded], dim=1), Padded.of([6]))
    memory, lengths = model.encode_and_measure(src, Padded.of([5]))
    torch.testing.assert_close(memory, encoded[:, 1:])
    torch.testing.assert_close(lengths[0, 1:], model.lengths.weight[1:] @ encoded[0, 0])
    assert lengths[0, 0] == -torch.inf
    assert torch.equal(model.encode(src, Padded.of([5])), memory)


def test_it_is_the_transformer_and_a_table_of_lengths() -> None:
    config = TransformerConfig(n_layers=1, d_model=8, d_ff=8, n_heads=2, max_positions=30)
    masked, plain = MaskedTransformer(config, 12), Transformer(config, 12)
    assert count_parameters(masked) == count_parameters(plain) + 30 * 8
    assert (masked.longest, plain.longest) == (29, sys.maxsize)
