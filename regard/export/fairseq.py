"""Transformer checkpoints of fairseq, which no longer installs, as runs.

    checkpoint.pt            a pickle of torch's, read without executing it: weights and settings
    dict.SRC.txt dict.TGT.txt  one `piece count` a line; four symbols come before: <s> <pad> </s> <unk>

Its positions are counted from 2 (padding_idx + 1), and its sinusoids have other wavelengths than the paper's, from 1 to
10000 inclusive: PE(pos) = [sin(pos · w), cos(pos · w)], w_i = 10000^(−i / (d_model/2 − 1)). They become a table of
learned positions with these numbers, which training may then change. The decoder starts from the end symbol.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sentencepiece as spm
import torch
from torch import Tensor

from regard.config import DataConfig, DecodeConfig, PairRecipe, TokenizerConfig, TransformerConfig
from regard.data.files import read_lines
from regard.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, TokenizerPair
from regard.errors import RegardError
from regard.export import pickles
from regard.export.names import count_layers, layer_names
from regard.export.runs import our_order, take_rows, write_run
from regard.training.run import Run

THEIR_BOS, THEIR_PAD, THEIR_EOS, THEIR_UNK = range(4)
SPECIALS: dict[int, int | None] = {PAD: THEIR_PAD, BOS: THEIR_BOS, EOS: THEIR_EOS, UNK: THEIR_UNK}
OFFSET = THEIR_PAD + 1  # the number of the first position
IGNORED = ("version", "_float_tensor", "_future_mask")  # what a state dictionary holds beside weights
FITS = 0.5  # of a dictionary, at least, that its SentencePiece model must know
OLD_NORMS = {"encoder": ("self_attn", "final"), "decoder": ("self_attn", "encoder_attn", "final")}


def read(folder: Path, run: Path, tokenizer: Path | None = None) -> Run:
    """A checkpoint and its dictionaries as a run. `folder` may be the checkpoint itself, the dictionaries beside it.

    `tokenizer`: the SentencePiece model that made the pieces of the dictionaries. Without it the run takes and gives
    text whose pieces are separated by spaces, as fairseq did.
    """
    path = checkpoint_in(folder)
    content = pickles.read(path)
    if not isinstance(content, dict) or "model" not in content:
        raise RegardError(f"{path} is no checkpoint of fairseq's: it has no model.")
    tensors = renamed(pickles.tensors(content["model"], path))
    settings = Settings(content, path)
    config = our_config(tensors, settings, path)
    files = dictionaries(path.parent, settings)
    ordered = [our_order(pieces_of(file), SPECIALS) for file in files]
    ours = our_weights(tensors, config, ordered[0][1], ordered[1][1], path)
    source, target = (make_tokenizer(pieces, tokenizer, file) for (pieces, _), file in zip(ordered, files, strict=True))
    same = source.vocabulary == target.vocabulary
    recipe = PairRecipe(
        name=run.name,
        data=DataConfig(max_length=min(DataConfig.max_length, config.max_positions)),
        tokenizer=TokenizerConfig(vocab_size=source.vocab_size, shared=same),
        model=config,
        decode=DecodeConfig(beam_size=5, length_penalty=1.0, normalization="power"),
    )
    return write_run(run, recipe, TokenizerPair(source, source if same else target), ours)


def checkpoint_in(folder: Path) -> Path:
    if folder.is_file():
        return folder
    found = sorted(folder.glob("*.pt"))
    best = [path for path in found if path.name in ("checkpoint_best.pt", "model.pt")]
    if len(found) != 1 and len(best) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise RegardError(f"{folder} should hold one checkpoint (.pt) but has {names}: give the path of the file.")
    return best[0] if best else found[0]


class Settings:
    """The arguments that the model was trained with, wherever that version kept them."""

    def __init__(self, content: dict[str, Any], path: Path) -> None:
        self.path = path
        self.values: dict[str, Any] = {}
        for part in (content.get("args"), pickles.plain(content.get("cfg"))):
            part = pickles.plain(part)
            for section in (part, *((part or {}).get(name) for name in ("task", "model"))):
                if isinstance(section, dict):
                    self.values |= section

    def get(self, key: str, default: Any = None) -> Any:
        value = self.values.get(key)
        return default if value is None else value

    def same(self, what: str, default: Any = None) -> Any:
        """A setting that encoder and decoder must share."""
        values = self.get(f"encoder_{what}", default), self.get(f"decoder_{what}", default)
        if values[0] is None:
            raise RegardError(f"{self.path} does not say encoder_{what}, which its weights do not show.")
        if values[0] != values[1]:
            raise RegardError(
                f"{self.path}: encoder_{what} = {values[0]} and decoder_{what} = {values[1]} must be equal."
            )
        return values[0]


def renamed(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Today's names for what older versions called otherwise; what is no weight is left out."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        stack, *middle, last = name.split(".") if "." in name else ("", name)
        if last in IGNORED:
            continue
        if "layer_norms" in middle and stack in OLD_NORMS:
            at = middle.index("layer_norms")
            norm = OLD_NORMS[stack][int(middle[at + 1])]
            middle[at : at + 2] = [f"{norm}_layer_norm"]
        place = "".join(f"{part}." for part in (stack, *middle) if part)
        if last.startswith("in_proj_"):
            for part, piece in zip(("q", "k", "v"), tensor.chunk(3), strict=True):
                found[f"{place}{part}_proj.{last.removeprefix('in_proj_')}"] = piece
        else:
            found[f"{place}{last}"] = tensor
    return found


def our_config(tensors: dict[str, Tensor], settings: Settings, path: Path) -> TransformerConfig:
    for key in ("no_scale_embedding", "no_token_positional_embeddings", "adaptive_softmax_cutoff"):
        if settings.get(key):
            raise RegardError(f"{path}: {key} is nothing that a recipe can say.")
    activation = settings.get("activation_fn", "relu")
    if activation not in ("relu", "gelu", "swish"):
        raise RegardError(f"{path}: activation_fn = {activation!r} must be relu, gelu or swish.")
    for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "encoder.layers.0.fc1.weight"):
        if name not in tensors:
            raise RegardError(f"{path} is no Transformer for translation: it has no {name}.")
    d_model, names = tensors["encoder.embed_tokens.weight"].shape[1], set(tensors)
    learned = [tensors.get(f"{stack}.embed_positions.weight") for stack in ("encoder", "decoder")]
    lengths = [int(settings.get(f"max_{side}_positions", 1024)) for side in ("source", "target")]
    tables = [len(table) - OFFSET for table in learned if table is not None]
    return TransformerConfig(
        n_layers=count_layers(names, "encoder"), n_decoder_layers=count_layers(names, "decoder"), d_model=d_model,
        d_ff=len(tensors["encoder.layers.0.fc1.weight"]), n_heads=settings.same("attention_heads"),
        dropout=float(settings.get("dropout", 0.1)), attn_dropout=float(settings.get("attention_dropout", 0.0)),
        ff_dropout=float(settings.get("activation_dropout", settings.get("relu_dropout", 0.0))),
        norm="pre" if settings.same("normalize_before", False) else "post", norm_eps=1e-5, positions="learned",
        max_positions=min([*lengths, *tables]), activation=activation, attention_bias=True, output_bias=False,
        tie=tying(tensors, settings), start="eos",
    )  # fmt: skip


def tying(tensors: dict[str, Tensor], settings: Settings) -> Any:
    """Which matrices are one, by the settings, or where these do not say by the numbers."""

    def equal(a: str, b: str) -> bool:
        return a in tensors and b in tensors and torch.equal(tensors[a], tensors[b])

    source, target, output = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", output_name(tensors)
    if settings.get("share_all_embeddings", not output or equal(target, output)) and equal(source, target):
        return "all"
    return "target" if settings.get("share_decoder_input_output_embed", not output or equal(target, output)) else "none"


def output_name(tensors: dict[str, Tensor]) -> str:
    names = ("decoder.output_projection.weight", "decoder.embed_out", "decoder.embed_out.weight")
    return next((name for name in names if name in tensors), "")


def our_weights(
    tensors: dict[str, Tensor],
    config: TransformerConfig,
    source: list[int | None],
    target: list[int | None],
    path: Path,
) -> dict[str, Tensor]:
    left = {name: tensor.float() for name, tensor in tensors.items()}

    def take(name: str) -> Tensor:
        if name not in left:
            raise RegardError(f"{path}: the weights have no {name}.")
        return left.pop(name)

    def embedding(name: str, rows: list[int | None]) -> Tensor:
        matrix = take(name)
        if len(matrix) != len(rows):
            raise RegardError(
                f"{path}: {name} has {len(matrix):,} rows, but the dictionary has {len(rows):,} pieces with the four "
                "symbols: it is another model's."
            )
        return take_rows(matrix, rows)

    ours = {own: take(name) for own, name in layer_names(config).items()}
    for side, stack, rows in (("source", "encoder", source), ("target", "decoder", target)):
        table = left.pop(f"{stack}.embed_positions.weight", sinusoids(config.max_positions + OFFSET, config.d_model))
        ours[f"{side}_embedding.positions.weight"] = table[OFFSET : OFFSET + config.max_positions].clone()
        ours[f"{side}_embedding.tokens.weight"] = embedding(f"{stack}.embed_tokens.weight", rows)
    output = output_name(left)
    if config.tie == "none":
        ours["output.weight"] = embedding(output, target)
    elif output:
        left.pop(output)
    if config.tie == "all":
        del ours["target_embedding.tokens.weight"]
    if left:
        raise RegardError(f"{path}: {min(left)} has no place in a Transformer as a recipe describes it.")
    return ours


def sinusoids(size: int, d_model: int) -> Tensor:
    """fairseq's table, (size, d_model), row 0 for the position that it numbers 0."""
    half = d_model // 2  # in float32 throughout, as the model met it: float64 would be other numbers far out
    rates = torch.exp(torch.arange(half, dtype=torch.float32) * -(math.log(10000) / (half - 1)))
    angles = torch.arange(size, dtype=torch.float32)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


