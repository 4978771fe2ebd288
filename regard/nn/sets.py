"""Blocks for sets: *Set Transformer* (Lee et al. 2019), §3; the layers of *Deep Sets* (Zaheer et al. 2017).

    MAB(X, Y)  = LayerNorm(H + rFF(H)),   H = LayerNorm(X + Multihead(X, Y, Y))    (eqs. 6, 7)
    SAB(X)     = MAB(X, X)                                                         (eq. 8)
    ISAB_m(X)  = MAB(X, H),               H = MAB(I, X), I: m inducing points      (eqs. 9, 10)
    PMA_k(Z)   = MAB(S, rFF(Z)),          S: k seeds                               (eq. 11)
    rFFp(x_i)  = σ(Γ x_i − Λ pool(X))                                              (eq. 2, Deep Sets)

Where paper and released code differ, both can be had (docs/fidelity.md): LayerNorm or none, scores divided by √d (both
of them: `scale = "width"`) or by √d_head, the residual on X as projected for the queries (the code) or on X itself,
with an output projection (the equations), PMA with an rFF before it or without. The rFF of a block is what the code
has in its place, relu(H W + b).

An empty set has no elements to compute. What is computed of it as a whole is defined and finite: inducing points and
seeds that find nothing to attend to stay themselves, MAB(S, ∅) with zeros for Multihead; the mean, the sum and the
maximum of no elements are zero, and so is their attention-weighted mean.

What lies in the padding of a rectangle is never seen, but NaN or infinity there would be: a weight of zero times NaN is
NaN. Blocks used by themselves want `layout.cleared(x)` first where that may happen; `SetTransformer` does it once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypedDict, TypeVar, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError
from regard.nn import kernels
from regard.nn.attention import Attending
from regard.nn.layout import Layout, Packed
from regard.nn.linear import linear, product_type, side_by_side
from regard.nn.masks import key_mask
from regard.nn.residual import LayerNorm

NORM_EPS = 1e-5  # the released code's LayerNorm
WASTE = 2  # a rectangle may have this many times the real positions; sets of more uneven sizes are grouped
SMALL = 2**14  # positions of a rectangle whose padding is not worth the grouping
Choice = TypeVar("Choice")


def pick(name: str, value: str, choices: Mapping[str, Choice]) -> Choice:
    """What a word stands for."""
    if value not in choices:
        raise InputError(f"{name} = {value!r} must be one of {', '.join(choices)}.")
    return choices[value]


def check_fit(x: Tensor, layout: Layout, weight: Tensor | None = None) -> None:
    """Refuse a tensor that lies otherwise than its layout says, or is not for the matrix (d_out, d_in) that is to take
    it. Known from shapes and types, without asking the device."""
    shape = layout.mask.shape if layout.offsets is None else layout.positions.shape
    if x.shape[:-1] != shape:
        raise InputError(
            f"A tensor of shape {tuple(x.shape)} does not fit its layout: of these sets it must have the shape "
            f"({', '.join(map(str, shape))}, d)."
        )
    if weight is not None:
        check_elements(x, weight)


def check_elements(x: Tensor, weight: Tensor) -> None:
    """Narrow types may differ, as in mixed precision."""
    if x.shape[-1] != weight.shape[-1]:
        raise InputError(f"Elements have a width of {x.shape[-1]}, but the block was made for {weight.shape[-1]}.")
    if x.dtype != weight.dtype and (torch.float64 in (x.dtype, weight.dtype) or not x.is_floating_point()):
        ours, theirs = (str(tensor.dtype).removeprefix("torch.") for tensor in (x, weight))
        raise InputError(f"Elements are of {ours}, but the block computes in {theirs}: convert them with x.to(…).")


# --- attention over sets ---------------------------------------------------------------------------------


class Gathering(Attending):
    """What queries gather from keys and values, set by set, in whatever layout they lie."""

    def __init__(self, n_heads: int, d_head: int) -> None:
        super().__init__()
        self.n_heads, self.d_head = n_heads, d_head

    def context(self, q: Tensor, layout: Layout, kv: Tensor, memory_layout: Layout) -> Tensor:
        """q: (…, D) in `layout`   kv: (…, 2·D) in `memory_layout`, keys beside values   → (…, D) in `layout`."""
        q_offsets, k_offsets = layout.offsets, memory_layout.offsets
        if self.record is None and q_offsets is not None and k_offsets is not None:
            if kernels.usable(q):
                longest = max(layout.size, memory_layout.size)
                context = self.packed_context(q, kv, q_offsets, k_offsets, longest)
                if context is not None:
                    return context
            if uneven(layout, memory_layout):
                return self.grouped_context(q, kv, q_offsets, k_offsets)
        return self.padded_context(q, kv, layout, memory_layout)

    def packed_context(
        self, q: Tensor, kv: Tensor, q_offsets: Tensor, k_offsets: Tensor, longest: int
    ) -> Tensor | None:
        """Without padding; None where no kernel takes it."""
        from regard.nn.kernels.attention import Heads, Settings
        from regard.nn.kernels.packed import kernel_for

        heads, settings = Heads(self.n_heads, self.d_head, self.d_head), Settings(q_offsets, k_offsets, longest)
        dtype = product_type(q)
        kernel = kernel_for(dtype, heads, settings)
        return kernel(q.to(dtype), kv.to(dtype), heads, settings) if kernel else None

    def padded_context(self, q: Tensor, kv: Tensor, layout: Layout, memory_layout: Layout) -> Tensor:
        """In one rectangle."""
        k, v = (self.heads(part, memory_layout) for part in kv.chunk(2, dim=-1))
        mask = None if memory_layout.full else key_mask(memory_layout.mask)
        context = self.attend(self.heads(q, layout), k, v, mask)  # (B, H, Q, d_head)
        return layout.unpad(context.transpose(1, 2)).flatten(-2)

    def grouped_context(self, q: Tensor, kv: Tensor, q_offsets: Tensor, k_offsets: Tensor) -> Tensor:
        """In one rectangle for each group of sets of like sizes."""
        parts, places = [], []
        for group in groups(q_offsets, k_offsets):
            q_part, kv_part = q.index_select(0, group.q_places), kv.index_select(0, group.k_places)
            parts.append(self.padded_context(q_part, kv_part, group.layout, group.memory_layout))
            places.append(group.q_places)
        return torch.cat(parts).index_select(0, torch.cat(places).argsort())

    def heads(self, x: Tensor, layout: Layout) -> Tensor:
        """(…, D) → (B, H, N, d_head)."""
        return layout.pad(x.unflatten(-1, (self.n_heads, -1))).transpose(1, 2)


class SetAttention(Gathering):
    """Multihead attention of X to Y with the residual of the released code: X W_q + Multihead(X, Y, Y), no W_o."""

    def __init__(self, d_in: int, d_memory: int, d_model: int, n_heads: int, scale: str) -> None:
        if n_heads < 1 or d_model % n_heads:
            raise InputError(f"d_model = {d_model} is not a multiple of n_heads = {n_heads}: change one of them.")
        super().__init__(n_heads, d_model // n_heads)
        # Attention divides by √d_head. To divide by √d_model instead, shorten the queries.
        self.sharpness = pick("scale", scale, {"width": math.sqrt(self.d_head / d_model), "head": 1.0})
        self.w_q = Row(d_in, d_model)
        self.w_k = nn.Linear(d_memory, d_model)
        self.w_v = nn.Linear(d_memory, d_model)

    @property
    def first(self) -> Tensor:
        """The matrix that takes X first."""
        return self.w_q.weight

    def forward(self, x: Tensor, layout: Layout, memory: Tensor, memory_layout: Layout) -> Tensor:
        """x: (…, d_in) in `layout`   memory: (…, d_memory) in `memory_layout`   → (…, D) in `layout`."""
        q = self.w_q(x)
        return q + self.context(q * self.sharpness, layout, self.keys_and_values(memory), memory_layout)

    def keys_and_values(self, memory: Tensor) -> Tensor:
        return side_by_side(memory, self.w_k, self.w_v)


class PlainSetAttention(SetAttention):
    """Multihead attention with the residual of the paper's equations: X + Multihead(X, Y, Y) W_o."""

    def __init__(self, d_in: int, d_memory: int, d_model: int, n_heads: int, scale: str) -> None:
        super().__init__(d_model, d_memory, d_model, n_heads, scale)
        self.w_in = Row(d_in, d_model) if d_in != d_model else nn.Identity()
        self.w_o = Row(d_model, d_model)

    @property
    def first(self) -> Tensor:
        return self.w_in.weight if isinstance(self.w_in, Row) else self.w_q.weight

    def forward(self, x: Tensor, layout: Layout, memory: Tensor, memory_layout: Layout) -> Tensor:
        x = self.w_in(x)
        q = self.w_q(x)
        context = self.context(q * self.sharpness, layout, self.keys_and_values(memory), memory_layout)
        return x + self.w_o(context)


