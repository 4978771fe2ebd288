"""The same numbers as independent implementations, with copied weights: torch.nn and transformers' Marian."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.config import TransformerConfig
from regard.decode.search import search
from regard.decode.state import SearchOptions
from regard.models.stepping import TransformerStep
from regard.models.transformer import DecoderLayer, EncoderLayer, Transformer
from regard.nn.attention import MultiHeadAttention
from regard.nn.layout import Padded

CONFIG = TransformerConfig(n_layers=2, d_model=32, d_ff=48, n_heads=4, dropout=0.0, attention_bias=True, norm_eps=1e-5)


def copy_linear(ours: nn.Linear, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
    with torch.no_grad():
        ours.weight.copy_(weight)
        if bias is not None:
            ours.bias.copy_(bias)


def shake(model: nn.Module) -> nn.Module:
    """Random values everywhere, so that no bias or scale is left at a value that hides mistakes."""
    torch.manual_seed(3)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.eval()


def copy_torch_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    weights, biases = theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3)
    for linear, weight, bias in zip((ours.w_q, ours.w_k, ours.w_v), weights, biases, strict=True):
        copy_linear(linear, weight, bias)
    copy_linear(ours.w_o, theirs.out_proj.weight, theirs.out_proj.bias)


def copy_torch_rest(ours: EncoderLayer | DecoderLayer, theirs: nn.Module, norms: dict[str, str]) -> None:
    copy_linear(ours.feed_forward.w_1, theirs.linear1.weight, theirs.linear1.bias)
    copy_linear(ours.feed_forward.w_2, theirs.linear2.weight, theirs.linear2.bias)
    for mine, other in norms.items():
        ours.get_submodule(mine).norm.load_state_dict(theirs.get_submodule(other).state_dict())


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_encoder_layers_equal_torch(norm: str) -> None:
    ours = EncoderLayer(TransformerConfig(**{**vars(CONFIG), "norm": norm})).eval()
    theirs = nn.TransformerEncoderLayer(32, 4, 48, dropout=0.0, batch_first=True, norm_first=norm == "pre")
    shake(theirs)
    copy_torch_attention(ours.self_attn, theirs.self_attn)
    copy_torch_rest(ours, theirs, {"self_attn_residual": "norm1", "feed_forward_residual": "norm2"})
    x, layout = torch.randn(2, 6, 32), Padded.of([6, 4])
    expected = theirs(x, src_key_padding_mask=~layout.mask)
    torch.testing.assert_close(layout.real(ours(x, layout)), layout.real(expected), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_decoder_layers_equal_torch(norm: str) -> None:
    ours = DecoderLayer(TransformerConfig(**{**vars(CONFIG), "norm": norm})).eval()
    theirs = nn.TransformerDecoderLayer(32, 4, 48, dropout=0.0, batch_first=True, norm_first=norm == "pre")
    shake(theirs)
    copy_torch_attention(ours.self_attn, theirs.self_attn)
    copy_torch_attention(ours.cross_attn, theirs.multihead_attn)
    norms = {"self_attn_residual": "norm1", "cross_attn_residual": "norm2", "feed_forward_residual": "norm3"}
    copy_torch_rest(ours, theirs, norms)
    x, memory = torch.randn(2, 5, 32), torch.randn(2, 6, 32)
    layout, memory_layout = Padded.of([5, 3]), Padded.of([6, 2])
    expected = theirs(
        x, memory, tgt_mask=nn.Transformer.generate_square_subsequent_mask(5), tgt_is_causal=True,
        memory_key_padding_mask=~memory_layout.mask,
    )  # fmt: skip
    found = ours(x, layout, memory, memory_layout)
    torch.testing.assert_close(layout.real(found), layout.real(expected), atol=1e-5, rtol=1e-5)


# --- transformers' Marian --------------------------------------------------------------------------------

VOCAB, PAD, EOS = 60, 59, 0


def marian(end_bias: float = 0.0) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    config = transformers.MarianConfig(
        vocab_size=VOCAB, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, activation_function="swish",
        dropout=0.0, scale_embedding=True, pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=PAD,
        max_position_embeddings=64, forced_eos_token_id=None,
    )  # fmt: skip
    model = transformers.MarianMTModel(config)
    torch.manual_seed(4)
    for name, parameter in model.named_parameters():
        if "embed_positions" not in name:
            nn.init.normal_(parameter, std=0.6)
    model.final_logits_bias.normal_()
    model.final_logits_bias[:, EOS] = end_bias
    model.tie_weights()
    return model.eval()


def ours_from_marian(theirs: nn.Module) -> Transformer:
    """Every number of a Marian model in our Transformer; the recipe values name Marian's choices."""
    config = TransformerConfig(
        n_layers=2, d_model=32, d_ff=48, n_heads=4, dropout=0.0, norm_eps=1e-5, sinusoid="halves",
        activation="swish", attention_bias=True, output_bias=True, start="pad",
    )  # fmt: skip
    ours = Transformer(config, VOCAB).eval()
    copy_linear(ours.output, theirs.model.shared.weight, theirs.final_logits_bias[0])
    for stack in ("encoder", "decoder"):
        layers = zip(getattr(ours, stack).layers, getattr(theirs.model, stack).layers, strict=True)
        for mine, other in layers:
            copy_linear(mine.feed_forward.w_1, other.fc1.weight, other.fc1.bias)
            copy_linear(mine.feed_forward.w_2, other.fc2.weight, other.fc2.bias)
            mine.feed_forward_residual.norm.load_state_dict(other.final_layer_norm.state_dict())
            copy_marian_attention(mine.self_attn, other.self_attn)
            mine.self_attn_residual.norm.load_state_dict(other.self_attn_layer_norm.state_dict())
            if stack == "decoder":
                copy_marian_attention(mine.cross_attn, other.encoder_attn)
                mine.cross_attn_residual.norm.load_state_dict(other.encoder_attn_layer_norm.state_dict())
    return ours


