"""The Set Transformer: every row of the paper's tables can be built, and none minds order, padding or emptiness."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import RegardError, SetTransformer, SetTransformerConfig, capture
from regard.models.transformer import count_parameters
from regard.nn.layout import Packed, Padded

ENCODERS = ("rff", "rffp_mean", "rffp_max", "sab", "isab")
POOLINGS = ("mean", "sum", "max", "dotprod", "pma")


def model(encoder: str, pooling: str, **changes: Any) -> SetTransformer:
    attends = pooling == "pma"
    values = {
        "encoder": encoder, "pooling": pooling, "d_model": 8, "n_heads": 2, "n_inducing": 3, "n_outputs": 2,
        "n_seeds": 2 if attends else 1, "decoder_layers": 1 if attends else 0, "head_layers": 0 if attends else 1,
    }  # fmt: skip
    torch.manual_seed(0)
    return SetTransformer(SetTransformerConfig(**{**values, **changes}), 3, 4)


@pytest.mark.parametrize(("encoder", "pooling"), list(product(ENCODERS, POOLINGS)))
@settings(max_examples=8, deadline=None)
@given(lengths=st.lists(st.integers(0, 8), min_size=1, max_size=4), norm=st.booleans(), seed=st.integers(0, 2**31))
def test_order_padding_and_packing_do_not_matter(
    encoder: str, pooling: str, lengths: list[int], norm: bool, seed: int
) -> None:
    net, packed = model(encoder, pooling, layer_norm=norm), Packed.of(lengths)
    torch.manual_seed(seed)
    x = torch.randn(sum(lengths), 3)
    out = net(x, packed)
    assert out.shape == (len(lengths), 2, 4)
    order = torch.cat([torch.randperm(n) for n in lengths]) + packed.spread(packed.offsets[:-1])
    torch.testing.assert_close(net(x[order], packed), out, atol=1e-5, rtol=1e-5)
    rectangle = packed.pad(x).masked_fill(~packed.mask[..., None], float("nan"))
    padded = net(rectangle, Padded.of(lengths))
    torch.testing.assert_close(padded, out, atol=1e-5, rtol=1e-5)
    padded.square().sum().backward()
    for parameter in net.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()


# Rows of Tables 1 to 5 with the widths of the supplement, and what their parameters come to by hand.
SAB_64 = 3 * 64 * 64 + 3 * 64 + 64 * 64 + 64  # queries, keys, values, and the rFF
ROWS: list[tuple[dict[str, Any], int, int, int]] = [
    # Table 1, rFF + pooling: FC64r ×3, FC64, pool, FC64r, FC1
    (
        {"encoder": "rff", "pooling": "max", "n_layers": 4, "d_model": 64, "head_layers": 1},
        1, 1, (64 + 64) + 4 * (64 * 64 + 64) + 65,
    ),
    # Table 1, SAB(64, 4) ×2, PMA_1(64, 4), FC1
    (
        {"encoder": "sab", "pooling": "pma", "d_model": 64},
        1, 1, 3 * 64 + 3 * 64 + 64 * 64 + 64 + SAB_64 + 64 + SAB_64 + 65,
    ),
    # Table 2, SAB(64, 4) ×2 on features, PMA_1(8, 8), FC1
    (
        {"encoder": "sab", "pooling": "pma", "d_model": 64, "d_pool": 8, "pool_heads": 8},
        64, 1, 2 * SAB_64 + 8 + (8 * 8 + 8) + 2 * (64 * 8 + 8) + (8 * 8 + 8) + 9,
    ),
    # Table 2 (supplement), PMA with 4 seeds for one number: the seeds side by side
    (
        {"encoder": "sab", "pooling": "pma", "d_model": 64, "n_seeds": 4, "n_outputs": 1},
        64, 1, 2 * SAB_64 + 4 * 64 + SAB_64 + 4 * 64 + 1,
    ),
    # Table 3, rFF + pool: FC128r ×4, mean, FC128r ×3, FC(4 · 5)
    (
        {"encoder": "rff", "pooling": "mean", "n_layers": 4, "head_layers": 3, "last_activation": True, "n_outputs": 4},
        2, 5, (2 * 128 + 128) + 6 * (128 * 128 + 128) + 128 * 20 + 20,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("values", "d_in", "d_out", "parameters"), ROWS)
def test_rows_of_the_tables_have_the_parameters_the_supplement_gives_them(
    values: dict[str, Any], d_in: int, d_out: int, parameters: int
) -> None:
    net = SetTransformer(SetTransformerConfig(**values), d_in, d_out)
    assert count_parameters(net) == parameters
    rows = values.get("n_outputs", 1)
    assert net(torch.randn(5, d_in), Packed.of([2, 3])).shape == (2, rows, d_out)


def test_dropout_stands_before_pma_and_before_each_linear_map_after_it() -> None:
    x, layout = torch.randn(6, 3), Packed.of([6])
    net = model("isab", "pma", dropout=0.5)
    assert torch.equal(net.eval()(x, layout), net(x, layout))
    net.train()
    assert not torch.equal(net(x, layout), net(x, layout))


def test_capture_names_every_attention_of_a_set() -> None:
    net = model("isab", "pma")
    with capture(net) as maps:
        net(torch.randn(6, 3), Packed.of([4, 2]))
    assert {name: tuple(weights.shape) for name, weights in maps.items()} == {
        "encoder.0.collect.attn": (2, 2, 3, 4), "encoder.0.distribute.attn": (2, 2, 4, 3),
        "encoder.1.collect.attn": (2, 2, 3, 4), "encoder.1.distribute.attn": (2, 2, 4, 3),
        "pool.mab.attn": (2, 2, 2, 4), "decoder.0.mab.attn": (2, 2, 2, 2),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"d_model": 10}, "d_model = 10 is not a multiple"),
        ({"d_pool": 9}, "width of pma, 9"),
        ({"pooling": "mean", "n_seeds": 2}, 'n_seeds = 2 needs model.pooling = "pma"'),
        ({"pooling": "mean", "decoder_layers": 1}, "decoder_layers = 1 needs"),
        ({"dropout": 1.0}, "dropout"),
        ({"n_layers": 0}, "n_layers"),
        ({"encoder": "foo"}, "model.encoder = 'foo' must be one of 'rff', 'rffp_mean', 'rffp_max', 'sab', 'isab'"),
        ({"pooling": "PMA"}, r"must be one of .*did you mean pma\?"),
    ],
)
def test_a_wrong_model_is_explained(values: dict[str, Any], words: str) -> None:
    with pytest.raises(RegardError, match=words):
        SetTransformerConfig(**values)


@pytest.mark.parametrize(("d_in", "d_out"), [(0, 5), (3, 0), (-1, 1)])
def test_a_network_from_nothing_or_to_nothing_is_refused(d_in: int, d_out: int) -> None:
    with pytest.raises(RegardError, match=f"^d_in = {d_in} and d_out = {d_out} must both be at least 1"):
        SetTransformer(SetTransformerConfig(), d_in, d_out)
