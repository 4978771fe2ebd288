"""Translation: parallel text, an encoder–decoder, label-smoothed cross-entropy (`nn.loss`), BLEU."""

from __future__ import annotations

import hashlib
import math
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeAlias

import numpy as np
import torch
from torch import Tensor

from regard.config import PairRecipe, ParsingRecipe, TokenizerConfig
from regard.data import tokenizer as subwords
from regard.data.batching import BatchOrder, cut
from regard.data.corpus import Corpus, load_required, without_empty
from regard.data.prepared import Prepared
from regard.data.sampling import SampledRagged, as_it_is, sampled
from regard.data.tokenizer import PAD, SYMBOLS, Ragged, Symbols, TokenizerPair
from regard.decode.translator import Translator
from regard.errors import RegardError
from regard.evaluate.bleu import bleu
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.families import FAMILIES
from regard.models.masked import MaskedTransformer
from regard.nn.blockwise import targets_ahead
from regard.nn.layout import Layout, Packed, Padded, Room
from regard.nn.loss import IGNORED, smoothed_cross_entropy
from regard.nn.r_drop import r_drop_loss
from regard.tasks.task import B, Validation, evaluating, move, pin
from regard.wording import counted

N_SAMPLES = 5

AnyPairRecipe: TypeAlias = PairRecipe | ParsingRecipe  # text and its translation, or sentences and their trees


@dataclass(frozen=True)
class TranslationBatch:
    src: Tensor  # (B, S)
    src_layout: Layout
    tgt: Tensor  # (B, T), beginning with the start symbol
    tgt_layout: Layout
    expected: Tensor  # (n_tokens,), the tokens to predict, of all sentences end to end
    n_tokens: int
    numbers: np.ndarray  # which pairs these are
    shape: tuple[int, ...] | None = None  # of the tensors and layouts, where it is one of a few


@dataclass(frozen=True)
class Pairs:
    """Tokenised sentence pairs; each side ends with the end symbol."""

    source: Ragged
    target: Ragged

    @classmethod
    def encode(cls, tokenizers: TokenizerPair, corpus: Corpus) -> Pairs:
        return cls(tokenizers.source.encode_corpus(corpus.source), tokenizers.target.encode_corpus(corpus.target))

    @property
    def lengths(self) -> np.ndarray:
        """Of the longer side of each pair."""
        return np.maximum(self.source.lengths, self.target.lengths)

    @property
    def hash(self) -> str:
        """Identifies the text a run was trained with."""
        total = hashlib.sha256()
        for side in (self.source, self.target):
            for array in (side.values, side.offsets):
                total.update(np.ascontiguousarray(array).data)
        return total.hexdigest()

    @property
    def sides(self) -> np.ndarray:
        """The lengths to expect of both sides, (n, 2)."""
        return np.stack([self.source.lengths, self.target.lengths], axis=1)

    def take(self, numbers: np.ndarray) -> tuple[Ragged, Ragged]:
        """The examples `numbers`, which go on through the epochs (`BatchOrder`)."""
        return self.source.take(numbers % len(self.source)), self.target.take(numbers % len(self.target))

    def batch(self, numbers: np.ndarray, layout: str, start: int) -> TranslationBatch:
        """The pairs `numbers` as tensors in a `padded` or `packed` layout."""
        source, target = self.take(numbers)
        src, src_layout = arrange(source.values, source.lengths, layout)
        tgt, tgt_layout = arrange(shifted(target, start), target.lengths, layout)
        expected = torch.from_numpy(target.values.astype(np.int64))
        return TranslationBatch(src, src_layout, tgt, tgt_layout, expected, len(expected), numbers)

    def filled_batch(
        self, numbers: np.ndarray, start: int, budget: int, longest: int, tight: bool = False
    ) -> TranslationBatch:
        """The pairs `numbers` in a packed batch of one of a few shapes, so that work recorded for a shape can be done
        again for all batches of it. What fills it is padding that no loss counts.

        `longest` is the longest sequence the model takes; `tight` is for one that works on padding too.
        """
        source, target = self.take(numbers)
        room = Room.for_sides([source.lengths, target.lengths], budget, longest, tight)
        src, tgt = padded_to(room.total, source.values, PAD), padded_to(room.total, shifted(target, start), PAD)
        src_layout, tgt_layout = (Packed.filled(side.lengths, room) for side in (source, target))
        expected, n_tokens = padded_to(room.total, target.values, IGNORED), len(target.values)
        return TranslationBatch(src, src_layout, tgt, tgt_layout, expected, n_tokens, numbers, room)


