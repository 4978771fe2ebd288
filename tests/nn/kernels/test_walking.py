"""A walk along the target in few kernels gives what the decoder's own steps give, and so do its gradients."""

from __future__ import annotations

import pytest
import torch

from regard.config import RecurrentConfig
from regard.models.recurrent import Encoded, PreviousStateDecoder

LENGTHS = (19, 1, 7)  # of the sources


def decoder_and_inputs() -> tuple[PreviousStateDecoder, torch.Tensor, Encoded]:
    torch.manual_seed(0)
    config = RecurrentConfig(d_model=6, d_hidden=10, d_align=5, dropout=0.0)
    decoder = PreviousStateDecoder(config)
    y = torch.randn(len(LENGTHS), 4, 6, requires_grad=True)
    states = torch.randn(len(LENGTHS), max(LENGTHS), config.d_memory, requires_grad=True)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    last = torch.randn(1, len(LENGTHS), config.d_memory, requires_grad=True)
    return decoder, y, Encoded(states, mask, last)


def test_the_walk_is_the_steps_with_all_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, y, encoded = decoder_and_inputs()
    leaves = [y, encoded.states, encoded.last, *decoder.parameters()]
    direction = torch.randn(len(LENGTHS), 4, 6)
    plain = decoder(y, encoded)
    expected = torch.autograd.grad(plain, leaves, direction)
    monkeypatch.setattr(PreviousStateDecoder, "few_kernels", lambda *_: True)
    ours = decoder(y, encoded)
    torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-6)
    for one, other in zip(torch.autograd.grad(ours, leaves, direction), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_source_of_nothing_but_padding_is_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, y, encoded = decoder_and_inputs()
    encoded.mask[1] = False
    encoded.states.data[1] = torch.nan  # nobody may look
    plain = decoder(y, Encoded(encoded.states.nan_to_num(), encoded.mask, encoded.last))
    monkeypatch.setattr(PreviousStateDecoder, "few_kernels", lambda *_: True)
    torch.testing.assert_close(decoder(y, encoded), plain, rtol=1e-5, atol=1e-6)