def copy_marian_attention(ours: MultiHeadAttention, theirs: nn.Module) -> None:
    for mine, other in (("w_q", "q_proj"), ("w_k", "k_proj"), ("w_v", "v_proj"), ("w_o", "out_proj")):
        linear = theirs.get_submodule(other)
        copy_linear(ours.get_submodule(mine), linear.weight, linear.bias)


def test_logits_equal_marian() -> None:
    theirs = marian()
    ours = ours_from_marian(theirs)
    src, tgt = torch.randint(1, PAD, (3, 9)), torch.randint(1, PAD, (3, 7))
    layout = Padded.of([9, 5, 7])
    src[~layout.mask] = PAD
    expected = theirs(input_ids=src, attention_mask=layout.mask.long(), decoder_input_ids=tgt).logits
    torch.testing.assert_close(ours(src, layout, tgt, Padded.of([7] * 3)), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("length_penalty", [0.6, 1.0])
def test_beam_search_equals_marian(length_penalty: float) -> None:
    """The same four best outputs and scores with |Y|^α and a stopping rule that loses nothing."""
    src = torch.randint(1, PAD, (12, 8), generator=torch.Generator().manual_seed(7))
    layout, limit, lengths = Padded.of([8] * 12), 20, set()
    options = SearchOptions(
        start=PAD, end=EOS, beam_size=4, n_best=4, length_penalty=length_penalty, normalization="power", banned=(PAD,)
    )
    for end_bias in (2.0, 4.0, 4.5, 5.5, 7.0):  # outputs that the limit cuts, and outputs that end by themselves
        theirs = marian(end_bias)
        ours = ours_from_marian(theirs)
        expected = theirs.generate(
            src, attention_mask=layout.mask.long(), num_beams=4, num_return_sequences=4, early_stopping="never",
            length_penalty=length_penalty, max_new_tokens=limit, return_dict_in_generate=True, output_scores=True,
            do_sample=False, bad_words_ids=[[PAD]],
        )  # fmt: skip
        with torch.inference_mode():
            found = search(TransformerStep(ours, src.tolist(), 4), [limit] * 12, options, src.device, slots=5)
        for i, hypothesis in enumerate(hypothesis for hypotheses in found for hypothesis in hypotheses):
            row = expected.sequences[i, 1:].tolist()
            row = row[: row.index(EOS) + 1] if EOS in row else row
            assert hypothesis.tokens == row
            assert hypothesis.score == pytest.approx(expected.sequences_scores[i].item(), abs=1e-4)
            lengths.add(len(row))
    assert len(lengths) >= 5
    assert limit in lengths
