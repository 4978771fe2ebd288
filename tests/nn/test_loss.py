"""The loss fused with the output projection: §3.4, §5.4."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.nn import loss as module
from regard.nn.loss import IGNORED, chunks, smoothed_cross_entropy

N, D, V = 23, 8, 40
ROW = V * 8  # bytes of one position's logits in float64


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=[1, 5, N, 1000], ids="{} rows at a time".format)
def _chunked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(module.CHUNK_BYTES, "cpu", request.param * ROW)


def inputs(dtype: torch.dtype = torch.float64, n: int = N, d: int = D, v: int = V) -> tuple[Tensor, Tensor, Tensor]:
    """hidden, weight, bias, all of which want gradients."""
    shapes = ((n, d), (v, d), (v,))
    hidden, weight, bias = (torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes)
    return hidden, weight, bias


def plain(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float) -> Tensor:
    logits = F.linear(hidden, weight, bias)
    return F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum", ignore_index=IGNORED)


@pytest.mark.usefixtures("_chunked")
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("ignored", [0, 6, N])
@pytest.mark.parametrize("biased", [True, False])
def test_value_and_gradients_are_those_of_the_plain_formula(smoothing: float, ignored: int, biased: bool) -> None:
    hidden, weight, b = inputs()
    wanted, bias = ([hidden, weight, b], b) if biased else ([hidden, weight], None)
    targets = torch.randint(0, V, (N,))
    targets[torch.randperm(N)[:ignored]] = IGNORED
    losses = [f(hidden, weight, bias, targets, smoothing) for f in (smoothed_cross_entropy, plain)]
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-12, atol=1e-12)
    ours, theirs = (torch.autograd.grad(loss / 7, wanted) for loss in losses)
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


def test_float32_agrees_to_a_millionth() -> None:
    hidden, weight, bias = inputs(torch.float32, n=600, d=64, v=3000)
    targets = torch.randint(0, 3000, (600,))
    losses = [f(hidden, weight * 0.1, bias, targets, 0.1) for f in (smoothed_cross_entropy, plain)]
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-6, atol=0)
    ours, theirs = (torch.autograd.grad(loss, (hidden, weight, bias)) for loss in losses)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6 * max(g.abs().max().item() for g in theirs))


@pytest.mark.usefixtures("_chunked")
def test_gradients_are_those_of_finite_differences() -> None:
    targets = torch.randint(0, 9, (6,))
    targets[2] = IGNORED
    assert torch.autograd.gradcheck(lambda *x: smoothed_cross_entropy(*x, targets, 0.1), inputs(n=6, d=3, v=9))


def test_targets_without_a_chance_have_a_finite_loss() -> None:
    """Where the right token's probability is zero in float32."""
    hidden, weight = torch.tensor([[200.0]]), torch.tensor([[1.0], [-1.0], [0.0]])
    out = smoothed_cross_entropy(hidden, weight, None, torch.tensor([1]), 0.0)
    assert out.item() == pytest.approx(400.0)


def test_a_matrix_shared_with_the_embedding_gets_both_gradients() -> None:
    _, weight, _ = inputs()
    tokens, targets = torch.randint(0, V, (2, N))
    ours, theirs = (
        torch.autograd.grad(f(F.embedding(tokens, weight).tanh(), weight, None, targets, 0.1), weight)
        for f in (smoothed_cross_entropy, plain)
    )
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_only_what_wants_a_gradient_gets_one(wanted: tuple[int, ...]) -> None:
    everything, targets = inputs(), torch.randint(0, V, (N,))
    full = torch.autograd.grad(plain(*everything, targets, 0.1), everything)
    some = [x.detach().requires_grad_(i in wanted) for i, x in enumerate(everything)]
    smoothed_cross_entropy(*some, targets, 0.1).backward()
    for i, x in enumerate(some):
        assert (x.grad is not None) == (i in wanted)
        if x.grad is not None:
            torch.testing.assert_close(x.grad, full[i])


def test_the_loss_alone_computes_no_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, weight, bias = inputs()
    targets = torch.randint(0, V, (N,))
    monkeypatch.setattr(module, "add_product", None)
    with torch.no_grad():
        out = smoothed_cross_entropy(hidden, weight, bias, targets, 0.1)
    assert not out.requires_grad
    torch.testing.assert_close(out, plain(hidden, weight, bias, targets, 0.1).detach())


def test_a_graph_that_is_kept_can_be_gone_through_again() -> None:
    hidden, weight, bias = inputs()
    out = smoothed_cross_entropy(hidden, weight, bias, torch.randint(0, V, (N,)), 0.1)
    once, twice = (torch.autograd.grad(out * 0.5, hidden, retain_graph=True) for _ in range(2))
    torch.testing.assert_close(once, twice, rtol=0, atol=0)


@pytest.mark.usefixtures("_chunked")
def test_mixed_precision_sums_in_float32() -> None:
    """Products in bfloat16, softmax, loss and the gradient of the matrix in float32."""
    hidden, weight, bias = inputs(torch.float32)
    targets = torch.randint(0, V, (N,))
    with torch.autocast("cpu", torch.bfloat16):
        out = smoothed_cross_entropy(hidden, weight, bias, targets, 0.1)
    ours = torch.autograd.grad(out, (hidden, weight, bias))
    expected = plain(hidden, weight, bias, targets, 0.1)
    assert out.dtype == torch.float32
    assert [g.dtype for g in ours] == [torch.float32] * 3
    torch.testing.assert_close(out, expected, rtol=1e-2, atol=0)
    for mine, exact in zip(ours, torch.autograd.grad(expected, (hidden, weight, bias)), strict=True):
        assert (mine - exact).norm() < 0.02 * exact.norm()


def test_no_positions_have_no_loss() -> None:
    hidden, weight, bias = inputs(n=0)
    out = smoothed_cross_entropy(hidden, weight, bias, torch.empty(0, dtype=torch.long), 0.1)
    out.backward()
    assert out.item() == 0
    assert (weight.grad == 0).all()


@pytest.mark.parametrize("n", [0, 1, 5, 6, 99])
def test_chunks_are_even_and_leave_nothing_out(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(module.CHUNK_BYTES, "cpu", 5 * 4)
    slices = list(chunks(n, 4, torch.device("cpu")))
    assert [i for part in slices for i in range(n)[part]] == list(range(n))
    sizes = [part.stop - part.start for part in slices]
    assert max(sizes, default=0) <= 5
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
