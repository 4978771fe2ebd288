"""A linear map of a few rows by the kernel equals torch's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.nn import kernels
from regard.nn.kernels.rows import NUMBERS, PROGRAMS, columns_of, product_of_rows
from regard.nn.linear import FEW_ON_GPU, linear, linear_relu


@pytest.fixture
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a program has several columns, of which not all need be there."""
    monkeypatch.setattr("regard.nn.kernels.rows.PROGRAMS", 4)


@pytest.mark.usefixtures("few_programs")
@pytest.mark.parametrize("rows", [2, 3, FEW_ON_GPU, FEW_ON_GPU + 1])
@pytest.mark.parametrize(("d_in", "d_out"), [(8, 3), (70, 21), (NUMBERS + 5, 20)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_a_few_rows_equal_torchs_product(rows: int, d_in: int, d_out: int, with_bias: bool) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(rows, d_in, dtype=torch.float64), torch.randn(d_out, d_in, dtype=torch.float64)
    bias = torch.randn(d_out, dtype=torch.float64) if with_bias else None
    for relu in (False, True):
        ours = product_of_rows(x.float(), weight.float(), None if bias is None else bias.float(), relu)
        theirs = F.linear(x, weight, bias).relu() if relu else F.linear(x, weight, bias)
        torch.testing.assert_close(ours.double(), theirs, atol=1e-4, rtol=1e-4)


def test_what_is_no_number_stays_none() -> None:
    x, weight = torch.tensor([[torch.nan, 1.0], [2.0, 1.0]]), torch.ones(3, 2)
    assert product_of_rows(x, weight, None, True).isnan().tolist() == [[True] * 3, [False] * 3]


def test_there_are_programs_enough_for_a_large_gpu() -> None:
    for d_out in (1, 255, 257, 512, 600, 1_536, 32_000):
        columns = columns_of(d_out, 512)
        assert columns in {1, 2, 4, 8}, "a power of two, and no more numbers than a program can have before it"
        assert -(-d_out // columns) >= min(d_out, PROGRAMS)
    assert columns_of(32_000, 512) == 8, "there are not needlessly many"


def test_rows_may_lie_apart_and_in_any_shape() -> None:
    torch.manual_seed(0)
    wide, weight = torch.randn(2, 3, 40), torch.randn(9, 16)
    torch.testing.assert_close(product_of_rows(wide[..., 8:24], weight, None, False), F.linear(wide[..., 8:24], weight))
    across = torch.randn(16, 5).t()
    torch.testing.assert_close(product_of_rows(across, weight, None, False), F.linear(across, weight))


def test_decoding_takes_the_kernel_for_few_rows_in_float32_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "usable", lambda x: True)
    taken: list[tuple[int, ...]] = []
    monkeypatch.setattr(
        "regard.nn.kernels.rows.product_of_rows",
        lambda x, weight, bias, relu: (taken.append(tuple(x.shape)), product_of_rows(x, weight, bias, relu))[1],
    )
    weight, bias = torch.randn(7, 6), torch.randn(7)
    with torch.no_grad():
        for shape in ((1, 6), (2, 6), (2, 2, 6), (FEW_ON_GPU + 1, 6), (0, 6)):
            x = torch.randn(shape)
            torch.testing.assert_close(linear(x, weight, bias), F.linear(x, weight, bias))
            torch.testing.assert_close(linear_relu(x, weight, bias), F.linear(x, weight, bias).relu())
        half = torch.randn(3, 6, dtype=torch.bfloat16)
        linear(half, weight.bfloat16(), bias.bfloat16())
        linear_relu(half, weight.bfloat16(), bias.bfloat16())
        linear(torch.randn(3, 6), torch.randn(6, 7).t(), bias)
        with torch.autocast("cpu", torch.bfloat16):
            assert linear(torch.randn(3, 6), weight, bias).dtype == torch.bfloat16
    assert taken == [(2, 6), (2, 6), (2, 2, 6), (2, 2, 6)]
    linear(torch.randn(3, 6), weight.requires_grad_(), bias)
    assert len(taken) == 4, "not where a gradient is asked for"
