"""Each constraint against every output there can be, and together; sampling against the probabilities themselves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from chain import Chain

from regard.decode.constraints import Coverage, Forbidden, MinLength, NoRepeats, Prefix, Required
from regard.decode.ensemble import Ensemble
from regard.decode.phrases import DEAD
from regard.decode.sampling import Drawer, Sampling, scattered
from regard.decode.search import search
from regard.decode.state import Hypothesis, SearchOptions, State
from regard.decode.step import Constraint
from regard.models.stepping import TransformerStep
from regard.models.transformer import Transformer
from regard.nn.attention import capture
from regard.nn.layout import Padded

CPU = torch.device("cpu")
END, START, VOCAB, LIMIT = 0, 1, 5, 6
SENTENCES = 4
NOTHING_GOES_ON = torch.zeros(VOCAB, dtype=torch.bool)


def model() -> Chain:
    return Chain(SENTENCES, LIMIT, VOCAB, seed=3)


def every_output(sentence: int, options: SearchOptions) -> list[Hypothesis]:
    """What ends within the limit or is cut by it, best first."""
    table = model().tables[sentence]
    found = []
    others = [token for token in range(VOCAB) if token not in (END, *options.banned)]
    for length in range(1, LIMIT + 1):
        for body in itertools.product(others, repeat=length - 1):
            for last in [END, *others] if length == LIMIT else [END]:
                tokens = [*body, last]
                log_prob = sum(float(table[i, a, b]) for i, (a, b) in enumerate(itertools.pairwise([START, *tokens])))
                score = float(options.normalise(torch.tensor(log_prob), torch.tensor(length)))
                found.append(Hypothesis(tokens, log_prob, score))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)


def contains(tokens: Sequence[int], part: Sequence[int]) -> bool:
    return any(list(tokens[i : i + len(part)]) == list(part) for i in range(len(tokens)))


def repeats(tokens: Sequence[int], n: int) -> bool:
    grams = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
    return len(set(grams)) < len(grams)


def never(*phrases: Sequence[int]) -> np.ndarray:
    """The automaton over tokens that dies where one of the phrases (of one or two tokens) has come out."""
    table = np.tile(np.arange(VOCAB), (VOCAB, 1))  # a state is the last token, and START no token of a phrase
    for phrase in phrases:
        rows = slice(None) if len(phrase) == 1 else phrase[0]
        table[rows, phrase[-1]] = DEAD
    return table


PREFIXES: list[list[int]] = [[2, 3], [], [4], [3, 3, 2]]
REQUIRED: list[list[list[int]]] = [[[2, 3]], [], [[4], [3, 2]], [[2, 2, 3]]]
Makes = Callable[[int], Constraint]  # for a beam of so many
Holds = Callable[[int, list[int]], bool]  # of a sentence's output

WISHES: dict[str, tuple[Makes, Holds]] = {
    "min_length": (lambda beam: MinLength(4, END), lambda i, tokens: len(tokens) >= 4),
    "prefix": (lambda beam: Prefix(PREFIXES), lambda i, tokens: tokens[: len(PREFIXES[i])] == PREFIXES[i]),
    "no_repeats_of_1": (lambda beam: NoRepeats(1), lambda i, tokens: not repeats(tokens, 1)),
    "no_repeats_of_2": (lambda beam: NoRepeats(2), lambda i, tokens: not repeats(tokens, 2)),
    "no_repeats_of_3": (lambda beam: NoRepeats(3), lambda i, tokens: not repeats(tokens, 3)),
    "forbidden": (
        lambda beam: Forbidden(never([2], [3, 4]), END, beam),
        lambda i, tokens: not contains(tokens, [2]) and not contains(tokens, [3, 4]),
    ),
    "required": (
        lambda beam: Required(REQUIRED, NOTHING_GOES_ON, END, beam),
        lambda i, tokens: all(contains(tokens[: LIMIT - 1], phrase) for phrase in REQUIRED[i]),  # and room for the end
    ),
}


def run(names: Sequence[str], options: SearchOptions, slots: int = 0) -> list[list[Hypothesis]]:
    constraints = [WISHES[name][0](options.beam_size) for name in names]
    return search(model(), [LIMIT] * SENTENCES, options, CPU, slots, constraints=constraints)


TOGETHER = [
    ("min_length", "prefix"), ("prefix", "required"), ("forbidden", "min_length", "no_repeats_of_3"),
    ("required", "no_repeats_of_3", "min_length"),
]  # fmt: skip


@pytest.mark.parametrize("names", [(name,) for name in WISHES] + TOGETHER, ids="+".join)
def test_a_wide_beam_finds_the_best_of_the_outputs_that_are_as_asked(names: tuple[str, ...]) -> None:
    options = SearchOptions(START, END, beam_size=3**LIMIT, n_best=5, banned=(START,))
    for i, found in enumerate(run(names, options)):
        allowed = [h for h in every_output(i, options) if all(WISHES[name][1](i, h.tokens) for name in names)]
        assert [h.tokens for h in found] == [h.tokens for h in allowed[:5]]
        assert [h.score for h in found] == pytest.approx([h.score for h in allowed[:5]], abs=1e-5)


@pytest.mark.parametrize("beam", [1, 2, 4])
@pytest.mark.parametrize("names", [(name,) for name in WISHES] + TOGETHER, ids="+".join)
def test_whatever_the_beam_every_output_is_as_asked(names: tuple[str, ...], beam: int) -> None:
    options = SearchOptions(START, END, beam_size=beam, n_best=beam, banned=(START,))
    together, in_turn = run(names, options), run(names, options, slots=1)
    assert together == in_turn
    for i, found in enumerate(together):
        assert found
        for hypothesis in found:
            assert all(WISHES[name][1](i, hypothesis.tokens) for name in names)


def test_a_required_word_is_not_the_beginning_of_a_longer_one() -> None:
    goes_on = torch.tensor([False, False, False, False, True])
    for beam in (1, 4):
        constraint = Required([[[2, 3]]] * SENTENCES, goes_on, END, beam)
        options = SearchOptions(START, END, beam_size=beam, n_best=beam, banned=(START,))
        for found in search(model(), [LIMIT] * SENTENCES, options, CPU, constraints=[constraint]):
            for hypothesis in found:
                first = next(i for i in range(LIMIT) if hypothesis.tokens[i : i + 2] == [2, 3])
                assert hypothesis.tokens[first + 2] != 4


def test_demands_that_contradict_one_another_leave_no_output() -> None:
    options = SearchOptions(START, END, beam_size=4, banned=(START,))
    constraints = [Prefix([[2]] * SENTENCES), Forbidden(never([2]), END, 4)]
    assert search(model(), [LIMIT] * SENTENCES, options, CPU, constraints=constraints) == [[]] * SENTENCES


@pytest.fixture
def drawn() -> Callable[..., list[list[int]]]:
    """Outputs drawn for sentence 0, many times over by many seeds."""

    def draw(n: int, **how: float) -> list[list[int]]:
        options = SearchOptions(START, END, beam_size=n, n_best=n, banned=(START,))
        sampler = Drawer(Sampling(**how), [[7, 8]], n)  # type: ignore[arg-type]
        (found,) = search(model(), [LIMIT], options, CPU, sampler=sampler)
        assert len(found) == n
        return [hypothesis.tokens for hypothesis in found]

    return draw


def test_first_tokens_are_drawn_as_often_as_they_are_probable(drawn: Callable[..., list[list[int]]]) -> None:
    expected = model().tables[0, 0, START].exp()
    expected[START] = 0.0  # barred
    for temperature in (1.0, 0.5):
        first = torch.tensor([tokens[0] for tokens in drawn(20_000, temperature=temperature)])
        shares = torch.bincount(first, minlength=VOCAB) / len(first)
        wanted = expected ** (1 / temperature)
        assert (shares - wanted / wanted.sum()).abs().max() < 0.015  # four standard deviations


def test_only_the_most_probable_tokens_are_drawn_from(drawn: Callable[..., list[list[int]]]) -> None:
    probabilities = model().tables[0, 0, START].exp()
    probabilities[START] = 0.0
    order = probabilities.argsort(descending=True).tolist()
    assert {tokens[0] for tokens in drawn(2_000, top_k=2)} == set(order[:2])
    shares = (probabilities / probabilities.sum())[order].cumsum(0)
    nucleus = float(shares[1]) - 1e-3  # the second token is needed to reach it, the third is not
    assert {tokens[0] for tokens in drawn(2_000, top_p=nucleus)} == set(order[:2])


def test_a_sample_depends_on_its_sentence_and_the_seed_alone() -> None:
    def draw(seed: int, slots: int, order: Sequence[int]) -> list[list[Hypothesis]]:
        options = SearchOptions(START, END, beam_size=3, n_best=3, banned=(START,))
        sampler = Drawer(Sampling(seed=seed), [[i] for i in order], 3)
        step = model()
        step.tables = step.tables[list(order)]
        return search(step, [LIMIT] * len(order), options, CPU, slots, sampler=sampler)

    forward, backward = draw(5, 0, [0, 1, 2, 3]), draw(5, 1, [3, 2, 1, 0])
    assert forward == backward[::-1]
    assert draw(6, 0, [0, 1, 2, 3]) != forward


def test_bits_are_scattered_one_to_one() -> None:
    numbers = torch.arange(-500_000, 500_000, dtype=torch.int32)
    bits = scattered(numbers.clone())
    assert len(bits.unique()) == len(numbers)
    ones = ((bits[:, None] >> torch.arange(32, dtype=torch.int32)) & 1).float().mean(0)
    assert (ones - 0.5).abs().max() < 0.003  # six standard deviations


def test_steps_samples_and_neighbouring_tokens_have_times_of_their_own() -> None:
    """Pairs are as frequent as the product of their probabilities."""
    probabilities, n = torch.tensor([0.1, 0.4, 0.3, 0.2]), 40_000
    logits = probabilities.log().expand(1, n, 4)
    sampler = Drawer(Sampling(), [[5]], n)
    sampler.enter(torch.arange(1), [0])
    state = State.empty(1, 9, SearchOptions(START, END, beam_size=n), CPU)
    state.limit += 9
    first = sampler.draw(logits, state)[0]
    state.length += 1
    second = sampler.draw(logits, state)[0]
    expected = n * torch.outer(probabilities, probabilities).flatten()
    for one, other in ((first, second), (first, first.roll(1)), (first, second.roll(1))):
        seen = torch.bincount(4 * one + other, minlength=16)
        assert ((seen - expected) ** 2 / expected).sum() < 45  # χ² of 15: one in 12,000


def test_no_token_waits_for_ever() -> None:
    """The bits of token 5 in this sample's first step are all ones, which as a float would be a share of 1."""
    sampler = Drawer(Sampling(), [[5]], 1)
    sampler.keys = torch.tensor([[-952_167_328]], dtype=torch.int32)
    assert sampler.times(torch.tensor([[[5]]]), torch.tensor([0])).item() == pytest.approx(24 * math.log(2))
    logits = torch.full((1, 1, 9), -torch.inf)
    logits[..., 5] = 0.0
    state = State.empty(1, 9, SearchOptions(START, END, beam_size=1), CPU)
    state.limit += 9
    assert sampler.draw(logits, state).item() == 5


