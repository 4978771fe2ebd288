"""Subwords: trained, reversible, saved, and explained when they cannot be learned."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import sentencepiece as spm

from regard.config import TokenizerConfig
from regard.data.tokenizer import BOS, EOS, MANY, PAD, UNK, Ragged, Tokenizer, TokenizerPair, train
from regard.errors import RegardError

ENGLISH = [
    "the old house stands by the river", "a small dog sleeps in the old house", "the river sings",
    "seven sisters sold shells and stories", "his brother rode another horse to the other border",
    "under the thunder nobody wonders about the hundred lights",
] * 20  # fmt: skip
GERMAN = [
    "das alte Haus steht am Fluss", "ein kleiner Hund schläft im alten Haus", "der Fluss singt",
    "sieben Schwestern verkauften Muscheln und Märchen", "sein Bruder ritt ein anderes Pferd zur anderen Grenze",
    "unter dem Donner wundert sich niemand über die hundert Lichter",
] * 20  # fmt: skip


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("shared", [True, False])
def test_text_survives_tokenisation_and_saving(tmp_path: Path, kind: str, shared: bool) -> None:
    config = TokenizerConfig(kind=kind, vocab_size=50, shared=shared)  # type: ignore[arg-type]
    tokenizers = train(config, ENGLISH, GERMAN, seed=1)
    tokenizers.save(tmp_path / "tokenizer")
    again = TokenizerPair.load(tmp_path / "tokenizer")
    assert again.hash == tokenizers.hash
    assert again.shared is shared
    for tokenizer, text in ((again.source, ENGLISH[1]), (again.target, GERMAN[1])):
        (tokens,) = tokenizer.encode([text])
        assert tokens[-1] == EOS
        assert UNK not in tokens
        assert tokenizer.decode(tokens) == text
    assert again.source.vocab_size == 50


def test_special_symbols_come_first() -> None:
    tokenizers = train(TokenizerConfig(vocab_size=50), ENGLISH, GERMAN, seed=1)
    assert tokenizers.source.pieces([PAD, BOS, EOS, UNK]) == ["<pad>", "<s>", "</s>", "<unk>"]


def test_training_is_deterministic() -> None:
    config = TokenizerConfig(vocab_size=50)
    assert train(config, ENGLISH, GERMAN, 1).hash == train(config, ENGLISH, GERMAN, 1).hash


def test_words_number_the_whitespace_words() -> None:
    tokenizer = train(TokenizerConfig(vocab_size=50), ENGLISH, GERMAN, seed=1).source
    text = "the house sings"
    (tokens,) = tokenizer.encode([text])
    numbers = tokenizer.words(tokens)
    assert numbers[-1] == -1  # the end symbol
    assert sorted(set(numbers[:-1])) == [0, 1, 2]
    for word, letters in enumerate(text.split()):
        pieces = [p for p, n in zip(tokenizer.pieces(tokens), numbers, strict=True) if n == word]
        assert "".join(pieces).replace("▁", "") == letters


def test_bytes_spell_what_training_never_saw() -> None:
    plain, spelled = (
        train(TokenizerConfig(vocab_size=size, byte_fallback=fallback), ENGLISH, GERMAN, 1).source
        for size, fallback in ((50, False), (310, True))
    )
    assert UNK in plain.encode(["日本"])[0]
    assert spelled.decode(spelled.encode(["日本"])[0]) == "日本"


@pytest.mark.parametrize(
    ("size", "message"),
    [(5000, "set it to at most"), (10, "too small for the characters of this text: set it to at least 3")],
)
def test_an_impossible_vocabulary_size_is_explained(size: int, message: str) -> None:
    with pytest.raises(RegardError, match=f"vocab_size = {size}.*{message}"):
        train(TokenizerConfig(vocab_size=size), ENGLISH, GERMAN, seed=1)


def test_a_damaged_or_missing_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"holds no tokenizer: neither shared\.model nor source\.model"):
        TokenizerPair.load(tmp_path)
    with pytest.raises(RegardError, match=r"There is no tokenizer folder .*nowhere"):
        TokenizerPair.load(tmp_path / "nowhere")
    for shared, missing in ((True, "shared"), (False, "target")):
        folder = tmp_path / missing
        train(TokenizerConfig(vocab_size=50, shared=shared), ENGLISH, GERMAN, seed=1).save(folder)
        (folder / f"{missing}.model").unlink()
        with pytest.raises(RegardError, match=rf"no file .*{missing}\.model"):
            TokenizerPair.load(folder)
    (tmp_path / "shared.model").write_bytes(b"not a model")
    with pytest.raises(RegardError, match="damaged"):
        TokenizerPair.load(tmp_path)


def test_a_corpus_is_encoded_in_chunks_as_in_one_piece() -> None:
    tokenizer = train(TokenizerConfig(vocab_size=50), ENGLISH, GERMAN, seed=1).source
    chunked, whole = tokenizer.encode_corpus(ENGLISH, chunk=7), Ragged.of(tokenizer.encode(ENGLISH))
    assert np.array_equal(chunked.values, whole.values)
    assert np.array_equal(chunked.offsets, whole.offsets)


def test_few_sentences_and_many_are_cut_and_joined_alike() -> None:
    tokenizer = train(TokenizerConfig(vocab_size=50), ENGLISH, GERMAN, seed=1).source
    texts = [*ENGLISH, ""]
    many = tokenizer.encode(texts)
    assert many == [tokenizer.encode([text])[0] for text in texts]
    assert [tokenizer.decode(tokens) for tokens in many] == texts
    assert tokenizer.decode_all(many) == texts
    times = MANY // len(texts) + 1  # by the table
    assert tokenizer.decode_all(many * times) == texts * times


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("byte_fallback", [True, False])
def test_the_table_of_pieces_says_what_sentencepiece_says(kind: str, byte_fallback: bool) -> None:
    """Of any tokens: symbols, unknown ones, single bytes, spaces at either end."""
    config = TokenizerConfig(kind=kind, vocab_size=360 if byte_fallback else 60, byte_fallback=byte_fallback)  # type: ignore[arg-type]
    tokenizer = train(config, ENGLISH, GERMAN, seed=1).source
    space, size = tokenizer.processor.piece_to_id("▁"), tokenizer.vocab_size
    chance = np.random.default_rng(0)
    sequences = [chance.integers(0, size, chance.integers(0, 12)).tolist() for _ in range(3_000)]
    plain = np.flatnonzero([said is not None for said in tokenizer.said])
    sequences += [chance.choice(plain, chance.integers(1, 12)).tolist() for _ in range(3_000)]
    sequences += [
        [*[space] * i, *sequence, *[space] * j, EOS] for sequence in sequences[-50:] for i in (0, 1, 2) for j in (0, 1)
    ]
    assert tokenizer.decode_all(sequences) == [tokenizer.processor.decode(tokens) for tokens in sequences]
    assert len(plain) > 40, "the table was of use"


def test_texts_that_begin_with_a_space_are_for_sentencepiece() -> None:
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(ENGLISH), model_writer=model, vocab_size=50, add_dummy_prefix=False, minloglevel=2,
        remove_extra_whitespaces=False, pad_id=PAD, bos_id=BOS, eos_id=EOS, unk_id=UNK,
    )  # fmt: skip
    tokenizer = Tokenizer(model.getvalue())
    assert tokenizer.said == []
    texts = [" the river", "the  river "] * MANY
    assert tokenizer.decode_all(tokenizer.encode(texts)) == texts


def test_ragged_keeps_sequences_apart() -> None:
    ragged = Ragged.of([[1, 2], [], [3]])
    assert [ragged[i].tolist() for i in range(len(ragged))] == [[1, 2], [], [3]]
    assert np.array_equal(ragged.lengths, [2, 0, 1])


# --- numbers of another's -------------------------------------------------------------------------------

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]


def foreign(tokenizers: TokenizerPair, without: str = "", more: tuple[str, ...] = ()) -> Tokenizer:
    """The same pieces numbered from the other end, one of them left out and others added."""
    pieces = tokenizers.source.pieces(range(4, tokenizers.source.vocab_size))
    return Tokenizer(tokenizers.source.model, [*SPECIAL, *more, *(piece for piece in pieces[::-1] if piece != without)])


def test_a_foreign_vocabulary_numbers_the_same_pieces_otherwise() -> None:
    ours = train(TokenizerConfig(vocab_size=50), ENGLISH, GERMAN, seed=1)
    theirs = foreign(ours)
    (a,), (b,) = (tokenizer.encode(ENGLISH[1:2]) for tokenizer in (ours.source, theirs))
    assert a != b
    assert ours.source.pieces(a) == theirs.pieces(b)
    assert theirs.decode(b) == ENGLISH[1]
    assert ours.source.words(a) == theirs.words(b)
    assert ours.source.word_texts(a) == theirs.word_texts(b)
    corpus = theirs.encode_corpus(ENGLISH[:3])
    assert corpus[1].tolist() == b


def test_a_piece_that_a_foreign_vocabulary_lacks_is_unknown() -> None:
    ours = train(TokenizerConfig(vocab_size=50), ENGLISH, GERMAN, seed=1)
    piece = ours.source.pieces(ours.source.encode(ENGLISH[1:2])[0])[1]
    theirs = foreign(ours, without=piece)
    assert UNK in theirs.encode(ENGLISH[1:2])[0]
    assert theirs.vocab_size == ours.source.vocab_size - 1


def test_a_language_before_a_sentence_is_one_token_where_the_vocabulary_has_it() -> None:
    ours = train(TokenizerConfig(vocab_size=50), ENGLISH, GERMAN, seed=1)
    theirs = foreign(ours, more=(">>deu<<",))
    (marked,), (plain,) = theirs.encode([">>deu<< the river"]), theirs.encode(["the river"])
    assert marked == [4, *plain]
    assert UNK in theirs.encode([">>fra<< the river"])[0]  # spelled out, and ">" is no piece


def test_a_foreign_vocabulary_is_saved_loaded_and_part_of_the_hash(tmp_path: Path) -> None:
    ours = train(TokenizerConfig(vocab_size=50), ENGLISH, GERMAN, seed=1)
    theirs = foreign(ours)
    pair = TokenizerPair(theirs, foreign(ours, more=("<extra>",)))
    pair.save(tmp_path / "tokenizer")
    again = TokenizerPair.load(tmp_path / "tokenizer")
    assert again.hash == pair.hash
    assert again.hash != TokenizerPair(theirs, theirs).hash
    assert again.hash != ours.hash
    assert (again.source.vocabulary, again.target.vocabulary) == (pair.source.vocabulary, pair.target.vocabulary)
    assert again.source.encode(ENGLISH[:4]) == theirs.encode(ENGLISH[:4])
    (tmp_path / "tokenizer" / "source.numbers.json").write_text("no list")
    with pytest.raises(RegardError, match=r"vocabulary in .* is damaged"):
        TokenizerPair.load(tmp_path / "tokenizer")
