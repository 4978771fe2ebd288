"""The search over step functions whose answers can be enumerated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from regard.decode.search import search
from regard.decode.state import Hypothesis, SearchOptions, gnmt, power
from regard.decode.step import largest
from regard.models.stepping import TransformerStep
from regard.models.transformer import Transformer
from regard.nn.layout import Padded

CPU = torch.device("cpu")
END, START = 0, 1


class TableStep:
    """A random language model: the next distribution depends on the sentence and on the tokens so far."""

    def __init__(self, seeds: list[int], vocab: int, end_bonus: float = 0.0, beam: int = 4) -> None:
        self.seeds, self.vocab, self.end_bonus, self.beam = seeds, vocab, end_bonus, beam
        self.prefixes: list[list[tuple[int, ...]]] = []
        self.calls = 0

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        if not self.prefixes:
            self.prefixes = [[] for _ in slots]
        for slot, sentence in zip(slots.tolist(), sentences, strict=True):
            self.prefixes[slot] = [(self.seeds[sentence],)] * self.beam

    def __call__(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        self.calls += 1
        assert int(positions.max()) < longest
        self.prefixes = [
            [(*prefix, token) for prefix, token in zip(slot, row, strict=True)]
            for slot, row in zip(self.prefixes, tokens.tolist(), strict=True)
        ]
        return torch.stack([torch.stack([self.next(prefix) for prefix in slot]) for slot in self.prefixes])

    def next(self, prefix: tuple[int, ...]) -> Tensor:
        logits = torch.randn(self.vocab, generator=torch.Generator().manual_seed(abs(hash(prefix)) % 2**31)) * 2
        logits[END] += self.end_bonus
        return logits.log_softmax(-1)

    def reorder(self, parents: Tensor, longest: int) -> None:
        self.prefixes = [
            [slot[parent] for parent in row] for slot, row in zip(self.prefixes, parents.tolist(), strict=True)
        ]

    def keep(self, slots: Tensor) -> None:
        self.prefixes = [self.prefixes[slot] for slot in slots.tolist()]


def run(
    seeds: list[int], limits: list[int], options: SearchOptions, vocab: int = 6, end_bonus: float = 0.0, **how: int
) -> list[list[Hypothesis]]:
    return search(TableStep(seeds, vocab, end_bonus, options.beam_size), limits, options, CPU, **how)


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
                score = options.normalise(torch.tensor(log_prob), torch.tensor(length)).item()
                found.append(Hypothesis(sequence, log_prob, score))
    return sorted(found, key=lambda h: -h.score)


@pytest.mark.parametrize("normalization", ["gnmt", "power"])
@pytest.mark.parametrize("alpha", [-0.5, 0.0, 0.6, 1.0, 2.0])
def test_a_beam_wide_enough_finds_what_brute_force_finds(normalization: str, alpha: float) -> None:
    vocab, limits, seeds = 4, [5, 3, 4], [11, 12, 13]
    options = SearchOptions(
        START, END, beam_size=3 * 3**4, n_best=10, length_penalty=alpha, normalization=normalization, banned=(START,)
    )
    found = run(seeds, limits, options, vocab)
    for seed, limit, hypotheses in zip(seeds, limits, found, strict=True):
        best = every_sequence(TableStep([], vocab), seed, limit, options)[:10]
        assert [h.tokens for h in hypotheses] == [h.tokens for h in best]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in best], abs=1e-5)


@pytest.mark.parametrize("end_bonus", [-2.0, 0.0, 2.0])
def test_a_beam_of_one_takes_the_most_probable_token_each_time(end_bonus: float) -> None:
    seeds, limit, options = list(range(20)), 12, SearchOptions(START, END, beam_size=1)
    for seed, (found,) in zip(seeds, run(seeds, [limit] * 20, options, 6, end_bonus), strict=True):
        table, prefix, log_prob = TableStep([], 6, end_bonus), (seed, START), 0.0
        while len(prefix) - 2 < limit and prefix[-1] != END:
            log_probs = table.next(prefix)
            prefix, log_prob = (*prefix, int(log_probs.argmax())), log_prob + float(log_probs.max())
        assert found.tokens == list(prefix[2:])
        assert found.log_prob == pytest.approx(log_prob, abs=1e-4)


def run_to_the_limit(seeds: list[int], limits: list[int], options: SearchOptions) -> list[list[Hypothesis]]:
    """The same search without the stopping rule: asking for more hypotheses than exist keeps it going."""
    found = run(seeds, limits, replace(options, n_best=1_000), 7, 1.0)
    return [hypotheses[: options.n_best] for hypotheses in found]


@pytest.mark.parametrize("alpha", [-1.0, 0.0, 0.6, 1.5])
@pytest.mark.parametrize("n_best", [1, 3])
def test_stopping_early_never_loses_a_better_hypothesis(alpha: float, n_best: int) -> None:
    seeds, limits = list(range(30)), [15] * 30
    options = SearchOptions(START, END, beam_size=4, n_best=n_best, length_penalty=alpha)
    assert run(seeds, limits, options, 7, 1.0) == run_to_the_limit(seeds, limits, options)


def test_the_stopping_rule_does_stop() -> None:
    step = TableStep([3], 7, end_bonus=3.0)
    search(step, [400], SearchOptions(START, END, length_penalty=0.6), CPU)
    assert step.calls < 100


@pytest.mark.parametrize("slots", [1, 4, 7, 25])
def test_results_do_not_depend_on_who_else_is_at_work(slots: int) -> None:
    """Sentences leave their slots and others enter; all as if each had been alone."""
    seeds, options = list(range(25)), SearchOptions(START, END, beam_size=3, n_best=2)
    limits = [4 + seed % 9 for seed in seeds]
    together = run(seeds, limits, options, slots=slots)
    alone = [run([seed], [limit], options)[0] for seed, limit in zip(seeds, limits, strict=True)]
    assert together == alone


def test_what_is_found_is_handed_on_once_and_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many leave at once, and are read a few at a time."""
    monkeypatch.setattr("regard.decode.search.PIECE", 2)
    seeds, options = list(range(25)), SearchOptions(START, END, beam_size=3, n_best=2)
    limits = [5 + seed % 3 for seed in seeds]
    taken: dict[int, list[Hypothesis]] = {}
    pieces: list[int] = []

    def take(sentences: Sequence[int], found: Sequence[list[Hypothesis]]) -> None:
        assert not taken.keys() & set(sentences)
        taken.update(zip(sentences, found, strict=True))
        pieces.append(len(sentences))

    step = TableStep(seeds, 7, -50.0, options.beam_size)
    assert search(step, limits, options, CPU, slots=10, take=take) == [], "it keeps nothing itself"
    alone = [run([seed], [limit], options, 7, -50.0)[0] for seed, limit in zip(seeds, limits, strict=True)]
    assert [taken[i] for i in seeds] == alone
    assert 2 in pieces, "while others were at work"


