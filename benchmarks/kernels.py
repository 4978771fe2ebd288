"""Are the Triton kernels right on a real GPU, in bfloat16, and how fast are they?

    python benchmarks/kernels.py --out FOLDER

Every kernel, forward and backward, against the same function in float64 on the same values, and the whole model,
kernels against plain torch: a mismatch beyond what bfloat16 explains ends the script with an error. Most of that is
compiling, which several processes do at once. Then, alone, the time of attention by sentence length beside torch's
variable-length kernel and its padded one, of attention in a step of decoding, of products of few rows and of a
recurrent decoder's walk beside torch's operations. Times are those of CUDA graphs' replays, so that Python does not
count. Tests run the same kernels in Triton's interpreter, which has no products in bfloat16.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import fields, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.config import ConvolutionalConfig, RecurrentConfig, TransformerConfig
from regard.data.tokenizer import Ragged
from regard.decode.recorded import KeptBench
from regard.decode.search import search, work
from regard.decode.state import SearchOptions, State
from regard.decode.step import advance
from regard.models.blockwise import TransformerBlockStep
from regard.models.convolutional import ConvolutionalSeq2Seq
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.families import step_of
from regard.models.recurrent import Encoded, PreviousStateDecoder, RecurrentSeq2Seq
from regard.models.transformer import Transformer
from regard.nn.attention import attention
from regard.nn.blockwise import BlockHeads
from regard.nn.kernels.attention import Heads, Settings, short_attention
from regard.nn.kernels.columns import sum_rows
from regard.nn.kernels.embedding import embed
from regard.nn.kernels.loss import loss_and_gradients
from regard.nn.kernels.packed import kernel_for
from regard.nn.kernels.r_drop import loss_and_gradients as r_drop_by_kernel
from regard.nn.kernels.ranking import ranked
from regard.nn.kernels.residual import residual_norm, residual_sum
from regard.nn.kernels.rows import product_of_rows
from regard.nn.kernels.stepping import block_attention, memory_attention, past_attention
from regard.nn.kernels.varlen import varlen_attention
from regard.nn.layout import Packed, Padded
from regard.nn.linear import linear_relu
from regard.nn.loss import smoothed_cross_entropy
from regard.nn.masks import key_mask
from regard.nn.r_drop import loss_and_gradients as r_drop_plain
from regard.tasks.task import move
from regard.tasks.translation import Pairs, TranslationBatch, smoothed_loss
from regard.training.captured import Captured

DEVICE = torch.device("cuda")
torch.backends.cudnn.allow_tf32 = False  # as `regard.training.device.pick` has it
HEADS = Heads(8, 64, 64)
WIDE = Heads(1, 512, 512)
OTHER_HEADS = (Heads(4, 128, 128), Heads(5, 24, 40), WIDE)
SHAPES_OF_A_STEP = ((512, 512), (512, 1_536), (512, 2_048), (2_048, 512), (512, 32_000))  # of base's products
OTHER_SHAPES = ((70, 33), (70, 301), (512, 2_401), (12_288, 1_536))  # and some that no power of two divides
LIMITS = {torch.bfloat16: 1.5e-2, torch.float32: 2e-4}  # relative, of the whole tensor
checked: list[tuple[bool, str, str]] = []  # by this process: whether right, what, and by how much it differs


def check(name: str, ours: Tensor, reference: Tensor, limit: float) -> None:
    error = float((ours.double() - reference.double()).norm() / reference.double().norm().clamp(min=1e-12))
    checked.append((error <= limit, name, f"{error:.1e}"))  # a NaN is never right


def check_gradients(
    name: str, ours: Callable[..., Tensor], reference: Callable[..., Tensor], inputs: list[Tensor], limit: float
) -> None:
    """Value and gradients of `ours` on the inputs, of `reference` on the same numbers in float64."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    exact = [x.detach().double().requires_grad_() for x in inputs]
    out, expected = ours(*leaves), reference(*exact)
    direction = torch.randn_like(out)
    check(name, out, expected, limit)
    found = torch.autograd.grad(out, leaves, direction)
    for i, (a, b) in enumerate(zip(found, torch.autograd.grad(expected, exact, direction.double()), strict=True)):
        check(f"{name}, gradient {i}", a, b, limit)