RESIDUALS: dict[str, type[SetAttention]] = {"projected": SetAttention, "plain": PlainSetAttention}


def uneven(*layouts: Layout) -> bool:
    """Whether one rectangle for all sets would be mostly padding. Known from shapes, without asking the device."""
    return any(
        layout.offsets is not None
        and (len(layout.offsets) - 1) * layout.size > max(SMALL, WASTE * len(layout.positions))
        for layout in layouts
    )


class Group(NamedTuple):
    """Sets of like sizes among others."""

    q_places: Tensor  # of their queries in the packed tensor
    k_places: Tensor
    layout: Packed  # of the queries by themselves
    memory_layout: Packed


def groups(q_offsets: Tensor, k_offsets: Tensor) -> Iterator[Group]:
    """Sets in groups whose sizes, of queries and of keys, lie between the same powers of two."""
    lengths = torch.stack([q_offsets.diff(), k_offsets.diff()]).cpu()  # (2, B)
    exponents = torch.frexp(lengths.double()).exponent
    kinds, kind_of = exponents.unique(dim=1, return_inverse=True)
    for kind in range(kinds.shape[1]):
        members = (kind_of == kind).nonzero()[:, 0]
        layouts = [Packed.of(side[members]).to(q_offsets.device) for side in lengths]
        starts = [offsets[members.to(offsets.device)] for offsets in (q_offsets, k_offsets)]
        places = [layout.positions + layout.spread(start) for layout, start in zip(layouts, starts, strict=True)]
        yield Group(places[0], places[1], layouts[0], layouts[1])


