"""Blocks of tokens equal the whole at once, whatever was fed before in their place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from regard.config import TransformerConfig
from regard.models.blockwise import TransformerBlockStep
from regard.models.transformer import Transformer, count_parameters
from regard.nn.layout import Padded

K = 3
VARIANTS: list[dict[str, object]] = [
    {}, {"norm": "pre"}, {"positions": "learned", "max_positions": 80}, {"attention_bias": True, "output_bias": True},
    {"d_k": 6, "d_v": 3}, {"activation": "gelu", "block_d_ff": 7}, {"tie": "none", "n_decoder_layers": 1},
]  # fmt: skip
SOURCES = [[5, 6, 7, 8, 9], [10, 11, 12], [13, 4]]


def block_step(model: Transformer, sources: list[list[int]] = SOURCES) -> TransformerBlockStep:
    assert model.block_heads is not None
    return TransformerBlockStep(model, model.block_heads, sources)


def in_one_pass(model: Transformer, source: list[int], target: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of the next token (T, V) and of those after it (T, k − 1, V)."""
    layouts = Padded.of([len(source)]), Padded.of([len(target)])
    memory = model.encode(torch.tensor([source]), layouts[0])
    h = model.decode(torch.tensor([target]), layouts[1], memory, layouts[0])[0]
    assert model.block_heads is not None
    return model.output(h), model.output(model.block_heads(h))


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
@torch.inference_mode()
def test_blocks_equal_one_pass_after_any_number_is_taken_back(
    tiny: Callable[..., Transformer], changes: dict[str, object]
) -> None:
    """Three sources that go on by 1 to k tokens a call, with wrong tokens in the places not reached; more positions
    than the first room has."""
    model, chance = tiny(block_heads=K, **changes), torch.Generator().manual_seed(2)
    tokens = torch.randint(4, 20, (3, 90), generator=chance)
    step, positions = block_step(model), torch.zeros(3, dtype=torch.long)
    step.enter(torch.arange(3), [0, 1, 2])
    expected = [in_one_pass(model, source, row[:75].tolist()) for source, row in zip(SOURCES, tokens, strict=True)]
    while int(positions.max()) < 70:
        accepted = torch.randint(1, K + 1, (3,), generator=chance)
        fed = torch.stack([row[p : p + K] for row, p in zip(tokens, positions.tolist(), strict=True)])
        wrong = torch.arange(K) >= accepted[:, None]
        fed = torch.where(wrong, (fed + 1) % 20, fed)
        found = step(fed, positions, int(positions.max()) + K)
        proposed = step.propose(accepted - 1)
        for b in range(3):
            last = int(positions[b] + accepted[b])
            next_token, later = expected[b]
            torch.testing.assert_close(found[b, : accepted[b]], next_token[positions[b] : last], atol=2e-5, rtol=1e-4)
            torch.testing.assert_close(proposed[b], later[last - 1], atol=2e-5, rtol=1e-4)
        positions = positions + accepted


@torch.inference_mode()
def test_sentences_leave_and_others_enter_between_blocks(tiny: Callable[..., Transformer]) -> None:
    model = tiny(block_heads=K)
    step, tokens = block_step(model), torch.randint(4, 20, (3, 2 * K))
    step.enter(torch.arange(2), [0, 1])
    step(tokens[:2, :K], torch.zeros(2, dtype=torch.long), K)
    step.enter(torch.tensor([0]), [2])
    found = step(torch.stack([tokens[2, :K], tokens[1, K:]]), torch.tensor([0, K]), 2 * K)
    torch.testing.assert_close(found[0], in_one_pass(model, SOURCES[2], tokens[2, :K].tolist())[0])
    torch.testing.assert_close(found[1], in_one_pass(model, SOURCES[1], tokens[1].tolist())[0][K:])
    step.keep(torch.tensor([0]))
    found = step(tokens[2:, K:], torch.tensor([K]), 2 * K)
    torch.testing.assert_close(found[0], in_one_pass(model, SOURCES[2], tokens[2].tolist())[0][K:])


@torch.inference_mode()
def test_a_block_may_reach_beyond_learned_positions_and_the_others_do_not_mind(
    tiny: Callable[..., Transformer],
) -> None:
    model = tiny(block_heads=K, positions="learned", max_positions=5)
    step, tokens = block_step(model), torch.randint(4, 20, (3, 6))
    step.enter(torch.arange(3), [0, 1, 2])
    step(tokens[:, :3], torch.zeros(3, dtype=torch.long), 3)
    found = step(tokens[:, 3:], torch.full((3,), 3), 6)  # positions 3, 4, and 5, which is none
    for b, source in enumerate(SOURCES):
        torch.testing.assert_close(found[b, :2], in_one_pass(model, source, tokens[b, :5].tolist())[0][3:])


def test_one_head_is_the_plain_model_and_more_leave_its_weights_as_they_were() -> None:
    def made(**changes: int) -> dict[str, torch.Tensor]:
        torch.manual_seed(4)
        return Transformer(TransformerConfig(n_layers=1, d_model=8, d_ff=12, n_heads=2, **changes), 20).state_dict()

    plain, one, three = made(), made(block_heads=1), made(block_heads=3)
    assert plain.keys() == one.keys() == {name for name in three if not name.startswith("block_heads.")}
    for name, tensor in plain.items():
        assert torch.equal(tensor, one[name])
        assert torch.equal(tensor, three[name])


@pytest.mark.parametrize("width", [0, 100])
def test_heads_have_the_parameters_the_paper_gives_them_but_for_the_first(width: int) -> None:
    """(d + 1) · k·d_ff into the hidden layer, (k·d_ff + 1) · (k − 1)·d out of it."""
    d, f, k = 512, 2048, 4
    with torch.device("meta"):
        sizes = [
            count_parameters(Transformer(TransformerConfig(block_heads=n, block_d_ff=width if n > 1 else 0), 100))
            for n in (1, k)
        ]
    hidden = width or k * f
    assert sizes[1] - sizes[0] == (d + 1) * hidden + (hidden + 1) * (k - 1) * d