@dataclass(frozen=True)
class SampledPairs(Pairs):
    """Pairs whose words are in other subwords each epoch."""

    drawn: tuple[SampledRagged, SampledRagged]

    @classmethod
    def of(cls, pairs: Pairs, tokenizers: TokenizerPair, recipe: AnyPairRecipe, longest: int) -> SampledPairs:
        kind, alpha, seed = recipe.tokenizer.kind, recipe.tokenizer.sampling, recipe.seed
        source = sampled(tokenizers.source, kind, pairs.source, alpha, seed, longest)
        if isinstance(tokenizers.target, Symbols):
            return cls(pairs.source, pairs.target, (source, as_it_is(tokenizers.target, pairs.target, longest)))
        target = sampled(tokenizers.target, kind, pairs.target, alpha, seed + 1, longest)
        return cls(pairs.source, pairs.target, (source, target))

    @property
    def sides(self) -> np.ndarray:
        return np.stack([side.lengths for side in self.drawn], axis=1)

    def take(self, numbers: np.ndarray) -> tuple[Ragged, Ragged]:
        source, target = self.drawn
        return source.take(numbers), target.take(numbers)


def shifted(target: Ragged, start: int) -> np.ndarray:
    """What the decoder is fed: each sequence behind the start symbol, without its last token."""
    fed = np.roll(target.values, 1)
    fed[target.offsets[:-1][target.lengths > 0]] = start
    return fed


def padded_to(room: int, flat: np.ndarray, value: int) -> Tensor:
    filled = torch.full((room,), value, dtype=torch.long)
    filled[: len(flat)] = torch.from_numpy(flat)
    return filled


def arrange(flat: np.ndarray, lengths: np.ndarray, layout: str) -> tuple[Tensor, Layout]:
    packed = Packed.of(lengths)
    tokens = torch.from_numpy(flat.astype(np.int64))
    return (tokens, packed) if layout == "packed" else (packed.pad(tokens), Padded.of(lengths))


class PairTask(ABC, Generic[B]):
    """One recipe's corpora and model. What a batch of them is, and its loss, its kinds say."""

    unit: ClassVar[str] = "tokens"

    def __init__(self, recipe: AnyPairRecipe, tokenizers: TokenizerPair, train: Pairs, valid: Corpus) -> None:
        self.recipe, self.tokenizers, self.valid_corpus = recipe, tokenizers, valid
        torch.manual_seed(recipe.seed)
        self.model = self.build()
        if recipe.train.freeze:
            freeze_base(self.model)
        if recipe.train.recompute:
            self.model.recompute_layers()
        self.frozen = bool(recipe.train.freeze)
        kept = fitting(train, recipe.data.max_length)
        self.pairs, self.too_long = train, np.setdiff1d(np.arange(len(train.source)), kept).tolist()
        if recipe.tokenizer.sampling:
            self.pairs = SampledPairs.of(self.pairs, tokenizers, recipe, self.model.longest)
        self.valid, self.too_long_to_validate = within(Pairs.encode(tokenizers, valid), self.model.longest)
        padded = recipe.train.layout != "packed"
        self.order = BatchOrder(self.pairs.sides, recipe.train.batch_tokens, recipe.seed, padded=padded, only=kept)
        self.d_model = recipe.model.d_model
        self.fingerprints = {"tokenizer": tokenizers.hash, "training text": self.pairs.hash}

    def build(self) -> EncoderDecoder:
        """The model, with new weights."""
        assert isinstance(self.recipe, PairRecipe)
        return build(self.recipe, self.tokenizers)

    @property
    def extent(self) -> str:
        return f"{len(self.order.used):,} pairs, {self.tokenizers.source.vocab_size:,} subwords"

    @abstractmethod
    def n_tokens(self, numbers: np.ndarray) -> int: ...

    @abstractmethod
    def batch(self, numbers: np.ndarray, device: torch.device) -> B: ...

    @abstractmethod
    def loss(self, batch: B) -> Tensor: ...

    @abstractmethod
    def validate(self, device: torch.device) -> Validation: ...

    def translated(self, translator: Translator, **options: Any) -> tuple[dict[str, float], list[str]]:
        """BLEU of some held-out sentences, and a few of them to read."""
        corpus, metrics, samples = self.valid_corpus, dict[str, float](), list[str]()
        n = min(self.recipe.train.valid_sentences, len(corpus))
        if n:
            found = [one for one, *_ in translator.search(corpus.source[:n], **options)]
            texts = [one.text for one in found]
            if calls := sum(one.calls for one in found):
                metrics["tokens_per_call"] = sum(len(one.target_tokens) for one in found) / calls
            metrics["bleu"] = bleu(texts, corpus.target[:n], samples=0, language=corpus.language).value
            for source, target, text in list(zip(corpus.source, corpus.target, texts, strict=False))[:N_SAMPLES]:
                samples.append(f"source     {source}\nreference  {target}\noutput     {text}\n")
        return metrics, samples