@pytest.mark.parametrize("spread", [1.0, 8.0])  # with nuclei of many and of few tokens
def test_a_nucleus_is_the_same_among_the_most_probable_and_among_all(
    spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits = (spread * torch.randn(1, 500, 1_000, generator=torch.Generator().manual_seed(2))).log_softmax(-1)
    logits[0, 7] = -torch.inf  # where nothing may follow
    sampler = Drawer(Sampling(top_p=0.8), [[5]], 500)
    sampler.enter(torch.arange(1), [0])
    state = State.empty(1, 9, SearchOptions(START, END, beam_size=500), CPU)
    drawn = sampler.draw(logits, state)
    monkeypatch.setattr("regard.decode.sampling.MOSTLY", 1_000)
    alive = torch.arange(500) != 7
    assert torch.equal(sampler.draw(logits, state)[:, alive], drawn[:, alive])


@pytest.mark.parametrize("how", [{}, {"temperature": 2.0, "top_p": 0.9}, {"top_k": 5_000}], ids=str)
def test_what_is_drawn_does_not_turn_on_rounding(how: dict[str, Any]) -> None:
    """Of many tokens that are all unlikely, each is narrower than what rounding adds up to over the others."""
    random = torch.Generator().manual_seed(1)
    logits = torch.randn(2, 200, 20_000, generator=random).log_softmax(-1)
    sampler = Drawer(Sampling(**how), [[5], [6]], 200)
    sampler.enter(torch.arange(2), [0, 1])
    state = State.empty(2, 9, SearchOptions(START, END, beam_size=200), CPU)
    drawn = sampler.draw(logits, state)
    assert len(drawn.unique()) > 300, "hardly any token twice"
    for _ in range(3):
        rounded = logits + 3e-7 * torch.randn(logits.shape, generator=random)
        assert (sampler.draw(rounded, state) == drawn).all()


def test_constraints_hold_for_what_is_drawn() -> None:
    options = SearchOptions(START, END, beam_size=50, n_best=50, banned=(START,))
    for names in (("prefix", "no_repeats_of_2"), ("forbidden", "min_length"), ("required",)):
        constraints = [WISHES[name][0](50) for name in names]
        sampler = Drawer(Sampling(), [[i] for i in range(SENTENCES)], 50)
        found = search(model(), [LIMIT] * SENTENCES, options, CPU, constraints=constraints, sampler=sampler)
        for i, hypotheses in enumerate(found):
            assert hypotheses
            assert all(WISHES[name][1](i, h.tokens) for name in names for h in hypotheses)


SOURCES = [[5, 6, 7, 8, 9, 2], [4, 5, 6, 2], [9, 2]]


def decode(model: Transformer, beta: float, beam: int = 4) -> list[list[Hypothesis]]:
    step = TransformerStep(model, SOURCES, beam, watched=1)
    constraints = [Coverage(step, beta)] if beta else []
    options = SearchOptions(1, 2, beam_size=beam, n_best=beam)
    with torch.inference_mode():
        return search(step, [8] * len(SOURCES), options, CPU, slots=2, constraints=constraints)


def test_the_coverage_penalty_is_that_of_the_attention_in_one_full_pass(tiny: Callable[..., Transformer]) -> None:
    model, beta = tiny(vocab=12), 0.7
    options = SearchOptions(1, 2)
    for source, found in zip(SOURCES, decode(model, beta), strict=True):
        for hypothesis in found:
            T = len(hypothesis.tokens)
            with torch.inference_mode(), capture(model) as maps:
                tgt = torch.tensor([[1, *hypothesis.tokens[:-1]]])
                model(torch.tensor([source]), Padded.of([len(source)]), tgt, Padded.of([T]))
            attention = maps["decoder.layers.1.cross_attn"][0].mean(0)  # (T, S)
            penalty = beta * attention.sum(0).clamp(max=1).log().sum()
            score = options.normalise(torch.tensor(hypothesis.log_prob), torch.tensor(T)) + penalty
            assert hypothesis.score == pytest.approx(float(score), abs=1e-4)


def test_an_ensemble_of_equals_is_the_model_and_of_others_the_mean(tiny: Callable[..., Transformer]) -> None:
    one, other = tiny(vocab=12), tiny(vocab=12, d_model=32)
    with torch.inference_mode():
        steps = [TransformerStep(model, SOURCES, 2) for model in (one, one, one, other)]
        twins, pair = Ensemble(steps[:2]), Ensemble(steps[2:])
        for step in (twins, pair):
            step.enter(torch.arange(3), range(3))
        start, here = torch.full((3, 2), 1), torch.zeros(3, dtype=torch.long)
        alone = [TransformerStep(model, SOURCES, 2) for model in (one, other)]
        for step in alone:
            step.enter(torch.arange(3), range(3))
        of_one, of_other = (step(start, here, 1).softmax(-1) for step in alone)
        torch.testing.assert_close(twins(start, here, 1).exp(), of_one)
        torch.testing.assert_close(pair(start, here, 1).exp(), (of_one + of_other) / 2)
