"""The search over step functions whose answers can be enumerated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from regard.decode.search import Hypothesis, SearchOptions, beam_search, gnmt, greedy_search, power
from regard.models.transformer import Transformer
from regard.nn.layout import Padded

CPU = torch.device("cpu")
END, START = 0, 1


class TableStep:
    """A random language model: the next distribution depends on the sentence and on the tokens so far."""

    def __init__(self, seeds: list[int], vocab: int, end_bonus: float = 0.0) -> None:
        self.vocab, self.end_bonus = vocab, end_bonus
        self.prefixes: list[tuple[int, ...]] = [(seed,) for seed in seeds]
        self.calls = 0

    def __call__(self, tokens: Tensor) -> Tensor:
        self.calls += 1
        self.prefixes = [(*prefix, token) for prefix, token in zip(self.prefixes, tokens.tolist(), strict=True)]
        return torch.stack([self.next(prefix) for prefix in self.prefixes])

    def next(self, prefix: tuple[int, ...]) -> Tensor:
        logits = torch.randn(self.vocab, generator=torch.Generator().manual_seed(abs(hash(prefix)) % 2**31)) * 2
        logits[END] += self.end_bonus
        return logits.log_softmax(-1)

    def reorder(self, rows: Tensor) -> None:
        self.prefixes = [self.prefixes[row] for row in rows.tolist()]


def every_sequence(step: TableStep, seed: int, limit: int, options: SearchOptions) -> list[Hypothesis]:
    """All outputs: those that end within the limit and those the limit cuts."""
    found = []
    tokens = [token for token in range(step.vocab) if token not in options.banned]
    for length in range(1, limit + 1):
        for body in itertools.product([t for t in tokens if t != END], repeat=length - 1):
            for last in tokens if length == limit else [END]:
                sequence, log_prob, prefix = [*body, last], 0.0, (seed, START)
                for token in sequence:
                    log_prob += step.next(prefix)[token].item()
                    prefix = (*prefix, token)
                found.append(Hypothesis(sequence, log_prob, options.normalise(log_prob, length)))
    return sorted(found, key=lambda h: -h.score)


@pytest.mark.parametrize("normalization", ["gnmt", "power"])
@pytest.mark.parametrize("alpha", [-0.5, 0.0, 0.6, 1.0, 2.0])
def test_a_beam_wide_enough_finds_what_brute_force_finds(normalization: str, alpha: float) -> None:
    vocab, limits, seeds = 4, [5, 3, 4], [11, 12, 13]
    options = SearchOptions(
        START, END, beam_size=3 * 3**4, n_best=10, length_penalty=alpha, normalization=normalization, banned=(START,)
    )
    found = beam_search(TableStep(seeds, vocab), limits, options, CPU)
    for seed, limit, hypotheses in zip(seeds, limits, found, strict=True):
        best = every_sequence(TableStep([], vocab), seed, limit, options)[:10]
        assert [h.tokens for h in hypotheses] == [h.tokens for h in best]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in best], abs=1e-5)


@pytest.mark.parametrize("end_bonus", [-2.0, 0.0, 2.0])
def test_beam_of_one_is_greedy(end_bonus: float) -> None:
    seeds, limits = list(range(20)), [12] * 20
    options = SearchOptions(START, END, beam_size=1)
    greedy = greedy_search(TableStep(seeds, 6, end_bonus), limits, options, CPU)
    beam = beam_search(TableStep(seeds, 6, end_bonus), limits, options, CPU)
    for one, (other,) in zip(greedy, beam, strict=True):
        assert one.tokens == other.tokens
        assert one.score == pytest.approx(other.score, abs=1e-5)


def run_to_the_limit(step: TableStep, limits: list[int], options: SearchOptions) -> list[list[Hypothesis]]:
    """The same search without the stopping rule: asking for more hypotheses than exist keeps it going."""
    found = beam_search(step, limits, replace(options, n_best=10**9), CPU)
    return [hypotheses[: options.n_best] for hypotheses in found]


@pytest.mark.parametrize("alpha", [-1.0, 0.0, 0.6, 1.5])
@pytest.mark.parametrize("n_best", [1, 3])
def test_stopping_early_never_loses_a_better_hypothesis(alpha: float, n_best: int) -> None:
    seeds, limits = list(range(30)), [15] * 30
    options = SearchOptions(START, END, beam_size=4, n_best=n_best, length_penalty=alpha)
    stopping, patient = TableStep(seeds, 7, 1.0), TableStep(seeds, 7, 1.0)
    assert beam_search(stopping, limits, options, CPU) == run_to_the_limit(patient, limits, options)


def test_the_stopping_rule_does_stop() -> None:
    step = TableStep([3], 7, end_bonus=3.0)
    beam_search(step, [400], SearchOptions(START, END, length_penalty=0.6), CPU)
    assert step.calls < 100


def test_results_do_not_depend_on_who_else_is_in_the_batch() -> None:
    seeds, options = list(range(25)), SearchOptions(START, END, beam_size=3, n_best=2)
    limits = [4 + seed % 9 for seed in seeds]
    together = beam_search(TableStep(seeds, 6), limits, options, CPU)
    alone = [beam_search(TableStep([s], 6), [n], options, CPU)[0] for s, n in zip(seeds, limits, strict=True)]
    assert together == alone


def test_no_output_is_longer_than_its_limit() -> None:
    limits = [1, 2, 9]
    for search in (greedy_search, beam_search):
        found = search(TableStep([1, 2, 3], 6, end_bonus=-50.0), limits, SearchOptions(START, END), CPU)
        firsts = [h[0] if isinstance(h, list) else h for h in found]
        assert [len(h.tokens) for h in firsts] == limits


def test_banned_tokens_never_come_out() -> None:
    options = SearchOptions(START, END, n_best=4, banned=(1, 2, 3))
    for hypotheses in beam_search(TableStep(list(range(9)), 6), [8] * 9, options, CPU):
        for hypothesis in hypotheses:
            assert not {1, 2, 3} & set(hypothesis.tokens)


def test_length_normalisations_are_the_published_ones() -> None:
    assert gnmt(7, 0.6) == pytest.approx((12 / 6) ** 0.6)
    assert gnmt(1, 0.6) == 1.0
    assert power(8, 0.5) == pytest.approx(math.sqrt(8))


def test_longer_penalties_prefer_longer_outputs() -> None:
    seeds, limits = list(range(40)), [20] * 40
    lengths = []
    for alpha in (0.0, 1.0, 3.0):
        options = SearchOptions(START, END, length_penalty=alpha)
        found = beam_search(TableStep(seeds, 6, end_bonus=1.0), limits, options, CPU)
        lengths.append(sum(len(h[0].tokens) for h in found))
    assert lengths[0] < lengths[1] < lengths[2]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_log_probabilities_of_hypotheses_are_those_of_one_full_pass(
    tiny: Callable[..., Transformer], beam_size: int
) -> None:
    """Cached, reordered, shrinking batches: the scores must still be the model's own."""
    model = tiny(vocab=12)
    src, lengths = torch.randint(4, 12, (6, 7)), [7, 2, 5, 3, 7, 1]
    layout, options = Padded.of(lengths), SearchOptions(1, 2, beam_size=beam_size, n_best=beam_size)
    with torch.inference_mode():
        found = beam_search(model.start(src, layout), [n + 6 for n in lengths], options, CPU)
        for i, hypotheses in enumerate(found):
            for hypothesis in hypotheses:
                tgt = torch.tensor([[1, *hypothesis.tokens[:-1]]])
                logits = model(src[i : i + 1, : lengths[i]], Padded.of([lengths[i]]), tgt, Padded.of([tgt.shape[1]]))
                expected = logits.log_softmax(-1)[0, range(tgt.shape[1]), hypothesis.tokens].sum()
                assert hypothesis.log_prob == pytest.approx(expected.item(), abs=1e-4)