class TranslationTask(PairTask[TranslationBatch]):
    """Each token predicted from those before it."""

    @property
    def start(self) -> int:
        return SYMBOLS[self.recipe.model.start]

    def n_tokens(self, numbers: np.ndarray) -> int:
        return len(self.pairs.take(numbers)[1].values)

    def batch(self, numbers: np.ndarray, device: torch.device) -> TranslationBatch:
        layout, budget = self.recipe.train.layout, self.recipe.train.batch_tokens
        if layout == "packed" and device.type == "cuda":
            tight = self.model.in_rectangles
            return pin(self.pairs.filled_batch(numbers, self.start, budget, self.model.longest, tight), device)
        return pin(self.pairs.batch(numbers, layout, self.start), device)

    def loss(self, batch: TranslationBatch) -> Tensor:
        smoothing, r_drop = self.recipe.train.label_smoothing, self.recipe.train.r_drop
        if self.model.block_heads is not None:
            return block_loss(self.model, batch, smoothing, self.frozen)
        return (
            r_dropped_loss(self.model, batch, smoothing, r_drop)
            if r_drop
            else smoothed_loss(self.model, batch, smoothing)
        )

    def validate(self, device: torch.device) -> Validation:
        with evaluating(self.model):
            nll, n_tokens = score_pairs(self.model, self.valid, self.recipe.train.batch_tokens, device)
            metrics = {"loss": nll / n_tokens, "perplexity": math.exp(min(nll / n_tokens, 50.0))}
            blockwise = self.model.block_heads is not None
            if blockwise:  # the loss is that of all that is trained; the perplexity stays that of the next token
                loss = partial(block_loss, only_heads=self.frozen)
                nll, _ = score_pairs(self.model, self.valid, self.recipe.train.batch_tokens, device, loss)
                metrics["loss"] = nll / n_tokens
            translator = Translator(self.recipe.name, self.model, self.tokenizers, self.recipe.decode)
            scores, samples = self.translated(translator, beam_size=1, blockwise=blockwise)
        return Validation(metrics | scores, samples)


Kind: TypeAlias = Callable[[PairRecipe, TokenizerPair, Pairs, Corpus], PairTask[Any]]


