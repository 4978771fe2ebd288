"""CTranslate2's model folder, through its own description of a Transformer (`ctranslate2.specs`).

Positions are written out as a table: CTranslate2's own sinusoids count from 1 and have other wavelengths. Every number
is copied, since a specification made from a live model would share its memory with it.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.config import TransformerConfig
from regard.data.tokenizer import SYMBOLS
from regard.decode.translator import Translator
from regard.models.transformer import Transformer, a_transformer
from regard.nn.attention import MultiHeadAttention
from regard.nn.layers import Embedding, FeedForward

POSITIONS = 2048  # rows of a table of sinusoids, which has no end of its own
ACTIVATIONS = {"relu": "RELU", "swish": "SWISH", "gelu": "GELU"}


def refusals(config: TransformerConfig) -> list[str]:
    """What of a model CTranslate2 cannot hold, by recipe key."""
    width = config.d_model // config.n_heads
    return [
        f"model.{key} = {value}: CTranslate2 needs {key} = d_model / n_heads, here {width}"
        for key, value in (("d_k", config.d_k), ("d_v", config.d_v))
        if value not in (0, width)
    ]


def write(translator: Translator, folder: Path, quantization: str) -> None:
    """A folder that `ctranslate2.Translator` opens."""
    spec = specification(a_transformer(translator.model, "CTranslate2"))
    for register, side in (
        (spec.register_source_vocabulary, translator.tokenizers.source),
        (spec.register_target_vocabulary, translator.tokenizers.target),
    ):
        register(side.pieces(range(side.vocab_size)))
    start = translator.tokenizers.target.pieces([SYMBOLS[translator.model.config.start]])[0]
    spec.config.decoder_start_token = start
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = translator.model.config.norm_eps
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))


def specification(model: Transformer) -> Any:
    specs: Any = import_module("ctranslate2.specs")
    config = model.config
    spec = specs.TransformerSpec.from_config(
        (config.n_layers, config.n_decoder_layers or config.n_layers),
        config.n_heads,
        pre_norm=config.norm == "pre",
        activation=specs.Activation[ACTIVATIONS[config.activation]],
    )
    embedding(spec.encoder, spec.encoder.embeddings[0], model.source_embedding)
    embedding(spec.decoder, spec.decoder.embeddings, model.target_embedding)
    encoder: list[Any] = list(model.encoder.layers)  # torch does not type a module's parts
    decoder: list[Any] = list(model.decoder.layers)
    for theirs, layer in zip(spec.encoder.layer, encoder, strict=True):
        self_attention(theirs.self_attention, layer.self_attn, layer.self_attn_residual.norm)
        feed_forward(theirs.ffn, layer.feed_forward, layer.feed_forward_residual.norm)
    for theirs, layer in zip(spec.decoder.layer, decoder, strict=True):
        self_attention(theirs.self_attention, layer.self_attn, layer.self_attn_residual.norm)
        cross_attention(theirs.attention, layer.cross_attn, layer.cross_attn_residual.norm)
        feed_forward(theirs.ffn, layer.feed_forward, layer.feed_forward_residual.norm)
    if config.norm == "pre":
        norm(spec.encoder.layer_norm, model.encoder.norm)
        norm(spec.decoder.layer_norm, model.decoder.norm)
    linear(spec.decoder.projection, model.output)
    return spec


def embedding(stack: Any, theirs: Any, ours: Embedding) -> None:
    theirs.weight = numbers(ours.tokens.weight)
    stack.scale_embeddings = True
    stack.position_encodings.encodings = numbers(position_rows(ours))


def position_rows(ours: Embedding) -> Tensor:
    """The table of learned positions, or as much of the sinusoids as any sentence should need."""
    return ours.positions.rows(POSITIONS)[:POSITIONS] if ours.positions.fixed else ours.positions.rows(1)


def self_attention(theirs: Any, ours: MultiHeadAttention, before: nn.Module) -> None:
    norm(theirs.layer_norm, before)
    linear(theirs.linear[0], ours.w_q, ours.w_k, ours.w_v)
    linear(theirs.linear[1], ours.w_o)


def cross_attention(theirs: Any, ours: MultiHeadAttention, before: nn.Module) -> None:
    norm(theirs.layer_norm, before)
    linear(theirs.linear[0], ours.w_q)
    linear(theirs.linear[1], ours.w_k, ours.w_v)
    linear(theirs.linear[2], ours.w_o)


def feed_forward(theirs: Any, ours: FeedForward, before: nn.Module) -> None:
    norm(theirs.layer_norm, before)
    linear(theirs.linear_0, ours.w_1)
    linear(theirs.linear_1, ours.w_2)


def norm(theirs: Any, ours: Any) -> None:
    theirs.gamma, theirs.beta = numbers(ours.weight), numbers(ours.bias)


def linear(theirs: Any, *ours: nn.Linear) -> None:
    """One linear map, or several of the same input side by side."""
    theirs.weight = numbers(torch.cat([part.weight for part in ours]))
    if ours[0].bias is not None:
        theirs.bias = numbers(torch.cat([part.bias for part in ours]))


def numbers(tensor: Tensor) -> np.ndarray:
    return np.array(tensor.detach().float().cpu().numpy(), copy=True)
