"""Recipes: typed sections that hold every default, read from TOML, changed by dotted overrides.

A recipe file holds values only. An unknown key or a wrong type is an error that names the key and the
nearest right one. `resolve` gives the whole recipe, which is saved with the run and in every checkpoint.
"""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar

from regard.errors import RegardError, nearest

Section = TypeVar("Section")


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


PRESETS: dict[str, dict[str, object]] = {
    "base": {},  # the defaults of TransformerConfig are Table 3's first row
    "big": {"d_model": 1024, "d_ff": 4096, "n_heads": 16, "dropout": 0.3},
}


@dataclass(frozen=True)
class TrainConfig:
    """The one loop. Optimiser and schedule: paper §5.3; label smoothing: §5.4; averaging: §6.1."""

    steps: int = 100_000
    batch_tokens: int = 25_000  # per batch and side; in the padded layout padding included
    accumulate: int = 1  # batches per update; the gradient is that of the one big batch
    label_smoothing: float = 0.1
    r_drop: float = 0.0  # α of R-Drop: two passes with other dropout must agree; 0: one pass
    freeze: Literal["", "base"] = ""  # base: only the block heads are trained, on top of the run named by init
    schedule: Literal["inverse_sqrt", "linear"] = "inverse_sqrt"  # the paper's, or a line up and a line down
    warmup_steps: int = 4_000
    lr_scale: float = 1.0  # times d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5)
    peak_lr: float = 1e-3  # of the linear schedule
    beta1: float = 0.9
    beta2: float = 0.98
    adam_eps: float = 1e-9
    clip_norm: float = 0.0  # 0: no clipping (the paper)
    layout: Literal["packed", "padded"] = "packed"  # sentences end to end, or rows of a rectangle with padding
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # auto: bfloat16 products on a GPU that has them
    recompute: bool = False  # compute layers again in the backward pass: less memory, one more forward pass
    deterministic: bool = False  # bit-exact on a GPU too, at some cost
    device: str = "auto"
    threads: int = 0  # 0: torch's own choice
    report_every: int = 100
    valid_every: int = 1_000
    valid_sentences: int = 200  # translated for BLEU at each validation; the loss uses the whole set
    best_by: Literal["loss", "bleu"] = "loss"
    patience: int = 0  # validations without improvement before stopping; 0: never
    save_every: int = 1_000
    keep: int = 5  # newest checkpoints kept; the best is always kept
    average: int = 5  # newest checkpoints averaged at the end; 0: none
    ema: float = 0.0  # decay of a moving average of the weights, kept beside them; 0: none
    tensorboard: bool = True

    def __post_init__(self) -> None:
        at_least(
            self, "train", steps=1, batch_tokens=1, accumulate=1, warmup_steps=1, threads=0, report_every=1,
            valid_every=1, valid_sentences=0, patience=0, save_every=1, keep=1, average=0,
        )  # fmt: skip
        at_least(self, "train", lr_scale=0.0, peak_lr=0.0, clip_norm=0.0, adam_eps=0.0, r_drop=0.0)
        between(self, "train", 0.0, 1.0, "label_smoothing", "beta1", "beta2", "ema")
        if self.batch_tokens > 2**31:
            raise RegardError(f"train.batch_tokens = {self.batch_tokens} must be at most {2**31}.")
        if self.best_by == "bleu" and not self.valid_sentences:
            raise RegardError('train.best_by = "bleu" needs train.valid_sentences of at least 1.')
        if self.average > self.keep:
            raise RegardError(f"train.average = {self.average} needs train.keep of at least as many.")


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
    no_repeat_ngram: int = 0  # so many tokens in a row never come twice; 0: they may
    sample: bool = False  # draw each token instead of searching for the best output
    temperature: float = 1.0
    top_k: int = 0  # draw from the k most probable tokens; 0: from all
    top_p: float = 1.0  # draw from the fewest tokens that together are this probable
    seed: int = 1  # of what is drawn
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"  # float32 on a CPU, bfloat16 on a GPU
    recorded: bool = False  # slots that stay, on a GPU every step one call; off until it has been seen on one
    iterations: int = 10  # T of mask-predict: passes of the decoder
    length_candidates: int = 5  # ℓ of mask-predict: target lengths tried side by side
    batch_sentences: int = 64
    alignment_layer: int = -1  # decoder layer whose cross-attention gives word alignments

    def __post_init__(self) -> None:
        at_least(
            self, "decode", beam_size=1, extra_length=1, batch_sentences=1, coverage_penalty=0, min_length=0,
            max_length=0, no_repeat_ngram=0, top_k=0, seed=0, iterations=1, length_candidates=1,
        )  # fmt: skip
        if self.max_length and self.min_length > self.max_length:
            raise RegardError(
                f"decode.min_length = {self.min_length} is more than decode.max_length = {self.max_length}."
            )
        if self.temperature <= 0:
            raise RegardError(
                f"decode.temperature = {self.temperature:g}: it must be above 0; for 0 use beam_size = 1."
            )
        if not 0 < self.top_p <= 1:
            raise RegardError(f"decode.top_p = {self.top_p:g}: it must be above 0 and at most 1.")
        if not self.sample and (self.temperature, self.top_k, self.top_p) != (1.0, 0, 1.0):
            raise RegardError("decode.temperature, top_k and top_p are for drawing: set decode.sample = true.")
        if self.blockwise and self.beam_size > 1:
            raise RegardError(
                f"decode.blockwise gives what greedy search gives: set decode.beam_size = 1, not {self.beam_size}."
            )


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a run."""

    name: str = "run"
    task: Literal["translation", "mask_predict"] = "translation"  # from left to right, or masked tokens all at once
    seed: int = 1
    init: str = ""  # another run whose weights and tokenizer this one starts from
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: TransformerConfig = field(default_factory=TransformerConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)

    def __post_init__(self) -> None:
        if self.model.tie == "all" and not self.tokenizer.shared:
            raise RegardError('Separate vocabularies cannot share one matrix: set model.tie = "target" or "none".')
        if self.model.positions == "learned" and self.data.max_length > self.model.max_positions:
            raise RegardError(
                f"data.max_length = {self.data.max_length} tokens need more than model.max_positions = "
                f"{self.model.max_positions} learned positions: change one of them."
            )
        if self.task == "mask_predict" and self.data.max_length >= self.model.max_positions:
            raise RegardError(
                f"data.max_length = {self.data.max_length} must be less than model.max_positions = "
                f"{self.model.max_positions}, up to which a masked model knows lengths: change one of them."
            )
        for key in FOREIGN[self.task]:
            if getattr(self.decode, key) != getattr(DecodeConfig, key):
                raise RegardError(foreign(self.task, key))

        if self.model.block_heads > 1 and self.task != "translation":
            raise RegardError(f'model.block_heads means nothing to task = "{self.task}": leave it out.')
        if self.model.block_heads > 1 and self.train.r_drop:
            raise RegardError("train.r_drop compares predictions of the next token alone: remove model.block_heads.")
        if self.train.freeze and (self.model.block_heads == 1 or not self.init):
            raise RegardError(
                'train.freeze = "base" trains block heads for another run\'s model: set init to the run and '
                "model.block_heads to at least 2."
            )
        if self.train.freeze and self.train.best_by == "bleu":
            raise RegardError('train.freeze = "base" leaves every translation as it is: set train.best_by = "loss".')
        if self.decode.blockwise and self.model.block_heads == 1:
            raise RegardError("decode.blockwise needs model.block_heads of at least 2.")


# Keys of [decode] that mean nothing to a task.
FOREIGN = {
    "translation": ("iterations", "length_candidates"),
    "mask_predict": (
        "beam_size", "blockwise", "length_penalty", "normalization", "coverage_penalty", "extra_length", "min_length",
        "max_length", "no_repeat_ngram", "sample", "temperature", "top_k", "top_p", "seed", "recorded",
    ),
}  # fmt: skip


def foreign(task: str, key: str) -> str:
    """Why a key of [decode] is refused."""
    (own,) = (keys for other, keys in FOREIGN.items() if other != task)
    return (
        f'decode.{key} means nothing to a model of task = "{task}", whose keys are decode.{", decode.".join(own)}: '
        "leave it out."
    )


def at_least(section: object, where: str, **minima: float) -> None:
    for key, minimum in minima.items():
        if getattr(section, key) < minimum:
            raise RegardError(f"{where}.{key} = {getattr(section, key)} must be at least {minimum}.")


def between(section: object, where: str, low: float, high: float, *keys: str) -> None:
    for key in keys:
        if not low <= getattr(section, key) < high:
            raise RegardError(f"{where}.{key} = {getattr(section, key)} must lie in [{low:g}, {high:g}).")


# --- reading ---------------------------------------------------------------------------------------------


def resolve(
    recipe: str | Path | Mapping[str, Any] | Recipe, overrides: Mapping[str, Any] | Iterable[str] = ()
) -> Recipe:
    """A recipe from a shipped name, a TOML file, a nested mapping or another recipe, with dotted overrides
    (`{"train.steps": 500}` or `["train.steps=500"]`) applied last."""
    if isinstance(recipe, Recipe):
        values = to_dict(recipe)
    elif isinstance(recipe, Mapping):
        values = json.loads(json.dumps(recipe))  # a deep copy of plain values
    else:
        path = find(str(recipe))
        values = load_toml(path)
        locate(values, Path.cwd() if path in shipped().values() else path.parent)
    if not isinstance(overrides, Mapping):
        overrides = dict(parse_override(text) for text in overrides)
    if isinstance(recipe, Recipe):  # every key of it is explicit, so a preset must be spelled out
        values["model"].update(PRESETS.get(overrides.get("model.preset", ""), {}))
    for key, value in overrides.items():
        *sections, last = key.split(".")
        place = values
        for name in sections:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise RegardError(f"Recipe key {key}: {name} is a single value, not a section.")
        place[last] = value
    locate(values, Path.cwd())
    return read_section(Recipe, values, "")


def locate(values: dict[str, Any], folder: Path) -> None:
    """Make the paths of text files absolute, so that a run can be used from any folder. In a recipe file they
    are relative to the file, elsewhere to the current folder."""
    data = values.get("data")
    if not isinstance(data, dict):
        return
    for split in ("train", "valid", "test"):
        files = data.get(split)
        if isinstance(files, list) and all(isinstance(file, str) for file in files):
            data[split] = [str((folder / file).resolve()) for file in files]
    for key in ("prepared", "train_target"):
        if isinstance(data.get(key), str) and data[key]:
            data[key] = str((folder / data[key]).resolve())


def shipped() -> dict[str, Path]:
    """The recipes inside the package, by name."""
    folder = Path(str(resources.files("regard") / "recipes"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def find(name: str) -> Path:
    path = Path(name)
    if path.suffix == ".toml" or path.exists():
        if path.is_dir():
            raise RegardError(
                f"{name} is a folder, not a recipe; to go on with a run, give its recipe and --run {name}."
            )
        if not path.is_file():
            raise RegardError(f"No recipe file {name}.")
        return path
    if name not in shipped():
        raise RegardError(
            f"No recipe named {name}{nearest(name, shipped())}; shipped are {', '.join(shipped())}, "
            "or give the path of a .toml file."
        )
    return shipped()[name]


def load_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise RegardError(f"{path} is not valid TOML: {error}.") from None
    except UnicodeDecodeError:
        raise RegardError(f"{path} is not UTF-8 text.") from None


def parse_override(text: str) -> tuple[str, Any]:
    """`train.steps=500` as a key and a TOML value; what is no TOML value is taken as a string."""
    key, equals, value = text.partition("=")
    if not equals:
        raise RegardError(f"Override {text!r} has no '=': write section.key=value, e.g. train.steps=500.")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def read_section(kind: type[Section], values: Mapping[str, Any], where: str) -> Section:
    """Build a section from plain values, checking every key and type; `where` is the dotted path so far."""
    hints = typing.get_type_hints(kind)
    for key in values:
        if key not in hints:
            raise RegardError(f"Unknown recipe key {where}{key}{nearest_key(where + key)}.")
    if kind is TransformerConfig:
        preset = read_value(hints["preset"], values.get("preset", ""), "model.preset")
        values = {**PRESETS.get(preset, {}), **values}
    built = {}
    for key, value in values.items():
        if dataclasses.is_dataclass(hints[key]):
            if not isinstance(value, Mapping):
                raise RegardError(f"Recipe key {where}{key} is a section: write [{where}{key}] and its keys.")
            built[key] = read_section(hints[key], value, f"{where}{key}.")
        else:
            built[key] = read_value(hints[key], value, f"{where}{key}")
    return kind(**built)


def nearest_key(key: str) -> str:
    """A hint at the right dotted key: one that ends alike, or else one that looks alike."""
    keys = [*flatten(to_dict(Recipe())), *(f.name for f in dataclasses.fields(Recipe))]
    last = key.rpartition(".")[2]
    same = [known for known in keys if known.endswith(f".{last}")]
    return f" (did you mean {same[0]}?)" if same else nearest(key, keys)


NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text in quotes"}


def read_value(hint: Any, value: Any, key: str) -> Any:
    """`value` checked against a field's type: int, float, bool, str, Literal[...] or tuple[str, ...]."""
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        if value not in choices:
            named = ", ".join(repr(choice) for choice in choices if choice)
            raise RegardError(f"Recipe key {key} = {value!r} must be one of {named}{nearest(str(value), choices)}.")
        return value
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise RegardError(f'Recipe key {key} must be a list such as ["a.en", "a.de"], not {value!r}.')
        return tuple(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not hint:
        raise RegardError(f"Recipe key {key} must be {NAMES[hint]}, not {value!r}.")
    if hint is float and not math.isfinite(value):
        raise RegardError(f"Recipe key {key} must be a finite number, not {value!r}.")
    return value


# --- writing and comparing -------------------------------------------------------------------------------


def to_dict(recipe: Recipe | TransformerConfig) -> dict[str, Any]:
    """Plain values, as JSON and TOML know them."""
    values: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(recipe)))
    return values


def to_toml(recipe: Recipe) -> str:
    """The resolved recipe as TOML; JSON's scalars and lists of strings are TOML's too."""
    top, sections = [], []
    for key, value in to_dict(recipe).items():
        if isinstance(value, dict):
            lines = [f"{name} = {json.dumps(item, ensure_ascii=False)}" for name, item in value.items()]
            sections.append("\n".join([f"[{key}]", *lines]))
        else:
            top.append(f"{key} = {json.dumps(value, ensure_ascii=False)}")
    return "\n\n".join(["\n".join(top), *sections]) + "\n"


def differences(ours: Recipe | TransformerConfig, theirs: Recipe | TransformerConfig) -> list[str]:
    """One line for each key in which two recipes or sections differ: `train.steps: 100 here, 200 there`."""
    here, there = flatten(to_dict(ours)), flatten(to_dict(theirs))
    return [f"{key}: {here[key]!r} here, {there[key]!r} there" for key in here if here[key] != there[key]]


def flatten(values: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{where}{key}.")
        else:
            flat[f"{where}{key}"] = value
    return flat
