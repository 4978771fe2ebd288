"""transformers' MarianMT folders, as OPUS-MT publishes them: written and read.

    config.json             the shape
    model.safetensors       weights (or pytorch_model.bin, read without executing it)
    source.spm, target.spm  SentencePiece models, and vocab.json: piece → number, which is not SentencePiece's

A Marian model normalises after each sub-layer, has biases everywhere, sinusoids in halves and a bias on its logits. Our
interleaved sinusoids are the same numbers in another order of channels, so the weights are written in that order.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from regard.config import DecodeConfig, PairRecipe, TokenizerConfig, TransformerConfig
from regard.data.tokenizer import BOS, EOS, PAD, SYMBOLS, UNK, Tokenizer, TokenizerPair
from regard.decode.translator import Translator
from regard.errors import RegardError
from regard.export import pickles
from regard.export.names import in_halves, layer_names
from regard.export.runs import our_order, take_rows, write_run
from regard.training.checkpoint import weights, write_tensors
from regard.training.run import Run

NORM_EPS = 1e-5  # of torch's layer normalisation, which Marian's classes leave as it is
NEVER = -100.0  # the bias of a symbol that Marian does not have: e^-100 is nothing beside the others
POSITIONS = 1024  # rows of the table that transformers computes
ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish", "gelu": "gelu"}


# --- out -------------------------------------------------------------------------------------------------


def refusals(config: TransformerConfig) -> list[str]:
    """What of a model Marian cannot hold, by recipe key."""
    width = config.d_model // config.n_heads
    found = [
        f"model.{key} = {value}: Marian needs {key} = d_model / n_heads, here {width}"
        for key, value in (("d_k", config.d_k), ("d_v", config.d_v))
        if value not in (0, width)
    ]
    if config.norm != "post":
        found.append(f'model.norm = "{config.norm}": Marian normalises after each sub-layer ("post")')
    if config.positions != "sinusoidal":
        found.append(f'model.positions = "{config.positions}": Marian computes sinusoids')
    if config.norm_eps > NORM_EPS:
        found.append(f"model.norm_eps = {config.norm_eps}: Marian has {NORM_EPS}")
    return found


def write(translator: Translator, folder: Path) -> None:
    """A folder that `MarianMTModel.from_pretrained` and `MarianTokenizer.from_pretrained` read."""
    model, tokenizers = translator.model, translator.tokenizers
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    write_tensors(their_weights(translator), folder / "model.safetensors", {"format": "pt"})
    write_json(folder / "config.json", their_config(model.config, *sizes))
    write_json(folder / "generation_config.json", generation(model.config, translator.config))
    shared = model.config.tie == "all"
    settings = {
        "tokenizer_class": "MarianTokenizer", "separate_vocabs": not shared, "model_max_length": POSITIONS,
        "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>",
    }  # fmt: skip
    write_json(folder / "tokenizer_config.json", settings)
    for name, side in (("source", tokenizers.source), ("target", tokenizers.target)):
        (folder / f"{name}.spm").write_bytes(side.model)
    write_json(folder / "vocab.json", numbered(tokenizers.source))
    if not shared:
        write_json(folder / "target_vocab.json", numbered(tokenizers.target))


def numbered(tokenizer: Tokenizer) -> dict[str, int]:
    return {piece: number for number, piece in enumerate(tokenizer.pieces(range(tokenizer.vocab_size)))}


def their_weights(translator: Translator) -> dict[str, Tensor]:
    model, config = translator.model, translator.model.config
    ours = {name: tensor.cpu().float() for name, tensor in weights(model).items()}
    if config.sinusoid == "interleaved":
        ours = {name: in_halves(name, tensor) for name, tensor in ours.items()}
    theirs = {
        f"model.{name}": ours[own] if own in ours else torch.zeros(config.d_model)  # a bias that ours does without
        for own, name in layer_names(config).items()
    }
    target = ours["target_embedding.tokens.weight"] if config.tie != "all" else ours["source_embedding.tokens.weight"]
    if config.tie == "all":
        theirs["model.shared.weight"] = target
    else:
        theirs["model.encoder.embed_tokens.weight"] = ours["source_embedding.tokens.weight"]
        theirs["model.decoder.embed_tokens.weight"] = target
    if config.tie == "none":
        theirs["lm_head.weight"] = ours["output.weight"]
    bias = ours.get("output.bias", torch.zeros(len(target)))
    theirs["final_logits_bias"] = bias[None]
    return {name: tensor.clone().contiguous() for name, tensor in theirs.items()}


def their_config(config: TransformerConfig, source_vocab: int, target_vocab: int) -> dict[str, Any]:
    decoder_layers = config.n_decoder_layers or config.n_layers
    return {
        "architectures": ["MarianMTModel"], "model_type": "marian", "is_encoder_decoder": True, "dtype": "float32",
        "vocab_size": source_vocab, "decoder_vocab_size": target_vocab, "d_model": config.d_model,
        "encoder_layers": config.n_layers, "decoder_layers": decoder_layers, "num_hidden_layers": config.n_layers,
        "encoder_attention_heads": config.n_heads, "decoder_attention_heads": config.n_heads,
        "encoder_ffn_dim": config.d_ff, "decoder_ffn_dim": config.d_ff, "activation_function": config.activation,
        "dropout": config.dropout, "attention_dropout": config.attn_dropout, "activation_dropout": config.ff_dropout,
        "scale_embedding": True, "static_position_embeddings": True, "max_position_embeddings": POSITIONS,
        "share_encoder_decoder_embeddings": config.tie == "all", "tie_word_embeddings": config.tie != "none",
        "pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS, "forced_eos_token_id": None,
        "decoder_start_token_id": SYMBOLS[config.start],
    }  # fmt: skip


def generation(config: TransformerConfig, decode: DecodeConfig) -> dict[str, Any]:
    """What `generate` does when it is not told otherwise: our beam, with its own normalisation |Y|^α."""
    return {
        "num_beams": decode.beam_size, "length_penalty": decode.length_penalty, "early_stopping": False,
        "max_length": POSITIONS, "bad_words_ids": [[PAD], [BOS], [UNK]], "forced_eos_token_id": None,
        "pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS,
        "decoder_start_token_id": SYMBOLS[config.start],
    }  # fmt: skip


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


# --- in --------------------------------------------------------------------------------------------------


def read(folder: Path, run: Path) -> Run:
    """A MarianMT folder as a run."""
    theirs = Described(read_json(folder / "config.json"))
    if theirs.get("model_type") != "marian":
        raise RegardError(f"{folder} holds a model of type {theirs.get('model_type')!r}, not 'marian'.")
    tensors = read_weights(folder)
    config = our_config(theirs, folder)
    shared = config.tie == "all"
    names = ("vocab.json", "vocab.json" if shared else "target_vocab.json")
    vocabularies = [read_json(folder / name) for name in names]
    sizes = [theirs["vocab_size"], theirs["vocab_size"] if shared else theirs["decoder_vocab_size"]]
    ordered = [
        in_our_order(vocabulary, size, theirs, folder / name)
        for vocabulary, size, name in zip(vocabularies, sizes, names, strict=True)
    ]
    source, target = (
        read_tokenizer(folder / f"{side}.spm", pieces)
        for side, (pieces, _) in zip(("source", "target"), ordered, strict=True)
    )
    ours = our_weights(tensors, config, ordered[0][1], ordered[1][1], folder)
    recipe = PairRecipe(
        name=run.name,
        tokenizer=TokenizerConfig(vocab_size=source.vocab_size, shared=shared),
        model=config,
        decode=their_decode(folder, theirs),
    )
    return write_run(run, recipe, TokenizerPair(source, target), ours)


class Described(dict[str, Any]):
    """A configuration; a key that must be there and is not is named."""

    def __missing__(self, key: str) -> Any:
        raise RegardError(f"config.json does not say {key}: it is not a whole MarianMT configuration.")


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise RegardError(f"{path.parent} is no MarianMT folder: it has no {path.name}.") from None
    except ValueError:
        raise RegardError(f"{path} is not valid JSON.") from None
    if not isinstance(content, dict):
        raise RegardError(f"{path} is not a JSON object.")
    return content


def read_tokenizer(path: Path, pieces: list[str]) -> Tokenizer:
    try:
        return Tokenizer(path.read_bytes(), pieces)
    except RuntimeError:
        raise RegardError(f"{path} is no SentencePiece model, or not the whole of it: fetch it again.") from None
    except FileNotFoundError:
        raise RegardError(f"{path.parent} is no MarianMT folder: it has no {path.name}.") from None


def read_weights(folder: Path) -> dict[str, Tensor]:
    if (folder / "model.safetensors").exists():
        try:
            return load_file(folder / "model.safetensors")
        except SafetensorError as error:
            raise RegardError(f"{folder / 'model.safetensors'} is damaged: {error}.") from None
    path = folder / "pytorch_model.bin"
    if not path.exists():
        raise RegardError(f"{folder} has no weights: neither model.safetensors nor pytorch_model.bin.")
    return pickles.tensors(pickles.read(path), path)


def our_config(theirs: dict[str, Any], folder: Path) -> TransformerConfig:
    """The model section of a recipe for what their configuration describes."""

    def same(what: str) -> Any:
        values = theirs[f"encoder_{what}"], theirs[f"decoder_{what}"]
        if values[0] != values[1]:
            raise RegardError(f"{folder}: encoder_{what} = {values[0]} and decoder_{what} = {values[1]} must be equal.")
        return values[0]

    for key, wanted in (("scale_embedding", True), ("normalize_before", False), ("normalize_embedding", False)):
        if theirs.get(key, wanted) != wanted:
            raise RegardError(f"{folder}: {key} = {theirs[key]} is nothing that a recipe can say.")
    activation = theirs.get("activation_function", "gelu")
    if activation not in ACTIVATIONS:
        raise RegardError(f"{folder}: activation_function = {activation!r} must be one of {', '.join(ACTIVATIONS)}.")
    starts = {theirs["pad_token_id"]: "pad", theirs["eos_token_id"]: "eos", theirs.get("bos_token_id"): "bos"}
    start = theirs.get("decoder_start_token_id", theirs["pad_token_id"])
    if start not in starts:
        raise RegardError(f"{folder}: decoder_start_token_id = {start} is none of padding, start and end.")
    shared = theirs.get("share_encoder_decoder_embeddings", True)
    return TransformerConfig(
        n_layers=theirs["encoder_layers"], n_decoder_layers=theirs["decoder_layers"], d_model=theirs["d_model"],
        d_ff=same("ffn_dim"), n_heads=same("attention_heads"), dropout=float(theirs.get("dropout", 0.1)),
        attn_dropout=float(theirs.get("attention_dropout", 0.0)),
        ff_dropout=float(theirs.get("activation_dropout", 0.0)), norm="post", norm_eps=NORM_EPS, sinusoid="halves",
        activation=ACTIVATIONS[activation], attention_bias=True, output_bias=True,  # type: ignore[arg-type]
        tie="all" if shared else "target" if theirs.get("tie_word_embeddings", True) else "none",
        start=starts[start],  # type: ignore[arg-type]
    )  # fmt: skip


def in_our_order(
    vocabulary: dict[str, int], size: int, theirs: dict[str, Any], path: Path
) -> tuple[list[str], list[int | None]]:
    named: dict[int, str] = {}
    for piece, row in vocabulary.items():
        if not isinstance(row, int) or not 0 <= row < size:
            raise RegardError(f"{path} gives {piece!r} the number {row!r}, outside 0 … {size - 1}.")
        if row in named:
            raise RegardError(f"{path} gives {named[row]!r} and {piece!r} one number, {row}: it is damaged.")
        named[row] = piece
    if len(named) < size:
        raise RegardError(
            f"{path} has {len(named):,} pieces, but config.json a vocabulary of {size:,}: it is cut short, or another "
            "model's."
        )
    if "<unk>" not in vocabulary:
        raise RegardError(f"{path} has no <unk>.")
    specials = {
        PAD: theirs["pad_token_id"],
        BOS: vocabulary.get("<s>"),
        EOS: theirs["eos_token_id"],
        UNK: vocabulary["<unk>"],
    }
    return our_order([named[row] for row in range(size)], specials)


def our_weights(
    tensors: dict[str, Tensor],
    config: TransformerConfig,
    source: list[int | None],
    target: list[int | None],
    folder: Path,
) -> dict[str, Tensor]:
    def first(*names: str) -> Tensor:
        for name in names:
            if name in tensors:
                return tensors[name].float()
        raise RegardError(f"{folder}: the weights have no {names[0]}.")

    def embedding(rows: list[int | None], *names: str) -> Tensor:
        matrix, size = first(*names), 1 + max(row for row in rows if row is not None)
        if len(matrix) != size:
            raise RegardError(
                f"{folder}: {names[0]} has {len(matrix):,} rows, but the vocabulary {size:,} pieces: it is another "
                "model's."
            )
        return take_rows(matrix, rows)

    shared = "model.shared.weight"
    ours = {own: first(f"model.{name}") for own, name in layer_names(config).items()}
    ours["source_embedding.tokens.weight"] = embedding(source, "model.encoder.embed_tokens.weight", shared)
    decoder = embedding(target, "model.decoder.embed_tokens.weight", shared)
    if config.tie != "all":
        ours["target_embedding.tokens.weight"] = decoder
    if config.tie == "none":
        ours["output.weight"] = embedding(target, "lm_head.weight")
    bias = tensors.get("final_logits_bias", torch.zeros(1, len(target))).float().flatten()
    ours["output.bias"] = take_rows(bias, target, missing=NEVER)
    return ours


def their_decode(folder: Path, theirs: dict[str, Any]) -> DecodeConfig:
    path = folder / "generation_config.json"
    settings = {**theirs, **(read_json(path) if path.exists() else {})}
    return DecodeConfig(
        beam_size=settings.get("num_beams") or 4,
        length_penalty=float(settings.get("length_penalty") or 1.0),
        normalization="power",
    )
