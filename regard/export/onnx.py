"""ONNX: the encoder in one file, a step of the decoder with its cache in another.

    encoder.onnx   tokens (B, S), mask (B, S)  →  keys and values of each decoder layer for attending to the source
    decoder.onnx   tokens (B, W), position (1), mask (B, S), those keys and values, and for each layer those of the
                   tokens before, (B, W, H, T, d)  →  logits (B, W, V), and the latter with this token's

B sentences with W hypotheses each; B, S, W and T vary. The model is written here once more, as plain formulas over its
weights: what the graph does is then in one place, whatever kernels the model itself uses.
"""

from __future__ import annotations

import logging
import math
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.decode.translator import Translator
from regard.export.ctranslate2 import position_rows
from regard.models.transformer import Transformer, a_transformer
from regard.nn.attention import MultiHeadAttention
from regard.nn.layers import Embedding, FeedForward, PreNorm

FILES = ("encoder.onnx", "decoder.onnx")
OPSET = 18


def write(translator: Translator, folder: Path, quantization: str) -> None:
    model = a_transformer(translator.model, "ONNX")
    layers, (B, W, S, T) = len(model.decoder.layers), (2, 3, 5, 4)  # sizes of the examples, none of them 0 or 1
    b, w, s, t = (torch.export.Dim(name) for name in ("batch", "beam", "source", "past"))
    attention: Any = model.decoder.layers[0].self_attn
    heads, d_k, d_v = attention.n_heads, attention.d_k, attention.d_v
    tokens, mask = torch.ones(B, S, dtype=torch.long), torch.ones(B, S, dtype=torch.bool)
    memory = [torch.randn(B, heads, S, width) for _ in range(layers) for width in (d_k, d_v)]
    past = [torch.randn(B, W, heads, T, width) for _ in range(layers) for width in (d_k, d_v)]
    names = cache_names(layers)
    export(
        EncoderGraph(model), (tokens, mask), folder / FILES[0],
        inputs=["tokens", "mask"], outputs=names["memory"], shapes=({0: b, 1: s}, {0: b, 1: s}),
    )  # fmt: skip
    export(
        DecoderGraph(model), (torch.ones(B, W, dtype=torch.long), torch.tensor([T]), mask, memory, past),
        folder / FILES[1],
        inputs=["tokens", "position", "mask", *names["memory"], *names["past"]],
        outputs=["logits", *names["present"]],
        shapes=(
            {0: b, 1: w}, None, {0: b, 1: s}, [{0: b, 2: s} for _ in memory], [{0: b, 1: w, 3: t} for _ in past],
        ),
    )  # fmt: skip
    if quantization == "int8":
        for name in FILES:
            quantize(folder / name)


def cache_names(layers: int) -> dict[str, list[str]]:
    """The names of what goes from file to file and from step to step."""
    return {
        when: [f"{when}_{what}_{layer}" for layer in range(layers) for what in ("keys", "values")]
        for when in ("memory", "past", "present")
    }


def export(
    graph: nn.Module,
    example: tuple[Any, ...],
    path: Path,
    inputs: list[str],
    outputs: list[str],
    shapes: tuple[Any, ...],
) -> None:
    with quiet(), torch.no_grad():
        torch.onnx.export(
            graph.eval(), example, path, input_names=inputs, output_names=outputs, dynamic_shapes=shapes,
            opset_version=OPSET, dynamo=True, external_data=False, verbose=False,
        )  # fmt: skip


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing on stderr of what exporters remark about themselves; what matters, the check finds."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def quantize(path: Path) -> None:
    """Weights of matrix products in 8 bits, activations as they come."""
    quantization: Any = import_module("onnxruntime.quantization")
    smaller = path.with_suffix(".int8")
    with quiet():
        quantization.quantize_dynamic(path, smaller, weight_type=quantization.QuantType.QInt8, per_channel=True)
    shutil.move(smaller, path)