# --- blocks ----------------------------------------------------------------------------------------------


class BlockOptions(TypedDict, total=False):
    """What all attention blocks may be told."""

    layer_norm: bool
    scale: str  # width: scores / √d_model; head: scores / √(d_model / n_heads)
    residual: str  # projected: added to X W_q; plain: added to X


class MAB(nn.Module):
    """Multihead attention block: X attends to Y. What it does to X does not depend on the order of Y."""

    def __init__(
        self,
        d_in: int,
        d_memory: int,
        d_model: int,
        n_heads: int,
        *,
        layer_norm: bool = False,
        scale: str = "width",
        residual: str = "projected",
    ) -> None:
        super().__init__()
        self.attn = pick("residual", residual, RESIDUALS)(d_in, d_memory, d_model, n_heads, scale)
        self.attn_norm = LayerNorm(d_model, eps=NORM_EPS) if layer_norm else nn.Identity()
        self.feed_forward = Row(d_model, d_model)
        self.feed_forward_norm = LayerNorm(d_model, eps=NORM_EPS) if layer_norm else nn.Identity()

    def forward(self, x: Tensor, layout: Layout, memory: Tensor, memory_layout: Layout) -> Tensor:
        """x: (…, d_in) in `layout`   memory: (…, d_memory) in `memory_layout`   → (…, D) in `layout`."""
        check_fit(x, layout, self.attn.first)
        check_fit(memory, memory_layout, self.attn.w_k.weight)
        h = self.attn_norm(self.attn(x, layout, memory, memory_layout))
        # Not `linear_relu`: the sum hands one gradient to both of its terms.
        return self.feed_forward_norm(h + self.feed_forward(h).relu())


class SAB(nn.Module):
    """Set attention block: every element attends to every element. Quadratic in time."""

    def __init__(self, d_in: int, d_model: int, n_heads: int, **options: Unpack[BlockOptions]) -> None:
        super().__init__()
        self.mab = MAB(d_in, d_in, d_model, n_heads, **options)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """x: (…, d_in) → (…, D), both in `layout`."""
        return self.mab(x, layout, x, layout)


class ISAB(nn.Module):
    """Induced set attention block: m inducing points collect from the elements, and the elements from them."""

    def __init__(self, d_in: int, d_model: int, n_heads: int, n_inducing: int, **options: Unpack[BlockOptions]) -> None:
        super().__init__()
        self.inducing = points(n_inducing, d_model)
        self.collect = MAB(d_model, d_in, d_model, n_heads, **options)
        self.distribute = MAB(d_in, d_model, d_model, n_heads, **options)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """x: (…, d_in) → (…, D), both in `layout`."""
        inducing, few = for_each_set(self.inducing, layout)
        h = self.collect(inducing, few, x, layout)  # (…, D) in `few`
        return self.distribute(x, layout, h, few)


