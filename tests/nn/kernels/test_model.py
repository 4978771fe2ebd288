"""A whole Transformer with every kernel in its place, against the same without them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.config import TransformerConfig
from regard.models.transformer import Transformer
from regard.nn import kernels
from regard.nn.layout import Packed, Room
from regard.nn.loss import smoothed_cross_entropy

SOURCE, TARGET = np.array([3, 7, 1, 5]), np.array([4, 2, 6, 6])


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("fill", [False, True], ids=["packed", "filled"])
def test_kernels_change_neither_loss_nor_gradient(norm: str, fill: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    config = TransformerConfig(n_layers=1, d_model=24, d_ff=40, n_heads=2, d_k=12, d_v=10, dropout=0.0, norm=norm)  # type: ignore[arg-type]
    model = Transformer(config, 30).train()
    room = Room.for_sides([SOURCE, TARGET], 40, 1000)
    src_layout, tgt_layout = (Packed.filled(side, room) if fill else Packed.of(side) for side in (SOURCE, TARGET))
    src, tgt = (torch.randint(4, 30, (int(layout.offsets[-1]),)) for layout in (src_layout, tgt_layout))
    expected = torch.randint(4, 30, tgt.shape)
    expected[int(TARGET.sum()) :] = -100
    outcomes = []
    for use in (False, True):
        monkeypatch.setattr(kernels, "usable", lambda x, use=use: use)
        hidden = model.decode(tgt, tgt_layout, model.encode(src, src_layout), src_layout)
        loss = smoothed_cross_entropy(hidden, model.output.weight, None, expected, 0.1)
        outcomes.append((loss, torch.autograd.grad(loss, list(model.parameters()))))
    (plain, plain_gradients), (fused, fused_gradients) = outcomes
    torch.testing.assert_close(plain, fused, rtol=1e-5, atol=1e-5)
    for a, b in zip(plain_gradients, fused_gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_kernels_are_for_gpus_alone() -> None:
    assert not kernels.usable(torch.zeros(1))


@pytest.mark.parametrize("tight", [False, True])
def test_a_room_holds_every_side_and_is_shared_by_batches_like_it(tight: bool) -> None:
    def sides(seed: int) -> list[np.ndarray]:
        chance = np.random.default_rng(seed)
        lengths = chance.integers(20, 31, size=38)
        return [lengths, np.clip(lengths + chance.integers(-3, 4, size=38), 1, 31)]

    rooms = {Room.for_sides(sides(seed), 1_024, 10_000, tight) for seed in range(20)}
    assert len(rooms) <= 2
    for seed in range(20):
        room = Room.for_sides(sides(seed), 1_024, 10_000, tight)
        assert room.size < 32 or not tight or max(map(max, sides(seed))) > 28
        for lengths in sides(seed):
            layout = Packed.filled(lengths, room)
            assert layout.offsets[-1] == room.total == len(layout.positions)
            assert len(layout.offsets) == room.sequences + 1
            assert int(layout.offsets.diff().max()) <= room.size == layout.size
            assert not layout.full


def test_learned_positions_bound_the_filling() -> None:
    room = Room.for_sides([np.array([9, 3]), np.array([4, 12])], 100, longest=13)
    assert room.size == 13
    assert int(Packed.filled(np.array([9, 3]), room).positions.max()) < 13
