"""The kernels of a decoding step equal torch's operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import pytest
import torch

from regard.config import TransformerConfig
from regard.decode.blockwise import BlockState, decode_blocks
from regard.decode.blockwise import advance as advance_blocks
from regard.decode.recorded import KeptBench
from regard.decode.search import search, work
from regard.decode.state import SearchOptions, State
from regard.decode.step import advance
from regard.models.blockwise import TransformerBlockStep
from regard.models.stepping import TransformerStep
from regard.models.transformer import Transformer
from regard.nn import kernels
from regard.nn.blockwise import BlockHeads
from regard.nn.cache import attend
from regard.nn.kernels.ranking import ranked
from regard.nn.kernels.stepping import (
    HYPOTHESES,
    KEYS,
    POSITIONS,
    block_attention,
    memory_attention,
    past_attention,
    put,
)

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def few_programs_a_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU wants many; the interpreter runs them one after another."""
    monkeypatch.setattr("regard.nn.kernels.rows.PROGRAMS", 1)


@pytest.mark.parametrize(("beam", "d_k", "d_v"), [(1, 8, 8), (3, 12, 10), (4, 16, 16), (10, 6, 300)])
def test_the_past_is_read_where_its_ancestors_wrote_it(beam: int, d_k: int, d_v: int) -> None:
    torch.manual_seed(0)
    B, H, room = 4, 2, 2 * POSITIONS + 20
    R = B * beam
    positions = torch.tensor([0, 2 * POSITIONS + 9, 5, POSITIONS]).repeat_interleave(beam)
    k, v = torch.randn(R, H, room, d_k), torch.randn(R, H, room, d_v)
    ancestors = torch.randint(0, beam, (R, room), dtype=torch.int32)
    projected = torch.randn(R, H * (2 * d_k + d_v))
    kept_k, kept_v = k.clone(), v.clone()
    context = past_attention(projected, k, v, ancestors, positions, beam)
    for row, here in enumerate(positions.tolist()):
        q, key, value = projected[row].split([H * d_k, H * d_k, H * d_v])
        writers = row // beam * beam + ancestors[row, :here].long()
        own_k, own_v = (kept[writers, :, torch.arange(here)] for kept in (kept_k, kept_v))  # (here, H, d)
        keys = torch.cat([own_k, key.view(1, H, d_k)]).transpose(0, 1)
        values = torch.cat([own_v, value.view(1, H, d_v)]).transpose(0, 1)
        torch.testing.assert_close(
            context[row].view(H, d_v), attend(q.view(H, 1, d_k), keys, values, None)[:, 0], rtol=1e-5, atol=1e-5
        )
        assert torch.equal(k[row, :, here], key.view(H, d_k))
        assert torch.equal(v[row, :, here], value.view(H, d_v))
        kept_k[row, :, here], kept_v[row, :, here] = key.view(H, d_k), value.view(H, d_v)
    assert torch.equal(k, kept_k), "something else was written"
    assert torch.equal(v, kept_v)


