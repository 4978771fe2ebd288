"""Blockwise decoding is greedy search, whatever the heads propose."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.config import resolve
from regard.data.corpus import Corpus
from regard.decode.blockwise import decode_blocks
from regard.decode.margins import MARGIN, greedy_margin
from regard.decode.search import search
from regard.decode.state import Hypothesis, SearchOptions
from regard.errors import RegardError
from regard.models.blockwise import TransformerBlockStep
from regard.models.stepping import TransformerStep
from regard.models.transformer import Transformer
from regard.training.load import load_weights
from regard.training.run import Run
from regard.training.start import fit

CPU = torch.device("cpu")
END, START, VOCAB = 0, 1, 7


def next_logits(prefix: Sequence[int], end_bonus: float) -> Tensor:
    """A random language model: the next distribution depends on all that came before, the sentence first."""
    logits = torch.randn(VOCAB, generator=torch.Generator().manual_seed(hash(tuple(prefix)) % 2**31)) * 2
    logits[END] += end_bonus
    return logits


def greedy(sentence: int, limit: int, banned: tuple[int, ...], end_bonus: float) -> tuple[list[int], float]:
    prefix, log_prob = [sentence, START], 0.0
    while len(prefix) - 2 < limit and prefix[-1] != END:
        log_probs = next_logits(prefix, end_bonus).log_softmax(-1)
        allowed = [token for token in range(VOCAB) if token not in banned]
        prefix.append(max(allowed, key=lambda token: float(log_probs[token])))
        log_prob += float(log_probs[prefix[-1]])
    return prefix[2:], log_prob


class TableBlockStep:
    """That language model by blocks. Its heads know the future (`oracle`), never guess it (`rubbish`), or sometimes."""

    def __init__(self, k: int, heads: str, banned: tuple[int, ...] = (), end_bonus: float = 0.0) -> None:
        self.k, self.heads, self.banned, self.end_bonus = k, heads, banned, end_bonus
        self.fed: list[list[int]] = []
        self.positions: list[int] = []

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        self.fed = self.fed or [[] for _ in slots]
        for slot, sentence in zip(slots.tolist(), sentences, strict=True):
            self.fed[slot] = [sentence]

    def __call__(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        assert int(positions.max()) + self.k <= longest
        self.positions = positions.tolist()
        self.fed = [
            [*fed[: p + 1], *row] for fed, p, row in zip(self.fed, self.positions, tokens.tolist(), strict=True)
        ]
        return torch.stack([
            torch.stack([next_logits(fed[: p + 2 + i], self.end_bonus) for i in range(self.k)])
            for fed, p in zip(self.fed, self.positions, strict=True)
        ])  # fmt: skip

    def propose(self, places: Tensor) -> Tensor:
        proposed = torch.zeros(len(places), self.k - 1, VOCAB)
        for b, (fed, p, place) in enumerate(zip(self.fed, self.positions, places.tolist(), strict=True)):
            future, _ = greedy_from(fed[: p + 2 + place], self.k, self.banned, self.end_bonus)
            for i, token in enumerate(future[1:]):
                right = self.heads == "oracle" or (self.heads == "sometimes" and (p + place + i) % 3)
                proposed[b, i, token if right else (token + 1) % VOCAB] = 1.0
        return proposed

    def keep(self, slots: Tensor) -> None:
        self.fed = [self.fed[slot] for slot in slots.tolist()]


def greedy_from(prefix: list[int], n: int, banned: tuple[int, ...], end_bonus: float) -> tuple[list[int], list[int]]:
    """The n tokens that follow, on beyond the end symbol."""
    prefix, first = list(prefix), len(prefix)
    for _ in range(n):
        logits = next_logits(prefix, end_bonus)
        logits[list(banned)] = -torch.inf
        prefix.append(int(logits.argmax()))
    return prefix[first:], prefix


@pytest.mark.parametrize("slots", [0, 1, 4])
@pytest.mark.parametrize("heads", ["oracle", "rubbish", "sometimes"])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_output_is_greedys_whatever_is_proposed_and_whoever_else_is_at_work(k: int, heads: str, slots: int) -> None:
    """Ends and limits fall on every place of a block."""
    limits, banned = [1 + n % 11 for n in range(33)], (START, 3)
    options = SearchOptions(START, END, beam_size=1, banned=banned)
    for end_bonus in (-2.0, 0.0):
        step = TableBlockStep(k, heads, banned, end_bonus)
        found = decode_blocks(step, limits, options, CPU, slots)
        for n, (limit, one) in enumerate(zip(limits, found, strict=True)):
            tokens, log_prob = greedy(n, limit, banned, end_bonus)
            assert one.tokens == tokens
            assert one.log_prob == pytest.approx(log_prob, abs=1e-4)
            assert one.score == pytest.approx(one.log_prob / ((5 + len(tokens)) / 6) ** 0.6, abs=1e-4)
            if heads == "rubbish":
                assert one.calls == len(tokens)
            elif heads == "oracle":  # the first call knows nothing but the start symbol
                assert one.calls == 1 + math.ceil((len(tokens) - 1) / k)
            else:
                assert one.calls <= len(tokens)


def test_nothing_to_do_is_done() -> None:
    assert decode_blocks(TableBlockStep(2, "oracle"), [], SearchOptions(START, END, beam_size=1), CPU) == []
    with pytest.raises(ValueError, match="not by a beam of 4"):
        decode_blocks(TableBlockStep(2, "oracle"), [3], SearchOptions(START, END), CPU)


def test_progress_tells_how_many_are_done() -> None:
    told: list[int] = []
    options = SearchOptions(START, END, beam_size=1)
    decode_blocks(TableBlockStep(2, "oracle"), [4] * 10, options, CPU, slots=3, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 10


@pytest.mark.parametrize("slots", [1, 3, 8])
@pytest.mark.parametrize("changes", [{}, {"norm": "pre"}, {"positions": "learned", "max_positions": 17}], ids=str)
@torch.inference_mode()
def test_random_weights_decode_as_greedy_search_does(
    tiny: Callable[..., Transformer], changes: dict[str, object], slots: int
) -> None:
    """The heads of random weights are sometimes right; with learned positions the limit is their end."""
    chance = torch.Generator().manual_seed(3)
    for k in (2, 4):
        model = tiny(vocab=12, block_heads=k, **changes)
        assert model.block_heads is not None
        sources = [torch.randint(4, 12, (n,), generator=chance).tolist() for n in (9, 9, 7, 6, 5, 3, 2, 1)]
        limits, options = [17] * len(sources), SearchOptions(1, 2, beam_size=1, banned=(0, 1, 3))
        plain = search(TransformerStep(model, sources, 1), limits, options, CPU, slots)
        blocks = decode_blocks(TransformerBlockStep(model, model.block_heads, sources), limits, options, CPU, slots)
        assert_greedy([best for best, *_ in plain], blocks)
        assert all(len(block.tokens) / k <= block.calls <= len(block.tokens) for block in blocks)


def assert_greedy(plain: Sequence[Hypothesis], blocks: Sequence[Hypothesis]) -> None:
    for ours, theirs in zip(blocks, plain, strict=True):
        assert ours.tokens == theirs.tokens
        assert ours.log_prob == pytest.approx(theirs.log_prob, abs=1e-4)
        assert ours.score == pytest.approx(theirs.score, abs=1e-4)


# --- a trained model -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def headed(reverser: Path, reverser_recipe: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reverser with four heads trained on top of it, itself frozen."""
    run = tmp_path_factory.mktemp("headed") / "run"
    changes = {
        "init": str(reverser), "model.block_heads": 4, "train.freeze": "base", "train.steps": 60,
        "train.valid_every": 30, "train.save_every": 30, "train.average": 2,
    }  # fmt: skip
    fit(reverser_recipe, run, changes)
    return run