def ragged(longest: int, chance: np.random.Generator, tokens: int = 4_000) -> np.ndarray:
    """Lengths up to `longest`, an empty sequence among them."""
    return np.concatenate([chance.integers(1, longest + 1, size=max(3, 2 * tokens // longest)), [0, longest]])


def by_formula(x: Tensor, memory: Tensor | None, heads: Heads, queries: Packed, keys: Packed, causal: bool) -> Tensor:
    q, k, v = heads.split(x, memory)

    def side_by_side(part: Tensor, layout: Packed) -> Tensor:
        return layout.pad(part.unflatten(-1, (heads.n, -1))).transpose(1, 2)

    q, k, v = side_by_side(q, queries), side_by_side(k, keys), side_by_side(v, keys)
    context = attention(q, k, v, key_mask(keys.mask), causal)
    return queries.unpad(context.transpose(1, 2)).flatten(-2)


def check_attention(dtype: torch.dtype, heads: Heads, longest: int, causal: bool) -> None:
    """The kernel that is chosen for this length."""
    chance = np.random.default_rng(0)
    lengths = ragged(longest, chance)
    queries = Packed.of(lengths).to(DEVICE)
    keys = queries if causal else Packed.of(chance.permutation(lengths)).to(DEVICE)
    settings = Settings(queries.offsets, keys.offsets, longest, causal)
    kernel = kernel_for(dtype, heads, settings)
    if kernel is None:
        return
    total, q, v = int(lengths.sum()), heads.n * heads.d_k, heads.n * heads.d_v
    shapes = [(total, 2 * q + v)] if causal else [(total, q), (total, q + v)]
    check_gradients(
        f"{kernel.__name__}, {str(dtype)[6:]}, {tuple(heads)}, {longest}, {'causal' if causal else 'cross'}",
        lambda x, m=None: kernel(x, m, heads, settings),
        lambda x, m=None: by_formula(x, m, heads, queries, keys, causal),
        [torch.randn(shape, device=DEVICE, dtype=dtype) for shape in shapes], LIMITS[dtype],
    )  # fmt: skip


def check_steps(dtype: torch.dtype, beam: int, heads: Heads) -> None:
    """What decoding does by kernel: one position more behind the kept ones, whoever wrote them; the source, which may
    be empty; and the best tokens."""
    chance = torch.Generator().manual_seed(0)
    slots, room = 800 // beam, 64
    R = slots * beam
    q_size, v_size = heads.n * heads.d_k, heads.n * heads.d_v

    def some(*shape: int) -> Tensor:
        return torch.randn(shape, generator=chance).to(DEVICE, dtype)

    def whole(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high, shape, generator=chance).to(DEVICE)

    name = f"{str(dtype)[6:]}, {tuple(heads)}, beam {beam}"
    new, k, v = some(R, 2 * q_size + v_size), some(R, heads.n, room, heads.d_k), some(R, heads.n, room, heads.d_v)
    positions, ancestors = whole(0, room, slots).repeat_interleave(beam), whole(0, beam, R, room).int()
    writers = torch.arange(R, device=DEVICE)[:, None] // beam * beam + ancestors  # (R, room)
    mine = torch.arange(room, device=DEVICE) == positions[:, None]
    seen = torch.arange(room, device=DEVICE) <= positions[:, None]
    q, own_k, own_v = (part.unflatten(-1, (heads.n, -1)).double() for part in new.split([q_size, q_size, v_size], -1))
    places = torch.arange(room, device=DEVICE)
    old_k, old_v = (x[writers, :, places].transpose(1, 2).double() for x in (k, v))  # (R, H, room, d)
    keys = torch.where(mine[:, None, :, None], own_k[:, :, None], old_k)
    values = torch.where(mine[:, None, :, None], own_v[:, :, None], old_v)
    expected = attention(q[:, :, None], keys, values, seen[:, None, None])[:, :, 0].flatten(1)
    check(f"past_attention, {name}", past_attention(new, k, v, ancestors, positions, beam), expected, LIMITS[dtype])
    lengths, queries = whole(0, room + 1, slots), new[:, :q_size].contiguous()
    shared = [x[::beam].contiguous() for x in (k, v)]
    spread = [x.repeat_interleave(beam, 0).double() for x in shared]
    real = (places < lengths[:, None]).repeat_interleave(beam, 0)
    expected = attention(q[:, :, None], *spread, real[:, None, None])[:, :, 0].flatten(1)
    check(f"memory_attention, {name}", memory_attention(queries, *shared, lengths, beam), expected, LIMITS[dtype])
    if beam == 1:
        Q, n = 4, whole(0, room - 3, slots)
        both = some(slots * Q, 2 * q_size + v_size)
        block = both.view(slots, Q, -1).split([q_size, q_size, v_size], -1)
        q, own_k, own_v = (part.unflatten(-1, (heads.n, -1)).transpose(1, 2) for part in block)  # (B, H, Q, d)
        context = block_attention(both, k, v, n[:, None] + torch.arange(Q, device=DEVICE))
        places_q = (n[:, None] + torch.arange(Q, device=DEVICE))[:, None, :, None]
        keys, values = (x.double().scatter(2, places_q.expand_as(o), o.double()) for x, o in ((k, own_k), (v, own_v)))
        seen = places[None, None, None] <= places_q
        expected = attention(q.double(), keys, values, seen).transpose(1, 2).flatten(0, 1).flatten(1)
        check(f"block_attention, {name}", context, expected, LIMITS[dtype])
    for V, k_best in product((32_000, 8_001), (1, 2 * beam)):
        logits, banned = some(R, V), (0, 1, 3)
        best, tokens, total = ranked(logits, banned, k_best)
        exact, what = logits.double(), f"{name}, best {k_best} of {V}"
        check(f"ranked, sum, {what}", total, exact.logsumexp(-1), 1e-5)
        exact[:, list(banned)] = -torch.inf
        check(f"ranked, values, {what}", best, exact.topk(k_best).values, 1e-6)
        check(f"ranked, tokens, {what}", best, exact.gather(1, tokens.clamp(0, V - 1)), 1e-6)


FAMILIES: dict[str, Callable[[], EncoderDecoder]] = {  # vocabularies that Triton reads differently: 208 is 13 times 16
    "Transformer": lambda: Transformer(TransformerConfig(n_layers=2, d_model=64, d_ff=128, n_heads=4), 208),
    "recurrent": lambda: RecurrentSeq2Seq(RecurrentConfig(d_model=32, d_hidden=64), 200),
    "convolutional": lambda: ConvolutionalSeq2Seq(ConvolutionalConfig(n_layers=2, d_model=32, d_hidden=64), 200),
}


def some_sources() -> tuple[list[list[int]], list[int]]:
    """150 sources, longest first, and how many tokens their outputs may have."""
    chance = np.random.default_rng(0)
    sources = [[*chance.integers(4, 200, size=size).tolist(), 2] for size in sorted(chance.integers(1, 30, 150))[::-1]]
    return sources, [len(source) + 10 for source in sources]


def check_search(family: str, beam: int, slots: int) -> None:
    """A recorded search by kernels finds what a plain one on the CPU does, when it records and when it replays."""
    model = FAMILIES[family]().eval()
    with torch.no_grad():
        model.output.weight.mul_(4)  # or all tokens would be nearly alike
    sources, limits = some_sources()
    options = SearchOptions(1, 2, beam_size=beam, banned=(0, 1, 3))
    here = deepcopy(model).to(DEVICE)
    with torch.inference_mode():
        expected = search(step_of(model, sources, beam), limits, options, torch.device("cpu"), slots)
        bench = KeptBench.of_search(step_of(here, sources, beam), slots, 32, 64, options)
        for how in ("recording", "replaying"):
            found = work(bench.recorded, bench.parts, limits, DEVICE)
            same = sum(a[0].tokens == b[0].tokens for a, b in zip(found, expected, strict=True))
            name = f"search, {family}, beam {beam}, {slots} slots, {how}"
            checked.append((same == len(sources), name, f"{same} of {len(sources)} outputs"))


def check_blocks(k: int, slots: int) -> None:
    """Recorded blockwise decoding by kernels finds what greedy search on the CPU does, whatever its heads propose."""
    model = FAMILIES["Transformer"]().eval()
    heads = BlockHeads(model.config.d_model, model.config.d_ff, k).eval()
    sources, limits = some_sources()
    options = SearchOptions(1, 2, beam_size=1, banned=(0, 1, 3))
    with torch.inference_mode():
        model.output.weight.mul_(4)
        expected = search(step_of(model, sources, 1), limits, options, torch.device("cpu"), slots)
        step = TransformerBlockStep(deepcopy(model).to(DEVICE), deepcopy(heads).to(DEVICE), sources)
        bench = KeptBench.of_blocks(step, slots, 32, 64, options)
        for how in ("recording", "replaying"):
            found = work(bench.recorded, bench.parts, limits, DEVICE)
            same = sum(a[0].tokens == b[0].tokens for a, b in zip(found, expected, strict=True))
            name = f"blocks of {k}, {slots} slots, {how}"
            checked.append((same == len(sources), name, f"{same} of {len(sources)} outputs"))


def check_rows(rows: int) -> None:
    """A linear map of a few rows in float32."""
    for d_in, d_out in (*SHAPES_OF_A_STEP, *OTHER_SHAPES):
        x, weight, bias = (torch.randn(shape, device=DEVICE) for shape in ((rows, d_in), (d_out, d_in), d_out))
        name, exact = f"{rows} rows, {d_in} to {d_out}", F.linear(x.double(), weight.double())
        check(f"{name}, no bias", product_of_rows(x, weight, None, False), exact, 1e-5)
        check(name, product_of_rows(x, weight, bias, False), exact + bias, 1e-5)
        check(f"{name}, ReLU", product_of_rows(x, weight, bias, True), (exact + bias).relu(), 1e-5)


def recurrent_decoder(width: int, sentences: int, longest: int) -> tuple[PreviousStateDecoder, Tensor, Encoded]:
    """A GRU with additive attention and what it decodes: embeddings (B, T, D), and sources of any length."""
    config = RecurrentConfig(d_model=width, d_hidden=2 * width, d_align=width, dropout=0.0)
    lengths = torch.randint(1, longest + 1, (sentences,), device=DEVICE)
    mask = torch.arange(longest, device=DEVICE) < lengths[:, None]

    def some(*shape: int) -> Tensor:
        return torch.randn(shape, device=DEVICE, requires_grad=True)

    encoded = Encoded(some(sentences, longest, config.d_memory), mask, some(1, sentences, config.d_memory))
    return PreviousStateDecoder(config).to(DEVICE), some(sentences, longest, width), encoded


def check_walk(width: int) -> None:
    """A recurrent decoder along the target, in few kernels, against its steps in float64."""
    decoder, y, encoded = recurrent_decoder(width, 60, 25)
    exact = deepcopy(decoder).double()
    exact_y, states, last = (x.detach().double().requires_grad_() for x in (y, encoded.states, encoded.last))
    ours, expected = decoder(y, encoded), exact(exact_y, Encoded(states, encoded.mask, last))
    direction = torch.randn_like(ours)
    check(f"walk, {width}", ours, expected, LIMITS[torch.float32])
    leaves, exact_leaves = [y, encoded.states, encoded.last], [exact_y, states, last]
    names = ["y", "states", "last", *(name for name, _ in decoder.named_parameters())]
    found = torch.autograd.grad(ours, [*leaves, *decoder.parameters()], direction)
    right = torch.autograd.grad(expected, [*exact_leaves, *exact.parameters()], direction.double())
    for name, one, other in zip(names, found, right, strict=True):
        check(f"walk, {width}, gradient of {name}", one, other, LIMITS[torch.float32])


class Given:
    """A step of a search that says what it is told to: logits (steps, B, W, V)."""

    def __init__(self, logits: Tensor) -> None:
        self.left = iter(logits)

    def __call__(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        return next(self.left)

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None: ...
    def reorder(self, parents: Tensor, longest: int) -> None: ...
    def keep(self, slots: Tensor) -> None: ...


def check_choices(beam: int, normalization: str) -> None:
    """Five steps of a search by one kernel each beside the CPU's many operations, from states of every kind."""
    slots, room, V = 500, 200, 1_000
    chance = torch.Generator().manual_seed(beam)
    options = SearchOptions(1, 2, beam, normalization=normalization, banned=(0, 1))

    def drawn(*shape: int) -> Tensor:
        return torch.rand(shape, generator=chance)

    state = State.empty(slots, room, options, torch.device("cpu"))
    limits = (1 + room * drawn(slots)).long().clamp(max=room)
    state.enter(torch.arange(slots), limits, 1)
    state.length, state.done = (limits * drawn(slots)).long(), drawn(slots) < 0.1
    state.tokens = (4 + (V - 4) * drawn(slots, beam, room)).long()
    state.log_probs = (-5 * drawn(slots, beam)).masked_fill(drawn(slots, beam) < 0.2, -torch.inf)
    logits = 3 * torch.randn(5, slots, beam, V, generator=chance)
    logits[..., 2] += 6  # ends
    there = replace(state, **{one.name: getattr(state, one.name).to(DEVICE, copy=True) for one in fields(state)})
    steps = Given(logits), Given(logits.to(DEVICE))
    for _ in range(len(logits)):
        advance(steps[0], state, options, room)
        advance(steps[1], there, options, room)
    there = replace(there, **{one.name: getattr(there, one.name).cpu() for one in fields(there)})
    name = f"choices, beam {beam}, {normalization}"
    check(f"{name}, done", there.done.float(), state.done.float(), 0.0)
    check(f"{name}, length", there.length.float(), state.length.float(), 0.0)
    check(f"{name}, probabilities", there.log_probs.exp(), state.log_probs.exp(), 1e-5)
    check(f"{name}, scores", there.found_scores.exp(), state.found_scores.exp(), 1e-5)
    written = torch.arange(room) < state.length[:, None, None]
    alive = (state.log_probs > -torch.inf)[..., None] & written
    check(f"{name}, tokens", there.tokens[alive].float(), state.tokens[alive].float(), 0.0)
    found = (state.found_scores > -torch.inf)[..., None] & (torch.arange(room) < state.found_length[..., None])
    check(f"{name}, what was found", there.found_tokens[found].float(), state.found_tokens[found].float(), 0.0)


def check_dropout() -> None:
    """With values that are the identity, attention gives its dropped weights; the rest follows from them."""
    p, layout, heads = 0.1, Packed.of([32] * 500).to(DEVICE), Heads(4, 32, 32)
    x = torch.randn(16_000, 3 * 128, device=DEVICE)
    x[:, 256:] = torch.eye(32, device=DEVICE).repeat(500, 4)
    settings = Settings(layout.offsets, layout.offsets, 32)
    plain = short_attention(x, None, heads, settings)
    leaf = x.clone().requires_grad_()
    dropped = short_attention(leaf, None, heads, settings._replace(dropout=p))
    kept = dropped != 0
    share = float(kept.float().mean())
    check("attention dropout, share kept", torch.tensor([share]), torch.tensor([1 - p]), 2e-3)
    check("attention dropout, weights kept", dropped[kept], plain[kept] / (1 - p), 2e-4)
    direction = torch.randn_like(dropped)
    (gradient,) = torch.autograd.grad(dropped, leaf, direction)
    # The output is linear in v, so ⟨direction, output⟩ = ⟨dv, v⟩ if both passes dropped the same weights.
    check("attention dropout, same in both passes", (gradient * x)[:, 256:].sum(), (direction * dropped).sum(), 1e-3)


def check_passes() -> None:
    for D in (512, 1024):
        x, y = (torch.randn(5_000, D, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
        weight, bias = torch.randn(D, device=DEVICE), torch.randn(D, device=DEVICE)
        check_gradients(
            f"residual_norm, {D}",
            lambda x, y, w, b: residual_norm(x, y, w, b, 0.0, 1e-6),
            lambda x, y, w, b: F.layer_norm(x + y, w.shape, w, b, 1e-6),
            [x, y, weight, bias], LIMITS[torch.bfloat16],
        )  # fmt: skip
        with torch.no_grad():
            exact = F.layer_norm((x + y).double(), weight.shape, weight.double(), bias.double(), 1e-6)
            plain = residual_norm(x, y, weight, bias, 0.0, 1e-6)
            check(f"residual_norm without gradient, {D}", plain, exact, LIMITS[x.dtype])
            w, b = torch.randn(4 * D, D, device=DEVICE).bfloat16(), torch.randn(4 * D, device=DEVICE).bfloat16()
            exact = F.linear(x.double(), w.double(), b.double()).relu()
            check(f"linear_relu without gradient, {D}", linear_relu(x, w, b), exact, LIMITS[x.dtype])
        torch.manual_seed(3)
        kept = residual_sum(torch.zeros_like(x), torch.ones_like(x), 0.1).double()

        def with_dropout(x: Tensor, y: Tensor, w: Tensor, b: Tensor) -> Tensor:
            torch.manual_seed(3)
            return residual_norm(x, y, w, b, 0.1, 1e-6)

        check_gradients(
            f"residual_norm with dropout, {D}",
            with_dropout,
            lambda x, y, w, b, kept=kept: F.layer_norm(x + y * kept, w.shape, w, b, 1e-6),
            [x, y, weight, bias], LIMITS[torch.bfloat16],
        )  # fmt: skip
        tokens, places = torch.randint(0, 1_000, (5_000,), device=DEVICE), torch.arange(5_000, device=DEVICE) % 50
        table, positions = torch.randn(1_000, D, device=DEVICE), torch.randn(50, D, device=DEVICE)
        check_gradients(
            f"embed, {D}",
            lambda t, n=tokens, q=places, pos=positions: embed(n, t, q, pos, 2.0, 0.0, torch.bfloat16),
            lambda t, n=tokens, q=places, pos=positions: t[n] * 2.0 + pos[q],
            [table], LIMITS[torch.bfloat16],
        )  # fmt: skip
        h = torch.randn_like(x).relu()
        check(f"sum_rows through ReLU, {D}", sum_rows(x.clone(), h), (x.double() * (h > 0)).sum(0), 1e-4)
    for V in (37_000, 8_001):
        hidden = torch.randn(3_000, 512, device=DEVICE, dtype=torch.bfloat16)
        weight, bias = 0.05 * torch.randn(V, 512, device=DEVICE), torch.randn(V, device=DEVICE)
        targets = torch.randint(0, V, (3_000,), device=DEVICE).masked_fill(torch.rand(3_000, device=DEVICE) < 0.1, -100)
        exact = [x.double().requires_grad_() for x in (hidden, weight, bias)]
        logits = F.linear(*exact)
        expected = F.cross_entropy(logits, targets, label_smoothing=0.1, reduction="sum")
        loss, *gradients = loss_and_gradients(hidden, weight, bias, targets, 0.1, [True] * 3)
        check(f"loss, vocabulary {V}", loss, expected, 1e-3)
        for i, (a, b) in enumerate(zip(gradients, torch.autograd.grad(expected, exact), strict=True)):
            check(f"loss, vocabulary {V}, gradient {i}", a, b, 2e-2)
        both = torch.randn(2, 2_000, 512, device=DEVICE, dtype=torch.bfloat16)
        exactly = r_drop_plain(both.double(), weight.double(), bias.double(), targets[:2_000], 0.1, 5.0)
        for i, (a, b) in enumerate(
            zip(r_drop_by_kernel(both, weight, bias, targets[:2_000], 0.1, 5.0), exactly, strict=True)
        ):
            check(f"R-Drop, vocabulary {V}, {'gradient ' + str(i) if i else 'loss'}", a, b, 2e-2)


def mean_loss(model: Transformer, layouts: list[Any], src: Tensor, tgt: Tensor, expected: Tensor) -> Tensor:
    hidden = model.decode(tgt, layouts[1], model.encode(src, layouts[0]), layouts[0])
    real = layouts[1].real(hidden)
    return smoothed_cross_entropy(real, model.output.weight, None, expected, 0.1) / len(expected)


def check_model() -> None:
    """The Transformer on packed batches with all kernels, against padded batches without them in float64."""
    chance = np.random.default_rng(0)
    source, target = (chance.integers(1, 60, size=80) for _ in range(2))
    torch.manual_seed(0)
    for norm in ("post", "pre"):
        model = Transformer(TransformerConfig(n_layers=2, dropout=0.0, norm=norm), 1_000).to(DEVICE).train()
        parameters = list(model.parameters())
        packed, padded = ([kind.of(side).to(DEVICE) for side in (source, target)] for kind in (Packed, Padded))
        src, tgt = (torch.randint(4, 1_000, (int(side.sum()),), device=DEVICE) for side in (source, target))

        expected = torch.randint(4, 1_000, (int(target.sum()),), device=DEVICE)
        results = {}
        for name, precise in (("float32", True), ("bfloat16", False)):
            with torch.autocast("cuda", torch.bfloat16, enabled=not precise):
                value = mean_loss(model, packed, src, tgt, expected)
            results[name] = value, torch.autograd.grad(value, parameters)
        plain = model.double().cpu()  # no kernel takes a tensor in the CPU's memory
        cpu = [layout.to(torch.device("cpu")) for layout in padded]
        rows = [p.to(torch.device("cpu")).pad(t.cpu()) for p, t in zip(packed, (src, tgt), strict=True)]
        exact = mean_loss(plain, cpu, *rows, expected.cpu())
        gradients = torch.autograd.grad(exact, list(plain.parameters()))
        flat = torch.cat([g.flatten() for g in gradients])
        for name, (value, found) in results.items():
            limit = 1e-4 if name == "float32" else 3e-2
            check(f"{norm}-norm Transformer, {name}, loss", value.cpu(), exact, limit / 3)
            check(
                f"{norm}-norm Transformer, {name}, gradient", torch.cat([g.flatten() for g in found]).cpu(), flat, limit
            )


def check_recordings() -> None:
    """Gradients by replaying a recording, against the same work done by hand."""
    chance = np.random.default_rng(0)
    targets = [chance.integers(4, 1_000, size=n) for n in chance.integers(5, 31, size=300)]
    sources = [chance.permutation(target) for target in targets]
    pairs = Pairs(Ragged.of(sources), Ragged.of(targets))
    halves = [pairs.filled_batch(numbers, 1, 4_096, 1_000) for numbers in np.array_split(np.arange(300), 2)]
    assert halves[0].shape == halves[1].shape
    for dropout in (0.0, 0.1):
        torch.manual_seed(0)
        model = Transformer(TransformerConfig(n_layers=2, dropout=dropout), 1_000).to(DEVICE).train()
        parameters = list(model.parameters())
        captured = Captured[TranslationBatch](
            lambda batch, net=model: smoothed_loss(net, batch, 0.1),
            model,
            lambda: torch.autocast("cuda", torch.bfloat16),
        )
        if dropout:
            first, second = (float(captured.gradient(halves[0], 1_000)) for _ in range(2))
            checked.append((first != second, "every replay drops anew", ""))
            continue
        for batches in ([halves[0]], halves, [*halves, halves[1]]):
            total = torch.zeros((), device=DEVICE)
            for parameter in parameters:
                parameter.grad = None
            for batch in batches:
                total += captured.gradient(batch, 1_000)
            with torch.autocast("cuda", torch.bfloat16):
                loss = sum(smoothed_loss(model, move(batch, DEVICE), 0.1) for batch in batches) / 1_000
            expected = torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)])
            name = f"recording, {len(batches)} batches"
            check(f"{name}, loss", total, loss.detach(), 1e-4)
            check(f"{name}, gradient", torch.cat([p.grad.flatten() for p in parameters]), expected, 1e-3)


def parts() -> list[Callable[[], None]]:
    """Everything that is checked, each on its own."""
    attentions = [
        partial(check_attention, dtype, heads, longest, causal)
        for dtype, heads, longest, causal in product(
            LIMITS, (HEADS, *OTHER_HEADS), (9, 26, 50, 128, 300), (True, False)
        )
        if heads == HEADS or longest not in (9, 50)
    ]
    steps = [partial(check_steps, *case) for case in product(LIMITS, (1, 4, 5, 20), (HEADS, Heads(5, 24, 40)))]
    steps += [
        partial(check_steps, dtype, beam, heads)
        for dtype, beam, heads in product(LIMITS, (1, 4), (Heads(4, 128, 128), WIDE))
    ]
    steps += [partial(check_choices, *case) for case in product((1, 2, 4, 5, 8), ("gnmt", "power"))]
    searches = [partial(check_search, *case) for case in product(FAMILIES, (1, 4, 5), (16, 100))]
    searches += [partial(check_blocks, *case) for case in ((2, 16), (4, 1), (4, 100))]
    walks = [partial(check_walk, width) for width in (24, 256, 512)]
    few = [partial(check_rows, rows) for rows in (2, 3, 6, 16)]
    return [check_model, check_recordings, check_passes, check_dropout, *searches, *walks, *few, *steps, *attentions]


def chosen(functions: Sequence[Callable[[], Any]], words: Sequence[str] | None) -> list[Callable[[], Any]]:
    """Those whose names have one of these words; all of them where none are given."""
    return [function for function in functions if not words or any(word in name_of(function) for word in words)]


def name_of(function: Callable[[], Any]) -> str:
    return str((function.func if isinstance(function, partial) else function).__name__)


def outcome(part: Callable[[], None]) -> list[tuple[bool, str, str]]:
    checked.clear()
    torch.manual_seed(0)
    part()
    return list(checked)


def forward_and_backward(system: Callable[[Tensor], Tensor], x: Tensor, direction: Tensor) -> None:
    torch.autograd.grad(system(x), x, direction)


def time_attention() -> str:
    """Milliseconds forward and backward for 25,088 tokens of one length, by kernel; a Markdown table."""
    from triton.testing import do_bench_cudagraph

    lines = ["| length | ours | torch varlen | padded SDPA |", "|--:|--:|--:|--:|"]
    for length in (10, 16, 26, 32, 50, 64, 100, 128, 200, 400):
        n = 25_088 // length
        layout = Packed.of([length] * n).to(DEVICE)
        settings = Settings(layout.offsets, layout.offsets, length, True)
        x = torch.randn(n * length, 3 * HEADS.n * HEADS.d_k, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
        direction = torch.randn(n * length, HEADS.n * HEADS.d_v, device=DEVICE, dtype=torch.bfloat16)

        def padded(x: Tensor, n: int = n, length: int = length) -> Tensor:
            q, k, v = (part.view(n, length, HEADS.n, -1).transpose(1, 2) for part in HEADS.split(x, None))
            return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n * length, -1)

        systems: list[Callable[[Tensor], Tensor] | None] = [
            (lambda x, at=settings: short_attention(x, None, HEADS, at)) if length <= 128 else None,
            lambda x, at=settings: varlen_attention(x, None, HEADS, at),
            padded,
        ]
        times = []
        for system in systems:
            if system is None:
                times.append("–")
                continue
            both = partial(forward_and_backward, system, x, direction)
            times.append(f"{do_bench_cudagraph(both, rep=30):.3f}")
        lines.append(f"| {length} | {' | '.join(times)} |")
    return "\n".join(lines) + "\n"


def time_steps() -> str:
    """Microseconds of a layer's two attentions in a step of decoding, 8,192 hypotheses; a Markdown table."""
    from triton.testing import do_bench_cudagraph

    def some(*shape: int) -> Tensor:
        return torch.randn(shape, device=DEVICE, dtype=torch.bfloat16)

    lines = ["| beam | keys | past | source |", "|--:|--:|--:|--:|"]
    R, room, width = 8_192, 64, HEADS.n * HEADS.d_k
    for beam, n in product((1, 4, 10, 20), (10, 30, 60)):
        slots = R // beam
        new, lengths = some(slots * beam, 3 * width), torch.full((slots,), n, device=DEVICE)
        positions = lengths.repeat_interleave(beam)
        ancestors = torch.randint(0, beam, (slots * beam, room), device=DEVICE, dtype=torch.int32)
        past, source = ([some(rows, HEADS.n, room, HEADS.d_k) for _ in "kv"] for rows in (slots * beam, slots))
        queries = new[:, :width].contiguous()
        systems = (
            partial(past_attention, new, *past, ancestors, positions, beam),
            partial(memory_attention, queries, *source, lengths, beam),
        )
        times = " | ".join(f"{1_000 * do_bench_cudagraph(system, rep=30):.1f}" for system in systems)
        lines.append(f"| {beam} | {n} | {times} |")
    return "\n".join(lines) + "\n"


def time_rows() -> str:
    """Microseconds of a linear map of few rows in float32; a Markdown table."""
    from triton.testing import do_bench_cudagraph

    lines = ["| matrix | rows | kernel | torch | torch, one row |", "|---|--:|--:|--:|--:|"]
    for (d_in, d_out), rows in product(SHAPES_OF_A_STEP, (2, 4, 6, 16)):
        x, weight = torch.randn(rows, d_in, device=DEVICE), torch.randn(d_out, d_in, device=DEVICE)
        systems = (
            partial(product_of_rows, x, weight, None, False), partial(F.linear, x, weight),
            partial(F.linear, x[:1], weight),
        )  # fmt: skip
        times = " | ".join(f"{1_000 * do_bench_cudagraph(system, rep=20):.1f}" for system in systems)
        lines.append(f"| {d_in} to {d_out} | {rows} | {times} |")
    return "\n".join(lines) + "\n"


def time_walk() -> str:
    """Milliseconds of a recurrent decoder forward and backward, 256 sentences of 25 positions; a Markdown table."""
    from triton.testing import do_bench_cudagraph

    lines = ["| width | kernels | torch's operations |", "|--:|--:|--:|"]
    for width in (256, 512):
        decoder, y, encoded = recurrent_decoder(width, 256, 25)
        direction = torch.randn_like(y)

        def plain(y: Tensor, decoder: PreviousStateDecoder = decoder, encoded: Encoded = encoded) -> Tensor:
            tops, contexts = zip(*decoder.walk(y, encoded, decoder.move), strict=True)
            return decoder.output(torch.stack(tops, dim=1), torch.stack(contexts, dim=1), y)

        times = [
            f"{do_bench_cudagraph(partial(forward_and_backward, system, y, direction), rep=100):.2f}"
            for system in (partial(decoder, encoded=encoded), plain)
        ]
        lines.append(f"| {width} | {' | '.join(times)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for kernels.md")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1), help="processes that check")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="what has one in its name: rows, search, check …")
    arguments = parser.parse_args()
    times = [time_attention, time_steps, time_rows, time_walk]
    checks, timed = chosen(parts(), arguments.only), chosen(times, arguments.only)
    if arguments.only and arguments.out:
        parser.error("--out keeps the whole table: leave out --only")
    if not (checks or timed):
        parser.error(f"--only: there are {', '.join(sorted({name_of(part) for part in [*parts(), *times]}))}")
    if not torch.cuda.is_available():
        sys.exit("benchmarks/kernels.py needs a GPU; the interpreter's tests are in tests/nn/kernels.")
    failures = []
    spawn, one_thread = multiprocessing.get_context("spawn"), torch.set_num_threads  # each would take all cores
    with ProcessPoolExecutor(arguments.jobs, spawn, initializer=one_thread, initargs=(1,)) as pool:
        for results in pool.map(outcome, checks):
            for right, name, error in results:
                print(f"{'ok ' if right else 'BAD'}  {name:<62} {error}")
                failures += [] if right else [name]
    if failures:
        sys.exit(f"{len(failures)} mismatches: {'; '.join(failures)}")
    table = "\n".join(time() for time in timed)
    print(table)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "kernels.md").write_text(table)


if __name__ == "__main__":
    main()