class EncoderGraph(nn.Module):
    """Sources → what decoder layers attend to."""

    table: Tensor

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("table", position_rows(model.source_embedding).detach().clone())

    def forward(self, tokens: Tensor, mask: Tensor) -> list[Tensor]:
        """tokens, mask: (B, S) → keys (B, H, S, d_k) and values (B, H, S, d_v) of each layer"""
        x = embed(self.model.source_embedding, tokens, self.table[: tokens.shape[1]])
        seen, activation = mask[:, None, None, :], self.model.config.activation
        layers: list[Any] = list(self.model.encoder.layers)
        for layer in layers:

            def attend(y: Tensor, attention: MultiHeadAttention = layer.self_attn) -> Tensor:
                q, k, v = (split(part(y), attention.n_heads) for part in (attention.w_q, attention.w_k, attention.w_v))
                return attention.w_o(joined(attended(q, k, v, seen)))

            x = residual(layer.self_attn_residual, x, attend)
            x = residual(layer.feed_forward_residual, x, partial(feed_forward, layer.feed_forward, activation))
        x = normalised(self.model.encoder.norm, x)
        decoder: list[Any] = list(self.model.decoder.layers)
        return [
            split(part(x), layer.cross_attn.n_heads)
            for layer in decoder
            for part in (layer.cross_attn.w_k, layer.cross_attn.w_v)
        ]


class DecoderGraph(nn.Module):
    """One token more for every hypothesis."""

    table: Tensor

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("table", position_rows(model.target_embedding).detach().clone())

    def forward(
        self, tokens: Tensor, position: Tensor, mask: Tensor, memory: list[Tensor], past: list[Tensor]
    ) -> list[Tensor]:
        """tokens: (B, W)   position: (1,)   mask: (B, S)   → logits (B, W, V), and `past` with this token"""
        x = embed(self.model.target_embedding, tokens, self.table[position])
        seen, present, activation = mask[:, None, None, :], list[Tensor](), self.model.config.activation
        layers: list[Any] = list(self.model.decoder.layers)
        for i, layer in enumerate(layers):
            memory_k, memory_v = memory[2 * i : 2 * i + 2]
            past_k, past_v = past[2 * i : 2 * i + 2]

            def attend(
                y: Tensor, attention: MultiHeadAttention = layer.self_attn, k: Tensor = past_k, v: Tensor = past_v
            ) -> Tensor:
                H = attention.n_heads
                q, new_k, new_v = (  # (B, W, H, 1, d)
                    part(y).unflatten(-1, (H, -1))[..., None, :]
                    for part in (attention.w_q, attention.w_k, attention.w_v)
                )
                k, v = torch.cat([k, new_k], dim=3), torch.cat([v, new_v], dim=3)
                present.extend((k, v))
                return attention.w_o(attended(q, k, v)[..., 0, :].flatten(-2))

            def look(
                y: Tensor, attention: MultiHeadAttention = layer.cross_attn, k: Tensor = memory_k, v: Tensor = memory_v
            ) -> Tensor:
                return attention.w_o(joined(attended(split(attention.w_q(y), attention.n_heads), k, v, seen)))

            x = residual(layer.self_attn_residual, x, attend)
            x = residual(layer.cross_attn_residual, x, look)
            x = residual(layer.feed_forward_residual, x, partial(feed_forward, layer.feed_forward, activation))
        return [self.model.output(normalised(self.model.decoder.norm, x)), *present]


def embed(embedding: Embedding, tokens: Tensor, positions: Tensor) -> Tensor:
    return F.embedding(tokens, embedding.tokens.weight) * embedding.scale + positions


def split(x: Tensor, n_heads: int) -> Tensor:
    """(B, N, H·d) → (B, H, N, d)"""
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    """(B, H, N, d) → (B, N, H·d)"""
    return x.transpose(1, 2).flatten(-2)


def attended(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """q: (…, Q, d_k)   k: (…, K, d_k)   v: (…, K, d_v)   → (…, Q, d_v)"""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(torch.float32).min)
    return scores.softmax(dim=-1) @ v


def residual(block: nn.Module, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
    if isinstance(block, PreNorm):
        return x + sublayer(normalised(block.norm, x))
    return normalised(block.get_submodule("norm"), x + sublayer(x))


def normalised(norm: nn.Module, x: Tensor) -> Tensor:
    """Layer normalisation, or nothing where a stack ends without one."""
    return F.layer_norm(x, norm.weight.shape, norm.weight, norm.bias, norm.eps) if isinstance(norm, nn.LayerNorm) else x


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "swish": F.silu, "gelu": F.gelu}


def feed_forward(part: FeedForward, activation: str, x: Tensor) -> Tensor:
    return part.w_2(ACTIVATIONS[activation](part.w_1(x)))
