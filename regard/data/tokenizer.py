"""Subwords: SentencePiece models trained inside the tool, one for both languages or one each (paper §5.1).

Four symbols come first in every vocabulary: padding, start, end, unknown. A model trained elsewhere may come with a
vocabulary that numbers SentencePiece's pieces otherwise, or leaves some out; a tokenizer then keeps it as well. What is
no language, such as the brackets of a tree, has a list of symbols instead (`Symbols`).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece as spm

from regard.config import TokenizerConfig
from regard.errors import RegardError

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SYMBOLS = {"pad": PAD, "bos": BOS, "eos": EOS}
LANGUAGE = re.compile(r">>[^<>]+<<")  # what stands before a sentence for a model of several target languages
FEW = 32  # sentences to be tokenised for which a thread of SentencePiece's pays: every call makes its threads anew
MANY = 4_096  # outputs that have become text when a table of what pieces say is made: it pays after twice as many more


@dataclass(frozen=True)
class Ragged:
    """Many integer sequences in one array: sequence i is `values[offsets[i] : offsets[i + 1]]`."""

    values: np.ndarray  # (total,) int32, or uint16 in a memory map
    offsets: np.ndarray  # (n + 1,) int64

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]]) -> Ragged:
        offsets = np.zeros(len(sequences) + 1, dtype=np.int64)
        np.cumsum([len(sequence) for sequence in sequences], out=offsets[1:])
        flat = np.fromiter(chain.from_iterable(sequences), np.int32, count=int(offsets[-1]))
        return cls(flat, offsets)

    @classmethod
    def join(cls, parts: Sequence[Ragged]) -> Ragged:
        starts = np.cumsum([0, *(part.offsets[-1] for part in parts)])
        offsets = [part.offsets[1:] + start for part, start in zip(parts, starts, strict=False)]
        return cls(np.concatenate([part.values for part in parts]), np.concatenate([[0], *offsets]))

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def take(self, numbers: np.ndarray) -> Ragged:
        """The sequences `numbers`, in that order."""
        lengths = self.lengths[numbers]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[numbers] - offsets[:-1], lengths)
        return Ragged(self.values[places].astype(np.int32, copy=False), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> np.ndarray:
        return self.values[self.offsets[i] : self.offsets[i + 1]]


class Tokenizer:
    """Text ↔ token numbers for one language.

    `vocabulary`: the pieces in the order of their numbers, where they are not numbered as SentencePiece does. The four
    symbols come first in it too; a piece that it lacks is unknown.
    """

    def __init__(self, model: bytes, vocabulary: Sequence[str] | None = None) -> None:
        if not model:
            raise RuntimeError("an empty SentencePiece model")  # which SentencePiece itself would take
        self.model = model
        self.processor = spm.SentencePieceProcessor(model_proto=model)
        self.vocabulary = None if vocabulary is None else list(vocabulary)
        self.numbers = {piece: number for number, piece in enumerate(self.vocabulary or ())}
        self.shown = 0  # outputs that have become text

    @property
    def vocab_size(self) -> int:
        return int(self.processor.get_piece_size()) if self.vocabulary is None else len(self.vocabulary)

    def encode(self, sentences: Sequence[str], threads: int = 0) -> list[list[int]]:
        """Each sentence as its tokens and the end symbol. 0 threads: as many as there are cores."""
        threads = threads or os.cpu_count() or 1
        if self.vocabulary is None:
            return self.each(sentences, threads, add_eos=True)
        codes, texts = self.languages(sentences)
        # As text: a letter that this model does not know may be a piece of the vocabulary, by the other language.
        pieces: list[list[str]] = self.each(texts, threads, out_type=str)
        return [
            [*code, *(self.numbers.get(piece, UNK) for piece in sentence), EOS]
            for code, sentence in zip(codes, pieces, strict=True)
        ]

    def each(self, sentences: Sequence[str], threads: int, **options: Any) -> list[Any]:
        """What SentencePiece makes of each: of few one by one, of many with as many threads as they are worth."""
        if len(sentences) < 2 * FEW:
            return [self.processor.encode(sentence, **options) for sentence in sentences]
        threads = min(threads, len(sentences) // FEW)
        return list(self.processor.encode(list(sentences), num_threads=threads, **options))

    def languages(self, sentences: Sequence[str]) -> tuple[list[list[int]], list[str]]:
        """The language before each sentence, such as >>deu<<, where it is a piece of the vocabulary; and the rest."""
        found = [LANGUAGE.match(sentence) for sentence in sentences]
        codes = [[self.numbers[code[0]]] if code and code[0] in self.numbers else [] for code in found]
        rests = zip(sentences, codes, found, strict=True)
        return codes, [sentence[match.end() :] if code and match else sentence for sentence, code, match in rests]

    def encode_corpus(self, sentences: Sequence[str], chunk: int = 50_000) -> Ragged:
        """The same for a whole corpus, in a tenth of the memory that lists of numbers take."""
        starts = range(0, len(sentences), chunk)
        return Ragged.join([Ragged.of(self.encode(sentences[start : start + chunk])) for start in starts])

    def decode(self, tokens: Sequence[int]) -> str:
        return self.decode_all([tokens])[0]

    def decode_all(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        """The text of each."""
        if self.vocabulary is None:  # SentencePiece leaves the symbols out itself
            self.shown += len(sequences)
            convert = self.joined if self.shown > MANY and self.said else self.processor.decode
            return [convert(tokens) for tokens in sequences]
        shown = ([token for token in tokens if token > EOS] for tokens in sequences)
        return [str(self.processor.decode_pieces(self.pieces(tokens))) for tokens in shown]

    @cached_property
    def said(self) -> list[str | None]:
        """What each piece adds in the middle of a text, by SentencePiece itself; None where that depends on what stands
        beside it (a byte of a character, what is unknown). Empty where texts do not begin as usual."""
        processor, every = self.processor, range(self.vocab_size)
        pieces = self.pieces(every)
        letter = next((i for i in every if pieces[i].isalpha()), UNK)
        word = next((i for i in every if pieces[i][:1] == "▁" and pieces[i][1:].isalpha()), UNK)
        if UNK in (letter, word) or processor.decode([word]) != pieces[word][1:]:
            return []
        texts = processor.decode([[letter, i, letter] for i in every])
        edge = len(pieces[letter])
        alone = [processor.is_byte(i) or processor.is_unknown(i) for i in every]
        return [None if one else text[edge:-edge] for one, text in zip(alone, texts, strict=True)]

    def joined(self, tokens: Sequence[int]) -> str:
        """What SentencePiece makes of the tokens, several times as fast for most."""
        said = self.said
        try:
            text = "".join([said[token] for token in tokens])  # type: ignore[misc]
        except TypeError:
            return str(self.processor.decode(tokens))
        text = text.removeprefix(" ")
        return text if text.strip(" ") == text else str(self.processor.decode(tokens))

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        if self.vocabulary is not None:
            return [self.vocabulary[token] for token in tokens]
        return [str(self.processor.id_to_piece(int(token))) for token in tokens]

    def words(self, tokens: Sequence[int]) -> list[int]:
        """The number of the word each token belongs to, -1 for special symbols and stray spaces.

        Words are those that white space separates in the text as SentencePiece normalises it.
        """
        pieces = [*self.pieces(tokens), "▁"]
        numbers, word = [], -1
        for token, piece, following in zip(tokens, pieces, pieces[1:], strict=False):
            stray = piece == "▁" and (following.startswith("▁") or following == "</s>")
            if token in (PAD, BOS, EOS) or stray:
                numbers.append(-1)
                continue
            if piece.startswith("▁") or word < 0:
                word += 1
            numbers.append(word)
        return numbers

    def word_texts(self, tokens: Sequence[int]) -> list[str]:
        """The words that `words` numbers, spelled by their tokens."""
        numbers = self.words(tokens)
        texts = [""] * (max(numbers, default=-1) + 1)
        for number, piece in zip(numbers, self.pieces(tokens), strict=True):
            if number >= 0:
                texts[number] += piece.removeprefix("▁")
        return texts

    def begins(self) -> np.ndarray:
        """Whether each token begins a word; the end symbol is a word of its own. (V,)"""
        pieces = self.pieces(range(self.vocab_size))
        return np.array([piece.startswith("▁") or number == EOS for number, piece in enumerate(pieces)])

    def save(self, folder: Path, name: str) -> None:
        (folder / f"{name}.model").write_bytes(self.model)
        # "numbers" where they differ from SentencePiece's and are read again; "vocab" is for people to read.
        write_list(
            folder / f"{name}.{'vocab' if self.vocabulary is None else 'numbers'}.json",
            self.pieces(range(self.vocab_size)),
        )


NAMES = ("<pad>", "<s>", "</s>", "<unk>")  # of the four symbols, in their order


class Symbols(Tokenizer):
    """A closed list of symbols, written with a space between; there is nothing inside them to be split."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        """vocabulary: the four symbols that every one has, then the others."""
        if tuple(vocabulary[: len(NAMES)]) != NAMES or len(set(vocabulary)) != len(vocabulary):
            raise ValueError("no list of different symbols")
        self.vocabulary = list(vocabulary)
        self.numbers = {symbol: number for number, symbol in enumerate(self.vocabulary)}
        self.model = b""

    @classmethod
    def of(cls, symbols: Iterable[str]) -> Symbols:
        return cls([*NAMES, *dict.fromkeys(symbols)])

    def encode(self, sentences: Sequence[str], threads: int = 0) -> list[list[int]]:
        return [[*(self.numbers.get(symbol, UNK) for symbol in text.split(" ") if symbol), EOS] for text in sentences]

    def decode_all(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        return [" ".join(self.pieces([token for token in tokens if token > EOS])) for tokens in sequences]

    def words(self, tokens: Sequence[int]) -> list[int]:
        numbers, word = [], -1
        for token in tokens:
            word += token not in (PAD, BOS, EOS)
            numbers.append(-1 if token in (PAD, BOS, EOS) else word)
        return numbers

    def begins(self) -> np.ndarray:
        return np.ones(self.vocab_size, dtype=bool)

    def save(self, folder: Path, name: str) -> None:
        write_list(folder / f"{name}.symbols.json", self.pieces(range(self.vocab_size)))


def write_list(path: Path, pieces: list[str]) -> None:
    path.write_text(json.dumps(pieces, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class TokenizerPair:
    """The tokenizers of the two sides; the same object twice where the vocabulary is shared."""

    source: Tokenizer
    target: Tokenizer

    @property
    def shared(self) -> bool:
        return self.source is self.target

    @property
    def hash(self) -> str:
        """Identifies the vocabulary a checkpoint was trained with."""
        content = self.source.model + b"\0" + self.target.model
        vocabularies = [side.vocabulary for side in (self.source, self.target)]
        if any(vocabularies):
            content += b"\0" + json.dumps(vocabularies).encode()
        return hashlib.sha256(content).hexdigest()

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        models = {"shared": self.source} if self.shared else {"source": self.source, "target": self.target}
        for name, tokenizer in models.items():
            tokenizer.save(folder, name)

    @classmethod
    def load(cls, folder: Path) -> TokenizerPair:
        if not folder.is_dir():
            raise RegardError(f"There is no tokenizer folder {folder}.")
        shared, apart = (any(folder.glob(f"{name}.*")) for name in ("shared", "source"))
        if not shared and not apart:
            raise RegardError(f"{folder} holds no tokenizer: neither shared.model nor source.model.")
        try:
            if shared:
                both = load_one(folder, "shared")
                return cls(both, both)
            return cls(load_one(folder, "source"), load_one(folder, "target"))
        except FileNotFoundError as error:
            raise RegardError(f"The tokenizer is incomplete: no file {error.filename}.") from None
        except RuntimeError:
            raise RegardError(f"A SentencePiece model in {folder} is damaged.") from None
        except ValueError:
            raise RegardError(f"A vocabulary in {folder} is damaged: it is no list of pieces.") from None


def load_one(folder: Path, name: str) -> Tokenizer:
    symbols = folder / f"{name}.symbols.json"
    if symbols.exists():
        return Symbols(json.loads(symbols.read_text(encoding="utf-8")))
    numbers = folder / f"{name}.numbers.json"
    vocabulary = json.loads(numbers.read_text(encoding="utf-8")) if numbers.exists() else None
    return Tokenizer((folder / f"{name}.model").read_bytes(), vocabulary)


def train(config: TokenizerConfig, source: Iterable[str], target: Iterable[str], seed: int) -> TokenizerPair:
    """Subwords learned from the training text of both sides."""
    if config.shared:
        both = train_one(config, chain(source, target), seed)
        return TokenizerPair(both, both)
    return TokenizerPair(train_one(config, source, seed), train_one(config, target, seed))


def train_one(config: TokenizerConfig, sentences: Iterable[str], seed: int) -> Tokenizer:
    spm.set_random_generator_seed(seed)
    model = io.BytesIO()
    try:
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences), model_writer=model, model_type=config.kind,
            vocab_size=config.vocab_size, character_coverage=config.character_coverage,
            byte_fallback=config.byte_fallback, normalization_rule_name=config.normalization,
            pad_id=PAD, bos_id=BOS, eos_id=EOS, unk_id=UNK, pad_piece="<pad>",
            input_sentence_size=5_000_000, shuffle_input_sentence=True, num_threads=os.cpu_count() or 1,
            minloglevel=2,
        )  # fmt: skip
    except RuntimeError as error:
        raise RegardError(explain(config, str(error))) from None
    return Tokenizer(model.getvalue())


def normalised(lines: Sequence[str], rule: str) -> list[str]:
    """Lines as a tokenizer reads them whose `tokenizer.normalization` is this."""
    found: list[str] = spm.SentencePieceNormalizer(rule_name=rule).normalize(list(lines))
    return found


def explain(config: TokenizerConfig, message: str) -> str:
    """SentencePiece's complaint as a sentence with the fix."""
    high = re.search(r"set it to a value <= (\d+)", message)
    if high:
        return (
            f"tokenizer.vocab_size = {config.vocab_size} is more than this text can fill: "
            f"set it to at most {high.group(1)}."
        )
    low = re.search(r"required_chars\. \d+ vs (\d+)", message)
    if low:
        return (
            f"tokenizer.vocab_size = {config.vocab_size} is too small for the characters of this text: "
            f"set it to at least {low.group(1)}."
        )
    return f"SentencePiece could not learn a vocabulary from this text: {message.strip().splitlines()[-1]}."