def prepare(
    recipe: PairRecipe,
    tokenizer: Path,
    initial: TokenizerPair | None,
    say: Callable[[str], None],
    once: Callable[[Callable[[], None]], object] = lambda action: action(),
    kind: Kind = TranslationTask,
) -> PairTask[Any]:
    """The task of a recipe: corpora read, tokenizer found or made, and a word on whatever is left out.

    `tokenizer` is the run's folder for it; `initial` the tokenizer of the run this one starts from. Where several
    processes prepare the same task, `once` has one of them act and the others wait.
    """
    train = None if recipe.data.prepared else whole(recipe, "train", say)
    valid = whole(recipe, "valid", say)
    if train is None:
        prepared = Prepared.open(recipe.data.prepared, verify=True)
        if initial and initial.hash != prepared.tokenizers.hash:
            raise RegardError(
                f"{prepared.folder} was prepared with another tokenizer than that of init = {recipe.init}: prepare it "
                f"again with --tokenizer {Path(recipe.init) / 'tokenizer'}."
            )
        check_tokenizer(recipe, prepared, say)
        once(partial(keep_tokenizers, tokenizer, lambda: prepared.tokenizers))
        tokenizers, pairs, lines = prepared.tokenizers, Pairs(*prepared.train), None
    else:
        once(partial(keep_tokenizers, tokenizer, lambda: initial or learn(recipe, train, say)))
        tokenizers = TokenizerPair.load(tokenizer)
        pairs, lines = Pairs.encode(tokenizers, train), train.lines
    task = kind(recipe, tokenizers, pairs, valid)
    limits = f"data.max_length = {recipe.data.max_length}", f"model.max_positions = {task.model.longest}"
    say_left_out(say, "train", task.too_long, lines, len(pairs.source), limits[0])
    say_left_out(say, "valid", task.too_long_to_validate, valid.lines, len(valid), limits[1])
    return task


def check_tokenizer(recipe: PairRecipe, prepared: Prepared, say: Callable[[str], None]) -> None:
    """Prepared data has its tokenizer already: what the recipe says of it must be true, or counts for nothing."""
    if recipe.model.tie == "all" and not prepared.tokenizers.shared:
        raise RegardError(
            f"{prepared.folder} has a vocabulary for each language, which cannot share one matrix: set "
            'tokenizer.shared = false and model.tie = "target" or "none".'
        )
    kind = prepared.index["settings"]["tokenizer"]["kind"]
    if recipe.tokenizer.sampling and kind != recipe.tokenizer.kind:
        raise RegardError(
            f'{prepared.folder} has {kind} subwords, which are drawn in their own way: set tokenizer.kind = "{kind}".'
        )
    learned, default = prepared.index["settings"]["tokenizer"], TokenizerConfig()
    asked = {key: getattr(recipe.tokenizer, key) for key in learned if key != "sampling"}
    ignored = [f"{key} = {value}" for key, value in asked.items() if value not in (learned[key], getattr(default, key))]
    if ignored:
        say(f"[tokenizer] {', '.join(ignored)} counts for nothing: {prepared.folder} has its subwords already.")


def whole(recipe: PairRecipe, split: str, say: Callable[[str], None]) -> Corpus:
    """The pairs of a split of which both sides say something, and a word on the others."""
    corpus = without_empty(load_required(recipe.data, split))
    if corpus.empty_lines:
        where = some(corpus.empty_lines)
        say(f"Left out for an empty side: {counted(len(corpus.empty_lines), f'{corpus.name} pair')} ({where}).")
    return corpus


def say_left_out(
    say: Callable[[str], None], split: str, numbers: list[int], lines: list[int] | None, total: int, limit: str
) -> None:
    if numbers:
        where = some([lines[i] if lines else i + 1 for i in numbers])
        say(f"{len(numbers):,} of {total:,} {split} pairs are longer than {limit} tokens and are left out ({where}).")


def some(lines: Sequence[int]) -> str:
    """A few of many lines: `lines 3, 17, 40 …`."""
    shown = ", ".join(map(str, lines[:3])) + (" …" if len(lines) > 3 else "")
    return f"line {shown}" if len(lines) == 1 else f"lines {shown}"


def learn(recipe: PairRecipe, corpus: Corpus, say: Callable[[str], None]) -> TokenizerPair:
    say(f"Learning {recipe.tokenizer.vocab_size:,} subwords …")
    return subwords.train(recipe.tokenizer, corpus.source, corpus.target, recipe.seed)


def keep_tokenizers(folder: Path, make: Callable[[], TokenizerPair]) -> None:
    """Give the run its tokenizer, unless it has one."""
    if folder.is_dir():
        return
    new = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    make().save(new)
    new.rename(folder)


def build(recipe: PairRecipe, tokenizers: TokenizerPair) -> EncoderDecoder:
    model: Callable[[Any, int, int], EncoderDecoder] = FAMILIES[recipe.model.family].model
    if recipe.task == "mask_predict":
        model = MaskedTransformer
    return model(recipe.model, tokenizers.source.vocab_size, tokenizers.target.vocab_size)


