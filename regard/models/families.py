"""The kinds of model that turn one sequence into another, by `model.family`: the network, and its steps in a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from regard.models.convolutional import ConvolutionalSeq2Seq, ConvolutionalStep
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.recurrent import RecurrentSeq2Seq, RecurrentStep
from regard.models.stepping import ModelStep, TransformerStep
from regard.models.transformer import Transformer


@dataclass(frozen=True)
class Family:
    model: Callable[[Any, int, int], EncoderDecoder]  # its own section of a recipe, source and target vocabulary
    step: Callable[[Any, Sequence[Sequence[int]], int, int | None], ModelStep]  # its own model, as `ModelStep` has them


FAMILIES = {
    "transformer": Family(Transformer, TransformerStep),
    "recurrent": Family(RecurrentSeq2Seq, RecurrentStep),
    "convolutional": Family(ConvolutionalSeq2Seq, ConvolutionalStep),
}


def step_of(
    model: EncoderDecoder, sources: Sequence[Sequence[int]], beam: int, watched: int | None = None
) -> ModelStep:
    """A model in the middle of producing sequences."""
    return FAMILIES[model.config.family].step(model, sources, beam, watched)