@pytest.mark.parametrize("batch", [1, 7, 64])
@torch.inference_mode()
def test_a_trained_model_decodes_as_greedy_search_does_in_fewer_calls(
    reverser: Path, headed: Path, reverser_test: Corpus, batch: int
) -> None:
    """As the run it was trained on top of does, too: its weights are the same."""
    before, after = regard.load(reverser), regard.load(headed)
    greedy = before.search(reverser_test.source, beam_size=1, batch_sentences=batch)
    blocks = after.search(reverser_test.source, beam_size=1, batch_sentences=batch, blockwise=True)
    for (theirs,), (ours,) in zip(greedy, blocks, strict=True):
        if ours.target_tokens != theirs.target_tokens:
            tokens = theirs.source_tokens, ours.target_tokens, theirs.target_tokens
            assert greedy_margin(before, *tokens) < MARGIN
    tokens, calls = (sum(x) for x in zip(*((len(one.target_tokens), one.calls) for (one,) in blocks), strict=True))
    assert tokens / calls > 1.1


def test_a_frozen_base_keeps_every_bit(reverser: Path, headed: Path) -> None:
    before = load_weights(Run.open(reverser))
    for which in ("averaged", "best", "last"):
        after = load_weights(Run.open(headed), which)
        assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
        assert {name for name in after if name not in before} == {name for name in after if "block_heads" in name}


