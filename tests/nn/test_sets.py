"""Blocks for sets: what permutations, padding, packing and emptiness do to them; what the released code computes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.config.sets import SetTransformerConfig
from regard.errors import InputError
from regard.models.set_transformer import RowLayer, SetTransformer
from regard.nn import sets
from regard.nn.attention import capture
from regard.nn.layout import Packed, Padded
from regard.nn.sets import ISAB, MAB, PMA, SAB, DotprodPool, Pool, RFFp, groups

D_IN, D = 3, 8
OPTIONS = [
    {"layer_norm": norm, "scale": scale, "residual": residual}
    for norm in (False, True)
    for scale in ("width", "head")
    for residual in ("projected", "plain")
]


EQUIVARIANT: dict[str, Callable[[dict], nn.Module]] = {
    "sab": lambda options: SAB(D_IN, D, 2, **options),
    "isab": lambda options: ISAB(D_IN, D, 2, 4, **options),
    "rff": lambda options: RowLayer([D_IN, D, D]),
    "rffp mean": lambda options: RFFp(D_IN, D, "mean"),
    "rffp max": lambda options: RFFp(D_IN, D, "max", "elu"),
}
INVARIANT: dict[str, Callable[[dict], nn.Module]] = {
    "pma": lambda options: PMA(D_IN, D, 2, 3, **options),
    "pma with rff": lambda options: PMA(D_IN, D, 2, 3, rff=True, **options),
    "mean": lambda options: Pool("mean"),
    "sum": lambda options: Pool("sum"),
    "max": lambda options: Pool("max"),
    "dotprod": lambda options: DotprodPool(D_IN),
}
ALL = {**EQUIVARIANT, **INVARIANT}

sizes = st.lists(st.integers(0, 9), min_size=1, max_size=5)
options = st.sampled_from(OPTIONS)
seeds = st.integers(0, 2**31)
quick = settings(max_examples=25, deadline=None)


def shuffled(lengths: list[int]) -> Tensor:
    """A permutation of packed positions that leaves every element in its set."""
    starts = torch.tensor([0, *lengths]).cumsum(0)[:-1]
    parts = [start + torch.randperm(length) for start, length in zip(starts, lengths, strict=True)]
    return torch.cat(parts) if parts else torch.empty(0, dtype=torch.long)


def drawn(seed: int, lengths: list[int]) -> Tensor:
    torch.manual_seed(seed)
    return torch.randn(sum(lengths), D_IN)


def assert_near(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", EQUIVARIANT)
@quick
@given(lengths=sizes, options=options, seed=seeds)
def test_layers_are_permutation_equivariant(name: str, lengths: list[int], options: dict, seed: int) -> None:
    x, layout = drawn(seed, lengths), Packed.of(lengths)
    block, order = EQUIVARIANT[name](options), shuffled(lengths)
    assert_near(block(x[order], layout), block(x, layout)[order])


@pytest.mark.parametrize("name", INVARIANT)
@quick
@given(lengths=sizes, options=options, seed=seeds)
def test_poolings_are_permutation_invariant(name: str, lengths: list[int], options: dict, seed: int) -> None:
    x, layout = drawn(seed, lengths), Packed.of(lengths)
    block = INVARIANT[name](options)
    assert_near(block(x[shuffled(lengths)], layout), block(x, layout))


@pytest.mark.parametrize("name", ALL)
@quick
@given(lengths=sizes, options=options, seed=seeds, extra=st.integers(0, 4))
def test_packed_is_padded_and_padding_changes_nothing(
    name: str, lengths: list[int], options: dict, seed: int, extra: int
) -> None:
    """In value and in the gradient of the elements; with rubbish in the padding, and more of it."""
    x, packed = drawn(seed, lengths), Packed.of(lengths)
    block = ALL[name](options)
    wide = Packed.of(lengths, packed.size + extra)
    padded = Padded(wide.mask, torch.arange(wide.size)[None], wide.size)
    rubbish = torch.randn(len(lengths), wide.size, D_IN) * 100
    ours = x.clone().requires_grad_()
    theirs = torch.where(wide.mask[..., None], wide.pad(x), rubbish).requires_grad_()
    a, b = block(ours, packed), block(theirs, padded)
    assert_near(a, padded.real(b) if name in EQUIVARIANT else b)
    direction = torch.randn_like(a)
    a.backward(direction)
    b.backward(wide.pad(direction) if name in EQUIVARIANT else direction)
    assert ours.grad is not None
    assert theirs.grad is not None
    torch.testing.assert_close(padded.real(theirs.grad), ours.grad, atol=1e-4, rtol=1e-4)
    assert torch.equal(theirs.grad[~wide.mask], torch.zeros_like(theirs.grad[~wide.mask]))


@pytest.mark.parametrize("name", ALL)
def test_padding_that_is_cleared_may_hold_anything(name: str) -> None:
    """In value and in every gradient."""
    lengths, block = [3, 0, 5], ALL[name](OPTIONS[-1])
    x, padded = Packed.of(lengths).pad(drawn(3, lengths)), Padded.of(lengths)
    assert torch.equal(padded.cleared(x), x)
    outcomes = []
    for rubbish in (0.0, float("nan"), float("inf")):
        given = torch.where(padded.mask[..., None], x, rubbish).requires_grad_()
        out = block(padded.cleared(given), padded)
        real = padded.real(out) if name in EQUIVARIANT else out
        wanted = [given, *block.parameters()]
        outcomes.append((real, *torch.autograd.grad((real**2).sum(), wanted)))
    for other in outcomes[1:]:
        for ours, theirs in zip(outcomes[0], other, strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("form", [Padded, Packed])
@pytest.mark.parametrize("lengths", [[0], [0, 0, 0], [1], [0, 1, 7]])
def test_empty_and_single_element_sets_are_finite_in_value_and_gradient(
    name: str, form: type[Padded] | type[Packed], lengths: list[int]
) -> None:
    for options in OPTIONS:
        layout, block = form.of(lengths), ALL[name](options)
        x = layout.unpad(Packed.of(lengths).pad(drawn(1, lengths))) if form is Padded else drawn(1, lengths)
        x.requires_grad_()
        out = block(x, layout)
        (out**2).sum().backward()
        for value in (out, x.grad, *(parameter.grad for parameter in block.parameters())):
            assert value is not None
            assert value.isfinite().all()


def test_an_empty_set_gives_what_the_module_says() -> None:
    layout, none = Packed.of([0, 2]), torch.randn(2, D_IN)
    for kind in ("mean", "sum", "max"):
        assert torch.equal(Pool(kind)(none, layout)[0], torch.zeros(1, D_IN))
    assert torch.equal(DotprodPool(D_IN)(none, layout)[0], torch.zeros(1, D_IN))
    pma = PMA(D_IN, D, 2, 3)
    h = pma.mab.attn.w_q(pma.seeds)
    assert_near(pma(none, layout)[0], h + pma.mab.feed_forward(h).relu())


def test_poolings_are_what_their_names_say() -> None:
    lengths, x = [3, 1, 5], torch.randn(9, D_IN)
    parts = x.split(lengths)
    for kind, by_hand in (("mean", Tensor.mean), ("sum", Tensor.sum), ("max", Tensor.amax)):
        expected = torch.stack([by_hand(part, dim=0) for part in parts])[:, None]
        assert_near(Pool(kind)(x, Packed.of(lengths)), expected)
    pool = DotprodPool(D_IN)
    weights = [(part @ pool.seed[0] / D_IN**0.5).softmax(0) for part in parts]
    expected = torch.stack([weight @ part for weight, part in zip(weights, parts, strict=True)])[:, None]
    assert_near(pool(x, Packed.of(lengths)), expected)


def test_the_gradient_of_a_maximum_reached_twice_is_the_same_in_both_layouts() -> None:
    gradients = []
    for layout in (Packed.of([3, 1]), Padded.of([3, 1])):
        x = torch.tensor([[1.0], [1.0], [0.0], [2.0]], requires_grad=True)
        Pool("max")(Packed.of([3, 1]).pad(x) if layout.offsets is None else x, layout).sum().backward()
        gradients.append(x.grad)
    assert torch.equal(*gradients)


# --- the released code -----------------------------------------------------------------------------------


def released_mab(block: MAB, x: Tensor, y: Tensor, n_heads: int) -> Tensor:
    """juho-lee/set_transformer, re-derived: x: (B, Q, d_q), y: (B, K, d_k).

    Queries, keys and values are cut into heads, the scores divided by the root of the full width, the projected
    queries added head by head; then one linear map with ReLU, and another sum. No normalisation.
    """
    q, k, v = block.attn.w_q(x), block.attn.w_k(y), block.attn.w_v(y)
    width = q.shape[-1]
    outs = []
    for q_h, k_h, v_h in zip(*(part.split(width // n_heads, -1) for part in (q, k, v)), strict=True):
        weights = torch.softmax(torch.einsum("bqd,bkd->bqk", q_h, k_h) / width**0.5, dim=-1)
        outs.append(q_h + torch.einsum("bqk,bkd->bqd", weights, v_h))
    out = torch.cat(outs, -1)
    return out + torch.relu(out @ block.feed_forward.weight.T + block.feed_forward.bias)


@pytest.mark.parametrize("n_heads", [1, 4])
def test_blocks_equal_the_released_formulation(n_heads: int) -> None:
    torch.manual_seed(0)
    B, N, width, m = 3, 11, 16, 5
    x, layout = torch.randn(B, N, D_IN), Padded.of([N] * B)
    sab = SAB(D_IN, width, n_heads)
    assert_near(sab(x, layout), released_mab(sab.mab, x, x, n_heads))
    isab = ISAB(D_IN, width, n_heads, m)
    h = released_mab(isab.collect, isab.inducing.expand(B, m, width), x, n_heads)
    assert_near(isab(x, layout), released_mab(isab.distribute, x, h, n_heads))
    pma = PMA(D_IN, width, n_heads, 2)
    assert_near(pma(x, layout), released_mab(pma.mab, pma.seeds.expand(B, 2, width), x, n_heads))


def test_the_paper_s_equations_are_the_plain_residual() -> None:
    """Eqs. 6 and 7 on X as it is, with W^O and LayerNorm, by torch's own multi-head attention."""
    torch.manual_seed(0)
    block = MAB(D, D, D, 2, layer_norm=True, scale="head", residual="plain")
    attn, theirs = block.attn, nn.MultiheadAttention(D, 2, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([attn.w_q.weight, attn.w_k.weight, attn.w_v.weight]))
        theirs.in_proj_bias.copy_(torch.cat([attn.w_q.bias, attn.w_k.bias, attn.w_v.bias]))
        theirs.out_proj.load_state_dict(attn.w_o.state_dict())
    x, y = torch.randn(2, 5, D), torch.randn(2, 7, D)
    h = nn.functional.layer_norm(x + theirs(x, y, y)[0], (D,))
    expected = nn.functional.layer_norm(h + torch.relu(block.feed_forward(h)), (D,))
    assert_near(block(x, Padded.of([5, 5]), y, Padded.of([7, 7])), expected)


