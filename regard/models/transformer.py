"""The Transformer: *Attention Is All You Need*, §3, Figure 1.

    encoder layer:  self-attention, feed-forward                                   (§3.1)
    decoder layer:  causal self-attention, attention to the encoder's output, feed-forward
    around each sub-layer: residual connection, dropout, layer normalisation
    embeddings and the output projection share one matrix                          (§3.4)

Departures from the paper: none in the defaults; `TransformerConfig` names every variation.
"""

from __future__ import annotations

import sys

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.config import TransformerConfig
from regard.errors import RegardError
from regard.models.encoder_decoder import EncoderDecoder, embeddings
from regard.nn.attention import MultiHeadAttention
from regard.nn.blockwise import BlockHeads
from regard.nn.layers import RESIDUALS, Embedding, FeedForward, glorot_fused, initialise
from regard.nn.layout import Layout
from regard.nn.positions import LearnedPositions, SinusoidalPositions
from regard.nn.residual import LayerNorm


class EncoderLayer(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attn = multi_head(config)
        self.self_attn_residual = residual(config)
        self.feed_forward = feed_forward(config)
        self.feed_forward_residual = residual(config)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """x: (B, S, D) → (B, S, D)."""
        x = self.self_attn_residual(x, lambda y: self.self_attn(y, layout))
        return self.feed_forward_residual(x, self.feed_forward)


class DecoderLayer(nn.Module):
    def __init__(self, config: TransformerConfig, causal: bool = True) -> None:
        super().__init__()
        self.causal = causal
        self.self_attn = multi_head(config)
        self.self_attn_residual = residual(config)
        self.cross_attn = multi_head(config)
        self.cross_attn_residual = residual(config)
        self.feed_forward = feed_forward(config)
        self.feed_forward_residual = residual(config)

    def forward(self, x: Tensor, layout: Layout, memory: Tensor, memory_layout: Layout) -> Tensor:
        """x: (B, T, D)   memory: (B, S, D)   → (B, T, D)."""
        x = self.self_attn_residual(x, lambda y: self.self_attn(y, layout, causal=self.causal))
        x = self.cross_attn_residual(x, lambda y: self.cross_attn(y, layout, memory, memory_layout))
        return self.feed_forward_residual(x, self.feed_forward)


class Encoder(nn.Module):
    """N encoder layers; pre-norm adds a last normalisation."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_layers))
        self.norm = final_norm(config)
        self.recompute = False  # whether the backward pass computes each layer again instead of keeping it

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """x: (B, S, D) → (B, S, D)."""
        for layer in self.layers:
            if self.recompute and self.training:
                x = checkpoint(layer, x, layout, use_reentrant=False)
            else:
                x = layer(x, layout)
        return self.norm(x)


class Decoder(nn.Module):
    """N decoder layers; pre-norm adds a last normalisation. A causal one sees no later positions."""

    def __init__(self, config: TransformerConfig, causal: bool = True) -> None:
        super().__init__()
        n_layers = config.n_decoder_layers or config.n_layers
        self.layers = nn.ModuleList(DecoderLayer(config, causal) for _ in range(n_layers))
        self.norm = final_norm(config)
        self.recompute = False

    def forward(self, x: Tensor, layout: Layout, memory: Tensor, memory_layout: Layout) -> Tensor:
        """x: (B, T, D)   memory: (B, S, D)   → (B, T, D)."""
        for layer in self.layers:
            if self.recompute and self.training:
                x = checkpoint(layer, x, layout, memory, memory_layout, use_reentrant=False)
            else:
                x = layer(x, layout, memory, memory_layout)
        return self.norm(x)


class Transformer(EncoderDecoder):
    """Encoder and decoder with their embeddings and the output projection."""

    config: TransformerConfig

    def __init__(self, config: TransformerConfig, source_vocab: int, target_vocab: int | None = None) -> None:
        super().__init__()
        self.config = config
        target_vocab = source_vocab if target_vocab is None else target_vocab
        source, target = embeddings(config.d_model, source_vocab, target_vocab, config.tie)
        self.source_embedding = Embedding(source, position_table(config), config.dropout)
        self.target_embedding = Embedding(target, position_table(config), config.dropout)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config, self.causal)
        self.output = nn.Linear(config.d_model, target_vocab, bias=config.output_bias)
        initialise(self)
        for module in self.modules():
            if isinstance(module, DecoderLayer):  # queries of their own, keys and values together, as published
                glorot_fused(module.cross_attn.w_q)
                glorot_fused(module.cross_attn.w_k, module.cross_attn.w_v)
        if config.tie == "none":
            nn.init.normal_(self.output.weight, std=config.d_model**-0.5)  # as an embedding, which it mirrors
        else:
            self.output.weight = target.weight
        self.block_heads = block_heads(config)  # last: the other weights are drawn as if there were none

    @property
    def longest(self) -> int:
        """The longest sequence the model has positions for; sinusoids go on for ever."""
        return self.config.max_positions if self.config.positions == "learned" else sys.maxsize

    @property
    def cross_attentions(self) -> list[str]:
        return [f"decoder.layers.{i}.cross_attn" for i in range(len(self.decoder.layers))]

    def recompute_layers(self) -> None:
        self.encoder.recompute = self.decoder.recompute = True

    def hidden(self, src: Tensor, src_layout: Layout, tgt: Tensor, tgt_layout: Layout) -> Tensor:
        """src: (B, S)   tgt: (B, T)   → (B, T, D), before the output projection."""
        return self.decode(tgt, tgt_layout, self.encode(src, src_layout), src_layout)

    def encode(self, src: Tensor, layout: Layout) -> Tensor:
        """src: (B, S) → memory (B, S, D)."""
        return self.encoder(self.source_embedding(src, layout), layout)

    def decode(self, tgt: Tensor, layout: Layout, memory: Tensor, memory_layout: Layout) -> Tensor:
        """tgt: (B, T)   memory: (B, S, D)   → (B, T, D), before the output projection."""
        x = self.target_embedding(tgt, layout)
        return self.decoder(x, layout, memory, memory_layout)


def a_transformer(model: EncoderDecoder, what: str) -> Transformer:
    """The model, where it is one of these; `what` needs it."""
    if not isinstance(model, Transformer):
        raise RegardError(f'{what} needs model.family = "transformer", and this one is "{model.config.family}".')
    return model


def multi_head(config: TransformerConfig) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model, config.n_heads, config.d_k, config.d_v,
        bias=config.attention_bias, attn_dropout=config.attn_dropout,
    )  # fmt: skip


def feed_forward(config: TransformerConfig) -> FeedForward:
    return FeedForward(config.d_model, config.d_ff, config.activation, config.ff_dropout)


def block_heads(config: TransformerConfig) -> BlockHeads | None:
    """The predictions of tokens after the next one, where there are any."""
    if config.block_heads == 1:
        return None
    d_ff = config.block_d_ff or config.block_heads * config.d_ff
    return BlockHeads(config.d_model, d_ff, config.block_heads, config.activation, config.ff_dropout)


def residual(config: TransformerConfig) -> nn.Module:
    return RESIDUALS[config.norm](config.d_model, config.dropout, config.norm_eps)


def final_norm(config: TransformerConfig) -> nn.Module:
    return LayerNorm(config.d_model, eps=config.norm_eps) if config.norm == "pre" else nn.Identity()


def position_table(config: TransformerConfig) -> SinusoidalPositions | LearnedPositions:
    if config.positions == "learned":
        return LearnedPositions(config.d_model, config.max_positions)
    return SinusoidalPositions(config.d_model, config.sinusoid)


def count_parameters(model: nn.Module) -> int:
    """Trained numbers, each shared matrix once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