class PMA(nn.Module):
    """Pooling by multihead attention: k seeds collect from the elements."""

    def __init__(
        self,
        d_in: int,
        d_model: int,
        n_heads: int,
        n_seeds: int = 1,
        *,
        rff: bool = False,
        **options: Unpack[BlockOptions],
    ) -> None:
        super().__init__()
        self.seeds = points(n_seeds, d_model)
        self.rff = RFF([d_in, d_in], last_activation=True) if rff else nn.Identity()
        self.mab = MAB(d_model, d_in, d_model, n_heads, **options)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """x: (…, d_in) in `layout` → (B, P, D)."""
        seeds, few = for_each_set(self.seeds, layout)
        return few.pad(self.mab(seeds, few, self.rff(x), layout))


def points(n: int, d_model: int) -> nn.Parameter:
    """Learned points (n, D), drawn as in the released code: Glorot's limit for a (1, n, D) tensor, which is
    √(6 / (n·D + D))."""
    drawn = torch.empty(1, n, d_model)
    nn.init.xavier_uniform_(drawn)
    return nn.Parameter(drawn[0])


def for_each_set(learned: Tensor, layout: Layout) -> tuple[Tensor, Layout]:
    """Learned points (n, D) once for every set of a layout, and the layout they are in."""
    few = layout.uniform(len(learned))
    return few.unpad(learned.expand(len(layout.lengths), *learned.shape)), few


# --- row by row ------------------------------------------------------------------------------------------


class Row(nn.Linear):
    """A linear map, the same for every element, through the project's product."""

    def forward(self, x: Tensor) -> Tensor:
        """x: (…, d_in) → (…, d_out)."""
        return linear(x, self.weight, self.bias)


class RFF(nn.Module):
    """Row-wise feed-forward: the same linear maps for every element, ReLU between them."""

    def __init__(self, widths: Sequence[int], last_activation: bool = False) -> None:
        super().__init__()
        self.maps = nn.ModuleList(Row(*pair) for pair in pairwise(widths))
        self.last_activation = last_activation

    def forward(self, x: Tensor) -> Tensor:
        """x: (…, widths[0]) → (…, widths[-1])."""
        if (weight := next(self.maps.parameters(), None)) is not None:
            check_elements(x, weight)
        for number, part in enumerate(self.maps, start=1):
            x = part(x)
            if number < len(self.maps) or self.last_activation:
                x = x.relu()
        return x


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "elu": F.elu, "none": nn.Identity()}


class RFFp(nn.Module):
    """The permutation-equivariant layer of Deep Sets, with matrices in the place of scalars as in its released code."""

    def __init__(self, d_in: int, d_out: int, pool: str, activation: str = "relu") -> None:
        super().__init__()
        self.own = Row(d_in, d_out)  # Γ
        self.others = Row(d_in, d_out, bias=False)  # Λ
        self.pool, self.activation = pick("pool", pool, POOLS), pick("activation", activation, ACTIVATIONS)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """x: (…, d_in) → (…, d_out), both in `layout`."""
        check_fit(x, layout, self.own.weight)
        pooled = self.others(self.pool(x, layout))  # (B, d_out)
        return self.activation(self.own(x) - layout.spread(pooled))


# --- pooling ---------------------------------------------------------------------------------------------


def sum_pool(x: Tensor, layout: Layout) -> Tensor:
    """x: (…, D) in `layout` → (B, D), as are the other two."""
    return layout.sums(x)


def mean_pool(x: Tensor, layout: Layout) -> Tensor:
    return layout.sums(x) / layout.lengths.clamp(min=1)[:, None]


def max_pool(x: Tensor, layout: Layout) -> Tensor:
    return layout.maxima(x)


POOLS: dict[str, Callable[[Tensor, Layout], Tensor]] = {"mean": mean_pool, "sum": sum_pool, "max": max_pool}


class Pool(nn.Module):
    """Mean, sum or maximum over the elements of each set."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.pool = pick("kind", kind, POOLS)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """x: (…, D) in `layout` → (B, 1, D)."""
        check_fit(x, layout)
        return self.pool(x, layout)[:, None]


class DotprodPool(Gathering):
    """The mean of the elements, weighted by softmax(s · x / √D) for a learned s (Yang et al. 2018, Ilse et al. 2018):
    attention with one head, one seed and no projections."""

    def __init__(self, d_model: int) -> None:
        super().__init__(1, d_model)
        self.seed = points(1, d_model)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """x: (…, D) in `layout` → (B, 1, D)."""
        check_fit(x, layout, self.seed)
        seeds, few = for_each_set(self.seed.to(x.dtype), layout)
        return few.pad(self.context(seeds, few, torch.cat([x, x], dim=-1), layout))