@pytest.mark.parametrize(("Q", "d_k", "d_v"), [(2, 8, 8), (4, 12, 10), (5, 16, 40), (HYPOTHESES + 2, 6, 8)])
def test_positions_of_a_block_see_the_past_and_those_before_them(Q: int, d_k: int, d_v: int) -> None:
    torch.manual_seed(0)
    H, starts = 2, torch.tensor([0, KEYS + 5, 3])
    B, room = len(starts), KEYS + 9 + Q
    k, v = torch.randn(B, H, room, d_k), torch.randn(B, H, room, d_v)
    for slot, n in enumerate(starts.tolist()):
        k[slot, :, n:], v[slot, :, n:] = torch.nan, torch.nan  # nobody may look
    positions = starts[:, None] + torch.arange(Q)
    projected = torch.randn(B * Q, H * (2 * d_k + d_v))
    kept_k, kept_v = k.clone(), v.clone()
    context = block_attention(projected, k, v, positions).view(B, Q, H, d_v)
    for slot, n in enumerate(starts.tolist()):
        q, key, value = projected.view(B, Q, -1)[slot].split([H * d_k, H * d_k, H * d_v], dim=1)
        kept_k[slot, :, n : n + Q] = key.view(Q, H, d_k).transpose(0, 1)
        kept_v[slot, :, n : n + Q] = value.view(Q, H, d_v).transpose(0, 1)
        for i in range(Q):
            seen_k, seen_v = kept_k[slot, :, : n + i + 1], kept_v[slot, :, : n + i + 1]
            expected = attend(q[i].view(H, 1, d_k), seen_k, seen_v, None)[:, 0]
            torch.testing.assert_close(context[slot, i], expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(k, kept_k, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(v, kept_v, rtol=0, atol=0, equal_nan=True)


def test_every_position_of_a_source_comes_to_its_place() -> None:
    torch.manual_seed(0)
    kept, slots, positions = torch.randn(4, 3, 6, 5), torch.tensor([2, 2, 0, 2]), torch.tensor([0, 5, 3, 1])
    new, expected = torch.randn(4, 15), kept.clone()
    expected[slots, :, positions] = new.view(4, 3, 5)
    put(new, kept, slots, positions)
    assert torch.equal(kept, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)  # the interpreter has no bfloat16 products
@pytest.mark.parametrize(
    ("beam", "d_k", "d_v"), [(1, 16, 16), (3, 12, 10), (4, 8, 24), (5, 32, 16), (10, 6, 8), (HYPOTHESES + 4, 24, 40)]
)
def test_hypotheses_of_a_slot_share_its_source(beam: int, d_k: int, d_v: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    H, lengths = 2, torch.tensor([1, KEYS + 3, 0, 7, KEYS])
    B, S = len(lengths), KEYS + 8
    q, k, v = (torch.randn(*shape).to(dtype) for shape in ((B * beam, H * d_k), (B, H, S, d_k), (B, H, S, d_v)))
    for slot, n in enumerate(lengths.tolist()):
        k[slot, :, n:], v[slot, :, n:] = torch.nan, torch.nan  # nobody may look
    context = memory_attention(q, k, v, lengths, beam)
    assert context.dtype == dtype
    limit = 1e-5 if dtype == torch.float32 else 3 * torch.finfo(dtype).eps
    for slot, n in enumerate(lengths.tolist()):
        queries = q.double().view(B, beam, H, d_k)[slot].transpose(0, 1)
        expected = attend(queries, k[slot, :, :n].double(), v[slot, :, :n].double(), None).transpose(0, 1)
        ours = context.view(B, beam, H, d_v)[slot].double()
        torch.testing.assert_close(ours, expected, rtol=limit, atol=limit)
    assert torch.equal(context.view(B, beam, -1)[2], torch.zeros(beam, H * d_v, dtype=dtype))  # an empty source


@pytest.mark.parametrize(("d_k", "d_v"), [(300, 20), (20, 300)])
def test_wide_heads_read_a_source_of_several_tiles(d_k: int, d_v: int) -> None:
    torch.manual_seed(0)
    S = 3 * KEYS
    q, k, v = torch.randn(3, d_k), torch.randn(1, 1, S, d_k), torch.randn(1, 1, S, d_v)
    context = memory_attention(q, k, v, torch.tensor([S - 3]), 3)
    expected = attend(q[None].double(), k[0, :, :-3].double(), v[0, :, :-3].double(), None)[0]
    torch.testing.assert_close(context.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("V", "k"), [(300, 2), (5_000, 8), (129, 5), (300, 1), (208, 1)])
def test_ranking_is_topk_and_logsumexp(V: int, k: int) -> None:
    torch.manual_seed(0)
    logits = 3 * torch.randn(2, 2, V)
    logits[0, 0, 7], logits[1, 1, 3] = 40.0, -torch.inf
    banned = (7, 0, V - 1)
    values, tokens, totals = ranked(logits, banned, k)
    torch.testing.assert_close(totals, logits.logsumexp(-1))  # the banned ones count
    allowed = logits.clone()
    allowed[:, :, list(banned)] = -torch.inf
    expected, at = allowed.topk(k)
    assert torch.equal(values, expected)
    assert torch.equal(tokens, at)


def test_ranking_finds_neighbours_in_one_block() -> None:
    logits = torch.zeros(1, 1_000)
    logits[0, 130:138] = torch.arange(8.0) + 1
    values, tokens, _ = ranked(logits, (), 8)
    assert values.tolist() == [[8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]]
    assert tokens.tolist() == [[137, 136, 135, 134, 133, 132, 131, 130]]


@pytest.mark.parametrize(("beam", "seed"), [(1, 0), (1, 1), (2, 2), (3, 3), (4, 4), (4, 5), (8, 6)])
def test_one_kernel_chooses_as_many_operations_do(beam: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps from a random state: slots that are done, at their limit or new, hypotheses that do not live, some ends."""
    torch.manual_seed(seed)
    B, V, room = 5, 40, 150
    options = SearchOptions(1, 2, beam, banned=(0, 1), normalization=("gnmt", "power")[seed % 2])
    state = State.empty(B, room, options, CPU)
    limits = torch.randint(1, room + 1, (B,))
    state.enter(torch.arange(B), limits, 1)
    state.length = (torch.rand(B) * limits).long()
    state.tokens = torch.randint(4, V, (B, beam, room))
    state.log_probs = (-5 * torch.rand(B, beam)).masked_fill(torch.rand(B, beam) < 0.2, -torch.inf)
    state.done = torch.rand(B) < 0.2
    chosen = []
    for use in (False, True):
        monkeypatch.setattr(kernels, "usable", lambda x, use=use: use)
        torch.manual_seed(seed + 100)
        after, parents = replace(state, **{one.name: getattr(state, one.name).clone() for one in fields(state)}), []
        step = Loaded(V, parents)
        for _ in range(2):
            advance(step, after, options, room)
        chosen.append((after, parents))
    (plain, plain_parents), (ours, our_parents) = chosen
    assert torch.equal(ours.length, plain.length)
    assert torch.equal(ours.done, plain.done)
    torch.testing.assert_close(ours.log_probs, plain.log_probs)
    torch.testing.assert_close(ours.found_scores, plain.found_scores)
    alive, found = plain.log_probs > -torch.inf, plain.found_scores > -torch.inf
    torch.testing.assert_close(ours.found_log_probs[found], plain.found_log_probs[found])
    assert torch.equal(ours.found_length[found], plain.found_length[found])
    for slot, length in enumerate(plain.length.tolist()):
        for w in alive[slot].nonzero()[:, 0].tolist():
            assert torch.equal(ours.tokens[slot, w, :length], plain.tokens[slot, w, :length])
            assert our_parents[-1][slot, w] == plain_parents[-1][slot, w]
        n = int(plain.found_length[slot, 0]) if found[slot, 0] else 0
        assert torch.equal(ours.found_tokens[slot, 0, :n], plain.found_tokens[slot, 0, :n])


class Loaded:
    """A step whose logits are chance alone; it remembers who went on from whom."""

    def __init__(self, V: int, parents: list[torch.Tensor]) -> None:
        self.V, self.parents = V, parents

    def enter(self, slots: torch.Tensor, sentences: Sequence[int]) -> None: ...

    def __call__(self, tokens: torch.Tensor, positions: torch.Tensor, longest: int) -> torch.Tensor:
        return 2 * torch.randn(*tokens.shape, self.V)

    def reorder(self, parents: torch.Tensor, longest: int) -> None:
        self.parents.append(parents)

    def keep(self, slots: torch.Tensor) -> None: ...


@pytest.mark.parametrize(("beam", "slots", "n_best"), [(1, 2, 1), (3, 2, 3), (3, 2, 1)])
def test_a_search_by_kernels_finds_the_same(
    beam: int, slots: int, n_best: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences that wait, leave and enter, hypotheses that change places, with and without slots that stay."""
    torch.manual_seed(1)
    config = TransformerConfig(n_layers=1, d_model=16, d_ff=24, n_heads=2, d_k=6, d_v=8, output_bias=True)
    model = Transformer(config, 150).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2.0)  # so that hypotheses differ
    sources = [[*range(4 + i, 4 + i + n), 2] for i, n in enumerate((5, 4, 1))]
    options = SearchOptions(1, 2, beam_size=beam, n_best=n_best, banned=(0, 1, 3))
    limits = [len(source) + 3 for source in sources]
    found = []
    for use, recorded in ((False, False), (True, False), (True, True)):
        monkeypatch.setattr(kernels, "usable", lambda x, use=use: use)
        step = TransformerStep(model, sources, beam)
        with torch.inference_mode():
            if recorded:
                bench = KeptBench.of_search(step, slots, 8, 8, options)
                found.append(work(bench.recorded, bench.parts, limits, CPU))
            else:
                found.append(search(step, limits, options, CPU, slots))
        assert (step.ancestors is not None) == use
    for plain, *others in zip(*found, strict=True):
        for other in others:
            assert [h.tokens for h in other] == [h.tokens for h in plain]
            assert [h.score for h in other] == pytest.approx([h.score for h in plain], abs=1e-4)


class Said:
    """A model of k tokens whose logits are chance; what was proposed is often what it says."""

    def __init__(self, k: int, V: int) -> None:
        self.k, self.V = k, V

    def enter(self, slots: torch.Tensor, sentences: Sequence[int]) -> None: ...

    def __call__(self, tokens: torch.Tensor, positions: torch.Tensor, longest: int) -> torch.Tensor:
        logits = torch.randn(len(tokens), self.k, self.V)
        agrees = torch.rand(len(tokens), self.k - 1) < 0.7
        logits[:, :-1].scatter_add_(2, tokens[:, 1:, None], 20.0 * agrees[:, :, None])
        return logits

    def propose(self, places: torch.Tensor) -> torch.Tensor:
        return torch.randn(len(places), self.k - 1, self.V)

    def keep(self, slots: torch.Tensor) -> None: ...


@pytest.mark.parametrize(("k", "seed"), [(2, 0), (4, 2), (5, 4)])
def test_one_kernel_accepts_as_many_operations_do(k: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls from a random state: slots that are done, at their limit or new, proposals that are right or not, ends."""
    torch.manual_seed(seed)
    B, V, room = 8, 12, 150
    options = SearchOptions(1, 2, 1, banned=(0, 1), normalization=("gnmt", "power")[seed % 2])
    state = BlockState.of(B, room, k, options, CPU)
    limits = torch.randint(1, room + 1, (B,))
    state.enter(torch.arange(B), limits, 1)
    state.length = (torch.rand(B) * limits).long() * (torch.rand(B) < 0.8)
    state.tokens = torch.randint(4, V, (B, 1, room + k))
    state.fed = torch.randint(3, V, (B, k))
    state.done, state.calls = torch.rand(B) < 0.2, torch.randint(0, 9, (B,))
    state.length[0], state.done[0] = limits[0] - 1, False  # at least this one ends
    outcomes = []
    for use in (False, True):
        monkeypatch.setattr(kernels, "usable", lambda x, use=use: use)
        torch.manual_seed(seed + 100)
        after = replace(state, **{one.name: getattr(state, one.name).clone() for one in fields(state)})
        for _ in range(2):
            advance_blocks(Said(k, V), after, options, room)
        outcomes.append(after)
    plain, ours = outcomes
    assert (plain.length - state.length).max() > 2, "nothing was accepted"
    for name in ("length", "done", "calls", "fed"):
        assert torch.equal(getattr(ours, name), getattr(plain, name)), name
    torch.testing.assert_close(ours.log_probs, plain.log_probs)
    torch.testing.assert_close(ours.found_scores, plain.found_scores)
    found = plain.found_scores[:, 0] > -torch.inf
    assert found.any()
    torch.testing.assert_close(ours.found_log_probs[found], plain.found_log_probs[found])
    assert torch.equal(ours.found_length[found], plain.found_length[found])
    for slot, length in enumerate(plain.length.tolist()):
        assert torch.equal(ours.tokens[slot, 0, :length], plain.tokens[slot, 0, :length])
        n = int(plain.found_length[slot, 0]) if found[slot] else 0
        assert torch.equal(ours.found_tokens[slot, 0, :n], plain.found_tokens[slot, 0, :n])


def test_blocks_by_kernels_are_what_greedy_search_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    config = TransformerConfig(n_layers=1, d_model=16, d_ff=24, n_heads=2, d_k=6, d_v=8, output_bias=True)
    model, heads = Transformer(config, 150).eval(), BlockHeads(16, 24, 3).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2.0)  # so that tokens differ
    sources = [[*range(4 + i, 4 + i + n), 2] for i, n in enumerate((5, 4, 1))]
    limits = [len(source) + 6 for source in sources]
    options = SearchOptions(1, 2, beam_size=1, banned=(0, 1, 3))
    with torch.inference_mode():
        greedy = [best.tokens for (best,) in search(TransformerStep(model, sources, 1), limits, options, CPU)]
        for use in (False, True):
            monkeypatch.setattr(kernels, "usable", lambda x, use=use: use)
            found = decode_blocks(TransformerBlockStep(model, heads, sources), limits, options, CPU, 2)
            assert [best.tokens for best in found] == greedy
            bench = KeptBench.of_blocks(TransformerBlockStep(model, heads, sources), 2, 8, 16, options)
            assert [best.tokens for (best,) in work(bench.recorded, bench.parts, limits, CPU)] == greedy
