"""Heads for several tokens, and what they should say."""

from __future__ import annotations

import pytest
import torch

from regard.nn.blockwise import BlockHeads, targets_ahead
from regard.nn.loss import IGNORED


def test_each_head_is_the_input_and_its_part_of_one_feed_forward_layer() -> None:
    heads, h = BlockHeads(d_model=6, d_ff=10, k=4), torch.randn(2, 3, 6)
    w_1, w_2 = heads.feed_forward.w_1, heads.feed_forward.w_2
    torch.nn.init.normal_(w_2.bias)
    for i in range(3):
        part = slice(6 * i, 6 * i + 6)
        expected = h + (h @ w_1.weight.T + w_1.bias).relu() @ w_2.weight[part].T + w_2.bias[part]
        torch.testing.assert_close(heads(h)[..., i, :], expected)


@pytest.mark.parametrize("k", [1, 2, 4, 12])
@pytest.mark.parametrize("lengths", [[5, 1, 3], [1, 1, 1, 1], [7], [2, 9, 2]], ids=str)
def test_targets_are_the_tokens_ahead_of_the_same_sentence(lengths: list[int], k: int) -> None:
    sentences = [[10 * n + t for t in range(length)] for n, length in enumerate(lengths, 1)]
    wanted = [(sentence[t : t + k] + [IGNORED] * k)[:k] for sentence in sentences for t in range(len(sentence))]
    places = torch.tensor([t for length in lengths for t in range(length)])
    expected = torch.tensor([token for sentence in sentences for token in sentence])
    assert targets_ahead(expected, places, k).tolist() == wanted