def test_no_output_is_longer_than_its_limit() -> None:
    limits = [1, 2, 9]
    for beam_size in (1, 4):
        found = run([1, 2, 3], limits, SearchOptions(START, END, beam_size=beam_size), 6, end_bonus=-50.0)
        assert [len(hypotheses[0].tokens) for hypotheses in found] == limits


@pytest.mark.parametrize(("n", "k"), [(37_001, 8), (1_000, 2), (128 * 40, 3), (50, 8)])
def test_the_largest_by_blocks_are_the_largest(n: int, k: int) -> None:
    x = torch.randn(3, 2, n, generator=torch.Generator().manual_seed(n))
    values, places = largest(x, k)
    assert torch.equal(values, x.topk(k).values)
    assert torch.equal(x.gather(-1, places), values)


def test_banned_tokens_never_come_out() -> None:
    options = SearchOptions(START, END, n_best=4, banned=(1, 2, 3))
    for hypotheses in run(list(range(9)), [8] * 9, options):
        for hypothesis in hypotheses:
            assert not {1, 2, 3} & set(hypothesis.tokens)


def test_length_normalisations_are_the_published_ones() -> None:
    assert gnmt(torch.tensor(7.0), 0.6) == pytest.approx((12 / 6) ** 0.6)
    assert gnmt(torch.tensor(1.0), 0.6) == 1.0
    assert power(torch.tensor(8.0), 0.5) == pytest.approx(math.sqrt(8))


def test_a_table_of_norms_stays_where_it_is_and_has_the_norms() -> None:
    """Recordings go on reading it."""
    options = SearchOptions(1, 2, length_penalty=0.7, normalization="power")
    table = options.norms(9, torch.device("cpu"))
    assert options.norms(9, torch.device("cpu")) is table
    assert len(options.norms(10, torch.device("cpu"))) == 12
    torch.testing.assert_close(-1 / table[1:], options.normalise(torch.full((10,), -1.0), torch.arange(1, 11)))


def test_longer_penalties_prefer_longer_outputs() -> None:
    seeds, limits = list(range(40)), [20] * 40
    lengths = []
    for alpha in (0.0, 1.0, 3.0):
        options = SearchOptions(START, END, length_penalty=alpha)
        found = run(seeds, limits, options, end_bonus=1.0)
        lengths.append(sum(len(h[0].tokens) for h in found))
    assert lengths[0] < lengths[1] < lengths[2]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_log_probabilities_of_hypotheses_are_those_of_one_full_pass(
    tiny: Callable[..., Transformer], beam_size: int
) -> None:
    """Cached, reordered, shrinking batches: the scores must still be the model's own."""
    model = tiny(vocab=12)
    src, lengths = torch.randint(4, 12, (6, 7)), [7, 7, 5, 3, 2, 1]
    options = SearchOptions(1, 2, beam_size=beam_size, n_best=beam_size)
    sources = [row[:n].tolist() for row, n in zip(src, lengths, strict=True)]
    with torch.inference_mode():
        step = TransformerStep(model, sources, beam_size)
        found = search(step, [n + 6 for n in lengths], options, CPU, slots=4)
        for i, hypotheses in enumerate(found):
            for hypothesis in hypotheses:
                tgt = torch.tensor([[1, *hypothesis.tokens[:-1]]])
                logits = model(src[i : i + 1, : lengths[i]], Padded.of([lengths[i]]), tgt, Padded.of([tgt.shape[1]]))
                expected = logits.log_softmax(-1)[0, range(tgt.shape[1]), hypothesis.tokens].sum()
                assert hypothesis.log_prob == pytest.approx(expected.item(), abs=1e-4)