def test_the_scales_agree_for_one_head_and_for_no_other_number() -> None:
    x, layout = torch.randn(6, D_IN), Packed.of([6])
    for n_heads in (1, 4):
        torch.manual_seed(0)
        wide = SAB(D_IN, D, n_heads, scale="width")
        torch.manual_seed(0)
        narrow = SAB(D_IN, D, n_heads, scale="head")
        assert torch.allclose(wide(x, layout), narrow(x, layout)) == (n_heads == 1)


def test_learned_points_are_drawn_as_in_the_released_code() -> None:
    """Glorot's limit of a (1, m, d) tensor, whose fans torch takes as m·d and d."""
    points = ISAB(D_IN, 64, 4, 100).inducing
    limit = (6 / (100 * 64 + 64)) ** 0.5
    assert 0.98 * limit < points.abs().max() <= limit


# --- sizes that vary by orders of magnitude --------------------------------------------------------------

UNEVEN = [3, 0, 200, 1, 1, 17, 150, 9]


def test_groups_hold_every_set_once_and_are_never_mostly_padding() -> None:
    layout, few = Packed.of(UNEVEN), Packed.of([4] * len(UNEVEN))
    found = list(groups(layout.offsets, few.offsets))
    for places, total in ((0, sum(UNEVEN)), (1, 4 * len(UNEVEN))):
        assert sorted(torch.cat([group[places] for group in found]).tolist()) == list(range(total))
    for group in found:
        assert len(group.layout.lengths) * group.layout.size < max(1, 2 * len(group.layout.positions))
        assert len(group.layout.lengths) == len(group.memory_layout.lengths)


