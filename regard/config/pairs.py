"""Recipes that learn from pairs of sequences: text and its translation."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import ClassVar, Literal, TypeAlias

from regard.config.checks import at_least, between
from regard.config.recipe import Recipe, TrainConfig
from regard.config.seq2seq import ConvolutionalConfig, RecurrentConfig
from regard.errors import RegardError


@dataclass(frozen=True)
class DataConfig:
    """Where the sentence pairs come from: a named corpus, files aligned line by line, or prepared data."""

    corpus: str = ""  # built in (en-de, de-en, copy, reverse) or fetched (see regard data fetch), instead of files
    prepared: str = ""  # a folder made by regard data prepare, instead of files
    train: tuple[str, ...] = ()  # [source file, target file], plain or compressed (.gz, .xz, .zst)
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    train_target: str = ""  # a file in the place of a named corpus's training targets: a teacher's translations
    train_size: int = 100_000  # pairs drawn from a built-in corpus
    valid_size: int = 500
    test_size: int = 1_000
    max_length: int = 256  # tokens; longer training pairs are counted, reported and left out

    def __post_init__(self) -> None:
        for name in ("train", "valid", "test"):
            files = getattr(self, name)
            if files and len(files) != 2:
                raise RegardError(f"data.{name} needs two files, source and target, but has {len(files)}.")
        named = [key for key in ("corpus", "prepared") if getattr(self, key)]
        given = [*named, *(key for key in ("train", "valid", "test") if getattr(self, key))]
        if named and len(given) > 1:
            raise RegardError(f"data.{given[0]} and data.{given[1]} exclude each other: remove one of them.")
        if self.train_target and not self.corpus:
            raise RegardError("data.train_target needs data.corpus: in data.train, name the target file itself.")
        at_least(self, "data", train_size=1, valid_size=1, test_size=1, max_length=2)


@dataclass(frozen=True)
class TokenizerConfig:
    """SentencePiece subwords, trained on the training text."""

    kind: Literal["bpe", "unigram"] = "bpe"
    vocab_size: int = 8_000
    shared: bool = True  # one vocabulary for both languages (the paper), or one each
    character_coverage: float = 1.0
    byte_fallback: bool = False  # spell unseen characters in bytes instead of <unk>
    normalization: Literal["nmt_nfkc", "nfkc", "identity"] = "nmt_nfkc"
    sampling: float = 0.0  # in training, words in varying pieces: BPE-dropout's rate, or the unigram model's α; 0: off

    def __post_init__(self) -> None:
        at_least(self, "tokenizer", vocab_size=8, character_coverage=0.98)
        between(self, "tokenizer", 0.0, 1.0, "sampling")


@dataclass(frozen=True)
class TransformerConfig:
    """*Attention Is All You Need*, §3 and Table 3; the defaults are its base model."""

    family: Literal["transformer"] = "transformer"
    preset: Literal["", "base", "big"] = ""
    n_layers: int = 6  # N, of the encoder and the decoder
    n_decoder_layers: int = 0  # 0: as many as n_layers
    d_model: int = 512
    d_ff: int = 2048
    n_heads: int = 8
    d_k: int = 0  # 0: d_model / n_heads
    d_v: int = 0  # 0: d_model / n_heads
    dropout: float = 0.1  # on each sub-layer's output and on embedding + position sums (§5.4)
    attn_dropout: float = 0.0  # on attention weights (not in the paper)
    ff_dropout: float = 0.0  # after the feed-forward activation (not in the paper)
    norm: Literal["post", "pre"] = "post"
    norm_eps: float = 1e-6
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    sinusoid: Literal["interleaved", "halves"] = "interleaved"
    max_positions: int = 1024  # rows of a learned position table; lengths a masked model knows, from 0
    activation: Literal["relu", "swish", "gelu"] = "relu"
    attention_bias: bool = False
    output_bias: bool = False
    tie: Literal["all", "target", "none"] = "all"  # which of source, target, output share one matrix
    start: Literal["bos", "eos", "pad"] = "bos"  # the symbol that stands before the first output
    block_heads: int = 1  # k tokens predicted at each position, for decode.blockwise; 1: the next one alone
    block_d_ff: int = 0  # hidden width of the layer that predicts the k − 1 others; 0: block_heads · d_ff

    def __post_init__(self) -> None:
        at_least(self, "model", n_layers=1, n_decoder_layers=0, d_model=2, d_ff=1, n_heads=1, d_k=0, d_v=0)
        at_least(self, "model", norm_eps=0.0, max_positions=1, block_heads=1, block_d_ff=0)
        between(self, "model", 0.0, 1.0, "dropout", "attn_dropout", "ff_dropout")
        if self.d_model % self.n_heads and not (self.d_k and self.d_v):
            raise RegardError(
                f"model.d_model = {self.d_model} is not a multiple of model.n_heads = {self.n_heads}: "
                "change one of them, or set model.d_k and model.d_v."
            )
        if self.block_d_ff and self.block_heads == 1:
            raise RegardError(f"model.block_d_ff = {self.block_d_ff} needs model.block_heads of at least 2.")
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise RegardError(f"model.d_model = {self.d_model} must be even for sinusoidal positions.")

    def check(self, recipe: PairRecipe) -> None:
        """Whether the rest of a recipe fits this model."""
        if self.positions == "learned" and recipe.data.max_length > self.max_positions:
            raise RegardError(
                f"data.max_length = {recipe.data.max_length} tokens need more than model.max_positions = "
                f"{self.max_positions} learned positions: change one of them."
            )
        if recipe.task == "mask_predict" and recipe.data.max_length >= self.max_positions:
            raise RegardError(
                f"data.max_length = {recipe.data.max_length} must be less than model.max_positions = "
                f"{self.max_positions}, up to which a masked model knows lengths: change one of them."
            )
        if self.block_heads > 1 and recipe.task != "translation":
            raise RegardError(f'model.block_heads means nothing to task = "{recipe.task}": leave it out.')
        if self.block_heads > 1 and recipe.train.r_drop:
            raise RegardError("train.r_drop compares predictions of the next token alone: remove model.block_heads.")
        if recipe.train.freeze and (self.block_heads == 1 or not recipe.init):
            raise RegardError(
                'train.freeze = "base" trains block heads for another run\'s model: set init to the run and '
                "model.block_heads to at least 2."
            )
        if recipe.train.freeze and recipe.train.best_by == "bleu":
            raise RegardError('train.freeze = "base" leaves every translation as it is: set train.best_by = "loss".')
        if recipe.decode.blockwise and self.block_heads == 1:
            raise RegardError("decode.blockwise needs model.block_heads of at least 2.")


PairModel: TypeAlias = TransformerConfig | RecurrentConfig | ConvolutionalConfig  # told apart by `family`

PRESETS: dict[str, dict[str, object]] = {
    "base": {},  # the defaults of TransformerConfig are Table 3's first row
    "big": {"d_model": 1024, "d_ff": 4096, "n_heads": 16, "dropout": 0.3},
}


@dataclass(frozen=True)
class SequenceTrainConfig(TrainConfig):
    """The loop over pairs of sequences. Label smoothing: *Attention Is All You Need*, §5.4."""

    batch_tokens: int = 25_000  # per batch and side; in the padded layout padding included
    label_smoothing: float = 0.1
    r_drop: float = 0.0  # α of R-Drop: two passes with other dropout must agree; 0: one pass
    freeze: Literal["", "base"] = ""  # base: only the block heads are trained, on top of the run named by init
    layout: Literal["packed", "padded"] = "packed"  # sentences end to end, or rows of a rectangle with padding
    valid_sentences: int = 200  # whose outputs are scored at each validation; the loss uses the whole set

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, "train", batch_tokens=1, valid_sentences=0, r_drop=0.0)
        between(self, "train", 0.0, 1.0, "label_smoothing")
        if self.batch_tokens > 2**31:
            raise RegardError(f"train.batch_tokens = {self.batch_tokens} must be at most {2**31}.")
        if self.best_by != "loss" and not self.valid_sentences:
            raise RegardError(f'train.best_by = "{self.best_by}" needs train.valid_sentences of at least 1.')


@dataclass(frozen=True)
class PairTrainConfig(SequenceTrainConfig):
    """The loop over a text and its translation."""

    best_by: Literal["loss", "bleu"] = "loss"


STEEPEST = 10  # α of a length normalisation: with more, scores of long outputs leave what floats can tell apart


@dataclass(frozen=True)
class DecodeConfig:
    """Beam search as in §6.1 and what else may be asked of it; mask-predict as in Ghazvininejad et al. (2019), §3.
    Lengths are in tokens, the end symbol among them."""

    beam_size: int = 4
    blockwise: bool = False  # greedy search, several tokens at a time: needs beam_size = 1 and model.block_heads
    length_penalty: float = 0.6  # α
    normalization: Literal["gnmt", "power"] = "gnmt"  # ((5+|Y|)/6)^α, or |Y|^α (Marian, CTranslate2, fairseq)
    coverage_penalty: float = 0.0  # β of the GNMT coverage penalty
    extra_length: int = 50  # at most input length + this many tokens
    min_length: int = 0
    max_length: int = 0  # 0: extra_length alone limits it
    max_source: int = 2_048  # tokens of a source; what is beyond is cut off, with a word. As exports have positions
    no_repeat_ngram: int = 0  # so many tokens in a row never come twice; 0: they may
    sample: bool = False  # draw each token instead of searching for the best output
    temperature: float = 1.0
    top_k: int = 0  # draw from the k most probable tokens; 0: from all
    top_p: float = 1.0  # draw from the fewest tokens that together are this probable
    seed: int = 1  # of what is drawn
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"  # float32 on a CPU, bfloat16 on a GPU
    recorded: Literal["auto", "always", "never"] = "auto"  # slots that stay, every step one call: on a GPU
    iterations: int = 10  # T of mask-predict: passes of the decoder
    length_candidates: int = 5  # ℓ of mask-predict: target lengths tried side by side
    batch_sentences: int = 64
    alignment_layer: int = -1  # decoder layer whose cross-attention gives word alignments

    def __post_init__(self) -> None:
        at_least(
            self, "decode", beam_size=1, extra_length=1, batch_sentences=1, coverage_penalty=0, min_length=0,
            max_length=0, max_source=2, no_repeat_ngram=0, top_k=0, seed=0, iterations=1, length_candidates=1,
        )  # fmt: skip
        if not -STEEPEST <= self.length_penalty <= STEEPEST:
            raise RegardError(
                f"decode.length_penalty = {self.length_penalty:g} must be from -{STEEPEST} to {STEEPEST}; the paper's "
                "is 0.6, and below 0 short outputs are preferred."
            )
        if self.max_length and self.min_length > self.max_length:
            raise RegardError(
                f"decode.min_length = {self.min_length} is more than decode.max_length = {self.max_length}."
            )
        if self.temperature <= 0:
            raise RegardError(
                f"decode.temperature = {self.temperature:g}: it must be above 0; for 0 use beam_size = 1 (--beam 1)."
            )
        if not 0 < self.top_p <= 1:
            raise RegardError(f"decode.top_p = {self.top_p:g}: it must be above 0 and at most 1.")
        if not self.sample and (self.temperature, self.top_k, self.top_p) != (1.0, 0, 1.0):
            raise RegardError(
                "decode.temperature, top_k and top_p are for drawing: set decode.sample = true (--sample)."
            )
        if self.blockwise and self.beam_size > 1:
            raise RegardError(
                f"decode.blockwise gives what greedy search gives: set decode.beam_size = 1, not {self.beam_size} "
                "(--beam 1)."
            )


@dataclass(frozen=True)
class PairRecipe(Recipe):
    """Everything that decides a run of translation, from left to right or masked tokens all at once."""

    PLACES: ClassVar[tuple[str, ...]] = ("data.train", "data.valid", "data.test", "data.train_target")
    VERBS: ClassVar[tuple[str, ...]] = ("translate", "evaluate", "view", "doctor")

    task: Literal["translation", "mask_predict"] = "translation"
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: PairModel = field(default_factory=TransformerConfig)
    train: PairTrainConfig = field(default_factory=PairTrainConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)

    def __post_init__(self) -> None:
        if self.model.tie == "all" and not self.tokenizer.shared:
            raise RegardError('Separate vocabularies cannot share one matrix: set model.tie = "target" or "none".')
        for key in FOREIGN[self.task]:
            if getattr(self.decode, key) != getattr(DecodeConfig, key):
                raise RegardError(foreign(self.task, key))
        self.model.check(self)


# Keys of [decode] that mean nothing to a task.
FOREIGN = {
    "translation": ("iterations", "length_candidates"),
    "mask_predict": (
        "beam_size", "blockwise", "length_penalty", "normalization", "coverage_penalty", "extra_length", "min_length",
        "max_length", "no_repeat_ngram", "sample", "temperature", "top_k", "top_p", "seed", "recorded",
    ),
    "parsing": (
        "blockwise", "coverage_penalty", "min_length", "max_length", "no_repeat_ngram", "sample", "temperature",
        "top_k", "top_p", "seed", "iterations", "length_candidates",
    ),
}  # fmt: skip


def foreign(task: str, key: str) -> str:
    """Why a key of [decode] is refused."""
    own = [one.name for one in fields(DecodeConfig) if one.name not in FOREIGN[task]]
    return (
        f'decode.{key} means nothing to a model of task = "{task}", whose keys are decode.{", decode.".join(own)}: '
        "leave it out."
    )