# --- dictionaries ----------------------------------------------------------------------------------------


def dictionaries(folder: Path, settings: Settings) -> tuple[Path, Path]:
    """The files of the two sides, perhaps the same."""
    languages = settings.get("source_lang"), settings.get("target_lang")
    named = [folder / f"dict.{language}.txt" for language in languages if language]
    if len(named) == 2 and all(file.is_file() for file in named):
        return named[0], named[1]
    one = folder / "dict.txt"
    if one.is_file():
        return one, one
    raise RegardError(f"{folder} has no dictionaries: neither {' and '.join(f.name for f in named) or one.name}.")


def pieces_of(file: Path) -> list[str]:
    """The pieces of a dictionary in the order of their numbers, the four symbols first."""
    return ["<s>", "<pad>", "</s>", "<unk>", *entries(file)]


def entries(file: Path) -> Iterator[str]:
    for number, line in enumerate(read_lines(file), start=1):
        piece, _, count = line.removesuffix(" #fairseq:overwrite").rpartition(" ")
        if not piece or not count.isdigit():
            raise RegardError(f"{file}, line {number}: {line!r} is not a piece and its count.")
        yield piece


def make_tokenizer(pieces: list[str], model: Path | None, file: Path) -> Tokenizer:
    own = pieces[UNK + 1 :]
    if model:
        try:
            made = Tokenizer(model.read_bytes(), pieces)
        except (OSError, RuntimeError):
            raise RegardError(f"{model} is no SentencePiece model.") from None
        known = {made.processor.id_to_piece(i) for i in range(made.processor.get_piece_size())}
        shared = sum(piece in known for piece in own)
        if shared < FITS * len(own):
            raise RegardError(
                f"{model} has only {shared:,} of the {len(own):,} pieces of {file}: give the model that made them with "
                "--tokenizer."
            )
        return made
    if any("▁" in piece for piece in own):
        raise RegardError(f"{file} holds SentencePiece pieces: give the model that made them with --tokenizer.")
    return Tokenizer(by_spaces(own), [*pieces[: UNK + 1], *(f"▁{piece}" for piece in own)])


def by_spaces(words: list[str]) -> bytes:
    """A SentencePiece model that splits at spaces and knows these words."""
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(words), model_writer=model, model_type="word", vocab_size=len(words) + 4,
        pad_id=PAD, bos_id=BOS, eos_id=EOS, unk_id=UNK, pad_piece="<pad>", normalization_rule_name="identity",
        hard_vocab_limit=False, minloglevel=2, character_coverage=1.0,
    )  # fmt: skip
    return model.getvalue()
