"""What people use instead, set up as well as their options allow and with our dropout places.

Every peer gets the same sentences as a rectangle with padding, one matrix for embeddings and output, dropout on
embeddings and sub-layer outputs alone, and no mask on target padding: causal attention never looks at it, and
without that mask `scaled_dot_product_attention` may choose its faster kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.batches import Batch
from benchmarks.setting import END, LONGEST, PAD, START, Setting, System
from benchmarks.step import updater

Logits = Callable[[Tensor, Tensor | None, Tensor], Tensor]  # src, its mask or None, tgt → (B, T, V)


@dataclass(frozen=True)
class Rectangle:
    src: Tensor  # (B, S)
    mask: Tensor | None  # (B, S), True on real tokens; None where all are
    tgt: Tensor  # (B, T), beginning with the start symbol
    expected: Tensor  # (B, T)


def rectangle(batch: Batch, device: torch.device, always_mask: bool) -> Rectangle:
    src, expected = padded(batch.sources), padded(batch.targets)
    tgt = padded([np.concatenate([[START], target[:-1]]) for target in batch.targets])
    real = src != PAD
    mask = real.to(device) if always_mask or not bool(real.all()) else None
    return Rectangle(src.to(device), mask, tgt.to(device), expected.to(device))


def padded(sentences: list[np.ndarray]) -> Tensor:
    tensors = [torch.from_numpy(sentence.astype(np.int64)) for sentence in sentences]
    return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=PAD)


def trained(model: nn.Module, logits: Logits, setting: Setting, device: torch.device, compiled: bool = False) -> System:
    """The update all peers share. The loss is compiled with the model, which lets its kernels fuse."""
    model.to(device).train()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.Adam(parameters, setting.learning_rate, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def score(src: Tensor, mask: Tensor | None, tgt: Tensor, expected: Tensor) -> Tensor:
        scores = logits(src, mask, tgt).flatten(0, 1).float()
        return F.cross_entropy(scores, expected.flatten(), ignore_index=PAD, label_smoothing=setting.label_smoothing)

    function = torch.compile(score, dynamic=True) if compiled else score

    def prepare(batch: Batch) -> Rectangle:
        return rectangle(batch, device, always_mask=compiled)  # one graph, not one with a mask and one without

    def loss(batch: Rectangle) -> Tensor:
        return function(batch.src, batch.mask, batch.tgt, batch.expected)

    return System(prepare, updater(loss, optimiser, device))


# --- torch.nn.Transformer --------------------------------------------------------------------------------


class TorchTransformer(nn.Module):
    """`torch.nn.Transformer` with what it leaves to its user: embeddings, sinusoids, the output projection."""

    table: Tensor

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        size = setting.model
        self.d_model = size.d_model
        self.embedding = nn.Embedding(size.vocab_size, size.d_model)
        nn.init.normal_(self.embedding.weight, std=size.d_model**-0.5)
        self.register_buffer("table", sinusoids(LONGEST, size.d_model), persistent=False)
        self.dropout = nn.Dropout(size.dropout)
        self.transformer = nn.Transformer(
            size.d_model, size.n_heads, size.n_layers, size.n_layers, size.d_ff, size.dropout, batch_first=True
        )
        self.transformer.encoder.norm = self.transformer.decoder.norm = None  # post-norm layers end normalised
        for layer in [*self.transformer.encoder.layers, *self.transformer.decoder.layers]:
            layer.dropout = nn.Identity()  # the one after the activation
            for module in layer.modules():
                if isinstance(module, nn.MultiheadAttention):
                    module.dropout = 0.0

    def forward(self, src: Tensor, mask: Tensor | None, tgt: Tensor) -> Tensor:
        hidden = None if mask is None else ~mask  # here True means: may not be attended to
        T = tgt.shape[1]
        causal = nn.Transformer.generate_square_subsequent_mask(T, tgt.device)
        x = self.transformer(
            self.embed(src), self.embed(tgt), tgt_mask=causal, tgt_is_causal=True, src_is_causal=False,
            src_key_padding_mask=hidden, memory_key_padding_mask=hidden,
        )  # fmt: skip
        return F.linear(x, self.embedding.weight)

    def embed(self, tokens: Tensor) -> Tensor:
        return self.dropout(self.embedding(tokens) * math.sqrt(self.d_model) + self.table[: tokens.shape[1]])


def sinusoids(size: int, d_model: int) -> Tensor:
    """(size, d_model): all sines, then all cosines."""
    rates = 10000.0 ** -(torch.arange(0, d_model, 2) / d_model)
    angles = torch.arange(size)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def build_torch(setting: Setting, device: torch.device) -> System:
    model = TorchTransformer(setting)
    return trained(model, model, setting, device)


# --- transformers' Marian --------------------------------------------------------------------------------


def build_marian(setting: Setting, device: torch.device, compiled: bool = False) -> System:
    from transformers import MarianConfig, MarianMTModel

    size = setting.model
    config = MarianConfig(
        vocab_size=size.vocab_size, d_model=size.d_model, encoder_layers=size.n_layers, decoder_layers=size.n_layers,
        encoder_attention_heads=size.n_heads, decoder_attention_heads=size.n_heads, encoder_ffn_dim=size.d_ff,
        decoder_ffn_dim=size.d_ff, activation_function="relu", dropout=size.dropout, attention_dropout=0.0,
        activation_dropout=0.0, scale_embedding=True, pad_token_id=PAD, bos_token_id=START, eos_token_id=END,
        decoder_start_token_id=START, forced_eos_token_id=None, max_position_embeddings=LONGEST, use_cache=False,
        share_encoder_decoder_embeddings=True, tie_word_embeddings=True, attn_implementation="sdpa",
    )  # fmt: skip
    model = MarianMTModel(config)

    def logits(src: Tensor, mask: Tensor | None, tgt: Tensor) -> Tensor:
        return model(input_ids=src, attention_mask=mask, decoder_input_ids=tgt, use_cache=False).logits

    return trained(model, logits, setting, device, compiled)


def build_marian_compiled(setting: Setting, device: torch.device) -> System:
    return build_marian(setting, device, compiled=True)


# --- x-transformers --------------------------------------------------------------------------------------


def build_x_transformers(setting: Setting, device: torch.device) -> System:
    """Post-norm as the others; positions are its default, a learned table."""
    from x_transformers import XTransformer

    size = setting.model
    side = {
        "num_tokens": size.vocab_size, "max_seq_len": LONGEST, "depth": size.n_layers, "heads": size.n_heads,
        "attn_dim_head": size.d_model // size.n_heads, "ff_mult": size.d_ff / size.d_model, "attn_flash": True,
        "pre_norm": False, "emb_dropout": size.dropout, "attn_sublayer_dropout": size.dropout,
        "ff_sublayer_dropout": size.dropout, "ff_custom_activation": nn.ReLU(),
    }  # fmt: skip
    sides = {f"{prefix}_{key}": value for prefix in ("enc", "dec") for key, value in side.items()}
    model = XTransformer(dim=size.d_model, tie_token_emb=True, pad_value=PAD, **sides)
    decoder = model.decoder.net
    decoder.to_logits.weight = decoder.token_emb.emb.weight

    def logits(src: Tensor, mask: Tensor | None, tgt: Tensor) -> Tensor:
        memory = model.encoder(src, mask=mask, return_embeddings=True)
        return decoder(tgt, context=memory, context_mask=mask)

    return trained(model, logits, setting, device)