@pytest.mark.parametrize("name", ["sab", "isab", "pma", "dotprod"])
def test_sets_of_very_different_sizes_are_computed_in_groups_with_the_same_result(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, layout = drawn(2, UNEVEN), Packed.of(UNEVEN)
    block = ALL[name](OPTIONS[0])
    results = []
    for small in (2**20, 0):
        monkeypatch.setattr(sets, "SMALL", small)
        ours = x.clone().requires_grad_()
        out = block(ours, layout)
        (out**2).sum().backward()
        assert ours.grad is not None
        results.append((out.detach(), ours.grad))
    assert_near(results[0][0], results[1][0])
    torch.testing.assert_close(results[0][1], results[1][1], atol=1e-4, rtol=1e-4)


def test_no_rectangle_is_made_for_one_large_set_among_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 sets of one element beside one of 20,000: the rectangle would have four million positions."""
    made = []
    pad = Packed.pad

    def watched(self: Packed, x: Tensor) -> Tensor:
        made.append((len(self.offsets) - 1) * self.size)
        return pad(self, x)

    monkeypatch.setattr(Packed, "pad", watched)
    lengths = [1] * 200 + [20_000]
    out = ISAB(D_IN, D, 2, 4)(torch.randn(sum(lengths), D_IN), Packed.of(lengths))
    assert out.shape == (20_200, D)
    assert max(made) == 20_000


@pytest.mark.parametrize("name", ["sab", "isab", "pma", "rffp mean"])
def test_what_is_kept_for_the_backward_pass_grows_as_the_set_does(name: str) -> None:
    """Four times the elements, four times the memory: no weights are kept, of n × n or of n × m."""

    def kept(n: int) -> int:
        tensors: dict[int, int] = {}

        def note(tensor: Tensor) -> Tensor:
            tensors[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        block = ALL[name](OPTIONS[0])
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            out = block(torch.randn(n, D_IN), Packed.of([n]))
            assert out.requires_grad
        return sum(tensors.values())

    assert kept(8_000) < 4.1 * kept(2_000)
    assert kept(8_000) < 8_000 * 4 * D * 16  # so many activations of width D


# --- looking inside --------------------------------------------------------------------------------------


def test_capture_sees_who_looks_at_whom_in_both_directions_of_an_isab() -> None:
    lengths = [3, 0, 5]
    block = ISAB(D_IN, D, 2, 4)
    with capture(block) as maps:
        block(torch.randn(8, D_IN), Packed.of(lengths))
    collect, distribute = maps["collect.attn"], maps["distribute.attn"]
    assert collect.shape == (3, 2, 4, 5)
    assert distribute.shape == (3, 2, 5, 4)
    assert_near(collect.sum(-1), torch.tensor([1.0, 0.0, 1.0])[:, None, None].expand(3, 2, 4))
    assert collect[0, :, :, 3:].abs().max() == 0  # nobody looks at padding
    assert_near(distribute.sum(-1), torch.ones(3, 2, 5))


# --- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in ALL if name != "rff"])
def test_a_layout_of_other_sets_is_refused(name: str) -> None:
    """Broadcasting would make something of it."""
    block = ALL[name]({})
    for x, layout, shape in (
        (torch.randn(3, 5, D_IN), Padded.of([3, 3]), r"\(2, 3, d\)"),
        (torch.randn(1, 3, D_IN), Padded.of([3, 3]), r"\(2, 3, d\)"),
        (torch.randn(5, D_IN), Packed.of([3, 3]), r"\(6, d\)"),
        (torch.randn(2, 3, D_IN), Packed.of([3, 3]), r"\(6, d\)"),
    ):
        with pytest.raises(InputError, match=rf"does not fit its layout: .* the shape {shape}"):
            block(x, layout)


BLOCKS_OF_A_WIDTH = [name for name in ALL if name not in ("mean", "sum", "max")]


@pytest.mark.parametrize("name", BLOCKS_OF_A_WIDTH)
def test_elements_of_another_width_or_type_are_refused(name: str) -> None:
    block, layout = ALL[name]({}), Packed.of([3, 2])
    for x, words in (
        (torch.randn(5, D_IN + 1), f"Elements have a width of {D_IN + 1}, but the block was made for {D_IN}"),
        (torch.randn(5, D_IN).double(), "Elements are of float64, but the block computes in float32"),
        (torch.ones(5, D_IN, dtype=torch.int64), "Elements are of int64, but the block computes in float32"),
    ):
        with pytest.raises(InputError, match=f"^{words}"):
            block(x, layout)


@pytest.mark.parametrize("options", OPTIONS[:2] + OPTIONS[-1:])
def test_what_is_looked_at_is_refused_too(options: dict) -> None:
    block, layout = MAB(D_IN, 5, D, 2, **options), Packed.of([2])
    with pytest.raises(InputError, match="a width of 4, but the block was made for 5"):
        block(torch.randn(2, D_IN), layout, torch.randn(2, 4), layout)


def test_blocks_in_float64_take_float64() -> None:
    x, layout = drawn(0, [3, 2]), Packed.of([3, 2])
    block = SAB(D_IN, D, 2)
    assert_near(block.double()(x.double(), layout).float(), block.float()(x, layout))


def test_a_network_refuses_a_layout_of_other_sets() -> None:
    for encoder in ("rff", "isab"):
        network = SetTransformer(SetTransformerConfig(encoder=encoder, d_model=D, n_heads=2), D_IN, 1)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=r"^A tensor of shape \(3, 5, 3\) does not fit its layout"):
            network(torch.randn(3, 5, D_IN), Padded.of([3, 3]))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Pool("avg"), "kind = 'avg' must be one of mean, sum, max"),
        (lambda: RFFp(2, 4, "avg"), "pool = 'avg' must be one of mean, sum, max"),
        (lambda: RFFp(2, 4, "max", "tanh"), "activation = 'tanh' must be one of relu, elu, none"),
        (lambda: SAB(2, 16, 4, scale="foo"), "scale = 'foo' must be one of width, head"),
        (lambda: ISAB(2, 16, 4, 3, residual="foo"), "residual = 'foo' must be one of projected, plain"),
        (lambda: SAB(2, 16, 5), "d_model = 16 is not a multiple of n_heads = 5"),
        (lambda: PMA(2, 16, 0), "d_model = 16 is not a multiple of n_heads = 0"),
        (lambda: SAB(2, 16, 5, residual="plain"), "d_model = 16 is not a multiple of n_heads = 5"),
    ],
)
def test_what_blocks_cannot_be_is_said_with_what_they_can(make: Callable[[], nn.Module], words: str) -> None:
    with pytest.raises(InputError, match=f"^{words}"):
        make()