def test_heads_get_better_and_validation_sees_it(headed: Path) -> None:
    first, last = (record for record in Run.open(headed).records() if record["kind"] == "valid")
    assert last["loss"] < first["loss"]
    assert last["tokens_per_call"] > first["tokens_per_call"] > 1.0
    assert last["perplexity"] == first["perplexity"]  # of the next token, which nobody trains


def test_what_blocks_cannot_do_is_refused_by_name(reverser: Path, headed: Path) -> None:
    plain, blocks = regard.load(reverser), regard.load(headed)
    with pytest.raises(RegardError, match=r"beam_size = 1, not 4"):
        blocks.translate("a b", blockwise=True)
    with pytest.raises(RegardError, match="leave out n_best"):
        blocks.search(["a b"], n_best=2, beam_size=1, blockwise=True)
    with pytest.raises(RegardError, match=r"one token at a time.*model\.block_heads"):
        plain.translate("a b", beam_size=1, blockwise=True)


def command(run: Path, *options: str, text: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "regard", "translate", str(run), *options]
    return subprocess.run(line, input=text, capture_output=True, text=True, check=False, timeout=240)


def test_the_command_says_how_many_tokens_came_of_a_call(headed: Path, reverser_test: Corpus) -> None:
    lines = ["", *reverser_test.source[:12]]
    result = command(headed, "--blockwise", "--json", text="\n".join(lines) + "\n")
    assert result.returncode == 0, result.stderr
    empty, *found = (json.loads(line)["translations"][0] for line in result.stdout.splitlines())
    assert "calls" not in empty
    tokens, calls = sum(one["tokens"] for one in found), sum(one["calls"] for one in found)
    assert f"{tokens} tokens in {calls} calls of the decoder: {tokens / calls:.2f} tokens a call" in result.stderr
    assert [one["text"] for one in found] == regard.load(headed).translate(lines[1:], beam_size=1)


def test_the_command_refuses_blocks_with_a_beam(headed: Path) -> None:
    result = command(headed, "--blockwise", "--beam", "4", text="a b\n")
    assert result.returncode == 2
    assert "decode.beam_size = 1, not 4" in result.stderr


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ({"train": {"r_drop": 1.0}, "model": {"block_heads": 2}}, "r_drop compares"),
        ({"train": {"freeze": "base"}, "model": {"block_heads": 2}}, "set init"),
        ({"train": {"freeze": "base"}, "init": "runs/x"}, "block_heads to at least 2"),
        ({"train": {"freeze": "base", "best_by": "bleu"}, "init": "x", "model": {"block_heads": 2}}, 'by = "loss"'),
        ({"decode": {"blockwise": True, "beam_size": 1}}, "blockwise needs model.block_heads"),
        ({"decode": {"blockwise": True}, "model": {"block_heads": 2}}, "beam_size = 1, not 4"),
        ({"model": {"block_d_ff": 64}}, "block_d_ff = 64 needs"),
        ({"model": {"block_heads": 0}}, "block_heads = 0 must be at least 1"),
    ],
)  # fmt: skip
def test_recipes_that_contradict_themselves_are_refused(recipe: dict[str, Any], words: str) -> None:
    with pytest.raises(RegardError, match=words.replace("(", r"\(")):
        resolve(recipe)
