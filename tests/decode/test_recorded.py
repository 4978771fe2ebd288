"""Slots that stay from search to search give what fresh ones give. (That a GPU's recordings do is checked by
benchmarks/kernels.py, which needs one.)"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from recording import check_recordable

from regard.decode.blockwise import decode_blocks
from regard.decode.recorded import KeptBench
from regard.decode.search import search, work
from regard.decode.state import SearchOptions
from regard.models.blockwise import TransformerBlockStep
from regard.models.stepping import TransformerStep
from regard.models.transformer import Transformer

CPU = torch.device("cpu")


@pytest.mark.parametrize(("beam", "slots"), [(1, 1), (4, 3), (2, 16)])
def test_searches_one_after_another_in_the_same_slots_find_what_fresh_ones_find(
    tiny: Callable[..., Transformer], beam: int, slots: int
) -> None:
    model, draw = tiny(vocab=12), random.Random(1)
    options = SearchOptions(1, 2, beam_size=beam, n_best=beam)
    step = TransformerStep(model, [], beam)
    bench = KeptBench.of_search(step, slots, source_room=16, room=40, options=options)
    with torch.inference_mode():
        for n in (9, 1, 4):
            sources = [[*draw.choices(range(4, 12), k=draw.randint(1, 14)), 2] for _ in range(n)]
            sources.sort(key=len, reverse=True)
            limits = [len(source) + 20 for source in sources]
            step.sources = sources
            kept = work(bench.recorded, bench.parts, limits, CPU)
            fresh = search(TransformerStep(model, sources, beam), limits, options, CPU, slots)
            for one, other in zip(kept, fresh, strict=True):
                assert [h.tokens for h in one] == [h.tokens for h in other]
                assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-5)


def never_ending(tiny: Callable[..., Transformer]) -> Transformer:
    """A model whose outputs end at their limits."""
    model = tiny(vocab=12, output_bias=True)
    with torch.no_grad():
        model.output.bias[2] = -1e4
    return model


def test_no_step_is_made_to_learn_that_a_limit_is_reached(tiny: Callable[..., Transformer]) -> None:
    """What is done comes late, but of a sentence that may go no further it need not come."""
    options, sources, limits = SearchOptions(1, 2, beam_size=2), [[5, 6, 2]] * 5, [6, 6, 6, 6, 3]
    step = TransformerStep(never_ending(tiny), sources, 2)
    bench = KeptBench.of_search(step, 2, source_room=16, room=32, options=options)
    reached, advance = [], bench.recorded.advance
    bench.recorded.advance = lambda steps: (reached.append(steps), advance(steps))[1]  # type: ignore[method-assign]
    with torch.inference_mode():
        found = work(bench.recorded, bench.parts, limits, CPU)
    assert [len(best[0].tokens) for best in found] == limits
    assert len(reached) == 6 + 6 + 3, "two by two, and the last alone"
    assert max(reached) == 6, "nobody is further than a limit"


def test_a_search_that_was_broken_off_leaves_nothing_behind(tiny: Callable[..., Transformer]) -> None:
    options, sources, limits = SearchOptions(1, 2, beam_size=2), [[5, 6, 2], [7, 2], [8, 9, 2], [4, 2]], [7, 5, 6, 4]
    model = never_ending(tiny)
    step = TransformerStep(model, sources, 2)
    bench = KeptBench.of_search(step, 2, source_room=16, room=32, options=options)

    def refuse(*_: object) -> None:
        raise KeyboardInterrupt

    with torch.inference_mode():
        with pytest.raises(KeyboardInterrupt):
            work(bench.recorded, bench.parts, limits, CPU, take=refuse)
        again = work(bench.recorded, bench.parts, limits, CPU)
        fresh = search(TransformerStep(model, sources, 2), limits, options, CPU, slots=2)
    assert [best[0].tokens for best in again] == [best[0].tokens for best in fresh]


def test_learned_positions_suffice_for_slots_with_more_room(tiny: Callable[..., Transformer]) -> None:
    model, options = tiny(vocab=12, positions="learned", max_positions=20), SearchOptions(1, 2, beam_size=2)
    step = TransformerStep(model, [[5, 6, 2]], 2)
    bench = KeptBench.of_search(step, 1, source_room=16, room=20, options=options)
    with torch.inference_mode():
        (found,) = work(bench.recorded, bench.parts, [20], CPU)
    assert len(found[0].tokens) <= 20


@pytest.mark.parametrize("slots", [1, 3, 16])
def test_blocks_in_slots_that_stay_are_those_in_fresh_ones(tiny: Callable[..., Transformer], slots: int) -> None:
    model, draw = tiny(vocab=12, block_heads=3), random.Random(1)
    options = SearchOptions(1, 2, beam_size=1, banned=(0,))
    assert model.block_heads is not None
    step = TransformerBlockStep(model, model.block_heads, [])
    bench = KeptBench.of_blocks(step, slots, source_room=16, room=40, options=options)
    with torch.inference_mode():
        for n in (9, 1, 4):
            sources = [[*draw.choices(range(4, 12), k=draw.randint(1, 14)), 2] for _ in range(n)]
            sources.sort(key=len, reverse=True)
            limits = [len(source) + 20 for source in sources]
            step.sources = sources
            kept = work(bench.recorded, bench.parts, limits, CPU)
            fresh = decode_blocks(TransformerBlockStep(model, model.block_heads, sources), limits, options, CPU, slots)
            for (one,), other in zip(kept, fresh, strict=True):
                assert (one.tokens, one.calls) == (other.tokens, other.calls)
                assert one.score == pytest.approx(other.score, abs=1e-5)


@torch.inference_mode()
def test_a_gpu_can_record_a_step_of_blocks(tiny: Callable[..., Transformer]) -> None:
    model = tiny(vocab=12, block_heads=3)
    assert model.block_heads is not None
    step = TransformerBlockStep(model, model.block_heads, [[5, 6, 2], [7, 2]])
    check_recordable(KeptBench.of_blocks(step, 2, 16, 32, SearchOptions(1, 2, beam_size=1, banned=(0,))), sentences=2)
