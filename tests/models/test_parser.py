"""The Transformer that is told which word it has come to."""

from __future__ import annotations

import pytest
import torch
from recording import check_recordable

from regard.config import ParserModelConfig
from regard.decode.recorded import KeptBench
from regard.decode.state import SearchOptions
from regard.models.parser import ParserStep, ParserTransformer
from regard.nn.layout import Packed, Padded, Room

EOS, UNK = 2, 3
BEGINS = torch.tensor([False, False, True, False, *([True] * 6), *([False] * 6)])  # 4 to 9 begin words, 10 to 15 go on
LEAVES = torch.tensor([False] * 4 + [True] * 3 + [False] * 5)  # 4 to 6
SOURCES = [[4, 10, 11, 5, 6, 12, EOS], [7, 8, 13, EOS], [9, EOS]]
TARGETS = [[1, 7, 4, 8, 5, 9, 6, 10], [1, 8, 5, 9, 6, 10], [1, 4, 7]]


def parser(**changes: object) -> ParserTransformer:
    torch.manual_seed(0)
    values = {"n_layers": 2, "d_model": 16, "d_ff": 32, "n_heads": 4, "dropout": 0.0, "next_word": True, **changes}
    return ParserTransformer(ParserModelConfig(**values), BEGINS, LEAVES, UNK).eval()  # type: ignore[arg-type]


def alone(model: ParserTransformer, source: list[int], target: list[int]) -> torch.Tensor:
    return model(torch.tensor([source]), Padded.of([len(source)]), torch.tensor([target]), Padded.of([len(target)]))[0]


def flat(sequences: list[list[int]]) -> tuple[torch.Tensor, list[int]]:
    return torch.tensor([token for one in sequences for token in one]), [len(one) for one in sequences]


@torch.inference_mode()
def test_the_memory_has_first_subwords_first_in_the_order_of_the_words() -> None:
    model = parser()
    src = torch.tensor([SOURCES[0]])
    order = model.words_first(src, Padded.of([7]))
    assert src[0, order[0]].tolist() == [4, 5, 6, EOS, 10, 11, 12]


@pytest.mark.parametrize("norm", ["post", "pre"])
@torch.inference_mode()
def test_packed_padded_and_filled_batches_agree_with_sentences_alone(norm: str) -> None:
    model = parser(norm=norm)
    (src, src_lengths), (tgt, tgt_lengths) = flat(SOURCES), flat(TARGETS)
    packed = Packed.of(src_lengths), Packed.of(tgt_lengths)
    padded = Padded.of(src_lengths), Padded.of(tgt_lengths)
    rows = model(packed[0].pad(src), padded[0], packed[1].pad(tgt), padded[1])
    ends = model(src, packed[0], tgt, packed[1])
    room = Room(32, 8, 16)
    filled = [Packed.filled(torch.tensor(lengths).numpy(), room) for lengths in (src_lengths, tgt_lengths)]
    sides = [torch.cat([one, one.new_zeros(32 - len(one))]) for one in (src, tgt)]
    full = model(sides[0], filled[0], sides[1], filled[1])[: len(tgt)]
    expected = [alone(model, *pair) for pair in zip(SOURCES, TARGETS, strict=True)]
    torch.testing.assert_close(ends, torch.cat(expected), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(full, torch.cat(expected), atol=1e-5, rtol=1e-4)
    for row, one in zip(rows, expected, strict=True):
        torch.testing.assert_close(row[: len(one)], one, atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_the_decoder_is_fed_the_words_around_the_place_it_has_come_to() -> None:
    model = parser()
    layout = Padded.of([4])
    memory = torch.arange(4.0)[None, :, None].expand(1, 4, 16).contiguous()  # word i is the number i
    model.w_words.weight.copy_(torch.eye(16).repeat(1, 2) * torch.tensor([10.0] * 16 + [1.0] * 16))
    tgt = torch.tensor([[1, 7, 4, 5, 8, 6, 9]])  # three words among other symbols
    found = model.words_around(tgt, Padded.of([7]), memory, layout)[0, :, 0].tolist()
    # 10 · last + next: before any word the first stands for the last; after the third the end is next
    assert found == [0, 0, 1, 12, 12, 23, 23]


@torch.inference_mode()
def test_steps_equal_one_pass_whatever_hypotheses_and_slots_do() -> None:
    model = parser(norm="pre")
    step = ParserStep(model, SOURCES, beam=2)
    step.enter(torch.arange(3), [0, 1, 2])
    histories = [[[1], [1]] for _ in SOURCES]
    slots = [0, 1, 2]
    chance = torch.Generator().manual_seed(2)
    for t in range(12):
        tokens = torch.tensor([[history[-1] for history in histories[b]] for b in slots])
        found = step(tokens, torch.full((len(slots),), t), t + 1)
        for row, b in enumerate(slots):
            for w in range(2):
                expected = alone(model, SOURCES[b], histories[b][w])[-1]
                torch.testing.assert_close(found[row, w], expected, atol=2e-5, rtol=1e-4)
        parents = torch.randint(2, (len(slots), 2), generator=chance)
        step.reorder(parents, t + 1)
        for row, b in enumerate(slots):
            new = torch.randint(4, 12, (2,), generator=chance).tolist()
            histories[b] = [[*histories[b][int(parents[row, w])], new[w]] for w in range(2)]
        if t == 5:
            slots = [0, 2]
            step.keep(torch.tensor(slots))


def test_every_word_moves_the_gradient_of_the_encoder() -> None:
    model = parser().train()
    (src, src_lengths), (tgt, tgt_lengths) = flat(SOURCES), flat(TARGETS)
    model(src, Packed.of(src_lengths), tgt, Packed.of(tgt_lengths)).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_word_dropout_hides_subwords_in_training_alone_and_leaves_the_order() -> None:
    model = parser(word_dropout=0.5)
    src, layout = torch.tensor([SOURCES[0]]), Padded.of([7])
    assert torch.equal(model.encode(src, layout), model.encode(src, layout))
    model.train()
    assert not torch.equal(model.encode(src, layout), model.encode(src, layout))


def test_without_the_next_word_it_is_the_transformer() -> None:
    from regard.models.transformer import Transformer

    ours = parser(next_word=False)
    torch.manual_seed(0)
    theirs = Transformer(ours.config, len(BEGINS), len(LEAVES)).eval()
    assert set(ours.state_dict()) == set(theirs.state_dict())
    for source, target in zip(SOURCES, TARGETS, strict=True):
        sides = torch.tensor([source]), Padded.of([len(source)]), torch.tensor([target]), Padded.of([len(target)])
        assert torch.equal(ours(*sides), theirs(*sides))


@torch.inference_mode()
def test_a_gpu_can_record_what_a_step_does() -> None:
    options = SearchOptions(1, EOS, beam_size=2)
    bench = KeptBench.of_search(ParserStep(parser(), SOURCES, beam=2), 4, source_room=16, room=32, options=options)
    check_recordable(bench, sentences=3)