def fitting(pairs: Pairs, max_length: int) -> np.ndarray:
    """The numbers of the pairs of at most `max_length` tokens a side."""
    fits = np.flatnonzero(pairs.lengths <= max_length)
    if not len(fits):
        raise RegardError(
            f"Every pair is longer than {max_length} tokens (the shortest has {pairs.lengths.min()}): raise "
            "data.max_length, or model.max_positions where positions are learned."
        )
    return fits


def within(pairs: Pairs, max_length: int) -> tuple[Pairs, list[int]]:
    """The pairs of at most `max_length` tokens a side, and the numbers of the others."""
    kept = fitting(pairs, max_length)
    if len(kept) == len(pairs.source):
        return pairs, []
    return Pairs(*pairs.take(kept)), np.setdiff1d(np.arange(len(pairs.source)), kept).tolist()


def smoothed_loss(model: EncoderDecoder, batch: TranslationBatch, label_smoothing: float) -> Tensor:
    """Cross-entropy with the smoothed targets, summed over real tokens; padding never meets the vocabulary."""
    hidden = last_hidden(model, batch)
    return smoothed_cross_entropy(hidden, model.output.weight, model.output.bias, batch.expected, label_smoothing)


def r_dropped_loss(model: EncoderDecoder, batch: TranslationBatch, label_smoothing: float, alpha: float) -> Tensor:
    """The same with R-Drop: a second pass, whose dropout is another. Both are one call, with every sentence twice."""
    src, tgt = (torch.cat([side, side]) for side in (batch.src, batch.tgt))
    layout = batch.tgt_layout.twice()
    first, second = layout.real(model.hidden(src, batch.src_layout.twice(), tgt, layout)).chunk(2)
    weight, bias = model.output.weight, model.output.bias
    return r_drop_loss(first, second, weight, bias, batch.expected, label_smoothing, alpha)


def freeze_base(model: EncoderDecoder) -> None:
    """Leave nothing to be trained but the block heads."""
    model.requires_grad_(False)
    if model.block_heads is not None:
        model.block_heads.requires_grad_(True)


def block_loss(
    model: EncoderDecoder, batch: TranslationBatch, label_smoothing: float, only_heads: bool = False
) -> Tensor:
    """The mean of the k losses of each position, for the next token and the k − 1 after it; `only_heads`: of these.

    Summed over real tokens; a token beyond the end of its sentence counts nothing.
    """
    heads, hidden = model.block_heads, last_hidden(model, batch)  # (n, D)
    assert heads is not None
    places = batch.tgt_layout.real(batch.tgt_layout.positions.expand(batch.tgt.shape))
    targets = targets_ahead(batch.expected, places, heads.k)  # (n, k)
    every = heads(hidden) if only_heads else torch.cat([hidden[:, None], heads(hidden)], dim=1)
    targets = targets[:, 1:] if only_heads else targets
    weight, bias = model.output.weight, model.output.bias
    total = smoothed_cross_entropy(every.flatten(0, 1), weight, bias, targets.flatten(), label_smoothing)
    return total / targets.shape[1]


def last_hidden(model: EncoderDecoder, batch: TranslationBatch) -> Tensor:
    """What the decoder says at each real target position: (n_tokens, D)."""
    return batch.tgt_layout.real(model.hidden(batch.src, batch.src_layout, batch.tgt, batch.tgt_layout))


@torch.inference_mode()
def score_pairs(
    model: EncoderDecoder,
    pairs: Pairs,
    batch_tokens: int,
    device: torch.device,
    loss: Callable[[EncoderDecoder, TranslationBatch, float], Tensor] = smoothed_loss,
) -> tuple[float, int]:
    """The negative log-likelihood of references in nats, without smoothing, and their token count."""
    total, n_tokens = 0.0, 0
    for numbers in by_length(pairs, batch_tokens):
        batch = move(pairs.batch(numbers, "padded", SYMBOLS[model.config.start]), device)
        total += float(loss(model, batch, 0.0))
        n_tokens += batch.n_tokens
    return total, n_tokens


def by_length(pairs: Pairs, batch_tokens: int) -> Iterator[np.ndarray]:
    order = np.argsort(pairs.lengths, kind="stable")
    yield from cut(order, pairs.lengths[order], batch_tokens)
