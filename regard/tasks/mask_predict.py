"""Mask-predict: parallel text, the masked Transformer, cross-entropy of the tokens that are hidden, BLEU.

    loss = Σ over masked y of CE_smoothed(y) + Σ over sentences of −log P(N | X)

*Mask-Predict* (Ghazvininejad et al. 2019), §2.2 and §2.3: how many tokens are hidden, and which, is drawn anew each
time a sentence is seen (`data.masking`). Both sums are divided by the number of masked tokens of the whole update; the
length has the weight 1, as in the released code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.masking import mask_counts, masks
from regard.data.tokenizer import PAD, Ragged
from regard.decode.mask_predict import MASK, MaskPredictor
from regard.models.masked import MaskedTransformer
from regard.nn.layout import Layout, Packed, Room
from regard.nn.loss import IGNORED, smoothed_cross_entropy
from regard.nn.r_drop import r_drop_loss
from regard.tasks.task import Validation, evaluating, move, pin
from regard.tasks.translation import Pairs, PairTask, arrange, by_length, padded_to


@dataclass(frozen=True)
class MaskedBatch:
    src: Tensor  # (B, S)
    src_layout: Layout
    tgt: Tensor  # (B, T), with masks
    tgt_layout: Layout
    expected: Tensor  # of all sentences end to end: the token behind each mask, IGNORED where there is none
    lengths: Tensor  # (B,), of the targets, IGNORED where a batch is filled up
    n_tokens: int  # masked ones
    numbers: np.ndarray  # which pairs these are
    shape: tuple[int, ...] | None = None  # of the tensors and layouts, where it is one of a few


def masked_batch(pairs: Pairs, numbers: np.ndarray, seed: int, layout: str) -> MaskedBatch:
    """The pairs `numbers` as tensors in a `padded` or `packed` layout, with masks in their targets."""
    source, target = pairs.take(numbers)
    fed, expected = hide(target, numbers, seed)
    src, src_layout = arrange(source.values, source.lengths, layout)
    tgt, tgt_layout = arrange(fed, target.lengths, layout)
    lengths, n_tokens = torch.from_numpy(target.lengths), int((expected != IGNORED).sum())
    return MaskedBatch(src, src_layout, tgt, tgt_layout, torch.from_numpy(expected), lengths, n_tokens, numbers)


def filled_batch(pairs: Pairs, numbers: np.ndarray, seed: int, budget: int, longest: int) -> MaskedBatch:
    """The same in a packed batch of one of a few shapes (see `Pairs.filled_batch`)."""
    source, target = pairs.take(numbers)
    fed, wanted = hide(target, numbers, seed)
    room = Room.for_sides([source.lengths, target.lengths], budget, longest)
    src, tgt = padded_to(room.total, source.values, PAD), padded_to(room.total, fed, PAD)
    src_layout, tgt_layout = (Packed.filled(side.lengths, room) for side in (source, target))
    expected = padded_to(room.total, wanted, IGNORED)
    lengths, n_tokens = padded_to(room.sequences, target.lengths, IGNORED), int((wanted != IGNORED).sum())
    return MaskedBatch(src, src_layout, tgt, tgt_layout, expected, lengths, n_tokens, numbers, room)


def hide(target: Ragged, numbers: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What the decoder is fed, and what it must guess."""
    hidden, tokens = masks(target.lengths, numbers, seed), target.values.astype(np.int64)
    return np.where(hidden, MASK, tokens), np.where(hidden, tokens, IGNORED)


class MaskPredictTask(PairTask[MaskedBatch]):
    """Each masked token predicted from the source and from the tokens that are not masked."""

    model: MaskedTransformer

    def n_tokens(self, numbers: np.ndarray) -> int:
        return int(mask_counts(self.pairs.take(numbers)[1].lengths, numbers, self.recipe.seed).sum())

    def batch(self, numbers: np.ndarray, device: torch.device) -> MaskedBatch:
        layout, budget, seed = self.recipe.train.layout, self.recipe.train.batch_tokens, self.recipe.seed
        if layout == "packed" and device.type == "cuda":
            return pin(filled_batch(self.pairs, numbers, seed, budget, self.model.longest), device)
        return pin(masked_batch(self.pairs, numbers, seed, layout), device)

    def loss(self, batch: MaskedBatch) -> Tensor:
        smoothing, alpha = self.recipe.train.label_smoothing, self.recipe.train.r_drop
        weight, bias = self.model.output.weight, self.model.output.bias
        hidden, expected, lengths = predictions(self.model, batch)
        if not alpha:
            return smoothed_cross_entropy(hidden, weight, bias, expected, smoothing) + length_loss(lengths, batch)
        again, _, measured_again = predictions(self.model, batch)
        lengths_loss = (length_loss(lengths, batch) + length_loss(measured_again, batch)) / 2
        return r_drop_loss(hidden, again, weight, bias, expected, smoothing, alpha) + lengths_loss

    def validate(self, device: torch.device) -> Validation:
        with evaluating(self.model):
            nll, right, n_tokens = self.held_out(device)
            metrics = {"loss": nll / n_tokens, "perplexity": math.exp(min(nll / n_tokens, 50.0))}
            metrics["length_accuracy"] = right / len(self.valid.source)
            translator = MaskPredictor(self.recipe.name, self.model, self.tokenizers, self.recipe.decode)
            scores, samples = self.translated(translator)
        return Validation(metrics | scores, samples)

    @torch.inference_mode()
    def held_out(self, device: torch.device) -> tuple[float, int, int]:
        """Of masked tokens of held-out text: negative log-likelihood in nats, without smoothing, and their number; in
        how many sentences the most likely length is the right one. The masks are the same each time."""
        total, right, n_tokens, model = 0.0, 0, 0, self.model
        for numbers in by_length(self.valid, self.recipe.train.batch_tokens):
            batch = move(masked_batch(self.valid, numbers, self.recipe.seed, "padded"), device)
            hidden, expected, lengths = predictions(model, batch)
            total += float(smoothed_cross_entropy(hidden, model.output.weight, model.output.bias, expected, 0.0))
            right += int((lengths.argmax(-1) == batch.lengths).sum())
            n_tokens += batch.n_tokens
        return total, right, n_tokens


def predictions(model: MaskedTransformer, batch: MaskedBatch) -> tuple[Tensor, Tensor, Tensor]:
    """What the decoder says where tokens are expected, (n, D), those tokens, (n,), and the logits of the lengths."""
    memory, lengths = model.encode_and_measure(batch.src, batch.src_layout)
    hidden = batch.tgt_layout.real(model.decode(batch.tgt, batch.tgt_layout, memory, batch.src_layout))
    expected = batch.expected
    if batch.shape is None:  # where shapes are free, what is not masked never meets the vocabulary
        places = torch.nonzero(expected != IGNORED)[:, 0]
        hidden, expected = hidden.index_select(0, places), expected.index_select(0, places)
    return hidden, expected, lengths


def length_loss(lengths: Tensor, batch: MaskedBatch) -> Tensor:
    """− log P(N | X), summed over sentences."""
    return F.cross_entropy(lengths, batch.lengths, ignore_index=IGNORED, reduction="sum")
