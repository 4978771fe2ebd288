"""Sections for the models that came before the Transformer, each told apart by its `family`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from regard.config.checks import at_least, between
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.config.pairs import PairRecipe


@dataclass(frozen=True)
class RecurrentConfig:
    """Recurrent encoder and decoder, with attention (Bahdanau et al. 2015; Luong et al. 2015) or without (Sutskever et
    al. 2014; Cho et al. 2014)."""

    family: Literal["recurrent"] = "recurrent"
    cell: Literal["gru", "lstm", "rnn"] = "gru"
    n_layers: int = 1  # of the encoder and the decoder
    n_decoder_layers: int = 0  # 0: as many as n_layers
    d_model: int = 512  # of embeddings, and of what meets the vocabulary
    d_hidden: int = 512  # of the decoder's states
    d_encoder: int = 0  # of the encoder's states in each direction; 0: d_hidden with both together
    bidirectional: bool = True  # whether the encoder reads in both directions
    attention: Literal["none", "additive", "dot", "general", "scaled_dot"] = "additive"
    d_align: int = 0  # hidden width of additive attention; 0: d_hidden
    context: bool = False  # without attention: the encoder's last state is given at every step, not at the first alone
    input_feeding: bool = False  # what was made of state and context enters the next step (Luong et al. 2015, §3.3)
    dropout: float = 0.1  # on embeddings, between layers, and on what meets the vocabulary
    output_bias: bool = False
    tie: Literal["all", "target", "none"] = "all"  # which of source, target, output share one matrix
    start: Literal["bos", "eos", "pad"] = "bos"  # the symbol that stands before the first output

    def __post_init__(self) -> None:
        at_least(self, "model", n_layers=1, n_decoder_layers=0, d_model=1, d_hidden=1, d_encoder=0, d_align=0)
        between(self, "model", 0.0, 1.0, "dropout")
        if self.bidirectional and not self.d_encoder and self.d_hidden % 2:
            raise RegardError(f"model.d_hidden = {self.d_hidden} cannot be halved: set model.d_encoder.")
        if self.attention in ("dot", "scaled_dot") and self.d_memory != self.d_hidden:
            raise RegardError(
                f"model.attention = {self.attention!r} needs encoder states as wide as the decoder's, and they have "
                f'{self.d_memory} and {self.d_hidden}: change model.d_encoder, or set model.attention = "general".'
            )
        if self.context and self.attention != "none":
            raise RegardError(
                'model.context is for model.attention = "none": with attention there is one for each step.'
            )
        if self.d_align and self.attention != "additive":
            raise RegardError(
                f'model.d_align is for model.attention = "additive": {self.attention!r} has no such layer.'
            )
        if self.input_feeding and self.attention in ("none", "additive"):
            raise RegardError(
                f"model.input_feeding means nothing to model.attention = {self.attention!r}"
                + ("." if self.attention == "none" else ", whose context enters every step already.")
            )

    @property
    def d_direction(self) -> int:
        """Of the encoder's states in one direction."""
        return self.d_encoder or self.d_hidden // self.n_directions

    @property
    def n_directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def d_memory(self) -> int:
        """Of the encoder's states, both directions together."""
        return self.d_direction * self.n_directions

    def check(self, recipe: PairRecipe) -> None:
        refuse_what_transformers_have(self.family, recipe)


@dataclass(frozen=True)
class ConvolutionalConfig:
    """Gated convolutions with attention in every decoder layer (Gehring et al. 2017)."""

    family: Literal["convolutional"] = "convolutional"
    n_layers: int = 4  # of the encoder and the decoder
    n_decoder_layers: int = 0  # 0: as many as n_layers
    d_model: int = 256  # of embeddings, and of what meets the vocabulary
    d_hidden: int = 512  # of the layers
    width: int = 3  # positions a layer sees at once
    dilated: bool = False  # layer l, from 0, sees positions 2^l apart
    dropout: float = 0.1  # on embeddings, on the input of every layer, and on what meets the vocabulary
    positions: Literal["learned", "sinusoidal"] = "learned"
    max_positions: int = 1024  # rows of a learned position table
    output_bias: bool = False
    tie: Literal["all", "target", "none"] = "all"  # which of source, target, output share one matrix
    start: Literal["bos", "eos", "pad"] = "bos"  # the symbol that stands before the first output

    def __post_init__(self) -> None:
        at_least(self, "model", n_layers=1, n_decoder_layers=0, d_model=1, d_hidden=1, width=1, max_positions=1)
        between(self, "model", 0.0, 1.0, "dropout")
        if self.width % 2 == 0:
            raise RegardError(f"model.width = {self.width} must be odd, with as much to the left as to the right.")
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise RegardError(f"model.d_model = {self.d_model} must be even for sinusoidal positions.")

    def check(self, recipe: PairRecipe) -> None:
        refuse_what_transformers_have(self.family, recipe)
        if self.positions == "learned" and recipe.data.max_length > self.max_positions:
            raise RegardError(
                f"data.max_length = {recipe.data.max_length} tokens need more than model.max_positions = "
                f"{self.max_positions} learned positions: change one of them."
            )


def refuse_what_transformers_have(family: str, recipe: PairRecipe) -> None:
    """What only the Transformer can do."""
    if recipe.task == "mask_predict":
        raise RegardError(f'task = "mask_predict" needs model.family = "transformer", not "{family}".')
    asked = {
        "train.recompute": recipe.train.recompute, "train.freeze": recipe.train.freeze,
        "decode.blockwise": recipe.decode.blockwise,
    }  # fmt: skip
    for key in (key for key, value in asked.items() if value):
        raise RegardError(f'{key} is for model.family = "transformer", not "{family}": leave it out.')
