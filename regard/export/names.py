"""Our parameters under the names that fairseq gave them, which transformers' Marian has kept.

    encoder.layers.0.self_attn.w_q.weight   ↔   encoder.layers.0.self_attn.q_proj.weight

Only the layers: embeddings, positions and the output projection differ between the two and are theirs to name.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.config import TransformerConfig

ATTENTION = {"w_q": "q_proj", "w_k": "k_proj", "w_v": "v_proj", "w_o": "out_proj"}
ENCODER_LAYER = {
    **{f"self_attn.{ours}": f"self_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "self_attn_residual.norm": "self_attn_layer_norm",
    "feed_forward.w_1": "fc1",
    "feed_forward.w_2": "fc2",
    "feed_forward_residual.norm": "final_layer_norm",
}
DECODER_LAYER = {
    **ENCODER_LAYER,
    **{f"cross_attn.{ours}": f"encoder_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "cross_attn_residual.norm": "encoder_attn_layer_norm",
}


def layer_names(config: TransformerConfig) -> dict[str, str]:
    """Every parameter of the layers: our name → theirs. Theirs have biases everywhere; ours may lack some."""
    names = {}
    stacks = (
        ("encoder", config.n_layers, ENCODER_LAYER),
        ("decoder", config.n_decoder_layers or config.n_layers, DECODER_LAYER),
    )
    for stack, n_layers, modules in stacks:
        for i in range(n_layers):
            for ours, theirs in modules.items():
                for kind in ("weight", "bias"):
                    names[f"{stack}.layers.{i}.{ours}.{kind}"] = f"{stack}.layers.{i}.{theirs}.{kind}"
        if config.norm == "pre":
            names |= {f"{stack}.norm.{kind}": f"{stack}.layer_norm.{kind}" for kind in ("weight", "bias")}
    return names


def count_layers(names: set[str], stack: str) -> int:
    """How many layers of a stack the names `encoder.layers.3.…` speak of."""
    prefix = f"{stack}.layers."
    return len({name.removeprefix(prefix).split(".")[0] for name in names if name.startswith(prefix)})


def in_halves(name: str, tensor: Tensor) -> Tensor:
    """A parameter with the channels of d_model in the order of the other sinusoids: all sines before all cosines.

    The order of channels is a convention: put otherwise wherever they come in or go out, they give the same answers.
    """
    axis = channel_axis(name)
    if axis is None:
        return tensor
    width = tensor.shape[axis]
    order = torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])
    return tensor.index_select(axis, order)


def channel_axis(name: str) -> int | None:
    """Which axis of a parameter of ours runs over d_model."""
    module, kind = name.rsplit(".", 1)
    last = module.rsplit(".", 1)[-1]
    if last in ("w_q", "w_k", "w_v", "w_1", "output"):  # they read it
        return 1 if kind == "weight" else None
    return 1 if last == "tokens" else 0  # w_o, w_2 and norms write it, and have biases over it
