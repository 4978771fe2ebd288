"""Mask-predict: *Mask-Predict* (Ghazvininejad et al. 2019), §3.

    t = 0:       predict all N tokens from masks alone                                                      (§3.1)
    0 < t < T:   hide the n = ⌊N · (T − t) / T⌋ tokens of lowest probability (at least one), predict them again
    a hidden one gets     y_i = argmax_w P(y_i = w | X, Y_obs),  p_i = max_w P(y_i = w | X, Y_obs)
    any other keeps its token and its probability

The decoder is called T times, whatever the length: N / T tokens a call. The ℓ most likely lengths are tried side by
side, and the translation with the highest mean of log p_i is taken (§3.3). A target has two tokens at least, of which
the last is meant to be the end symbol, as in the released code.

Log-probabilities are ranked to a ten-thousandth, and where they are equal the later token is hidden: which tokens are
surest must not depend on how a matrix product rounds.

Departures from the paper: none. Repeated words, which few iterations leave behind, are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.config import DecodeConfig
from regard.data.tokenizer import BOS, PAD, UNK
from regard.decode.looking import rectangle
from regard.decode.request import Translation
from regard.decode.search import Take
from regard.decode.state import Hypothesis
from regard.decode.step import most_probable
from regard.decode.translator import Translator
from regard.decode.wishes import Demand
from regard.errors import RegardError
from regard.models.masked import MaskedTransformer
from regard.models.transformer import DecoderLayer
from regard.nn.attention import capture
from regard.nn.cache import Memory
from regard.nn.layout import Padded

MASK = PAD  # padding is known by the layout, so its symbol is free to mean a token that is not known
SHORTEST = 2  # a token and the end symbol
EQUAL = 1e-4  # log-probabilities that differ by less may be equal


class MaskedDecoder:
    """The decoder of many targets for each of some sources. Keys and values of the sources are computed once."""

    def __init__(self, model: MaskedTransformer, memory: Tensor, layout: Padded) -> None:
        """memory: (B, S, D)"""
        self.model, slots = model, torch.arange(len(memory), device=memory.device)
        self.barred = memory.new_zeros(layout.mask.shape).masked_fill_(~layout.mask, -torch.inf)[:, None]  # (B, 1, S)
        self.layers: list[tuple[DecoderLayer, Memory]] = []
        for layer in model.decoder.layers:
            assert isinstance(layer, DecoderLayer)
            self.layers.append((layer, Memory(layer.cross_attn, len(memory), layout.size)))
            self.layers[-1][1].enter(slots, memory, layout)

    def __call__(self, tokens: Tensor, real: Tensor) -> Tensor:
        """tokens, real: (B, W, N), of which only the first are real   → (B, W, N, D), before the output projection."""
        N, rows = tokens.shape[-1], real.flatten(0, 1)
        layout = Padded(rows, torch.arange(N, device=tokens.device)[None], N, full=bool(real.all()))
        x = self.model.target_embedding(tokens.flatten(0, 1), layout)  # (B·W, N, D)
        for layer, memory in self.layers:
            x = layer.self_attn_residual(x, lambda y, layer=layer: layer.self_attn(y, layout))
            x = layer.cross_attn_residual(
                x, lambda y, memory=memory: memory(y.flatten(0, 1), self.barred).view(y.shape)
            )
            x = layer.feed_forward_residual(x, layer.feed_forward)
        return self.model.decoder.norm(x).unflatten(0, tokens.shape[:2])


def mask_predict(
    model: MaskedTransformer,
    sources: list[list[int]],
    iterations: int,
    length_candidates: int,
    banned: Sequence[int] = (),
    watch: Callable[[Tensor, Tensor], None] | None = None,
) -> list[list[Hypothesis]]:
    """The translations of each source, one for each of its likely lengths, best first.

    `watch(hidden, tokens)` sees after each iteration what was hidden in it and what is there now, both (B, ℓ, N).
    """
    src, layout = rectangle(sources, model.output.weight.device)
    memory, measured = model.encode_and_measure(src, layout)
    lengths = likely_lengths(measured, length_candidates)  # (B, ℓ)
    real = torch.arange(int(lengths.max()), device=lengths.device) < lengths[..., None]  # (B, ℓ, N)
    tokens = torch.full_like(real, MASK, dtype=torch.long)
    log_probs = torch.zeros_like(real, dtype=torch.float)
    decoder = MaskedDecoder(model, memory, layout)
    for t in range(iterations):
        hidden = least_sure(log_probs, real, lengths * (iterations - t) // iterations)
        tokens[hidden] = MASK
        log_probs[hidden], tokens[hidden] = most_probable(model.output(decoder(tokens, real)[hidden]).float(), banned)
        if watch:
            watch(hidden, tokens.clone())
    return hypotheses(tokens, log_probs, lengths, iterations)


def likely_lengths(logits: Tensor, count: int) -> Tensor:
    """The most likely lengths of each target. logits: (B, lengths from 0 on) → (B, ℓ)"""
    possible = logits[:, SHORTEST:]
    return possible.topk(min(count, possible.shape[1])).indices + SHORTEST


def least_sure(log_probs: Tensor, real: Tensor, count: Tensor) -> Tensor:
    """The `count` real tokens, one at least, of lowest probability. log_probs, real: (B, ℓ, N)   count: (B, ℓ)"""
    steps = (log_probs / EQUAL).round().masked_fill(~real, torch.inf)
    order = steps.flip(-1).argsort(dim=-1, stable=True)  # backwards: of equals the last comes first
    places = torch.arange(order.shape[-1], device=order.device).expand_as(order)
    ranks = torch.empty_like(order).scatter_(-1, order, places).flip(-1)
    return ranks < count.clamp(min=1)[..., None]


def hypotheses(tokens: Tensor, log_probs: Tensor, lengths: Tensor, calls: int) -> list[list[Hypothesis]]:
    """What came out, for each sentence the best first. tokens, log_probs: (B, ℓ, N)   lengths: (B, ℓ)"""
    totals = log_probs.sum(-1)  # of padding 0
    scores, order = (totals / lengths).sort(dim=-1, descending=True, stable=True)
    rows = (part.gather(1, order).tolist() for part in (totals, lengths))
    ordered = tokens.gather(1, order[..., None].expand_as(tokens)).tolist()
    return [
        [Hypothesis(row[:length], total, score, calls) for total, length, score, row in zip(*sentence, strict=True)]
        for sentence in zip(*rows, scores.tolist(), ordered, strict=True)
    ]


class MaskPredictor(Translator):
    """Translates with a masked model. Its log-probability of a translation is the sum of those its tokens had when they
    were last predicted, its score their mean."""

    model: MaskedTransformer
    task: ClassVar[str] = "mask_predict"

    def ended(self, translation: Translation) -> bool:
        return True  # it has chosen the length

    def check_phrases(self) -> None:
        raise RegardError("A masked model knows no prefixes, required or forbidden phrases: leave them out.")

    def decode(
        self,
        sources: list[list[int]],
        n_best: int,
        config: DecodeConfig,
        progress: Callable[[int], None] | None = None,
        demands: Sequence[Demand] | None = None,
        barred: np.ndarray | None = None,
        take: Take | None = None,
    ) -> list[list[Hypothesis]]:
        if n_best > config.length_candidates:
            raise RegardError(
                f"{n_best} translations of a sentence need as many lengths to try: set decode.length_candidates "
                f"(--length-candidates) to at least {n_best}."
            )
        (model,) = self.networks(config.precision)
        assert isinstance(model, MaskedTransformer)
        found: list[list[Hypothesis]] = [] if take else [[] for _ in sources]
        order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
        for start in range(0, len(order), config.batch_sentences):
            group = order[start : start + config.batch_sentences]
            parts = [sources[i] for i in group], config.iterations, config.length_candidates
            new = [ranked[:n_best] for ranked in mask_predict(model, *parts, banned=(PAD, BOS, UNK))]
            if take:
                take(group, new)
            else:
                for i, best in zip(group, new, strict=True):
                    found[i] = best
            if progress:
                progress(start + len(group))
        return found

    def begins_early(self, config: DecodeConfig) -> bool:
        return False

    def margin(self, ours: Translation, theirs: Translation, beam_size: int) -> float:
        """Of whole ones: which token was written when, nobody knows afterwards."""
        return abs(ours.log_prob - theirs.log_prob)

    @property
    def candidates(self) -> int:
        return self.config.length_candidates

    def feed(self, sources: list[list[int]], targets: list[list[int]]) -> Tensor:
        """Logits (B, T, V) of given outputs, with nothing hidden. It is what a `capture` around `translate` sees."""
        src, src_layout = rectangle(sources, self.device)
        return self.model(src, src_layout, *rectangle(targets, self.device))

    @torch.inference_mode()
    def look(self, translation: Translation) -> tuple[dict[str, Tensor], Tensor]:
        """Every attention of one translation, and logits (T, V). Each target token looks from behind a mask, with all
        others known: in training, places that are not hidden answer for nothing, and look about at random."""
        tokens, T = translation.target_tokens, len(translation.target_tokens)
        rows = [[*tokens[:i], MASK, *tokens[i + 1 :]] for i in range(T)]
        with capture(self.model) as maps:
            logits = self.feed([translation.source_tokens] * T, rows)
        each = torch.arange(T, device=self.device)
        found = {
            path: weights[0] if path.startswith("encoder") else weights[each, :, each].transpose(0, 1)
            for path, weights in maps.items()
        }
        return found, logits[each, each]

    def word_looks(self, translations: Sequence[Translation]) -> list[Tensor]:
        path = self.alignment_path
        return [
            self.word_weights(one, self.attend(one)[path].mean(dim=0)) if one.target_tokens else torch.zeros(0, 0)
            for one in translations
        ]

    def axes(self, translation: Translation, path: str) -> tuple[list[str], list[str]]:
        source = self.tokenizers.source.pieces(translation.source_tokens)
        produced = self.tokenizers.target.pieces(translation.target_tokens)
        if path.startswith("encoder"):
            return ["<length>", *source], ["<length>", *source]
        return produced, produced if path.endswith("self_attn") else source
