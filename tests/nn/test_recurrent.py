"""The formulas of the cells equal torch's fused layers, in value and gradient; lengths decide what is read."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.nn.layout import Packed, Padded
from regard.nn.recurrent import CELLS, FUSED, PARTS, Layer, Recurrence, RecurrentEncoder, unrolled

KINDS = list(CELLS)
LENGTHS = [5, 2, 4]


@pytest.fixture(autouse=True)
def in_double_precision() -> object:
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def scattered(module: nn.Module) -> None:
    """Biases too: where they are zero, mistakes hide."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_formula_is_torchs_layer_in_value_and_gradient(kind: str) -> None:
    layer, x = Layer(kind, 3, 4), torch.randn(2, 6, 3, requires_grad=True)
    scattered(layer)
    state = torch.randn(PARTS[kind], 2, 4, requires_grad=True)
    leaves = [x, state, *layer.weights]
    expected, found = layer(x, state), unrolled(kind, x, tuple(state), layer.weights)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
    direction = torch.randn_like(expected)
    theirs, ours = (torch.autograd.grad(one, leaves, direction) for one in (expected, found))
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_the_whole_sequence_cut_up(kind: str) -> None:
    stack, x = Recurrence(kind, 3, 4, n_layers=2), torch.randn(2, 6, 3)
    scattered(stack)
    begin = torch.randn(2, PARTS[kind], 2, 4)
    state, outputs = begin, []
    for x_t in x.unbind(1):
        output, state = stack.step(x_t, state)
        outputs.append(output)
    torch.testing.assert_close(torch.stack(outputs, dim=1), stack(x, begin), atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_stack_over_ragged_sequences_is_torchs_own(kind: str, bidirectional: bool) -> None:
    """nn.RNN, nn.LSTM or nn.GRU of two layers on a packed sequence, with the same weights."""
    ours = RecurrentEncoder(kind, 3, 4, 2, bidirectional).eval()
    scattered(ours)
    theirs = FUSED[kind](3, 4, 2, bidirectional=bidirectional, batch_first=True)
    for n, layers in enumerate([ours.forwards, ours.backwards]):
        for i, layer in enumerate(layers):
            suffix = f"l{i}" + ("_reverse" if n else "")
            for name, weight in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), layer.weights, strict=True):
                getattr(theirs, f"{name}_{suffix}").data.copy_(weight)
    x, layout = torch.randn(3, 5, 3, requires_grad=True), Padded.of(LENGTHS)
    states, finals = ours(x, layout)
    packed = pack_padded_sequence(x, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False)
    out, last = theirs(packed)
    expected, _ = pad_packed_sequence(out, batch_first=True)
    h = last[0] if kind == "lstm" else last
    directions = 2 if bidirectional else 1
    torch.testing.assert_close(layout.real(states), layout.real(expected), atol=1e-6, rtol=0)
    torch.testing.assert_close(finals, h.unflatten(0, (2, directions)).transpose(1, 2).flatten(2), atol=1e-6, rtol=0)
    weights = torch.randn_like(layout.real(expected))
    mine, other = (
        torch.autograd.grad((layout.real(y) * weights).sum(), x, retain_graph=True)[0] for y in (states, expected)
    )
    torch.testing.assert_close(mine, other, atol=1e-6, rtol=0)


def test_packed_sequences_give_what_padded_ones_give() -> None:
    encoder = RecurrentEncoder("gru", 3, 4, 2, bidirectional=True).eval()
    packed, padded = Packed.of(LENGTHS), Padded.of(LENGTHS)
    flat = torch.randn(sum(LENGTHS), 3)
    states, finals = encoder(flat, packed)
    in_rows, finals_of_rows = encoder(packed.pad(flat), padded)
    torch.testing.assert_close(states, padded.real(in_rows))
    torch.testing.assert_close(finals, finals_of_rows)


def test_padding_is_read_by_nobody_even_where_it_is_wide_or_a_sequence_is_empty() -> None:
    encoder = RecurrentEncoder("lstm", 3, 4, 1, bidirectional=True).eval()
    flat = torch.randn(4, 3)
    narrow, wide = Packed.of([3, 1]), Packed.of([3, 0, 1], size=9)
    states, finals = encoder(flat, narrow)
    again, with_an_empty_one = encoder(flat, wide)
    torch.testing.assert_close(again, states)
    torch.testing.assert_close(with_an_empty_one[:, [0, 2]], finals)
    assert with_an_empty_one.isfinite().all()


def test_the_forget_gate_begins_open_and_other_biases_at_zero() -> None:
    weights = Layer("lstm", 3, 4).weights
    assert weights.b_w.tolist() == [0.0] * 4 + [1.0] * 4 + [0.0] * 8
    assert not weights.b_u.any()
